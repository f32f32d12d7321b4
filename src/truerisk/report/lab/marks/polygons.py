"""Closed shapes, colored by a number, or by a name as regions are."""

from __future__ import annotations

from truerisk.lab.figure import Figure
from truerisk.report.lab.keys import ORDER, SHAPE, VALUE, Json
from truerisk.report.lab.marks.regions import class_color, class_dots
from truerisk.report.lab.panel import Panel


def prepare(figure: Figure, rows: list[Json]) -> list[Json]:
    return [{**row, ORDER: place} for place, row in enumerate(rows)]


def layers(panel: Panel) -> list[Json]:
    by_number = bool(panel.drawn.numbers(VALUE))
    mark = {
        "type": "line",
        "filled": True,
        "stroke": panel.paper,
        "strokeWidth": 0.75,
        "fillOpacity": 0.85 if by_number else 0.35,
        "interpolate": "linear-closed",
        "tooltip": {"content": "data"} if by_number else None,
    }
    color = panel.value_color() if by_number else class_color(panel)
    order = {"order": {"field": ORDER, "type": "quantitative"}, "detail": {"field": SHAPE}}
    shapes = panel.layer(mark, {**panel.place, "color": color, **order})
    return [shapes, *(panel.dots() if by_number else class_dots(panel))]
