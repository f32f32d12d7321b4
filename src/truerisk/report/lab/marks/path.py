"""Points joined in the order of the rows."""

from __future__ import annotations

from truerisk.lab.figure import Figure
from truerisk.lab.marks import Path
from truerisk.report.lab.keys import FACET, ORDER, SERIES, SLIDE, Json
from truerisk.report.lab.panel import Panel


def prepare(figure: Figure, rows: list[Json]) -> list[Json]:
    return [{**row, ORDER: place} for place, row in enumerate(rows)]


def layers(panel: Panel) -> list[Json]:
    mark = {"type": "line", "strokeWidth": 2.25, "strokeJoin": "round", "tooltip": None}
    look = {**panel.look("color"), **panel.dash(), **panel.strength(1)}
    order = {"order": {"field": ORDER, "type": "quantitative"}}
    point = {"type": "point", "filled": True, "size": 40, "tooltip": {"content": "data"}}
    marks = [
        panel.layer(mark, {**panel.place, **order, **look}),
        panel.layer(point, {**panel.place, **panel.look("color", "shape"), **panel.strength(1)}),
    ]
    if isinstance(panel.figure.mark, Path) and panel.figure.mark.arrow:
        marks.append(_last(panel))
    return [*marks, *panel.dots()]


def _last(panel: Panel) -> Json:
    """A ring around the last point of each path."""
    there = {key for row in panel.drawn.rows for key in row}
    by = [key for key in (SERIES, FACET, SLIDE) if key in there]
    last: list[Json] = [
        {"joinaggregate": [{"op": "max", "field": ORDER, "as": "last"}], "groupby": by},
        {"filter": f"datum.{ORDER} === datum.last"},
    ]
    mark = {"type": "point", "filled": False, "size": 260, "strokeWidth": 2.5, "tooltip": None}
    return panel.layer(mark, {**panel.place, **panel.look("color"), **panel.strength(1)}, more=last)
