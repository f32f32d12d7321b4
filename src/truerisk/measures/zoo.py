"""The reference zoo: where a value lies among the small networks of one experiment, and how well its measure predicts.

``zoo.json`` holds the values of every measure over the networks of the experiment ``predictiveness``, and its
granulated rank correlation with the gap (test error minus training error): Kendall's tau over networks that differ in
one hyperparameter only, averaged over hyperparameters (Jiang et al. 2020, section 2.2.2). It is the mean over the
experiment's zoos, with a 95% interval over them (Student's t). ``python -m benchmarks.zoo RUNS`` writes the file.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from truerisk.measures.ratios import Number
from truerisk.measures.registry import MEASURES, name_of

FEW = 6  # measures that are shown first


@dataclass(frozen=True)
class Place:
    """Where a value lies: above so many of the networks that have the measure, and equal to so many."""

    above: int
    equal: int
    networks: int

    def __str__(self) -> str:
        return f"{self.above} of {self.networks}"


@dataclass(frozen=True)
class Known:
    """One measure in the zoo: its sorted values (natural logarithms if ``log``) and its correlation with the gap.

    ``tau``: mean over zoos; ``low`` and ``high``: its 95% interval. All are None where the networks cannot tell.
    ``steady``: tau has one sign, whichever hyperparameter varies.
    """

    values: tuple[float, ...]
    log: bool
    missing: int
    tau: float | None = None
    low: float | None = None
    high: float | None = None
    steady: bool = False

    @property
    def clear(self) -> bool:
        """Whether the interval of tau leaves out 0, and tau has one sign for every hyperparameter."""
        return self.steady and self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def sure(self) -> float:
        """The end of the interval of |tau| that is nearer to 0; 0 where the sign of tau is not clear."""
        if self.low is None or self.high is None or not self.clear:
            return 0.0
        return min(abs(self.low), abs(self.high))

    @property
    def sign(self) -> int:
        """1 if larger values go with a larger gap in the zoo, -1 if with a smaller one, 0 if that is not clear."""
        return 0 if not self.clear else 1 if (self.tau or 0.0) > 0 else -1


@dataclass(frozen=True)
class Zoo:
    """The networks of one experiment, as a reference for others."""

    about: dict[str, Any]
    measures: dict[str, Known]

    @property
    def networks(self) -> int:
        return int(self.about["networks"])

    def place(self, name: str, number: Number) -> Place | None:
        """Where a value lies; None for a measure that the zoo does not have."""
        known = self.measures.get(name)
        if known is None or not known.values or (known.log and number.log is None):
            return None
        value = number.log if known.log and number.log is not None else number.value
        rounded = significant(value)  # as the values of the file, so that equal numbers stay equal
        below, upto = bisect_left(known.values, rounded), bisect_right(known.values, rounded)
        return Place(below, upto - below, len(known.values))

    def leading(self, names: Iterable[str]) -> list[str]:
        """The few that predict best in the zoo, the best one of each family, the surest first.

        Only measures that every network of the zoo has, and whose sign of tau is clear.
        """
        known = [name for name in names if name in self.measures and name in MEASURES]
        able = [name for name in known if self.measures[name].sure > 0 and not self.measures[name].missing]
        able.sort(key=lambda name: -self.measures[name].sure)
        best: dict[str, str] = {}
        for name in able:
            best.setdefault(MEASURES[name].family, name)
        return list(best.values())[:FEW]

    def record(self) -> dict[str, Any]:
        """Plain JSON: what the zoo is, and the measures that predict best in it."""
        return {**self.about, "leading": [name_of(key) for key in self.leading(self.measures)]}


def significant(value: float) -> float:
    """To four significant digits, as in the file.

    >>> significant(123456.0), significant(-0.00123456)
    (123500.0, -0.001235)
    """
    return float(f"{value:.4g}")


@cache
def zoo() -> Zoo:
    """The zoo that comes with the package."""
    content = json.loads(files("truerisk.measures").joinpath("zoo.json").read_text())
    measures = {name: Known(**{**one, "values": tuple(one["values"])}) for name, one in content["measures"].items()}
    return Zoo(content["about"], measures)
