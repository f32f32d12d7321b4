"""Axes of lab figures: domains, ticks, and labels that fit."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from truerisk.lab.figure import Axis, Figure
from truerisk.report.lab.rows import HIGH, LOW, Drawable, X, Y

LETTER = 0.56  # mean width of a letter, relative to the size of the type
TICK_ROOM = 48  # pixels for the label of a tick on a logarithmic axis
MOST_LINES = 4
EDGE = 14  # pixels between the first or last point and the end of a continuous x axis
ROOM = 0.05  # of the y axis, above and below what is drawn

_NUMBER = (
    "datum.value == 0 || (abs(datum.value) >= 1e-4 && abs(datum.value) < 1e7)"
    " ? format(datum.value, ',.10~r') : format(datum.value, '.3~e')"
)
_PERCENT = "format(100 * datum.value, ',.10~r') + '%'"


def x_encoding(figure: Figure, drawn: Drawable, width: float, font: int) -> dict[str, Any]:
    """The x channel of all layers of a panel ``width`` pixels wide."""
    title = wrapped(figure.x.title, width, font)
    if X in drawn.orders:
        return {
            "field": X,
            "type": "ordinal",
            "sort": drawn.orders[X],
            "axis": {"title": title, "grid": False, **_side_by_side(drawn.orders[X], width, font)},
            "scale": {"paddingInner": 0.28, "paddingOuter": 0.14} if figure.mark == "bar" else {},
        }
    scale: dict[str, Any] = {"nice": False, "zero": figure.x.zero, "padding": EDGE}
    numbers = drawn.numbers(X)
    if figure.x.log:
        scale = {"type": "log", "nice": False, "padding": EDGE}
    return {
        "field": X,
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": title, **_ticks(figure.x, numbers, width)},
    }


def y_encoding(figure: Figure, drawn: Drawable, height: float, ends: tuple[float, float]) -> dict[str, Any]:
    """The y channel of all layers. Its title stands above the figure, where it can be read without a turn."""
    if Y in drawn.orders:
        order = drawn.orders[Y] if figure.y.ordinal else drawn.orders[Y][::-1]  # numbers rise upwards
        return {"field": Y, "type": "ordinal", "sort": order, "axis": {"title": None, "grid": False, "labelLimit": 220}}
    scale: dict[str, Any] = {"domain": list(ends), "nice": False, "zero": False}
    if figure.y.log:
        scale = {"type": "log", "domain": list(ends), "nice": False}
    axis = _ticks(figure.y, ends, 2 * height)
    return {"field": Y, "type": "quantitative", "scale": scale, "axis": {"title": None, **axis}}


def y_domain(figure: Figure, drawn: Drawable) -> tuple[float, float]:
    """From where to where the y axis goes: all that is drawn, the rules included, and a little room."""
    values = drawn.numbers(Y, LOW, HIGH) + [rule.value for rule in figure.rules]
    if figure.y.log:
        positive = [value for value in values if value > 0]
        low, high = min(positive), max(positive)
        room = max((high / low) ** ROOM, 1.05)
        return (10.0 ** math.floor(math.log10(low)) if figure.mark == "bar" else low / room), high * room
    low, high = min(values), max(values)
    if figure.mark == "bar" or figure.y.zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = ROOM * ((high - low) or abs(high) or 1.0)
    return (low if low == 0 and (figure.mark == "bar" or figure.y.zero) else low - room), high + room


def _ticks(axis: Axis, numbers: Sequence[float], length: float) -> dict[str, Any]:
    drawn: dict[str, Any] = {"labelExpr": _PERCENT if axis.percent else _NUMBER}
    if axis.log:
        return drawn | {"values": log_ticks(numbers, length)}
    if all(float(number).is_integer() for number in numbers) and not axis.percent:
        drawn["tickMinStep"] = 1
    return drawn | {"tickCount": max(3, min(8, int(length // 90)))}


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
    finer = [m * 10.0**k for k in decades for m in (1, 2, 5) if low <= m * 10.0**k <= high]
    return finer if len(finer) > 1 else _even(low, high)


def _short(value: float) -> bool:
    """Whether a number is quickly read: whole, or of at most three digits."""
    return float(value).is_integer() or float(f"{value:.3g}") == value


def _even(low: float, high: float) -> list[float]:
    """A few round numbers at even distances."""
    if low == high:
        return [low]
    step = 10.0 ** math.floor(math.log10(high - low))
    step = next(step * part for part in (1, 0.5, 0.2) if (high - low) / (step * part) >= 2)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _side_by_side(labels: Sequence[str], width: float, font: int) -> dict[str, Any]:
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
    return textwrap.wrap(text, max(1, int(width / (LETTER * font))), break_long_words=False) or [""]
