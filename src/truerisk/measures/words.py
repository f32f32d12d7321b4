"""Numbers and verdicts of measures and bounds as people read them, the same in the terminal and on the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from truerisk.measures.theorems import Bound
from truerisk.words import bound_percent, magnitude

if TYPE_CHECKING:
    from truerisk.measures.audit import Moved

PLAIN = 1e-3, 1e6  # sizes that are written without an exponent


def quantity(value: float, log: float | None = None) -> str:
    """A number to four digits; beyond the range of floats a power of ten, from its natural logarithm.

    >>> quantity(7510.3), quantity(0.01234567), quantity(-2.5), quantity(1.8e-07), quantity(31415926.0)
    ('7,510', '0.01235', '-2.5', '1.8e-07', '3.142e+07')
    >>> quantity(math.inf, 1000.0), quantity(0.0, -1000.0), quantity(math.inf)
    ('10^434.3', '10^-434.3', 'infinite')
    """
    if log is not None and math.isfinite(log) and (math.isinf(value) or value == 0):
        return f"10^{log / math.log(10):.1f}"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < PLAIN[1]:
        return f"{value:,.0f}"
    if not PLAIN[0] <= abs(value) < PLAIN[1]:
        return f"{value:.4g}" if abs(value) < 1 else f"{value:.3e}"
    return f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:.4g}"


def before_after(moved: Moved) -> tuple[str, str]:
    """A number of an audit before the rescalings, and after the one that moved it most; bounds are rounded up."""
    write = magnitude if moved.kind == "bound" else quantity
    both = ((moved.value, moved.log), (moved.after, moved.after_log))
    before, after = ("not defined" if math.isnan(value) else write(value, log) for value, log in both)
    return before, after


def verdict(bound: Bound) -> str:
    """What a bound says of the true risk, if anything.

    >>> [verdict(Bound("b", value, "", "", "")) for value in (0.31, 1.02, 2e4)]
    ['at most 31.0% wrong on unseen data', 'vacuous: just above 1', 'vacuous: 4.3 orders of magnitude too large']
    """
    if not bound.vacuous:
        return f"at most {bound_percent(bound.value)} wrong on unseen data"
    if bound.orders < 0.05:
        return "vacuous: just above 1"
    return f"vacuous: {bound.orders:,.1f} orders of magnitude too large"


class OfFamily(Protocol):
    @property
    def family(self) -> str: ...


Entry = TypeVar("Entry", bound=OfFamily)


def by_family(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The entries of each family, families in the order in which they first occur."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.family, []).append(entry)
    return found


def by_reason(skipped: Mapping[str, str]) -> dict[str, list[str]]:
    """
    >>> by_reason({"a": "no.", "b": "why.", "c": "no."})
    {'no.': ['a', 'c'], 'why.': ['b']}
    """
    found: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        found.setdefault(reason, []).append(name)
    return found
