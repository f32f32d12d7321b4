"""Units of effects, and the regions that claims want effects to lie in.

Effects are plain numbers (an error rate of 0.12, a difference of rates of 0.2, a ratio of 3.6). A unit says how people
read them (12%, 20 points, 3.6 times) and on which scale their mean over seeds is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from truerisk.errors import TrueriskError


@dataclass(frozen=True)
class Unit:
    """How a number is read: times ``factor``, with ``digits`` decimals, then ``suffix``.

    ``log``: a mean over seeds is taken of logarithms, because the seeds' values are skewed (ratios, steps, norms).
    ``low`` and ``high`` are the ends of what the number can be.

    >>> PERCENT.say(0.1234), POINTS.say(-0.2), TIMES.say(3.58), STEPS.say(1234.4), PLAIN.say(0.5)
    ('12.3%', '-20.0 points', '3.58 times', '1,234 steps', '0.500')
    """

    name: str
    factor: float = 1.0
    digits: int = 3
    suffix: str = ""
    log: bool = False
    low: float = -math.inf
    high: float = math.inf

    def number(self, value: float) -> str:
        """The number alone, without its unit.

        >>> TIMES.number(12345.0), TIMES.number(0.000123), PERCENT.number(math.inf)
        ('12,345', '0.0001', 'infinity')
        """
        shown = value * self.factor
        if math.isinf(shown):
            return "infinity" if shown > 0 else "-infinity"
        if abs(shown) >= 1000:
            return f"{shown:,.0f}" if abs(shown) < 1e9 else f"{shown:.3g}"
        if 0 < abs(shown) < 0.5 * 10**-self.digits:
            return f"{shown:.1g}"
        return f"{shown:,.{self.digits}f}"

    def say(self, value: float) -> str:
        """The number with its unit."""
        return f"{self.number(value)}{self.suffix}"

    def refuse(self, value: float) -> None:
        """Refuse a number that this unit cannot have."""
        if self.log and value <= 0:
            raise TrueriskError(f"an effect is {value:g}, but in {self.name} it must be above 0; check its numerator.")
        if not self.low <= value <= self.high:
            raise TrueriskError(
                f"an effect is {value:g}, but in {self.name} it must lie between {self.low:g} and {self.high:g}; "
                "return the plain number, 0.12 for 12%."
            )


PERCENT = Unit("percent", factor=100, digits=1, suffix="%", low=0.0, high=1.0)
POINTS = Unit("points", factor=100, digits=1, suffix=" points", low=-1.0, high=1.0)  # percentages subtracted
TIMES = Unit("times", digits=2, suffix=" times", log=True, low=0.0)
STEPS = Unit("steps", digits=0, suffix=" steps", log=True, low=0.0)
NATS = Unit("nats", digits=1, suffix=" nats")
CORRELATION = Unit("correlation", digits=2, low=-1.0, high=1.0)
PLAIN = Unit("plain", digits=3)


@dataclass(frozen=True)
class Region:
    """Where an effect must lie, ends included; in plain numbers, whatever unit people read."""

    low: float
    high: float
    unit: Unit

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise TrueriskError(
                f"a region reaches from {self.low:g} to {self.high:g}; give two different ends, the lower end first."
            )

    @property
    def words(self) -> str:
        """
        >>> at_least(1, POINTS).words, at_most(3, TIMES).words, between(-3, 3, POINTS).words
        ('at least 1 point', 'at most 3 times', 'between -3 and 3 points')
        """
        low, high = (f"{end * self.unit.factor:,.4g}" for end in (self.low, self.high))
        suffix = self.unit.suffix
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"between {low} and {high}{suffix}"
        words = f"at least {low}" if math.isinf(self.high) else f"at most {high}"
        one = words.endswith(" 1") and self.unit is not TIMES
        return f"{words}{suffix.removesuffix('s') if one else suffix}"


def _check_unit(unit: Any) -> None:
    if not isinstance(unit, Unit):
        raise TrueriskError(f"the unit is {unit!r}, but must be a Unit; use PERCENT, POINTS, TIMES, STEPS, or PLAIN.")


def at_least(value: float, unit: Unit) -> Region:
    """``at_least(20, POINTS)``: the number as people read it."""
    _check_unit(unit)
    return Region(value / unit.factor, math.inf, unit)


def at_most(value: float, unit: Unit) -> Region:
    """``at_most(3, TIMES)``: the number as people read it."""
    _check_unit(unit)
    return Region(-math.inf, value / unit.factor, unit)


def between(low: float, high: float, unit: Unit) -> Region:
    """``between(-3, 3, POINTS)``: the numbers as people read them. The way to say "changes little"."""
    _check_unit(unit)
    return Region(low / unit.factor, high / unit.factor, unit)
