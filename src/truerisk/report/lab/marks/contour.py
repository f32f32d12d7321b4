"""Lines of equal value over a plane, on a map of the values."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Figure
from truerisk.lab.marks import Contour, Surface
from truerisk.report.extra import extra
from truerisk.report.lab.keys import FACET, ISOLINE, KIND, ORDER, SHAPE, SLIDE, VALUE, Json, X, Y
from truerisk.report.lab.marks.maps import cells
from truerisk.report.lab.marks.maps import prepare as with_edges
from truerisk.report.lab.panel import Panel


def prepare(figure: Figure, rows: list[Json]) -> list[Json]:
    """The cells of the map, and the points of each line of equal value."""
    found = with_edges(figure, rows)
    for plane in planes(rows).values():
        found += _isolines(figure, plane)
    return found


def planes(rows: list[Json]) -> dict[tuple[Any, ...], list[Json]]:
    """The rows of each panel and each value of the slider."""
    found: dict[tuple[Any, ...], list[Json]] = {}
    for row in rows:
        found.setdefault((row.get(FACET), row.get(SLIDE)), []).append(row)
    return found


def grid(figure: Figure, rows: list[Json]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y, and the values as a matrix (y down, x across); a plane with holes is refused."""
    x, y = (np.unique([float(row[key]) for row in rows]) for key in (X, Y))
    values = np.full((len(y), len(x)), np.nan)
    values[np.searchsorted(y, [row[Y] for row in rows]), np.searchsorted(x, [row[X] for row in rows])] = [
        row[VALUE] for row in rows
    ]
    if np.isnan(values).any() or min(values.shape) < 2:
        raise TrueriskError(
            f"figure {figure.name} needs a value for each pair of x and y, at least 2 of each; add them."
        )
    return x, y, values


def levels(mark: Contour | Surface, values: np.ndarray) -> np.ndarray:
    """Values at even distances between the lowest and the highest."""
    low, high = float(values.min()), float(values.max())
    if mark.log and low > 0:
        return np.geomspace(low, high, mark.levels + 2)[1:-1]
    return np.linspace(low, high, mark.levels + 2)[1:-1]


def _isolines(figure: Figure, rows: list[Json]) -> list[Json]:
    assert isinstance(figure.mark, Contour | Surface)
    x, y, values = grid(figure, rows)
    lines = extra("contourpy").contour_generator(x, y, values)
    common = {key: rows[0][key] for key in (FACET, SLIDE) if key in rows[0]}
    found: list[Json] = []
    for level in levels(figure.mark, values):
        for number, line in enumerate(lines.lines(level)):
            shape = f"{level:.6g}/{number}/{common}"
            found += [
                {**common, KIND: ISOLINE, SHAPE: shape, ORDER: i, X: float(a), Y: float(b)}
                for i, (a, b) in enumerate(line)
            ]
    return found


def layers(panel: Panel) -> list[Json]:
    mark = panel.figure.mark
    assert isinstance(mark, Contour | Surface)
    sides, _ = cells(panel)
    squares = panel.layer(
        {"type": "rect", "tooltip": {"content": "data"}}, {**sides, "color": panel.value_color(mark.log)}
    )
    line = {"type": "line", "strokeWidth": 1, "color": "#ffffff", "opacity": 0.8, "tooltip": None}
    order = {"order": {"field": ORDER, "type": "quantitative"}, "detail": {"field": SHAPE}}
    return [squares, panel.layer(line, {**panel.place, **order}, ISOLINE), *panel.dots()]
