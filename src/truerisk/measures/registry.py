"""What a measure says of itself, and the list of all measures.

A measure is one small function of a :class:`~truerisk.measures.subject.Subject`, decorated with what a reader must
know: what the number means, who proposed it, whether a mere rescaling of the weights changes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from truerisk.measures.subject import NotDefined, Subject

Cost = Literal["weights", "forward", "gradients", "search", "training"]
Need = Literal["init", "record"]
COSTS: dict[Cost, str] = {
    "weights": "reads the weights",
    "forward": "one pass over the examples",
    "gradients": "gradients of some examples",
    "search": "many passes over some examples",
    "training": "trains networks; on request only",
}
NEEDS: dict[Need, str] = {
    "init": "the network at its initialization (init=, --init)",
    "record": "a record of its training (record=, --record)",
}


@dataclass(frozen=True)
class Value:
    """A number; its natural logarithm where the number may leave the range of floats; what each layer contributes.

    ``error``: standard error of a number that is an estimate from random draws.

    >>> Value.of_log(1000.0).value, Value.of_log(0.0).value
    (inf, 1.0)
    """

    value: float
    log: float | None = None
    layers: Mapping[str, float] = field(default_factory=dict)
    error: float | None = None

    @classmethod
    def of_log(cls, log: float, layers: Mapping[str, float] | None = None) -> Value:
        """exp(log), which may be too large for a float."""
        return cls(math.exp(log) if log < 709 else math.inf, log, layers or {})


@dataclass(frozen=True)
class Measure:
    """One entry of the registry. ``invariant``: no rescaling of hidden units changes it (init held fixed).

    ``key``: its place in ``MEASURES``, in ``zoo.json``, and in stored runs of the lab. It stays when the name changes.
    """

    name: str
    family: str
    meaning: str
    paper: str
    equation: str
    invariant: bool
    cost: Cost
    compute: Callable[[Subject], Value | float]
    needs: frozenset[Need] = frozenset()
    same_order_as: str = ""  # another measure of which this one is a monotone transform
    settings: str = ""  # choices of ours that the value depends on
    key: str = ""

    def __call__(self, subject: Subject) -> Value:
        missing = sorted(self.needs - subject.has)
        if missing:
            raise NotDefined(f"it needs {' and '.join(NEEDS[need] for need in missing)}.")
        result = self.compute(subject)
        value = result if isinstance(result, Value) else Value(float(result))
        if math.isnan(value.value):
            raise NotDefined("its value is not a number for this network.")
        return value


MEASURES: dict[str, Measure] = {}


def measure(
    name: str,
    *,
    family: str,
    meaning: str,
    paper: str,
    equation: str,
    invariant: bool,
    cost: Cost,
    needs: tuple[Need, ...] = (),
    same_order_as: str = "",
    settings: str = "",
    key: str = "",
) -> Callable[[Callable[[Subject], Value | float]], Callable[[Subject], Value | float]]:
    """Enter a function into the registry; the function itself stays as it is. ``key``: the name that it once had."""

    def enter(compute: Callable[[Subject], Value | float]) -> Callable[[Subject], Value | float]:
        if key_of(name) in MEASURES or (key or name) in MEASURES:
            raise ValueError(f"there are two measures called {name}.")
        described = (name, family, meaning, paper, equation, invariant, cost)
        MEASURES[key or name] = Measure(*described, compute, frozenset(needs), same_order_as, settings, key or name)
        return compute

    return enter


def key_of(name: str) -> str:
    """The key of a measure, from its name or from its key; any other word stays as it is.

    >>> key_of("parameters"), key_of("no-such-measure")
    ('parameters', 'no-such-measure')
    """
    return next((key for key, entry in MEASURES.items() if entry.name == name), name)


def name_of(key: str) -> str:
    """The name that people read, from a key; the name of a bound stays as it is."""
    return MEASURES[key].name if key in MEASURES else key
