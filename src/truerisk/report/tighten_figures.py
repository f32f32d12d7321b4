"""The figures of ``truerisk tighten``, drawn by hand as SVG: no library, no script, colors from the style sheet.

Each is drawn for a width in pixels, so that letters keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from truerisk.pacbayes.columns import COLUMNS
from truerisk.pacbayes.rescaling import RescalingReport
from truerisk.pacbayes.rescaling_words import number
from truerisk.report.labels import apart, text_width
from truerisk.report.svg import dot, factors, line, rect, shortened, svg, text

PHONE = 500  # pixels: narrower figures have smaller margins
SIZE, LINE = 13, 17  # pixels: letters, and the distance of two labels
NAMED, NUMBERED, FLAT = 230, 84, 19  # pixels of a column: room for names of marks, for numbers, for slanted labels
LOGARITHMIC = 4.0  # the largest bound of a linear axis
REACH = 7  # half a mark


@dataclass(frozen=True)
class Axis:
    """From a value to a place between ``bottom`` and ``top``; values beyond the ends are drawn at the ends."""

    low: float
    high: float
    top: float
    bottom: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, self._within(value)))
        return self.bottom - (self.bottom - self.top) * (at - low) / (high - low)

    def _within(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Values and their words."""
        if self.log:
            return [(10.0**log, words) for log, words in factors(math.log10(self.low), math.log10(self.high), most)]
        span = self.high - self.low
        sizes = (s * 10.0**k for k in range(math.floor(math.log10(span)) - 2, 400) for s in (1, 2, 5))
        step = next(size for size in sizes if span / size <= most)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        marks = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return [(k * step, f"{k * step:,.{digits}f}" if self.high < 1e7 else f"{k * step:.3g}") for k in marks]


def bounds_figure(reports: Sequence[RescalingReport], width: int) -> str:
    """A column for each network: the bound before (circle) and after rescaling (diamond), tuned and both as ticks."""
    phone = width < PHONE
    left, right, top, height = (40, width - 74, 10, 250) if phone else (48, width - 92, 10, 290)
    axis = _bound_axis([value for report in reports for value in report.bound.values()], top, top + height)
    column = (right - left) / len(reports)
    parts = frame(axis, left, right)
    parts += [
        text(right + 8, axis(1) - 8, "vacuous", "soft", size=SIZE - phone),
        text(right + 8, axis(1) + 18, "informative", "soft", size=SIZE - phone),
    ]
    for place, report in enumerate(reports):
        named = column >= NAMED
        x = left + column * (place + 0.5) - (40 if named else 0)
        parts += _marks(report, axis, x, column)
        if named:
            parts += _named(report, axis, x)
        elif column >= NUMBERED:
            parts += _numbered(report, axis, x)
    names, below = _names(reports, left, column, axis.bottom)
    return svg([*parts, *names], width, axis.bottom + below)


def _bound_axis(bounds: Sequence[float], top: float, bottom: float) -> Axis:
    finite = [value for value in bounds if math.isfinite(value)]
    most = max(1.0, *finite) if finite else 1.0
    if most <= LOGARITHMIC:
        return Axis(0.0, max(1.15, 1.08 * most), top, bottom)
    return Axis(min(1.0, *finite) / 1.4, most * 1.25, top, bottom, log=True)


def frame(axis: Axis, left: float, right: float) -> list[str]:
    """The region above 1, grid lines with their numbers, and the line at 1."""
    parts = [rect(left, axis.top, right - left, axis(1) - axis.top, "vacuous")] if axis(1) > axis.top else []
    for value, words in axis.ticks():
        parts += [
            line(left, axis(value), right, axis(value), "grid"),
            text(left - 7, axis(value) + 4.5, words, "soft", anchor="end", size=SIZE),
        ]
    return [*parts, line(left, axis(1), right, axis(1), "one")]


def _marks(report: RescalingReport, axis: Axis, x: float, column: float) -> list[str]:
    before, after = axis(report.bound["original"]), axis(report.bound["rescaled"])
    aside, half = (REACH + 2, 7) if column >= 34 else (-REACH, REACH)
    ticks = [
        line(x + aside, axis(report.bound[each]), x + aside + 2 * half, axis(report.bound[each]), f"tick {each}")
        for each in ("tuned", "both")
    ]
    size = REACH if column >= FLAT else 4.5
    return [
        line(x, before, x, after, "joined"),
        *ticks,
        dot(x, before, "original", size - 0.5),
        diamond(x, after, "rescaled", size),
    ]


def diamond(x: float, y: float, kind: str, reach: float = REACH) -> str:
    r = 1.15 * reach
    return f'<path class="{kind}" d="M{x:.2f},{y - r:.2f}l{r:.2f},{r:.2f}l{-r:.2f},{r:.2f}l{-r:.2f},{-r:.2f}z"/>'


def _named(report: RescalingReport, axis: Axis, x: float) -> list[str]:
    """Each mark with its name and number at the right, joined to it."""
    columns = sorted(COLUMNS, key=lambda each: (axis(report.bound[each]), COLUMNS.index(each)))
    wanted = [axis(report.bound[each]) for each in columns]
    parts = []
    for each, at, place in zip(columns, wanted, apart(wanted, LINE, axis.top + 8, axis.bottom - 8), strict=True):
        start = x + (REACH + 2 if each in ("original", "rescaled") else REACH + 18)
        parts += [
            line(start, at, x + 40, place, "leader"),
            text(x + 44, place + 4.5, f"{each} {number(report.bound[each])}", "", size=SIZE),
        ]
    return parts


def _numbered(report: RescalingReport, axis: Axis, x: float) -> list[str]:
    """The numbers before and after at the left of their marks."""
    columns = sorted(("original", "rescaled"), key=lambda each: axis(report.bound[each]))
    wanted = [axis(report.bound[each]) for each in columns]
    places = apart(wanted, LINE - 2, axis.top + 6, axis.bottom - 6)
    return [
        text(x - REACH - 5, place + 4.5, number(report.bound[each]), "", anchor="end", size=SIZE)
        for each, place in zip(columns, places, strict=True)
    ]


def _names(
    reports: Sequence[RescalingReport], left: float, column: float, bottom: float
) -> tuple[list[str], float]:
    """Names under the columns, and the room that they take: level where they fit, otherwise slanted or upright."""
    level = column >= 64 and all(
        text_width(shortened(report.name, 12), SIZE) <= column - 8 for report in reports
    )
    parts = []
    if level:
        for place, report in enumerate(reports):
            x = left + column * (place + 0.5)
            letters = max(12, int((column - 8) / (0.72 * SIZE)))
            short = shortened(report.name, letters)
            parts += [
                _titled(text(x, bottom + 20, short, "", anchor="middle", size=SIZE), report.name),
                text(x, bottom + 37, _count(report.weights), "soft", anchor="middle", size=SIZE - 1),
            ]
        return [*parts, text(left, bottom + 60, "weights, smallest first", "soft", size=SIZE - 1)], 70
    slant, letters, size = (45, 16, SIZE) if column >= FLAT else (90, 14, min(SIZE - 1, max(9.5, column - 1)))
    for place, report in enumerate(reports):
        x, y = left + column * (place + 0.5) + (4 if slant == 45 else size * 0.35), bottom + 14
        label = text(x, y, shortened(report.name, letters), "", anchor="end", size=size)
        parts.append(_titled(label.replace("<text ", f'<text transform="rotate(-{slant} {x:.1f} {y:.1f})" ', 1), report.name))
    longest = max(text_width(shortened(report.name, letters), size) for report in reports)
    below = 24 + longest * (0.72 if slant == 45 else 1.0)
    return [*parts, text(left, bottom + below + 14, "networks, fewest weights first", "soft", size=SIZE - 1)], below + 24


def _count(weights: int) -> str:
    """
    >>> _count(25450), _count(11181642)
    ('25,450', '11.2M')
    """
    return f"{weights:,}" if weights < 10**7 else f"{weights / 1e6:.1f}M"


def _titled(label: str, full: str) -> str:
    """A text with its full words as a tooltip."""
    return label.replace("</text>", f"<title>{escape(full)}</title></text>")
