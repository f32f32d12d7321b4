"""What a figure or a table shows, in plain data; `truerisk.report` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from truerisk.errors import TrueriskError
from truerisk.lab.interval import interval
from truerisk.lab.rows import Rows
from truerisk.lab.units import PLAIN, TIMES

Cell = str | int | float | bool | None
Mark = Literal["line", "points", "bar", "heat"]
MARKS: tuple[Mark, ...] = get_args(Mark)


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
    mark: Mark = "line"
    series: str | None = None
    series_title: str = ""
    facet: str | None = None
    low: str | None = None
    high: str | None = None
    rules: Sequence[Rule] = ()
    observed: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.mark not in MARKS:
            raise TrueriskError(
                f"the mark of figure {self.name} is {self.mark!r}, but must be one of {', '.join(MARKS)}."
            )
        there = {field for row in self.rows for field in row}
        for field in (self.x.field, self.y.field, self.series, self.facet, self.low, self.high):
            if there and field is not None and field not in there:
                known = ", ".join(sorted(there))
                raise TrueriskError(f"no row of figure {self.name} has the field {field!r}; its rows have {known}.")


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
    '12.3%'
    """
    return f"{100 * value:.{digits}f}%"


def averaged(rows: Rows, value: str, *by: str, log: bool = False) -> list[dict[str, Any]]:
    """For each combination of the fields ``by``: the mean of a field over seeds, with ``low`` and ``high``.

    The ends are those of the interval that judges claims (`lab.interval`); one seed has no interval, so its ends are
    the value itself. Runs that are missing, and values that are None, leave gaps. ``log``: means of logarithms.

    >>> averaged(Rows([{"p": 0, "seed": s, "error": 0.25} for s in (1, 2)]), "error", "p")
    [{'p': 0, 'error': 0.25, 'low': 0.25, 'high': 0.25}]
    """
    found = []
    for at, some in Rows(rows).groups(*by):
        values = [float(row[value]) for row in some if row.get(value) is not None]
        if not values:
            continue
        each = interval(values, TIMES if log else PLAIN)
        mean, low, high = (each.mean, each.low, each.high) if each else (values[0],) * 3
        found.append({**dict(zip(by, at, strict=True)), value: mean, "low": low, "high": high})
    return found


def points(rows: Sequence[Mapping[str, Any]], *fields: str) -> list[dict[str, Cell]]:
    """Only these fields of the rows: what a figure needs and no more, because a page carries it."""
    return [{name: row.get(name) for name in fields} for row in rows]
