"""Classical bounds as numbers: each checks the hypotheses of its theorem on the network at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from truerisk.measures.registry import Cost
from truerisk.measures.subject import Subject


@dataclass(frozen=True)
class Bound:
    """An upper bound on the true risk that holds with probability 1 - delta, vacuous or not."""

    name: str
    value: float  # never clipped: how far above 1 it is, is what the reader should see
    paper: str
    theorem: str
    meaning: str
    parts: Mapping[str, float] = field(default_factory=dict)  # what it is made of
    log: float | None = None  # natural logarithm, where the value may leave the range of floats

    @property
    def vacuous(self) -> bool:
        return not self.value < 1

    @property
    def orders(self) -> float:
        """How many orders of magnitude too large to say anything: 0 where it says something."""
        return max(0.0, self.natural_log / math.log(10))

    @property
    def natural_log(self) -> float:
        """ln of the value, where the value itself may have left the range of floats.

        >>> Bound("b", math.inf, "", "", "", log=2000.0).natural_log, Bound("b", 1.0, "", "", "").natural_log
        (2000.0, 0.0)
        """
        if self.log is not None:
            return self.log
        return math.log(self.value) if self.value > 0 else -math.inf

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "vacuous": self.vacuous,
            "orders_too_large": self.orders if self.vacuous else 0.0,
            "paper": self.paper,
            "theorem": self.theorem,
            "meaning": self.meaning,
            "parts": dict(self.parts),
        }


@dataclass(frozen=True)
class Theorem:
    """One entry of the registry of bounds. ``compute`` raises NotDefined where a hypothesis fails."""

    name: str
    paper: str
    theorem: str
    meaning: str
    compute: Callable[[Subject, float], tuple[float, Mapping[str, float]] | tuple[float, Mapping[str, float], float]]
    invariant: bool = False
    cost: Cost = "weights"

    def __call__(self, subject: Subject, delta: float) -> Bound:
        value, parts, *log = self.compute(subject, delta)
        return Bound(self.name, value, self.paper, self.theorem, self.meaning, parts, *log)


BOUNDS: dict[str, Theorem] = {}


def theorem(
    name: str, *, paper: str, theorem: str, meaning: str, invariant: bool = False, cost: Cost = "weights"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a bound into the registry."""

    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        if name in BOUNDS:
            raise ValueError(f"there are two bounds called {name}.")
        BOUNDS[name] = Theorem(name, paper, theorem, meaning, compute, invariant, cost)
        return compute

    return enter
