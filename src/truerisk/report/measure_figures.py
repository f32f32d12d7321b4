"""Figures of a network's measures: bounds next to the observed error, its margins, its layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

import numpy as np

from truerisk.measures.margin_shapes import Bin, histogram, log_histogram
from truerisk.measures.theorems import Bound
from truerisk.measures.words import quantity
from truerisk.report.svg import dot, factors, line, power, powers, rect, shortened, svg, text
from truerisk.words import magnitude

PHONE = 500  # pixels: narrower figures have names above their bars
NAMES, DIGITS = 230, 84  # pixels for the names left of the bars, and for the numbers right of them
ROW, BAR = 23.0, 13  # pixels of a bound: all of it, its bar
HIGHEST = 330  # pixels of all bars together, so that a screen of 720 holds the chart
LAYER_NAMES, LAYER_ROW, GAP = 120, 20, 26
NOTE = 31  # letters in a line of a note below a name
LETTER = 7.8  # pixels of a letter of the numbers in a chart of ratios
BINS = 30
SMALLEST = 1e-4  # error rate that an axis shows
PANEL = 170  # pixels: height of a histogram


@dataclass(frozen=True)
class Mark:
    """An observed error rate for the chart of bounds: in words, and the ends of its interval (None: none)."""

    rate: float
    words: str
    interval: tuple[float, float] | None = None

    @property
    def least(self) -> float:
        """The smallest positive number to show; a logarithmic axis never reaches 0."""
        low, high = self.interval or (self.rate, self.rate)
        return max(low or high / 4, SMALLEST)


def bounds_figure(bounds: Sequence[Bound], mark: Mark | None, width: int) -> str:
    """Bars on a logarithmic axis from 1, above which a bound says nothing, to each bound; the observed error marked."""
    phone = width < PHONE
    row = 38.0 if phone else max(16.0, min(ROW, HIGHEST / len(bounds)))
    left, top = (8.0, 44.0) if phone else (float(NAMES), 46.0)
    right, bottom = width - DIGITS, top + row * len(bounds)
    places = [log10(bound) for bound in bounds]
    low = min([-1.0, *places, *([] if mark is None else [math.log10(mark.least) - 0.15])])
    high = max(1.0, *places)
    ticks = powers(low, high, max(3, int(right - left) // 60))

    def at(power_of_ten: float) -> float:
        return left + (right - left) * (power_of_ten - low) / (high - low)

    spans = [(top + row * k + row - BAR - 7, top + row * (k + 1) - 1) for k in range(len(bounds))]
    spans = spans if phone else [(top, bottom)]  # on a phone, no line runs through a name
    parts = [line(at(tick), *_span(span, at(tick)), "grid") for tick in ticks if tick for span in spans]
    parts += [text(at(tick), bottom + 18, power(tick), "soft", anchor="middle", size=13) for tick in ticks]
    parts.append(
        text(
            right,
            bottom + 38,
            "bound on the true risk" + ("" if phone else " (logarithmic axis)"),
            "soft",
            anchor="end",
            size=13,
        )
    )
    for place, (bound, x) in enumerate(zip(bounds, places, strict=True)):
        y = top + row * place + (row - BAR - 4 if phone else (row - BAR) / 2)
        parts.append(rect(at(0), y, at(x) - at(0), BAR, "bad" if bound.vacuous else "good"))
        name = shortened(bound.name, 28 if not phone else 34)
        parts.append(text(0 if phone else left - 10, y - 5 if phone else y + BAR - 2, name, "name",
                          anchor="start" if phone else "end"))  # fmt: skip
        parts.append(text(max(at(x), at(0)) + 6, y + BAR - 2, magnitude(bound.value, bound.log), "number", size=13))
    parts += [line(at(0), *_span(span, at(0)), "one") for span in spans]
    parts.append(
        text(
            at(0) + 5,
            top - 8,
            "1: vacuous from here" if phone else "1: from here on a bound says nothing",
            "soft",
            size=13,
        )
    )
    if mark is not None:
        parts = _mark(mark, at, low, top, bottom, spans) + parts
    return svg(parts, width, bottom + 46)


def _span(span: tuple[float, float], x: float) -> tuple[float, float, float]:
    """The rest of a vertical line that begins at x: its start, and its end."""
    return span[0], x, span[1]


def _mark(
    mark: Mark,
    at: Callable[[float], float],
    low: float,
    top: float,
    bottom: float,
    spans: Sequence[tuple[float, float]],
) -> list[str]:
    """The observed error: a line, its interval as a band; a rate of 0 is beyond every logarithmic axis."""
    x = at(max(low, math.log10(mark.rate))) if mark.rate > 0 else at(low)
    parts = []
    if mark.interval is not None:
        start, end = (at(max(low, math.log10(v))) if v > 0 else at(low) for v in mark.interval)
        parts += [rect(start, span[0], end - start, span[1] - span[0], "band") for span in spans]
    parts += [line(x, *_span(span, x), "observed") for span in [(top - 22, top), *spans]]
    words = mark.words if mark.rate > 0 else f"\u2190 {mark.words}"
    return [*parts, text(x + 5, top - 26, words, "strong")]


def log10(bound: Bound) -> float:
    """Of its value; infinity, where nothing more is known, becomes the end of floats."""
    return float(np.clip(bound.natural_log / math.log(10), -308, 1e6))


def margins_figure(own: np.ndarray, other: np.ndarray | None, axis: str, width: int) -> str:
    """The share of examples at each margin: one network on an even axis, or two on a common logarithmic one."""
    if other is None:
        bins, _ = histogram(own, BINS)
        low, high = min(b.start for b in bins), max(b.end for b in bins)
        ticks = [(v, quantity(v)) for v in _steps(low, high, max(3, width // 110))]
        return _panel([(bins, "")], low, high, ticks, axis, width)
    both = log_histogram([own, other], BINS)
    ends = [b for bins in both for b in bins]
    low, high = min(b.start for b in ends), max(b.end for b in ends)
    marks = powers(low, high, max(3, width // 90))
    ticks = [(float(v), power(v)) for v in marks]
    return _panel([(both[0], "own"), (both[1], "random")], low, high, ticks, f"{axis} (logarithmic axis)", width)


def _panel(
    shown: Sequence[tuple[Sequence[Bin], str]], low: float, high: float, ticks: Sequence[tuple[float, str]], axis: str,
    width: int,
) -> str:  # fmt: skip
    left, right, top = 44.0, width - 14.0, 8.0
    bottom = top + PANEL
    most = max(b.share for bins, _ in shown for b in bins)
    spread = (high - low) or 1.0

    def at(value: float) -> float:
        return left + (right - left) * (value - low) / spread

    shares = _steps(0.0, most, 4)
    parts = [line(left, bottom - PANEL * s / most, right, bottom - PANEL * s / most, "grid") for s in shares]
    parts += [
        text(left - 6, bottom - PANEL * s / most + 4, f"{100 * s:g}%", "soft", anchor="end", size=13) for s in shares
    ]
    for bins, kind in shown:
        for each in bins:
            tall, fill = PANEL * each.share / most, kind or ("bad" if each.wrong else "own")
            parts.append(rect(at(each.start), bottom - tall, at(each.end) - at(each.start), tall, f"bin {fill}"))
    parts += [text(at(x), bottom + 18, words, "soft", anchor="middle", size=13) for x, words in ticks]
    parts.append(text(right, bottom + 38, axis, "soft", anchor="end", size=13))
    return svg(parts, width, bottom + 46)


def _steps(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two, evenly apart.

    >>> _steps(0.0, 0.31, 4), _steps(-2.0, 11.0, 5)
    ([0.0, 0.1, 0.2, 0.3], [0.0, 5.0, 10.0])
    """
    if not high > low:
        return [low]
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(k * size for k in (1, 2, 5, 10, 20) if (high - low) / (k * size) <= most)
    return [float(f"{step * k:.6g}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def layers_figure(panels: Mapping[str, Mapping[str, float]], width: int) -> str:
    """For each measure a bar for each layer, in the order in which they run."""
    columns = 2 if width >= 600 and len(panels) > 1 else 1
    each = (width - (columns - 1) * GAP) / columns
    parts, y = [], 0.0
    names = list(panels)
    for start in range(0, len(names), columns):
        beside = names[start : start + columns]
        for column, name in enumerate(beside):
            parts += _layer_bars(name, panels[name], column * (each + GAP), y, each)
        y += 24 + LAYER_ROW * max(len(panels[name]) for name in beside) + GAP
    return svg(parts, width, y - GAP)


def _layer_bars(title: str, layers: Mapping[str, float], x: float, y: float, width: float) -> list[str]:
    most = max(layers.values())
    room = width - LAYER_NAMES - DIGITS
    parts = [text(x, y + 14, title, "name")]
    for place, (name, value) in enumerate(layers.items()):
        top = y + 24 + LAYER_ROW * place
        parts.append(text(x, top + BAR - 2, shortened(name, 15), "soft", size=13))
        parts.append(rect(x + LAYER_NAMES, top, room * value / most, BAR, "own"))
        parts.append(text(x + LAYER_NAMES + room * value / most + 5, top + BAR - 2, quantity(value), "number", size=13))
    return parts


@dataclass(frozen=True)
class Dot:
    """A row of the chart of ratios: log10 of the ratio, the ratio in words, and how it is colored."""

    name: str
    orders: float
    words: str
    kind: str  # class of its color: good, bad, own (A), other (B), or even
    note: str = ""  # below the name, where there is room


def ratios_figure(rows: Sequence[Dot], axis: str, one: str, width: int) -> str:
    """A dot at 1 and a dot at the ratio for each measure, joined by a line, on a logarithmic axis."""
    phone = width < PHONE
    lines = max(len(wrap(each.note, NOTE)) for each in rows)
    left, top, row = (14.0, 30.0, 44) if phone else (float(NAMES), 30.0, 38 + 14 * max(0, lines - 1))
    right, bottom = width - 20 - LETTER * max(len(each.words) for each in rows), top + row * len(rows)
    orders = [each.orders for each in rows]
    low, high = min(-0.35, *orders) - 0.1, max(0.35, *orders)
    ticks = factors(low, high, max(3, int(right - left) // 45))

    def at(value: float) -> float:
        return left + (right - left) * (value - low) / (high - low)

    spans = (
        [(top + row * k + row - 23, top + row * (k + 1)) for k in range(len(rows))] if phone else [(top - 4, bottom)]
    )
    parts = [
        line(at(tick), *_span(span, at(tick)), "one" if not tick else "grid") for tick, _ in ticks for span in spans
    ]
    parts += [text(at(tick), bottom + 18, words, "soft", anchor="middle", size=13) for tick, words in ticks]
    parts.append(text(right, bottom + 38, axis, "soft", anchor="end", size=13))
    parts.append(text(at(0) + (0 if phone else 5), top - 10, one, "soft", size=13))
    for place, each in enumerate(rows):
        y = top + row * place + (row - 12 if phone else row / 2)
        parts.append(line(at(0), y, at(each.orders), y, f"join {each.kind}"))
        parts.append(dot(at(0), y, "hollow", 5))
        parts.append(dot(at(each.orders), y, each.kind, 7))
        if phone:
            parts.append(text(0, y - 14, shortened(each.name, 34), "name"))
        else:
            parts.append(text(left - 14, y - 1 if each.note else y + 5, shortened(each.name, 28), "name", anchor="end"))
            parts += [
                text(left - 14, y + 14 + 14 * k, words, "soft", anchor="end", size=12)
                for k, words in enumerate(wrap(each.note, NOTE))
            ]
        parts.append(text(max(at(each.orders), at(0)) + 12, y + 5, each.words, "number"))
    return svg(parts, width, bottom + 46)
