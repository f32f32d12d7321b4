"""The rows of a lab figure as the browser gets them: short names, finite numbers, nothing that can't be drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Axis, Cell, Figure
from truerisk.words import magnitude, magnitude_percent

# Names of the fields in the browser. An experiment's own names never become part of a Vega-Lite expression.
X, Y, SERIES, FACET, LOW, HIGH = "x", "y", "s", "f", "l", "h"


@dataclass(frozen=True)
class Column:
    """A field of the rows: its name there, its name in the browser, what people read, and whether in percent.

    ``text``: the name in the browser of the number as text, where its rounding matters.
    """

    field: str
    key: str
    title: str
    percent: bool = False
    text: str = ""


@dataclass(frozen=True)
class Drawable:
    """What of a figure can be drawn.

    `orders` has the values of the axes whose values stand side by side; `left_out` counts the rows that a
    logarithmic axis has no place for.
    """

    rows: list[dict[str, Any]]
    columns: list[Column]
    orders: dict[str, list[str]]
    left_out: int

    def values(self, key: str) -> list[Any]:
        """The different values of a field, in order of appearance."""
        return list(dict.fromkeys(row[key] for row in self.rows if row.get(key) is not None))

    def numbers(self, *keys: str) -> list[float]:
        """All numbers in these fields."""
        return [row[key] for row in self.rows for key in keys if row.get(key) is not None]


def words(value: Cell) -> str:
    """A cell as people read it.

    >>> words(1209866), words(0.1 + 0.2), words(3e-9), words(True), words(None), words("a")
    ('1,209,866', '0.3', '3e-09', 'yes', '\u2013', 'a')
    """
    if value is None:
        return "\u2013"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3e}"
    return " ".join(str(value).split())  # U+2028 and its kind would end a line of Vega-Lite's expressions


def separate(axis: Axis, figure: Figure) -> bool:
    """Whether the values of an axis stand side by side instead of on a continuous scale."""
    return axis.ordinal or figure.mark == "heat" or (figure.mark == "bar" and axis is figure.x)


def drawable(figure: Figure) -> Drawable:
    """The rows that can be drawn, under short names; those without a number where one is needed are left out."""
    if figure.mark == "heat" and (figure.series is None or figure.rules):
        raise TrueriskError(f"the heat map {figure.name} needs a series to colour by, and has no place for rules.")
    columns = _columns(figure)
    axes = {X: figure.x, Y: figure.y}
    orders = {key: _order(figure, axis) for key, axis in axes.items() if separate(axis, figure)}
    needed = {X, Y, SERIES, FACET}
    numbers = {LOW, HIGH, SERIES} if figure.mark == "heat" else {LOW, HIGH}
    numbers |= axes.keys() - orders.keys()
    log = {key for key in axes.keys() - orders.keys() if axes[key].log}
    rows, left_out = [], 0
    for row in figure.rows:
        drawn: dict[str, Any] = {column.key: row.get(column.field) for column in columns}
        drawn |= {key: _number(drawn[key]) for key in numbers & drawn.keys()}
        if any(drawn[key] is None for key in numbers & needed & drawn.keys()):
            continue
        if any(drawn[key] <= 0 for key in log):
            left_out += 1
            continue
        texts = (needed - numbers) & drawn.keys()
        plain = {key: words(value) if key in texts else _plain(value) for key, value in drawn.items()}
        rows.append(plain | _rounded_up(columns, drawn, row.get(figure.series or "") in figure.observed))
    return Drawable(rows, columns, orders, left_out)


def _columns(figure: Figure) -> list[Column]:
    """The fields that the figure draws, then those that only the tooltip shows."""
    columns = [
        *([Column(figure.facet, FACET, _spaced(figure.facet))] if figure.facet else []),
        *([Column(figure.series, SERIES, figure.series_title or _spaced(figure.series))] if figure.series else []),
        _of_axis(figure.x, figure.x.field, X, figure.x.title),
        _of_axis(figure.y, figure.y.field, Y, figure.y.title),
        *([_of_axis(figure.y, figure.low, LOW, "from")] if figure.low else []),
        *([_of_axis(figure.y, figure.high, HIGH, "to")] if figure.high else []),
    ]
    drawn = {column.field for column in columns}
    others = dict.fromkeys(field for row in figure.rows for field in row if field not in drawn)
    return columns + [Column(field, f"e{i}", _spaced(field)) for i, field in enumerate(others)]


def _of_axis(axis: Axis, field: str, key: str, title: str) -> Column:
    return Column(field, key, title, axis.percent, f"{key}t" if axis.bound else "")


def _rounded_up(columns: list[Column], drawn: dict[str, Any], observed: bool) -> dict[str, str]:
    """The bounds of a row as text, each end of a range of bounds included; nothing for what was observed."""
    bounds = [c for c in columns if c.text and _number(drawn[c.key]) is not None and not observed]
    return {c.text: (magnitude_percent if c.percent else magnitude)(drawn[c.key]) for c in bounds}


def _order(figure: Figure, axis: Axis) -> list[str]:
    """The values of an axis side by side: as they appear, or by size if only bars and squares made them separate."""
    values: list[Any] = list(dict.fromkeys(row.get(axis.field) for row in figure.rows))
    if not axis.ordinal and all(_number(value) is not None for value in values):
        values.sort()
    return list(dict.fromkeys(map(words, values)))


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """As JSON knows it: an infinite number or a list of a tooltip becomes text."""
    return value if value is None or isinstance(value, bool | int) or _number(value) is not None else str(value)


def _spaced(field: str) -> str:
    return field.replace("_", " ")
