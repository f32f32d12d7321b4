"""Ratios of two values of one measure, also where the values themselves leave the range of floats."""

from __future__ import annotations

import math
from typing import Protocol


class Number(Protocol):
    """A value, and its natural logarithm where the value may leave the range of floats."""

    @property
    def value(self) -> float: ...

    @property
    def log(self) -> float | None: ...


def log10_of(number: Number | None) -> float | None:
    """log10 of the absolute value; None for 0, for infinity without a logarithm, and where there is no number."""
    if number is None:
        return None
    if number.log is not None and math.isfinite(number.log):
        return number.log / math.log(10)
    size = abs(number.value)
    return math.log10(size) if 0 < size < math.inf else None


def log10_ratio(one: Number | None, two: Number | None) -> float | None:
    """log10(two / one); None where there is no positive ratio.

    >>> from truerisk.measures.registry import Value
    >>> log10_ratio(Value(2.0), Value(200.0)), log10_ratio(Value(-1.0), Value(-10.0))
    (2.0, 1.0)
    >>> log10_ratio(Value(0.0), Value(0.0)), log10_ratio(Value(0.0), Value(1.0)), log10_ratio(Value(-1.0), Value(1.0))
    (0.0, None, None)
    >>> round(log10_ratio(Value.of_log(1000.0), Value.of_log(1000 + math.log(10))), 9)
    1.0
    """
    if one is None or two is None:
        return None
    if one.value == two.value == 0 and one.log is None and two.log is None:
        return 0.0
    a, b = log10_of(one), log10_of(two)
    if a is None or b is None or (one.value < 0) != (two.value < 0):
        return None
    return b - a


def ratio(orders: float) -> float:
    """10 to this power; infinite or 0 where a float cannot hold it.

    >>> ratio(2.0), ratio(400.0), ratio(-400.0)
    (100.0, inf, 0.0)
    """
    return math.inf if orders > 308 else 0.0 if orders < -308 else 10.0**orders


def factor(orders: float | None) -> str:
    """A ratio as people read it.

    >>> factor(0.0), factor(0.5), factor(-0.5), factor(4.2), factor(400.0), factor(None)
    ('1.00', '3.16', '0.316', '15,849', '10^400.0', '')
    """
    if orders is None:
        return ""
    if not -4 < orders < 6:
        return f"10^{orders:.1f}"
    value = 10.0**orders
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.995 else f"{value:.3g}"
