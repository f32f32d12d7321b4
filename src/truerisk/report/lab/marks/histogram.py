"""The share of rows in each bin, overlaid for each series."""

from __future__ import annotations

import numpy as np

from truerisk.lab.figure import Figure
from truerisk.lab.marks import Histogram
from truerisk.report.lab.keys import FACET, LEFT, RIGHT, SERIES, SLIDE, Json, X, Y
from truerisk.report.lab.panel import Panel


def prepare(figure: Figure, rows: list[Json]) -> list[Json]:
    """One row for each bin that holds anything; all series, panels, and slider values share the bins."""
    assert isinstance(figure.mark, Histogram)
    values = np.array([row[X] for row in rows], dtype=np.float64)
    scaled = np.log(values) if figure.x.log else values
    edges = _edges(scaled, figure.mark.bins)
    ends = np.exp(edges) if figure.x.log else edges
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault(tuple(row.get(key) for key in (SERIES, FACET, SLIDE)), []).append(place)
    found = []
    for places in groups.values():
        shares = np.histogram(scaled[places], bins=edges)[0] / len(places)
        common = {key: rows[places[0]][key] for key in (SERIES, FACET, SLIDE) if key in rows[places[0]]}
        for i in np.flatnonzero(shares):
            left, right = float(ends[i]), float(ends[i + 1])
            middle = (left * right) ** 0.5 if figure.x.log else (left + right) / 2
            found.append({**common, X: middle, LEFT: left, RIGHT: right, Y: float(shares[i])})
    return found


def _edges(values: np.ndarray, bins: int) -> np.ndarray:
    """Bins of equal width; a single one where the numbers are too near to each other for several."""
    try:
        return np.histogram_bin_edges(values, bins=bins)
    except ValueError:
        room = max(0.5, 1e-6 * float(np.abs(values).max()))
        return np.array([values.min() - room, values.max() + room])


def layers(panel: Panel) -> list[Json]:
    place = {
        "x": {**panel.x, "field": LEFT},
        "x2": {"field": RIGHT},
        "y": {**panel.y, "stack": None},
        "y2": {"datum": panel.y["scale"]["domain"][0] if panel.figure.y.log else 0},
    }
    several = len(panel.names) > 1
    mark = {"type": "rect", "tooltip": {"content": "data"}}
    bars = panel.layer(mark, {**place, **panel.look("color"), **panel.strength(0.5 if several else 0.9)})
    return [bars, *panel.dots()]
