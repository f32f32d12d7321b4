"""Points, with their interval as a stroke; several series stand side by side."""

from __future__ import annotations

from truerisk.report.lab.keys import HIGH, LOW, Json
from truerisk.report.lab.marks.line import inside
from truerisk.report.lab.panel import Panel

NARROW = 300  # pixels: points are smaller in such a panel


def layers(panel: Panel) -> list[Json]:
    size = 120 if panel.width > NARROW else 60
    mark = {"type": "point", "filled": True, "size": size, "tooltip": {"content": "data"}}
    mark |= {"stroke": panel.paper, "strokeWidth": 0.75}  # points that overlap stay apart
    look = {**panel.look("color", "shape"), **panel.strength(1)}
    points = panel.layer(mark, {**panel.place, **panel.beside(), **look})
    return [*strokes(panel), *panel.seeds_as_dots(), points, *panel.dots()]


def strokes(panel: Panel, color: str = "") -> list[Json]:
    """The interval of each mark, in the color of its series or in one of its own."""
    if not panel.drawn.numbers(LOW):
        return []
    place = {**panel.place, "y": {**panel.y, "field": LOW}, "y2": {"field": HIGH}, **panel.beside()}
    look = {"color": {"value": color}} if color else panel.look("color")
    mark = {"type": "rule", "strokeWidth": 2, "tooltip": None}
    return [panel.layer(mark, {**place, **look, **panel.strength(1)}, more=inside(panel))]
