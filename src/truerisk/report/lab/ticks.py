"""Round numbers for the little axes of claims."""

from __future__ import annotations

import math

MOST = 1e12  # beyond these powers of ten nobody reads an axis of 240 pixels
SUPERSCRIPT = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


def ticks(low: float, high: float, log: bool) -> list[float]:
    """A few round numbers between two ends, in the order in which they should get a place.

    >>> ticks(-0.7, 3.2, False), ticks(0.9, 7, True), ticks(0.5, 2e5, True)
    ([0.0, 2.0], [1.0, 2.0, 5.0], [1.0, 100.0, 10000.0])
    """
    if not (-MOST < low < high < MOST) or (log and low < 1 / MOST):
        return []
    if not log:
        step = _round_up((high - low) / 3)
        first, last = math.ceil(low / step), math.floor(high / step)
        return [place * step for place in range(first, last + 1)]
    decades = math.log10(high / low)
    every = max(1, math.ceil(decades / 4))
    digits = (1, 2, 5) if decades < 1.5 else (1,)
    powers = range(every * math.floor(math.log10(low) / every), math.ceil(math.log10(high)) + 1, every)
    found = (digit * 10.0**power for power in powers for digit in digits)
    return [value for value in found if low <= value <= high]


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, ... times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((digit * power for digit in (1, 2, 5) if digit * power >= value), 10 * power)


def label(value: float) -> str:
    """A number with at most three digits that count.

    >>> label(-3.0), label(0.70711), label(1234.0), label(4e-12), label(0.0), label(1e9)
    ('\u22123', '0.707', '1,234', '4\u00d710\u207b\u00b9\u00b2', '0', '10\u2079')
    """
    size = abs(value)
    if size and not 1e-3 <= size < 1e6:
        digits, _, power = f"{value:.3g}".partition("e")
        if not power:  # it was rounded up to a number without a power
            return digits.replace("-", "\u2212")
        digits = "" if digits == "1" else f"{digits}\u00d7"
        return f"{digits}10{str(int(power)).translate(SUPERSCRIPT)}".replace("-", "\u2212")
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.3g}"
    return text.replace("-", "\u2212")
