"""Which class a classifier gives to each point of a plane, with its training examples on top."""

from __future__ import annotations

from truerisk.report.lab.keys import DOT, VALUE, Json
from truerisk.report.lab.marks.maps import cells, prepare
from truerisk.report.lab.palette import ON_LIGHT
from truerisk.report.lab.panel import Panel

__all__ = ["layers", "prepare"]


def layers(panel: Panel) -> list[Json]:
    classes = sorted(panel.drawn.values(VALUE))
    color = {
        "field": VALUE,
        "type": "nominal",
        "scale": {"domain": classes, "range": [ON_LIGHT[i % len(ON_LIGHT)] for i in range(len(classes))]},
        "legend": panel.legend,
    }
    sides, _ = cells(panel)
    fields = panel.layer({"type": "rect", "tooltip": None}, {**sides, "color": color, "opacity": {"value": 0.35}})
    if not panel.drawn.of(DOT):
        return [fields]
    mark = {"type": "point", "filled": True, "size": 75, "stroke": panel.paper, "strokeWidth": 1.2, "tooltip": None}
    shape = {**color, "scale": {"domain": classes, "range": ["circle", "square", "triangle-up", "diamond"]}}
    colored = any(VALUE in row for row in panel.drawn.of(DOT))
    look: Json = {"color": color, "shape": shape} if colored else {"color": {"value": panel.ink}}
    return [fields, panel.layer(mark, {**panel.place, **look}, DOT)]
