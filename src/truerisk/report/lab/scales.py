"""Axes of lab figures: domains, ticks, and labels that fit."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise

from truerisk.lab.figure import Axis, Figure
from truerisk.lab.marks import Bars, Contour, Histogram, Map, Path, Polygons, Regions, Slope, Surface
from truerisk.lab.plain import tame
from truerisk.lab.units import PERCENT, POINTS, Unit
from truerisk.report.lab.keys import BOTTOM, HIGH, LEFT, LOW, RIGHT, TOP, Json, X, Y
from truerisk.report.lab.rows import Drawable

LETTER = 0.56  # mean width of a letter, relative to the size of the type
TICK_ROOM = 48  # pixels for the label of a tick on a logarithmic axis
MOST_LINES = 4
SIDE, NAMED_SIDE = 0.35, 0.12  # of the distance between two states of a slope: room on both sides, less for names
EDGE = 14  # pixels between the first or last point and the end of a continuous x axis
ROOM = 0.05  # of the y axis, above and below what is drawn
SMALL, LARGE = 1e-3, 1e6  # a logarithmic axis that leaves this range is labeled in powers of ten throughout
FULL = (Map, Regions, Contour, Surface, Histogram)  # marks that fill their panel to its edges

_NUMBER = "format(datum.value, ',.10~r')"
_PERCENT = "format(100 * datum.value, ',.10~r') + '%'"
_POINTS = "format(100 * datum.value, ',.10~r')"
_DIGITS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"


def labels(unit: Unit | None) -> str:
    """How the numbers of an axis or a ramp of colors are written."""
    return _NUMBER if unit is None else {PERCENT: _PERCENT, POINTS: _POINTS}.get(unit, _NUMBER)


def slope_places(count: int, width: float, named: bool) -> tuple[float, float]:
    """Where the first and the last state of a slope stand; names at the ends of lines stand right of the panel.

    >>> slope_places(2, 170, named=False), slope_places(2, 124, named=True)
    ((35.0, 135.0), (12.0, 112.0))
    """
    side = NAMED_SIDE if named else SIDE
    step = width / (count - 1 + 2 * side)
    return side * step, width - side * step


def x_encoding(figure: Figure, drawn: Drawable, width: float, font: int, named: bool = False) -> Json:
    """The x channel of all layers of a panel ``width`` pixels wide; ``named``: lines have names at their ends."""
    title = wrapped(titled(figure.x), width, font)
    if X in drawn.orders:
        scale: Json = {"paddingInner": 0.28, "paddingOuter": 0.14} if isinstance(figure.mark, Bars) else {}
        if isinstance(figure.mark, Slope):
            scale = {"type": "point", "padding": NAMED_SIDE if named else SIDE}
        return {
            "field": X,
            "type": "ordinal",
            "sort": drawn.orders[X],
            "axis": {"title": title, "grid": False, **_side_by_side(drawn.orders[X], width, font)},
            "scale": scale,
        }
    numbers = x_numbers(figure, drawn)
    full = isinstance(figure.mark, FULL)
    ends = [min(numbers), max(numbers)]
    if isinstance(figure.mark, Path) and figure.mark.equal:
        full = True
        ends = [(sum(ends) - span(figure, drawn)) / 2, (sum(ends) + span(figure, drawn)) / 2]
    scale = {"domain": ends, "nice": False, **({} if full else {"padding": EDGE})}
    scale |= {"type": "log"} if figure.x.log else {"zero": False}
    return {
        "field": X,
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": title, "labelPadding": 9, **ticks(figure.x, numbers, width), **_no_grid(figure)},
    }


def x_numbers(figure: Figure, drawn: Drawable) -> list[float]:
    """All that must have a place on a continuous x axis, upright rules included."""
    upright = [rule.value for rule in figure.rules if rule.upright and (rule.value > 0 or not figure.x.log)]
    zero = [0.0] if figure.x.zero and not figure.x.log else []
    return drawn.numbers(X, LEFT, RIGHT) + upright + zero


def y_encoding(figure: Figure, drawn: Drawable, height: float, ends: tuple[float, float], font: int) -> Json:
    """The y channel of all layers; its title stands at the axis, in as many lines as it needs."""
    title = wrapped(titled(figure.y), height, font)
    if Y in drawn.orders:
        order = drawn.orders[Y] if figure.y.ordinal else drawn.orders[Y][::-1]  # numbers rise upwards
        axis: Json = {"title": title, "grid": False, "labelLimit": 220}
        return {"field": Y, "type": "ordinal", "sort": order, "axis": axis}
    scale: Json = {"domain": list(ends), "nice": False, "zero": False}
    if figure.y.log:
        scale = {"type": "log", "domain": list(ends), "nice": False}
    return {"field": Y, "type": "quantitative", "scale": scale,
            "axis": {"title": title, **ticks(figure.y, ends, 2 * height), **_no_grid(figure)}}  # fmt: skip


def span(figure: Figure, drawn: Drawable) -> float:
    """How much of either axis is shown where a unit is as long on both: all that is drawn, and some room."""
    low, high = y_domain(figure, drawn)
    numbers = drawn.numbers(X)
    return max(high - low, (1 + 2 * ROOM) * (max(numbers) - min(numbers)))


def _no_grid(figure: Figure) -> Json:
    """Lines would cross what fills the panel."""
    full = isinstance(figure.mark, (*FULL, Polygons)) and not isinstance(figure.mark, Histogram)
    return {"grid": False} if full else {}


def titled(axis: Axis) -> str:
    """The title of an axis, with its unit where ticks do not show it.

    >>> titled(Axis("gain", "reduction of the test error", POINTS))
    'reduction of the test error (points)'
    """
    return f"{axis.title} (points)" if axis.unit == POINTS and "point" not in axis.title else axis.title


def y_domain(figure: Figure, drawn: Drawable) -> tuple[float, float]:
    """From where to where the y axis goes: all that is drawn, the rules included, and a little room."""
    values = drawn.numbers(Y, LOW, HIGH, BOTTOM, TOP) + [rule.value for rule in figure.rules if not rule.upright]
    bars = isinstance(figure.mark, Bars | Histogram)
    if figure.y.log:
        positive = [value for value in values if value > 0]
        low, high = min(positive), max(positive)
        room = max((high / low) ** ROOM, 1.05)
        return (10.0 ** math.floor(math.log10(low) - 1e-9) if bars else low / room), high * room
    low, high = min(values), max(values)
    if isinstance(figure.mark, FULL) and not bars:
        return (low, high) if low < high else (low - 0.5, high + 0.5)
    if bars or figure.y.zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = ROOM * ((high - low) or abs(high) or 1.0)
    return (low if low == 0 and (bars or figure.y.zero) else low - room), high + room


def ticks(axis: Axis, numbers: Sequence[float], length: float) -> Json:
    """Where an axis has its labels, all of them in one notation."""
    drawn: Json = {"labelExpr": labels(axis.unit)}
    if axis.log:
        places = log_ticks(numbers, length)
        if axis.unit not in (PERCENT, POINTS) and (min(places) < SMALL or max(places) >= LARGE):
            drawn["labelExpr"] = _powers(places)
        return drawn | {"values": places}
    if all(float(number).is_integer() for number in numbers) and axis.unit not in (PERCENT, POINTS):
        drawn["tickMinStep"] = 1
    largest = max(map(abs, numbers), default=0.0)
    if axis.unit not in (PERCENT, POINTS) and (largest >= LARGE or 0 < largest < SMALL):
        drawn["labelExpr"] = "datum.value == 0 ? '0' : format(datum.value, '.2~e')"
    return drawn | {"tickCount": max(3, min(8, int(length // 90)))}


def _powers(places: Sequence[float]) -> str:
    """The expression that labels these ticks as powers of ten, times 2 or 5 where they are that."""
    return f"{json.dumps([power(place) for place in places])}[indexof({json.dumps(list(places))}, datum.value)]"


def power(value: float) -> str:
    """
    >>> power(1e-5), power(1.0), power(2e7)
    ('10\u207b\u2075', '1', '2\u00b710\u2077')
    """
    exponent = math.floor(math.log10(value) + 1e-9)
    lead = value / 10.0**exponent
    if exponent == 0:
        return f"{lead:.3g}"
    raised = "10" + ("\u207b" if exponent < 0 else "") + "".join(_DIGITS[int(d)] for d in str(abs(exponent)))
    return raised if abs(lead - 1) < 1e-6 else f"{lead:.3g}\u00b7{raised}"


def log_ticks(numbers: Sequence[float], length: float) -> list[float]:
    """Where a logarithmic axis ``length`` pixels long has its labels.

    The numbers themselves if they are short and far enough apart; else powers of 10, or 1, 2 and 5 times those, or
    what a linear axis would have.

    >>> log_ticks([100, 200, 500, 1000], 400)
    [100, 200, 500, 1000]
    >>> log_ticks([0.5123, 30400.7], 400)
    [1.0, 10.0, 100.0, 1000.0, 10000.0]
    >>> log_ticks([1.5123, 12], 400)
    [2.0, 5.0, 10.0]
    >>> log_ticks([28.571, 31.5], 400)
    [29.0, 30.0, 31.0]
    """
    values = sorted(set(numbers))
    low, high = values[0], values[-1]
    if len(values) > 1 and all(map(_short, values)):
        span = math.log(high / low)
        if min(math.log(b / a) for a, b in pairwise(values)) / span * length >= TICK_ROOM:
            return values
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    powers = [10.0**k for k in decades if low <= 10.0**k <= high]
    if len(powers) > 2:
        return powers[:: math.ceil(len(powers) / max(2, length // TICK_ROOM))]
    for multiples in ((1, 2, 5), (1, 5), (1,)):
        finer = [m * 10.0**k for k in decades for m in multiples if low <= m * 10.0**k <= high]
        room = length / math.log(high / low) if low < high else 0.0  # pixels for a factor of e
        if len(finer) > 1 and all(math.log(b / a) * room >= _wide(b) for a, b in pairwise(finer)):
            return finer
    return powers if len(powers) > 1 else _even(low, high)


def _wide(value: float) -> float:
    """Pixels that the label of a tick takes, with some air."""
    return 8 * len(f"{value:,.10g}") + 10


def _short(value: float) -> bool:
    """Whether a number is quickly read: whole, or of at most three digits."""
    return float(value).is_integer() or float(f"{value:.3g}") == value


def _even(low: float, high: float) -> list[float]:
    """A few round numbers at even distances."""
    if low == high:
        return [low]
    step = 10.0 ** math.floor(math.log10(high - low))
    step = next(step * part for part in (1, 0.5, 0.2) if (high - low) / (step * part) >= 2)
    return [float(f"{k * step:.12g}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)] or [low]


def _side_by_side(labels: Sequence[str], width: float, font: int) -> Json:
    """Labels of values side by side: in one line, else in several, else at a slant."""
    room = 0.94 * width / max(len(labels), 1)
    lines = [wrapped(label, room, font) for label in labels]
    if max(map(len, lines)) <= MOST_LINES and all(LETTER * font * len(line) <= room for some in lines for line in some):
        return {"labelAngle": 0, "labelLimit": 0, "labelExpr": in_lines(labels, room, font)}
    return {"labelAngle": -40, "labelAlign": "right", "labelLimit": 150, "labelOverlap": False}


def in_lines(labels: Sequence[str], width: float, font: int) -> str:
    """The expression that breaks these labels into lines of at most ``width`` pixels."""
    lines = [wrapped(label, width, font) for label in labels]
    return f"{json.dumps(lines)}[indexof({json.dumps(labels)}, datum.label)]"


def wrapped(text: str, width: float, font: int) -> list[str]:
    """Text in lines that are at most ``width`` pixels long."""
    lines = textwrap.wrap(text, max(1, int(width / (LETTER * font))), break_long_words=False)
    return list(map(tame, lines)) or [""]
