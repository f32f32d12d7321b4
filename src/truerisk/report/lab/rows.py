"""The rows of a lab figure as the browser gets them: short names, finite numbers, nothing that cannot be drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Axis, Figure
from truerisk.lab.marks import Bars, Histogram, Map, Polygons, Regions, Slope, Surface
from truerisk.lab.plain import clean, number
from truerisk.lab.spelling import spell
from truerisk.lab.units import PERCENT, POINTS
from truerisk.report.lab.averages import averaged
from truerisk.report.lab.keys import (
    DOT,
    FACET,
    HIGH,
    KIND,
    LOW,
    MEAN,
    ONE_SEED,
    SERIES,
    SHAPE,
    SLIDE,
    VALUE,
    X,
    Y,
)
from truerisk.words import magnitude, magnitude_percent

MOST_SERIES = 6  # of names in one panel; more get panels of their own


@dataclass(frozen=True)
class Column:
    """A field of the rows: its name there, its name in the browser, what people read, and how.

    ``text``: the name in the browser of the number as text, where its rounding matters.
    """

    field: str
    key: str
    title: str
    percent: bool = False
    points: bool = False
    text: str = ""


@dataclass(frozen=True)
class Drawable:
    """What of a figure can be drawn.

    `orders` has the values of the axes whose values stand side by side; `left_out` counts the rows that a
    logarithmic axis has no place for, `unfit` those with text or infinity in place of a number; `sentence` says how
    seeds are shown.
    """

    rows: list[dict[str, Any]]
    columns: list[Column]
    orders: dict[str, list[str]]
    left_out: int = 0
    unfit: int = 0
    sentence: str = ""
    slides: list[str] = field(default_factory=list)  # the values of the slider in words
    start: int = 0  # the state at the start
    ordered: bool = False  # the series are numbers, in order
    faceted: bool = False

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row[KIND] == kind]

    def values(self, key: str) -> list[Any]:
        """The different values of a field, in order of appearance."""
        return list(dict.fromkeys(row[key] for row in self.rows if row.get(key) is not None))

    def numbers(self, *keys: str) -> list[float]:
        """All numbers in these fields."""
        found = [row[key] for row in self.rows for key in keys if row.get(key) is not None]
        return [value for value in found if isinstance(value, int | float)]


def words(value: Any) -> str:
    """A cell as people read it.

    >>> words(1209866), words(0.1 + 0.2), words(3e-9), words(True), words(None), words("mlp-1x512")
    ('1,209,866', '0.3', '3e-09', 'yes', '\u2013', 'MLP 1x512')
    """
    if value is None:
        return "\u2013"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3e}"
    return clean(spell(value))


def separate(axis: Axis, figure: Figure) -> bool:
    """Whether the values of an axis stand side by side instead of on a continuous scale."""
    if axis.ordinal or (axis is figure.x and isinstance(figure.mark, Bars | Slope)):
        return True
    if not isinstance(figure.mark, Map):
        return False
    places = [row.get(each.field) for row in figure.rows for each in (figure.x, figure.y)]
    return figure.x.ordinal or figure.y.ordinal or any(isinstance(place, str | bool) for place in places)


def drawable(figure: Figure) -> Drawable:
    """The rows that can be drawn, under short names; those without a number where one is needed are left out."""
    from truerisk.report.lab.marks import prepared  # marks draw panels, which hold rows
    from truerisk.report.lab.marks.surface import angles

    figure = panelled(figure)
    slides = slider_values(figure)
    orders = {key: _order(figure, axis) for key, axis in ((X, figure.x), (Y, figure.y)) if separate(axis, figure)}
    pairs, left_out, unfit = [], 0, 0
    for raw in figure.rows:
        row = _row(figure, raw, orders, slides)
        if row is not None and _off_paper(figure, row):
            left_out += 1
        elif row is not None:
            pairs.append((row, raw))
        elif None not in _needed(figure, raw):
            unfit += 1
    sentence = ""
    if figure.averaged and any(figure.group in raw for _, raw in pairs):
        found = averaged(figure, pairs)
        rows = [{**row, KIND: MEAN} for row in found.means] + [{**row, KIND: ONE_SEED} for row in found.seeds]
        sentence = found.sentence
    else:
        rows = [{KIND: MEAN, **row} for row in prepared(figure, [row for row, _ in pairs])]
    dots = (_row(figure, raw, orders, slides, dot=True) for raw in (figure.dots if rows else ()))
    shown = [{**row, KIND: DOT} for row in dots if row is not None and not _off_paper(figure, row)]
    rows += _in_every_panel(figure, rows, shown)
    names = _values(figure, figure.series) if figure.series else []
    ordered = len(names) > 1 and all(number(name) is not None and not isinstance(name, bool) for name in names)
    if ordered:
        places = {words(name): place for place, name in enumerate(names)}  # numbers by size
        rows.sort(key=lambda row: places.get(row.get(SERIES, ""), 0))
    columns = _columns(figure, rows)
    rows = [_told(figure, columns, row) for row in rows]
    told = [_slide_words(figure.slider, value) for value in slides] if figure.slider else []
    if isinstance(figure.mark, Surface):
        told = [f"{degrees}\u00b0" for degrees in angles()]
    first = slides.index(figure.starts_at) if figure.starts_at in slides else 0
    start = first + max(1, len(slides)) * sum(2**k for k, switch in enumerate(figure.switches) if switch.on)
    return Drawable(rows, columns, orders, left_out, unfit, sentence, told, start, ordered, figure.facet is not None)


def _needed(figure: Figure, raw: Mapping[str, Any]) -> list[Any]:
    """The values that must be there for a row to be drawn; None says that there is none, which is no slip."""
    names = [figure.x.field, *([] if isinstance(figure.mark, Histogram) else [figure.y.field])]
    return [raw.get(name) for name in [*names, *filter(None, [getattr(figure.mark, "value", None)])]]


def _in_every_panel(figure: Figure, rows: list[dict[str, Any]], dots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Dots without a panel stand in all of them."""
    panels = dict.fromkeys(row[FACET] for row in rows) if figure.facet else {}
    return [each for dot in dots for each in ([dot] if FACET in dot or not panels else [
        {**dot, FACET: panel} for panel in panels])]  # fmt: skip


def panelled(figure: Figure) -> Figure:
    """More than six names in one panel cannot be told apart: each gets a panel of its own."""
    if figure.series is None or figure.facet is not None or isinstance(figure.mark, Regions):
        return figure
    names = _values(figure, figure.series)
    if len(names) <= MOST_SERIES or all(number(name) is not None for name in names):
        return figure
    return replace(figure, facet=figure.series, series=None)


def _row(
    figure: Figure, raw: Mapping[str, Any], orders: dict[str, list[str]], slides: list[Any], dot: bool = False
) -> dict[str, Any] | None:
    """A raw row under short keys; None where a number is missing that must be there."""
    row: dict[str, Any] = {}
    for key, axis in ((X, figure.x), (Y, figure.y)):
        if key == Y and isinstance(figure.mark, Histogram) and not dot:
            continue
        value = raw.get(axis.field)
        row[key] = words(value) if key in orders else number(value)
        if row[key] is None or value is None:
            return None
    for key, name in ((SERIES, figure.series), (FACET, figure.facet)):
        if name is not None and (name in raw or not dot):
            row[key] = words(raw.get(name)) or words(None)
    state = _state(figure, raw, slides)
    if state is not None:
        row[SLIDE] = state
    if isinstance(figure.mark, Polygons) and not dot:
        row[SHAPE] = words(raw.get(figure.mark.shape))
    if (value_field := getattr(figure.mark, "value", None)) and (value_field in raw or not dot):
        value = raw.get(value_field)
        named = isinstance(figure.mark, Regions) or (isinstance(figure.mark, Polygons) and isinstance(value, str))
        row[VALUE] = words(value) if named else number(value)
        if row[VALUE] is None:
            return None
    return row


def slider_values(figure: Figure) -> list[Any]:
    """The values of the slider in order: those of rows and of dots."""
    every = [*figure.rows, *figure.dots]
    return _sorted(row.get(figure.slider.field) for row in every) if figure.slider else []


def _state(figure: Figure, raw: Mapping[str, Any], slides: list[Any]) -> int | None:
    """In which state of slider and switches a row is shown; None: always.

    States count the values of the slider, once for each setting of the switches (which count in binary). A row that
    knows only the switches has -1 minus their setting, and is shown for all values of the slider.
    """
    flips = [raw.get(switch.field) for switch in figure.switches]
    value = raw.get(figure.slider.field) if figure.slider else None
    if not flips or all(flip is None for flip in flips):
        if value is not None and flips:
            raise TrueriskError(f"figure {figure.name} has a row without its switches; give it all their fields.")
        return None if value is None else slides.index(value)
    if not all(isinstance(flip, bool) for flip in flips):
        raise TrueriskError(f"figure {figure.name} has {flips} for its switches; give True or False for each of them.")
    setting = sum(2**k for k, flip in enumerate(flips) if flip)
    return -1 - setting if value is None else setting * len(slides) + slides.index(value)


def _off_paper(figure: Figure, row: dict[str, Any]) -> bool:
    """Whether a logarithmic axis has no place for it."""
    pairs = ((row.get(X), figure.x), (row.get(Y), figure.y))
    return any(axis.log and isinstance(value, int | float) and value <= 0 for value, axis in pairs)


def _columns(figure: Figure, rows: list[dict[str, Any]]) -> list[Column]:
    """The fields that tooltips and files show."""
    there = {key for row in rows for key, value in row.items() if value is not None}
    value, unit = getattr(figure.mark, "value", ""), getattr(figure.mark, "unit", None)
    columns = [
        Column(figure.facet or "", FACET, _spaced(figure.facet or "")),
        Column(figure.series or "", SERIES, figure.series_title or _spaced(figure.series or "")),
        _of_axis(figure.x, figure.x.field, X, figure.x.title),
        _of_axis(figure.y, figure.y.field, Y, figure.y.title),
        _of_axis(figure.y, "low", LOW, "from"),
        _of_axis(figure.y, "high", HIGH, "to"),
        Column(value, VALUE, getattr(figure.mark, "title", "") or _spaced(value), **_unit(unit)),
    ]
    if figure.slider:
        columns.insert(0, Column(figure.slider.field, SLIDE, figure.slider.title))
    return [column for column in columns if column.key in there]


def _of_axis(axis: Axis, name: str, key: str, title: str) -> Column:
    return Column(name, key, title, **_unit(axis.unit), text=f"{key}t" if axis.bound else "")


def _unit(unit: Any) -> dict[str, Any]:
    return {"percent": unit == PERCENT, "points": unit == POINTS}


def _told(figure: Figure, columns: list[Column], row: dict[str, Any]) -> dict[str, Any]:
    """With the bounds of a row as text, each end of a range of bounds included; nothing for what was observed."""
    if row.get(SERIES) in {words(name) for name in figure.observed}:
        return row
    bounds = [column for column in columns if column.text and number(row.get(column.key)) is not None]
    return row | {c.text: (magnitude_percent if c.percent else magnitude)(row[c.key]) for c in bounds}


def _values(figure: Figure, name: str) -> list[Any]:
    """The different values of a field of the raw rows, in order of appearance; numbers by size."""
    return _sorted(row.get(name) for row in figure.rows)


def _sorted(found: Iterable[Any]) -> list[Any]:
    values = _different(found)
    numbers = all(number(value) is not None and not isinstance(value, bool) for value in values)
    return sorted(values) if numbers else values


def _different(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in values if value is not None))


def _order(figure: Figure, axis: Axis) -> list[str]:
    """The values of an axis side by side: as they appear, or by size if only bars and cells made them separate."""
    every = (row.get(axis.field) for row in [*figure.rows, *figure.dots])
    values = [value for value in every if value is not None]
    if not axis.ordinal and all(number(value) is not None for value in values):
        values.sort()
    return list(dict.fromkeys(map(words, values)))  # as words: True equals 1, and "yes" does not


def _slide_words(axis: Axis, value: Any) -> str:
    if axis.unit in (PERCENT, POINTS) and number(value) is not None:
        return f"{100 * value:.4g}%" if axis.unit == PERCENT else f"{100 * value:.4g} points"
    return words(value)


def _spaced(name: str) -> str:
    return name.replace("_", " ")
