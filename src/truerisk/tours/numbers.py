"""Numbers as the tour prints them: bounds rounded up, lower ends down."""

from __future__ import annotations

import math

from truerisk import words
from truerisk.words import bound_percent as upper
from truerisk.words import lower_percent as lower
from truerisk.words import seen_percent as seen

TIMES = "\N{MULTIPLICATION SIGN}"
__all__ = [
    "TIMES",
    "big",
    "factor",
    "lower",
    "points",
    "power_text",
    "seen",
    "short",
    "times_text",
    "tiny",
    "upper",
    "value_text",
]
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def points(value: float) -> str:
    return f"{words.lower_points(value).removesuffix(' points')} percentage points"


def big(value: float) -> str:
    """A KL without decimals that nobody needs, rounded up.

    >>> big(38269.2), big(12.3456)
    ('38,270', '12.35')
    """
    return f"{math.ceil(value):,}" if 1000 <= value < 1e9 else words.nats(value)


def short(value: float) -> str:
    """A bound of any size with few digits, rounded up."""
    return words.bound(value, 2 if value < 10 else 1)


def value_text(name: str, value: float) -> str:
    return f"{value:,.0f}" if name == "parameters" else short(value)


def factor(ratio: float) -> str:
    """A factor in words: 2.6 times as large, or 4.1 times smaller."""
    if abs(ratio - 1) < 0.005:
        return "the same"
    number = ratio if ratio > 1 else 1 / ratio
    shown = f"{number:,.0f}" if number >= 20 else f"{number:.2g}"
    return f"{shown} times as large" if ratio > 1 else f"smaller by a factor of {shown}"


def times_text(ratio: float) -> str:
    """A factor as a label.

    >>> times_text(206.4), times_text(2.14), times_text(0.125)
    ('× 206', '× 2.1', '÷ 8')
    """
    number = ratio if ratio > 1 else 1 / ratio
    shown = f"{number:.2g}" if number < 20 else f"{number:,.0f}" if number < 1e6 else f"{number:.0e}"
    return f"{TIMES if ratio > 1 else '÷'} {shown}"


def power_text(power: int) -> str:
    """A power of ten as a label of an axis.

    >>> power_text(3), power_text(-2), power_text(9)
    ('×1,000', '×0.01', '×10⁹')
    """
    if abs(power) < 5:
        return f"{TIMES}{10**power:,}" if power >= 0 else f"{TIMES}{10.0**power:g}"
    return f"{TIMES}10{str(power).translate(SUPERSCRIPTS)}"


def tiny(value: float) -> str:
    """A tiny upper end as pages show it.

    >>> tiny(5.2e-16)
    '6 × 10⁻¹⁶'
    """
    digits, _, power = words.at_most(value).partition("e")
    return f"{digits} {TIMES} 10{power.translate(SUPERSCRIPTS)}" if power else digits
