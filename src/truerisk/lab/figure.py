"""What a figure or a table shows, in plain data; `truerisk.report` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Axis:
    """One direction of a figure: which field of the rows, and how it is drawn."""

    field: str
    title: str
    log: bool = False
    percent: bool = False  # fractions shown as percentages
    ordinal: bool = False  # separate values in order of appearance, not a continuous scale
    zero: bool = False  # the axis starts at 0 (bars always do)
    bound: bool = False  # upper bounds: tooltips round them up


@dataclass(frozen=True)
class Rule:
    """A dashed horizontal line that gives a scale to the rest: chance level, a published number."""

    value: float
    label: str


@dataclass(frozen=True)
class Figure:
    """A figure in long form: each row is a point (or a bar, or a square of a heat map).

    `series` is the field that colours and whose legend can be clicked, `facet` the field of which each value gets
    a small panel of its own. `low` and `high` are fields of an interval around `y`, drawn as a band or a bar.
    A heat map colours by `series`, which is then a number. Rows whose y is None are left out. `observed` are series
    that were measured, on an axis of bounds: their tooltips round to the nearest.
    """

    name: str  # of a downloaded file: letters, digits and hyphens
    title: str
    caption: str  # plain sentences: what is seen, and what it means
    rows: Sequence[Mapping[str, Cell]]
    x: Axis
    y: Axis
    mark: Literal["line", "points", "bar", "heat"] = "line"
    series: str | None = None
    series_title: str = ""
    facet: str | None = None
    low: str | None = None
    high: str | None = None
    rules: Sequence[Rule] = ()
    observed: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """A table of an experiment. Numbers are given as text where their rounding matters."""

    name: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


Exhibit = Figure | Table


def percent(value: float, digits: int = 1) -> str:
    """A fraction as people read it.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * value:.{digits}f} %"


def points(rows: Sequence[Mapping[str, Any]], *fields: str) -> list[dict[str, Cell]]:
    """Only these fields of the rows: what a figure needs and no more, because a page carries it."""
    return [{name: row.get(name) for name in fields} for row in rows]
