"""Which class a classifier gives to each point of a plane, with its training examples on top."""

from __future__ import annotations

from truerisk.lab.figure import Figure
from truerisk.report.lab.keys import DOT, FACET, LEFT, RIGHT, SLIDE, VALUE, Json, X, Y
from truerisk.report.lab.marks.contour import planes
from truerisk.report.lab.marks.maps import cells
from truerisk.report.lab.marks.maps import prepare as with_edges
from truerisk.report.lab.palette import ON_LIGHT, shapes
from truerisk.report.lab.panel import Panel

TINT = {"value": 0.35}  # of regions: examples on top must stand out


def prepare(figure: Figure, rows: list[Json]) -> list[Json]:
    """Neighbors of one class in a row become one cell: a fine grid is mostly that, and a page carries all of it."""
    found: list[Json] = []
    for row in (one for plane in planes(with_edges(figure, rows)).values() for one in sorted(plane, key=_place)):
        last = found[-1] if found else None
        if last and all(last.get(key) == row.get(key) for key in (FACET, SLIDE, Y, VALUE)) and last[RIGHT] == row[LEFT]:
            last[RIGHT] = row[RIGHT]
        else:
            found.append(dict(row))
    return found


def _place(row: Json) -> tuple[float, float]:
    return row[Y], row[X]


def layers(panel: Panel) -> list[Json]:
    sides, _ = cells(panel)
    encoding = {**sides, "color": class_color(panel), "opacity": TINT}
    return [panel.layer({"type": "rect", "tooltip": None}, encoding), *class_dots(panel)]


def class_color(panel: Panel) -> Json:
    """A color for each class, the same in all figures: classes in order of their names."""
    classes = sorted(panel.drawn.values(VALUE))
    scale = {"domain": classes, "range": [ON_LIGHT[i % len(ON_LIGHT)] for i in range(len(classes))]}
    return {"field": VALUE, "type": "nominal", "scale": scale, "legend": panel.legend}


def class_dots(panel: Panel) -> list[Json]:
    """Examples in the color and shape of their class."""
    if not any(VALUE in row for row in panel.drawn.of(DOT)):
        return panel.dots()
    color = class_color(panel)
    classes = color["scale"]["domain"]
    shape = {**color, "scale": {"domain": classes, "range": shapes(len(classes))}}
    mark = {
        "type": "point",
        "filled": True,
        "size": 110,
        "opacity": 1,
        "stroke": panel.paper,
        "strokeWidth": 1.2,
        "tooltip": None,
    }
    return [panel.layer(mark, {**panel.place, "color": color, "shape": shape}, DOT)]
