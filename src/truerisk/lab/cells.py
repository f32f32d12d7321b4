"""From the runs of an experiment to the cells of a claim: one number per seed in each, and their interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from truerisk.errors import TrueriskError
from truerisk.lab.claim import Claim, Number
from truerisk.lab.effect import Above
from truerisk.lab.interval import Interval, interval
from truerisk.lab.rows import IncompleteError, Rows

SEED = "seed"


@dataclass(frozen=True)
class Cell:
    """The effect in one network on one data set, say: a number for each seed, and their interval."""

    where: Mapping[str, Any]
    rival: str  # where an effect returns several numbers by name
    values: Mapping[int, Number]
    interval: Interval | None  # None for a single seed

    @property
    def name(self) -> str:
        """What tells this cell from the others.

        >>> Cell({"data": "digits", "width": 64}, "dropout", {}, None).name
        'digits, width 64, dropout'
        """
        parts = [value if isinstance(value, str) else f"{name} {value}" for name, value in self.where.items()]
        return ", ".join([*parts, *([self.rival] if self.rival else [])])


def cells(claim: Claim, rows: Rows, seeds: frozenset[int] | None = None) -> list[Cell]:
    """The cells of a claim. ``seeds``: those that count for it; the others are there for figures, or came earlier."""
    found = []
    for where, all_runs in slices(claim, rows):
        runs = all_runs if seeds is None else all_runs.where(seed=seeds)
        runs.present_all("the claim")  # no interval over the survivors
        numbers: dict[str, dict[int, Number]] = {}
        for (seed,), some in sorted(runs.groups(SEED), key=lambda item: item[0]):
            for rival, value in _named(claim, some):
                numbers.setdefault(rival, {})[seed] = value
        if len({frozenset(values) for values in numbers.values()}) > 1:
            raise TrueriskError(f"the effect of {claim.name} names other rivals in other seeds; name the same in all.")
        found += [_cell(claim, where, rival, values, runs) for rival, values in numbers.items()]
    return found


def slices(claim: Claim, rows: Rows) -> Iterator[tuple[dict[str, Any], Rows]]:
    """The runs of each cell, planned ones included; fields that settings do not have are refused by name."""
    for name in (*claim.every, *claim.where, SEED):
        if name not in rows.fields:
            known = ", ".join(sorted(rows.fields))
            raise TrueriskError(f"the claim {claim.name} needs the field {name!r} in settings, which have {known}.")
    chosen = rows.where(**claim.where)
    if not chosen.present and not chosen.missing:
        raise IncompleteError("no run of this scale is what the claim is about")
    if not claim.every:
        yield {}, chosen
        return
    for values, some in chosen.groups(*claim.every):
        yield dict(zip(claim.every, values, strict=True)), some


def _named(claim: Claim, runs: Rows) -> list[tuple[str, Number]]:
    found = claim.effect(runs)
    pairs = list(found.items()) if isinstance(found, Mapping) else [("", found)]
    for _, value in pairs:
        _refuse(value, claim)
    return [(str(name), value) for name, value in pairs]


def _refuse(value: Any, claim: Claim) -> None:
    plain = value.value if isinstance(value, Above) else value
    if isinstance(plain, bool) or not isinstance(plain, float | int):
        raise TrueriskError(f"the effect of {claim.name} returned a {type(plain).__name__}; use float(...).")
    if math.isnan(plain):
        raise TrueriskError(f"the effect of {claim.name} is not a number (NaN); check the fields that it divides.")
    claim.wants.unit.refuse(plain)


def _cell(claim: Claim, where: dict[str, Any], rival: str, values: dict[int, Number], runs: Rows) -> Cell:
    return Cell(where, rival, values, interval(list(values.values()), claim.wants.unit, step(claim, runs)))


def step(claim: Claim, runs: Rows) -> float:
    """The smallest change that the number can show: one example more or less, of as few as any run counts."""
    if isinstance(claim.counted_on, str):
        if claim.counted_on not in runs.fields:
            raise TrueriskError(f"the claim {claim.name} counts on {claim.counted_on!r}, which no setting has.")
        counts = [row[claim.counted_on] for row in [*runs.present, *runs.missing] if claim.counted_on in row]
        return 1 / min(counts)
    return 1 / claim.counted_on if claim.counted_on else 0.0
