"""Heat maps: a cell for each pair of x and y, on real axes where both are numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Axis, Figure
from truerisk.lab.marks import Map
from truerisk.lab.units import CORRELATION, PERCENT, POINTS
from truerisk.report.lab.keys import BOTTOM, FACET, LEFT, RIGHT, SLIDE, TOP, VALUE, Json, X, Y
from truerisk.report.lab.panel import Panel, signed

ON_CELL = ("#fefefe", "#101010")  # text on the dark and on the light cells
CELL_ROOM = (3.8, 1.6)  # sizes of the type: a smaller cell carries no number


def prepare(figure: Figure, rows: list[Json]) -> list[Json]:
    """Each row with the edges of its cell; names side by side need none."""
    _refuse_twice(figure, rows)
    if not all(isinstance(row[key], int | float) for row in rows for key in (X, Y)):
        return rows
    across, up = edges([row[X] for row in rows], figure.x), edges([row[Y] for row in rows], figure.y)
    return [
        {**row, LEFT: across[row[X]][0], RIGHT: across[row[X]][1], BOTTOM: up[row[Y]][0], TOP: up[row[Y]][1]}
        for row in rows
    ]


def _refuse_twice(figure: Figure, rows: list[Json]) -> None:
    """Two colors cannot share a cell: the reader would see that of the last row only."""
    places = Counter(tuple(row.get(key) for key in (FACET, SLIDE, X, Y)) for row in rows)
    place, most = max(places.items(), key=lambda item: item[1])
    if most > 1:
        raise TrueriskError(
            f"figure {figure.name} has {most} rows at x={place[2]}, y={place[3]}, but needs one; average them first."
        )


def edges(values: list[float], axis: Axis) -> dict[float, tuple[float, float]]:
    """From where to where the cell of each value goes: halfway to its neighbors, on the scale of the axis.

    >>> edges([1, 2, 4], Axis("n", "n"))[2]
    (1.5, 3.0)
    """
    found = np.unique(np.asarray(values, dtype=np.float64))
    scaled = np.log(found) if axis.log else found
    gaps = np.diff(scaled) if len(found) > 1 else np.array([1.0])
    middle = (scaled[1:] + scaled[:-1]) / 2
    ends = np.concatenate([[scaled[0] - gaps[0] / 2], middle, [scaled[-1] + gaps[-1] / 2]])
    ends = np.exp(ends) if axis.log else ends
    return {float(v): (float(a), float(b)) for v, a, b in zip(found, ends[:-1], ends[1:], strict=True)}


def cells(panel: Panel) -> tuple[Json, Json]:
    """The place of cells, and of their middles."""
    if not panel.drawn.numbers(LEFT):
        return panel.place, panel.place
    sides = {"x": {**panel.x, "field": LEFT}, "x2": {"field": RIGHT}}
    sides |= {"y": {**panel.y, "field": BOTTOM}, "y2": {"field": TOP}}
    return sides, panel.place


def layers(panel: Panel) -> list[Json]:
    """Cells, with their numbers where there is room for them."""
    mark = panel.figure.mark
    assert isinstance(mark, Map)
    sides, middles = cells(panel)
    colored = panel.value_color(mark.log)
    squares = panel.layer({"type": "rect", "tooltip": {"content": "data"}}, {**sides, "color": colored})
    columns, rows = (len({row[key] for row in panel.drawn.rows if key in row}) or 1 for key in (X, Y))
    if panel.width / columns < CELL_ROOM[0] * panel.font or panel.height / rows < CELL_ROOM[1] * panel.font:
        return [squares, *panel.dots()]
    low, high = colored["scale"]["domain"]
    middle = low**0.45 * high**0.55 if colored["scale"].get("type") == "log" else low + 0.55 * (high - low)
    light = f"datum.{VALUE} > {middle!r}"
    if signed(panel.figure):
        light = f"abs(datum.{VALUE}) < 0.6"
    ink = {"condition": {"test": light, "value": ON_CELL[1]}, "value": ON_CELL[0]}
    text = {"field": "shown", "type": "nominal"}
    shown = {"calculate": _shown(mark), "as": "shown"}
    numbers = panel.layer(
        {"type": "text", "fontSize": panel.font, "tooltip": None},
        {**middles, "color": ink, "text": text},
        more=[shown],
    )
    return [squares, numbers, *panel.dots()]


def _shown(mark: Map) -> str:
    """The number of a cell as text, in its unit."""
    if mark.unit in (PERCENT, POINTS):
        return f"format(100 * datum.{VALUE}, '.3~r')" + (" + '%'" if mark.unit == PERCENT else "")
    if mark.unit == CORRELATION:
        return f"format(datum.{VALUE}, '+.2f')"
    return f"format(datum.{VALUE}, '.3~r')"
