"""A set of trained networks as arrays, and the pairs of them that are compared.

A row is plain JSON: ``{"hyper": {name: value}, "seed": int, "measures": {name: number or null}, "gap": number,
"n_test": int}``. The gap is test error minus training error. A measure that is null or not finite is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from truerisk.errors import TrueriskError

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Networks:
    """Networks, one entry each: their hyper-parameters as codes (networks, names), gaps, and test examples."""

    names: tuple[str, ...]  # of the hyper-parameters that vary
    values: tuple[tuple[Any, ...], ...]  # of each, in order; a code is a place in it
    codes: np.ndarray
    gap: np.ndarray
    n_test: np.ndarray

    def __len__(self) -> int:
        return len(self.gap)

    def take(self, keep: np.ndarray) -> Networks:
        """Only some of the networks."""
        return Networks(self.names, self.values, self.codes[keep], self.gap[keep], self.n_test[keep])

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(first, second) of every pair of different networks, each pair once."""
        first, second = np.triu_indices(len(self), 1)
        return first, second

    @cached_property
    def single(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By hyper-parameter: the pairs that differ in it and in nothing else but their seed."""
        first, second = self.pairs
        differs = self.codes[first] != self.codes[second]
        alone = differs & (differs.sum(1) == 1)[:, None]
        return {name: (first[alone[:, k]], second[alone[:, k]]) for k, name in enumerate(self.names)}

    def cells(self, name: str) -> np.ndarray:
        """A number for each network that is the same where all other hyper-parameters are the same."""
        others = np.delete(self.codes, self.names.index(name), axis=1)
        return np.unique(others, axis=0, return_inverse=True)[1].reshape(-1)


def networks(rows: Sequence[Row]) -> Networks:
    """Check the rows and bring them into arrays."""
    if len(rows) < 2:
        raise TrueriskError("to compare networks at least two are needed.")
    names = list(rows[0].get("hyper", {}))
    for k, row in enumerate(rows):
        missing = [key for key in ("hyper", "measures", "gap", "n_test") if key not in row]
        if missing:
            raise TrueriskError(f"network {k} has no {', '.join(missing)}; each needs hyper, measures, gap and n_test.")
        if set(row["hyper"]) != set(names):
            raise TrueriskError(f"network {k} has other hyper-parameters than the first one; give all the same names.")
        if not (_number(row["gap"]) and math.isfinite(row["gap"])):
            raise TrueriskError(f"the gap of network {k} is {row['gap']!r}, which is not a finite number.")
        if not (_number(row["n_test"]) and row["n_test"] >= 1):
            raise TrueriskError(f"network {k} was tested on {row['n_test']!r} examples; at least one is needed.")
    values = {name: _values([row["hyper"][name] for row in rows]) for name in names}
    varied = [name for name in names if len(values[name]) > 1]
    places = {name: {_key(value): place for place, value in enumerate(values[name])} for name in varied}
    codes = [[places[name][_key(row["hyper"][name])] for name in varied] for row in rows]
    return Networks(
        tuple(varied),
        tuple(values[name] for name in varied),
        np.array(codes, dtype=np.int64).reshape(len(rows), len(varied)),
        np.array([row["gap"] for row in rows], dtype=np.float64),
        np.array([row["n_test"] for row in rows], dtype=np.float64),
    )


def measured(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Each measure's values; NaN where it is missing."""
    names = dict.fromkeys(name for row in rows for name in row["measures"])
    return {name: np.array([_finite(row["measures"].get(name)) for row in rows]) for name in names}


def _finite(value: Any) -> float:
    return float(value) if _number(value) and math.isfinite(value) else math.nan


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _values(found: list[Any]) -> tuple[Any, ...]:
    """The different values: numbers by size, all else by name."""
    distinct = {_key(value): value for value in found}
    return tuple(sorted(distinct.values(), key=lambda v: (0, v, "") if _number(v) else (1, 0, _key(v))))
