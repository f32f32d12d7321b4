"""Closed shapes, colored by a number or a name."""

from __future__ import annotations

from truerisk.lab.figure import Figure
from truerisk.report.lab.keys import ORDER, SHAPE, VALUE, Json
from truerisk.report.lab.palette import ON_LIGHT
from truerisk.report.lab.panel import Panel


def prepare(figure: Figure, rows: list[Json]) -> list[Json]:
    return [{**row, ORDER: place} for place, row in enumerate(rows)]


def layers(panel: Panel) -> list[Json]:
    if panel.drawn.numbers(VALUE):
        color = panel.value_color()
    else:
        names = panel.drawn.values(VALUE)
        scale = {"domain": names, "range": [ON_LIGHT[i % len(ON_LIGHT)] for i in range(len(names))]}
        color = {"field": VALUE, "type": "nominal", "scale": scale, "legend": panel.legend}
    mark = {
        "type": "line",
        "filled": True,
        "stroke": panel.paper,
        "strokeWidth": 0.75,
        "fillOpacity": 0.85,
        "interpolate": "linear-closed",
        "tooltip": {"content": "data"},
    }
    order = {"order": {"field": ORDER, "type": "quantitative"}, "detail": {"field": SHAPE}}
    return [panel.layer(mark, {**panel.place, "color": color, **order}), *panel.dots()]
