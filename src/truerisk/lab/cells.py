"""From the runs of an experiment to the cells of a claim: one number per seed in each, and their interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from truerisk.errors import TrueriskError
from truerisk.lab.claim import Claim, Number
from truerisk.lab.effect import Above
from truerisk.lab.interval import Interval, interval
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.spelling import spell_field

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
        parts = [spell_field(name, value) for name, value in self.where.items()]
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
        if any(set(values) != set(runs.seeds()) for values in numbers.values()):
            raise TrueriskError(f"the effect of {claim.name} names other rivals in other seeds; name the same in all.")
        found += [_cell(claim, where, rival, values, runs) for rival, values in numbers.items()]
    return found


def refuse_fields(name: str, wanted: Iterable[str], rows: Rows) -> None:
    """Refuse fields that settings do not have: a field of the record would choose among runs by how they ended."""
    for each in wanted:
        if each not in rows.fields:
            known = ", ".join(sorted(rows.fields))
            raise TrueriskError(f"the claim {name} needs the field {each!r} in settings, which have {known}.")


def slices(claim: Claim, rows: Rows) -> Iterator[tuple[dict[str, Any], Rows]]:
    """The runs of each cell, planned ones included."""
    refuse_fields(claim.name, (*claim.every, *claim.where, SEED), rows)
    chosen = rows.where(**claim.where)
    if not chosen.present and not chosen.missing:
        raise IncompleteError("no run of this scale is what the claim is about")
    for run in [*chosen.present, *chosen.missing]:
        lacking = next((name for name in (*claim.every, SEED) if name not in run), None)
        if lacking is not None:
            raise TrueriskError(f"a run that {claim.name} is about has no field {lacking!r}; narrow its `where`.")
        if type(run[SEED]) is not int:
            raise TrueriskError(f"a seed is {run[SEED]!r}, but must be an integer; use int(...).")
    if not claim.every:
        yield {}, chosen
        return
    for values, some in chosen.groups(*claim.every):
        yield dict(zip(claim.every, values, strict=True)), some


def _named(claim: Claim, runs: Rows) -> list[tuple[str, Number]]:
    found = claim.effect(runs)
    pairs = list(found.items()) if isinstance(found, Mapping) else [("", found)]
    if not pairs:
        raise TrueriskError(
            f"the effect of {claim.name} returned no number; raise IncompleteError where there is none."
        )
    for _, value in pairs:
        _refuse(value, claim)
    return [(str(name), value) for name, value in pairs]


def _refuse(value: Any, claim: Claim) -> None:
    plain = value.value if isinstance(value, Above) else value
    if plain is None:
        raise TrueriskError(f"the effect of {claim.name} returned nothing; check whether `return` is missing.")
    if isinstance(plain, bool) or not isinstance(plain, float | int):
        fix = 'use .one("field")' if isinstance(plain, Rows) else "use float(...)"
        raise TrueriskError(f"the effect of {claim.name} returned a {type(plain).__name__}; {fix}.")
    if not math.isfinite(plain):
        raise TrueriskError(f"the effect of {claim.name} is {plain}; check the fields that it divides.")
    claim.wants.unit.refuse(plain)


def _cell(claim: Claim, where: dict[str, Any], rival: str, values: dict[int, Number], runs: Rows) -> Cell:
    return Cell(where, rival, values, interval(list(values.values()), claim.wants.unit, step(claim, runs)))


def step(claim: Claim, runs: Rows) -> float:
    """The smallest change that the number can show: one example more or less, of as few as any run counts."""
    if isinstance(claim.counted_on, str):
        if claim.counted_on not in runs.fields:
            raise TrueriskError(f"the claim {claim.name} counts on {claim.counted_on!r}, which no setting has.")
        counts = [row[claim.counted_on] for row in [*runs.present, *runs.missing] if claim.counted_on in row]
        if not counts or not all(isinstance(count, int) and count > 0 for count in counts):
            raise TrueriskError(
                f"the claim {claim.name} counts on {claim.counted_on!r}, which must be a positive integer."
            )
        return 1 / min(counts)
    return 1 / claim.counted_on if claim.counted_on else 0.0
