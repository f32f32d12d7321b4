"""Parts of hand-drawn figures as SVG text. Style sheets color them by class; all words are escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

SUPERSCRIPTS = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


def svg(parts: Iterable[str], width: float, height: float) -> str:
    """The figure; it is described by the element around it, so it hides itself from screen readers."""
    head = f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {math.ceil(height)}"'
    return f'{head} aria-hidden="true">{"".join(parts)}</svg>'


def text(x: float, y: float, words: str, kind: str = "", *, anchor: str = "start", size: float = 14) -> str:
    """One line of text with its baseline at y."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}"'
    return f'<text class="{kind}" {place}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A bar; a negative width reaches to the left."""
    left, wide = min(x, x + width), abs(width)
    return f'<rect class="{kind}" x="{left:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{height:.2f}"/>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path class="{kind}" d="M{x1:.2f},{y1:.2f}L{x2:.2f},{y2:.2f}"/>'


def dot(x: float, y: float, kind: str, radius: float = 6) -> str:
    return f'<circle class="{kind}" cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}"/>'


def powers(low: float, high: float, most: int) -> list[int]:
    """Integer powers of ten between two, evenly apart, 0 among them.

    >>> powers(-1.0, 9.0, 5), powers(-1.0, 1.5, 5)
    ([0, 2, 4, 6, 8], [-1, 0, 1])
    """
    step = next(s * 10**k for k in range(7) for s in (1, 2, 5) if (high - low) / (s * 10**k) <= most)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def factors(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Marks of a logarithmic axis of ratios as (log10, words): powers of ten, and 2 and 5 between these if few fit.

    >>> [(round(value, 3), words) for value, words in factors(-0.4, 1.1, 6)]
    [(-0.301, '0.5'), (0.0, '1'), (0.301, '2'), (0.699, '5'), (1.0, '10')]
    >>> [words for _, words in factors(-1.2, 4.0, 6)]
    ['0.1', '1', '10', '100', '1,000', '10\u2074']
    """
    fine = [k + math.log10(s) for k in range(math.floor(low), math.ceil(high)) for s in (1, 2, 5)]
    fine = [value for value in [*fine, float(math.ceil(high))] if low <= value <= high]
    if len(fine) <= most:
        return [(value, f"{float(f'{10.0**value:.1g}'):g}") for value in fine]
    return [(float(k), power(k)) for k in powers(low, high, most)]


def power(exponent: int) -> str:
    """
    >>> power(0), power(-1), power(12)
    ('1', '0.1', '10\u00b9\u00b2')
    """
    if -2 <= exponent <= 3:
        return f"{10.0**exponent:,g}"
    return "10" + str(exponent).translate(SUPERSCRIPTS)


def shortened(words: str, letters: int) -> str:
    """A text that fits a column; the middle is left out, because names differ at both ends.

    >>> shortened("short", 9), shortened("a-very-long-name", 9)
    ('short', 'a-ve\u2026name')
    """
    if len(words) <= letters:
        return words
    first = (letters - 1 + 1) // 2
    return f"{words[:first]}\u2026{words[len(words) - (letters - 1 - first) :]}"
