"""The figures of ``truerisk tighten``, drawn by hand as SVG: no library, no script, colors from the style sheet.

Each is drawn for a width in pixels, so that letters keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from truerisk.pacbayes.columns import COLUMNS
from truerisk.pacbayes.rescaling import RescalingReport
from truerisk.pacbayes.rescaling_words import number
from truerisk.report.labels import apart, text_width
from truerisk.report.svg import dot, factors, line, rect, shortened, svg, text

PHONE = 500  # pixels: narrower figures have smaller margins
SIZE, LINE = 13, 17  # pixels: letters, and the distance of two labels
NAMED, NUMBERED, FLAT = 210, 84, 19  # pixels of a column: room for names of marks, for numbers, for slanted labels
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
    left, right, top, height = (36, width - 84, 10, 250) if phone else (48, width - 92, 10, 270)
    column = (right - left) / len(reports)
    room = 1.45 if column >= NAMED else 1.2  # above the line at 1: for the labels of marks there
    axis = _bound_axis([value for report in reports for value in report.bound.values()], room, top, top + height)
    parts = frame(axis, left, right)
    parts += [
        text(right + 6, axis(1) - 8, "vacuous", "soft", size=SIZE - phone),
        text(right + 6, axis(1) + 18, "informative", "soft", size=SIZE - phone),
    ]
    places = [left + column * (k + 0.5) - (40 if column >= NAMED else 0) for k in range(len(reports))]
    for x, report in zip(places, reports, strict=True):
        parts += _marks(report, axis, x, column)
        if column >= NAMED:
            parts += _named(report, axis, x)
        elif column >= NUMBERED:
            parts += _numbered(report, axis, x)
    names, below = _names(reports, places, column, axis.bottom, right)
    return svg([*parts, *names], width, axis.bottom + below)


def _bound_axis(bounds: Sequence[float], room: float, top: float, bottom: float) -> Axis:
    finite = [value for value in bounds if math.isfinite(value)]
    most = max(1.0, *finite) if finite else 1.0
    if most <= LOGARITHMIC:
        return Axis(0.0, max(room, 1.08 * most), top, bottom)
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
    parts = []
    for each, at, place in spread(report.bound, COLUMNS, axis, LINE):
        start = x + (REACH + 2 if each in ("original", "rescaled") else REACH + 18)
        parts += [
            line(start, at, x + 40, place, "leader"),
            text(x + 44, place + 4.5, f"{each} {number(report.bound[each])}", "", size=SIZE),
        ]
    return parts


def _numbered(report: RescalingReport, axis: Axis, x: float) -> list[str]:
    """The numbers before and after at the left of their marks."""
    return [
        text(x - REACH - 5, place + 4.5, number(report.bound[each]), "", anchor="end", size=SIZE)
        for each, _, place in spread(report.bound, ("original", "rescaled"), axis, LINE - 2)
    ]


def spread(
    values: Mapping[str, float], columns: Sequence[str], axis: Axis, gap: float
) -> list[tuple[str, float, float]]:
    """(column, place of its mark, place of its label) from the top: labels keep apart, and off the line at 1."""
    ranked = sorted(columns, key=lambda each: (axis(values[each]), COLUMNS.index(each)))
    found, one = [], axis(1)
    for above in (True, False):
        side = [each for each in ranked if (axis(values[each]) <= one + 0.5) == above]
        low, high = (axis.top + 8, one - 10) if above else (one + 10, axis.bottom - 6)
        marks = [axis(values[each]) for each in side]
        found += list(zip(side, marks, apart(marks, gap, low, high), strict=True))
    return found


def _names(
    reports: Sequence[RescalingReport], places: Sequence[float], column: float, bottom: float, right: float
) -> tuple[list[str], float]:
    """Names under the columns, and the room that they take: level where they fit, otherwise slanted or upright."""
    if column >= 64 and all(text_width(shortened(report.name, 12), SIZE) <= column - 8 for report in reports):
        letters = max(12, int((column - 8) / (0.72 * SIZE)))
        return _level(reports, places, letters, bottom, right), 46
    slant, letters, size = (45, 14, SIZE) if column >= FLAT else (90, 14, min(SIZE - 1, max(9.5, column - 1)))
    names = [shortened(report.name, letters) for report in reports]
    if slant == 45:
        names = [_within(name, x) for name, x in zip(names, places, strict=True)]
    parts = []
    for x, report, name in zip(places, reports, names, strict=True):
        x, y = x + (4 if slant == 45 else size * 0.35), bottom + 14
        label = text(x, y, name, "", anchor="end", size=size)
        turned = label.replace("<text ", f'<text transform="rotate(-{slant} {x:.1f} {y:.1f})" ', 1)
        parts.append(_titled(turned, report.name))
    longest = max(text_width(name, size) for name in names)
    return parts, 22 + longest * (0.72 if slant == 45 else 1.0)


def _within(name: str, room: float) -> str:
    """A slanted name that ends below its column, shortened where it would leave the figure at the left."""
    fits = (letters for letters in range(len(name), 3, -1) if text_width(shortened(name, letters), SIZE) * 0.72 <= room)
    return shortened(name, next(fits, 3))


def _level(
    reports: Sequence[RescalingReport], places: Sequence[float], letters: int, bottom: float, right: float
) -> list[str]:
    """Names in one row, and below them the numbers of weights."""
    parts = [text(right + 8, bottom + 37, "weights", "soft", size=SIZE - 1)]
    for x, report in zip(places, reports, strict=True):
        label = text(x, bottom + 20, shortened(report.name, letters), "", anchor="middle", size=SIZE)
        parts += [
            _titled(label, report.name),
            text(x, bottom + 37, _count(report.weights), "soft", anchor="middle", size=SIZE - 1),
        ]
    return parts


def _count(weights: int) -> str:
    """
    >>> _count(25450), _count(11181642)
    ('25,450', '11.2M')
    """
    return f"{weights:,}" if weights < 10**7 else f"{weights / 1e6:.1f}M"


def _titled(label: str, full: str) -> str:
    """A text with its full words as a tooltip."""
    return label.replace("</text>", f"<title>{escape(full)}</title></text>")
