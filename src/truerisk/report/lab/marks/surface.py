"""A surface over a plane, seen from a side that a slider chooses; its contour map stands next to it.

The surface is drawn as flat quadrilaterals from the farthest to the nearest (painter's algorithm), in a parallel
projection: no 3-D library, so the picture is the same without JavaScript.
"""

from __future__ import annotations

import math

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Figure
from truerisk.lab.marks import Surface
from truerisk.report.lab.keys import CORNER, KIND, ORDER, SEEN_X, SEEN_Y, SHAPE, SLIDE, VALUE, Json
from truerisk.report.lab.marks.contour import grid
from truerisk.report.lab.marks.contour import layers as contour_layers
from truerisk.report.lab.marks.contour import prepare as contour_rows
from truerisk.report.lab.panel import Panel

VIEWS = 8  # sides from which it can be seen
TILT = math.radians(28)  # above the plane
FIRST = 30  # degrees: where the first view stands
MOST = 14  # cells of each side: finer grids are thinned
HEIGHT = 0.75  # of the surface, relative to the sides of its plane


def prepare(figure: Figure, rows: list[Json]) -> list[Json]:
    """The map and its lines, and the corners of the surface from each side."""
    if figure.slider or figure.facet:
        raise TrueriskError(f"the surface {figure.name} has a slider that turns it; leave out slider and facet.")
    return contour_rows(figure, rows) + corners(figure, rows)


def angles() -> list[int]:
    """From where it is seen, in degrees."""
    return [(FIRST + 360 * view // VIEWS) % 360 for view in range(VIEWS)]


def corners(figure: Figure, rows: list[Json]) -> list[Json]:
    x, y, values = grid(figure, rows)
    across, up = (np.unique(np.linspace(0, len(axis) - 1, MOST + 1).round().astype(int)) for axis in (x, y))
    z = values[np.ix_(up, across)]
    span = float(z.max() - z.min()) or 1.0
    flat_x, flat_y = np.meshgrid(np.linspace(-1, 1, len(across)), np.linspace(-1, 1, len(up)))
    height = 2 * HEIGHT * (z - z.min()) / span
    found: list[Json] = []
    for view, degrees in enumerate(angles()):
        angle = math.radians(degrees)
        right = flat_x * math.cos(angle) - flat_y * math.sin(angle)
        depth = flat_x * math.sin(angle) + flat_y * math.cos(angle)
        upward = height * math.cos(TILT) + depth * math.sin(TILT)
        found += _quadrilaterals(view, right, upward, depth, z)
    return found


def _quadrilaterals(view: int, right: np.ndarray, upward: np.ndarray, depth: np.ndarray, z: np.ndarray) -> list[Json]:
    """The corners of all cells from one side, the farthest cell first."""

    def around(values: np.ndarray) -> np.ndarray:
        return np.stack([values[:-1, :-1], values[:-1, 1:], values[1:, 1:], values[1:, :-1]], axis=-1).reshape(-1, 4)

    order = np.argsort(-around(depth).mean(1), kind="stable")
    xs, ys = (around(values)[order].round(3).tolist() for values in (right, upward))  # a page carries all views
    colors = [float(f"{value:.4g}") for value in around(z).mean(1)[order]]
    return [
        {KIND: CORNER, SLIDE: view, SHAPE: view * len(xs) + cell, ORDER: 4 * cell + corner, VALUE: colors[cell],
         SEEN_X: xs[cell][corner], SEEN_Y: ys[cell][corner]}
        for cell in range(len(xs)) for corner in range(4)
    ]  # fmt: skip


def layers(panel: Panel) -> list[Json]:
    """The contour map; `seen` draws the surface in a view of its own."""
    return contour_layers(panel)


def seen(panel: Panel) -> list[Json]:
    """The surface, without axes: the map next to it has them."""
    reach = math.sqrt(2) * 1.02
    top = 2 * HEIGHT * math.cos(TILT) + math.sqrt(2) * math.sin(TILT)
    plain = {"type": "quantitative", "axis": None}
    place = {
        "x": {"field": SEEN_X, "scale": {"domain": [-reach, reach], "nice": False}, **plain},
        "y": {"field": SEEN_Y, "scale": {"domain": [-math.sqrt(2) * math.sin(TILT), top], "nice": False}, **plain},
    }
    mark = {"type": "line", "filled": True, "stroke": panel.paper, "strokeWidth": 0.4, "interpolate": "linear-closed",
            "tooltip": None}  # fmt: skip
    order = {"order": {"field": ORDER, "type": "quantitative"}, "detail": {"field": SHAPE}}
    mark_of = panel.figure.mark
    assert isinstance(mark_of, Surface)
    color = panel.value_color(mark_of.log)  # one scale and one legend with the map
    return [panel.layer(mark, {**place, "color": color, **order}, CORNER)]
