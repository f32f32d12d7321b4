"""Which measures are fooled by a rescaling: the weights change, the function does not, and neither should its measure.

The network, in float64 and with its batch norms folded, is rescaled at random several times: what enters each hidden
unit is multiplied by exp(u) with u ~ N(0, std^2), what leaves it is divided by the same. After each time everything is
measured again; the network at its initialization, which distances are taken from, stays as it was.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from truerisk import progress
from truerisk.data import load
from truerisk.errors import TrueriskError
from truerisk.measures.found import Measures
from truerisk.measures.observed import observe
from truerisk.measures.ratios import log10_of
from truerisk.measures.registry import MEASURES, Measure, Value
from truerisk.measures.subject import BUDGET, ROWS, Subject
from truerisk.measures.table import current, measure_subject, wanted
from truerisk.measures.theorems import BOUNDS, Theorem
from truerisk.measures.trained import given_or_trained
from truerisk.seeds import derive
from truerisk.symmetry import Symmetry, find_symmetry

if TYPE_CHECKING:
    import pandas

TOLERANCE = math.log10(1 + 1e-5)  # orders of magnitude that rounding explains
SEARCH_TOLERANCE = math.log10(1.05)  # the same for searches, which stop at a bracket of a few per cent
SAME_FUNCTION = 1e-6  # relative change of an output; more than that is another function
NOTHING = 1e-12  # both numbers are smaller: neither has a sign


@dataclass(frozen=True)
class Moved:
    """How far rescalings moved one measure or bound.

    ``value`` is the number before; ``after`` the number after the rescaling that moved it most. Their natural
    logarithms are given where a number may leave the range of floats. ``orders``: the largest
    ``|log10(after / before)|``; infinite where the sign changed or the value came or went, and then ``note`` says so.
    """

    name: str
    kind: str  # "measure" or "bound"
    family: str
    invariant: bool  # as declared
    value: float  # before; nan where it was not defined
    orders: float
    tolerance: float
    note: str = ""
    after: float = math.nan
    log: float | None = None
    after_log: float | None = None

    @property
    def fooled(self) -> bool:
        return self.orders > self.tolerance

    @property
    def wrongly_declared(self) -> bool:
        """Declared invariant, but moved. (One that stays may still move on another network: no contradiction.)"""
        return self.invariant and self.fooled

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.fooled:
            return "not fooled"
        moved = self.note if math.isinf(self.orders) else f"moved {in_orders(self.orders)}"
        return f"{'DECLARED WRONGLY as invariant' if self.invariant else 'fooled'}: {moved}"


def in_orders(orders: float) -> str:
    """
    >>> in_orders(3.14159), in_orders(1.0), in_orders(0.01234)
    ('3.1 orders of magnitude', '1.0 orders of magnitude', '0.012 orders of magnitude')
    """
    return f"{orders:.1f} orders of magnitude" if orders >= 0.95 else f"{orders:.2g} orders of magnitude"


@dataclass(frozen=True)
class Audit:
    """What rescalings did to each measure and bound, by name, while the function stayed."""

    moves: dict[str, Moved]
    before: Measures  # of the network before the rescalings, folded and in float64
    change: float  # largest change of an output, relative to the largest output
    channels: int  # that were rescaled
    times: int
    std: float

    @property
    def fooled(self) -> list[str]:
        return [name for name, moved in self.moves.items() if moved.fooled]

    @property
    def wrongly_declared(self) -> list[str]:
        return [name for name, moved in self.moves.items() if moved.wrongly_declared]

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary for each measure and bound."""
        return [_row(moved) for moved in self.moves.values()]

    @property
    def table(self) -> pandas.DataFrame:
        """name, kind, family, invariant (as declared), value (before), after, their log10, orders, note, verdict."""
        import pandas

        return pandas.DataFrame(self.rows())

    def record(self) -> dict[str, Any]:
        """Plain JSON; infinite numbers are null."""
        return {
            "times": self.times,
            "std": self.std,
            "channels": self.channels,
            "largest_change_of_an_output": self.change,
            "moves": [{k: _finite(v) for k, v in row.items()} for row in self.rows()],
        }


def audit(
    model: object,
    data: object,
    init: nn.Module | None = None,
    *,
    times: int = 5,
    std: float = 1.0,
    record: Mapping[str, Any] | None = None,
    only: Iterable[str] | None = None,
    train: bool = False,
    delta: float = 0.05,
    rows: int = ROWS,
    seed: int = 0,
    budget: int = BUDGET,
    data_dir: str | Path | None = None,
    outputs: str | None = None,
    test: object = None,
) -> Audit:
    """Rescale ``model`` at random ``times`` times and measure again.

    Each hidden unit is rescaled by a factor exp(u), where u is normal with mean 0 and standard deviation ``std``.
    The other arguments are those of ``measure``; a name or a function in place of a module is trained first there, too.

    >>> from truerisk.nets import architecture
    >>> found = audit(architecture("mlp:8", (64,), 10).build(0), "digits", only=["parameters"], times=2)
    >>> found.channels, found.moves["parameters"].verdict, found.change < 1e-9
    (8, 'not fooled', True)
    """
    if not times >= 1:
        raise TrueriskError(f"--times is {times}, but must be at least 1; give the number of rescalings.")
    if not 0 < std < math.inf:
        raise TrueriskError(f"--std is {std:g}, but must be a positive number; try --std 1.")
    names = None if only is None else wanted(current(only), train)  # a slip is told before anything is trained
    network = given_or_trained(
        model, load(data, data_dir), init, record=record, rows=rows, seed=seed, outputs=outputs, test=test,
        data_dir=data_dir,
    )  # fmt: skip
    given = network.data
    start = None if network.init is None else copy.deepcopy(network.init).double()
    settings: dict[str, Any] = {"record": network.record, "rows": rows, "seed": seed, "budget": budget}
    folded = Subject(copy.deepcopy(network.module).double(), given, start).module
    subject = Subject(folded, given, start, **settings)
    symmetry = find_symmetry(subject.module, subject.example)
    if not symmetry.dim:
        why = f" ({'; '.join(f'{where}: {reason}' for where, reason in symmetry.pinned[:1])})" if symmetry.pins else ""
        raise TrueriskError(f"nothing in this network can be rescaled{why}: there is nothing to audit.")
    asked: dict[str, Any] = {"only": names, "train": train, "delta": delta}
    change, after = 0.0, []
    with progress.bar("measuring, rescaling, measuring again", times + 1) as advance, progress.silent():
        before = measure_subject(subject, **asked)
        advance()
        for k in range(times):
            twin = _rescaled(symmetry, subject.module, std, derive(seed, "audit", k))
            other = Subject(twin, given, start, **settings)
            change = max(change, float((other.logits - subject.logits).abs().max() / subject.logits.abs().max()))
            after.append(measure_subject(other, **asked))
            advance()
    if not change <= SAME_FUNCTION:
        raise TrueriskError(
            f"--std is {std:g}, but that changes an output by {change:.1g} of the largest one, by rounding; rescale "
            "less, such as by --std 1."
        )
    moves = _compare(before, after)
    before = replace(before, observed=observe(network.module, given, network.test))
    before = replace(before, trained=network) if network.trained_here else before
    return Audit(moves, before, change, symmetry.dim, times, std)


def _rescaled(symmetry: Symmetry, module: nn.Module, std: float, seed: int) -> nn.Module:
    try:
        return symmetry.rescale(module, symmetry.random(std, seed))
    except TrueriskError as error:
        raise TrueriskError(
            f"--std is {std:g}, but rescales too far ({error}); rescale less, such as by --std 1."
        ) from error


def _compare(before: Measures, after: list[Measures]) -> dict[str, Moved]:
    known: dict[str, Measure | Theorem] = {**MEASURES, **BOUNDS}
    found: dict[str, Moved] = {}
    for name, entry in known.items():
        values = [_number(measures, name) for measures in (before, *after)]
        if all(value is None for value in values):
            continue
        measured = isinstance(entry, Measure)
        tolerance = SEARCH_TOLERANCE if entry.cost in ("search", "training") else TOLERANCE
        family = entry.family if isinstance(entry, Measure) else "bounds"
        moves = [distance(values[0], other) for other in values[1:]]
        most = max(range(len(moves)), key=lambda k: moves[k][0])  # the first of the largest
        (value, log), (moved, moved_log) = (ABSENT if each is None else each for each in (values[0], values[1 + most]))
        found[entry.name] = Moved(
            entry.name, "measure" if measured else "bound", family, entry.invariant, value, moves[most][0], tolerance,
            moves[most][1], moved, log, moved_log,
        )  # fmt: skip
    return found


Number = tuple[float, float | None]  # a value and, where it may leave the range of floats, its natural logarithm
ABSENT: Number = (math.nan, None)


def _number(measures: Measures, name: str) -> Number | None:
    found = measures.values.get(name) or measures.bounds.get(name)
    return None if found is None else (found.value, found.log)


def distance(one: Number | None, two: Number | None) -> tuple[float, str]:
    """(|log10| of the ratio of two numbers, what to say where it is infinite).

    >>> distance((1.0, None), (1000.0, None)), distance((-1.0, None), (-10.0, None))
    ((3.0, ''), (1.0, ''))
    >>> round(distance((math.inf, 1000.0), (math.inf, 1000 + math.log(10)))[0], 9)  # by their logarithms
    1.0
    >>> distance((1.0, None), (-1.0, None)), distance((1.0, None), None)
    ((inf, 'changed its sign'), (inf, 'is defined for some of the weights only'))
    """
    if one is None or two is None:
        return (0.0, "") if one is two else (math.inf, "is defined for some of the weights only")
    (a, log_a), (b, log_b) = one, two
    if log_a is not None and log_b is not None and math.isfinite(log_a) and math.isfinite(log_b):
        return abs(log_a - log_b) / math.log(10), ""
    if a == b or max(abs(a), abs(b)) < NOTHING:
        return 0.0, ""
    if a * b == 0:
        return math.inf, "came from 0 or fell to 0"
    if (a > 0) != (b > 0):
        return math.inf, "changed its sign"
    if math.isinf(a) or math.isinf(b):
        return math.inf, "left the range of floats"
    return abs(math.log10(abs(a)) - math.log10(abs(b))), ""


def _row(moved: Moved) -> dict[str, Any]:
    """Plain: before and after with their decimal logarithms; without the tolerance."""
    before, after = Value(moved.value, moved.log), Value(moved.after, moved.after_log)
    kept = ("name", "kind", "family", "invariant")
    return {name: getattr(moved, name) for name in kept} | {
        "value": moved.value,
        "log10": log10_of(before),
        "after": moved.after,
        "after_log10": log10_of(after),
        "orders": moved.orders,
        "note": moved.note,
        "verdict": moved.verdict,
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
