"""The marks of lab figures as layers of Vega-Lite, one file for each.

A drawer has ``layers(panel)``, from the back to the front, and ``prepare(figure, rows)`` where rows must become
something else first (bins, cells, lines of equal value). Averaged marks get means; see `report.lab.averages`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from truerisk.lab.figure import Figure
from truerisk.lab.marks import (
    Bars,
    Contour,
    Histogram,
    Line,
    Map,
    Path,
    Points,
    Polygons,
    Regions,
    Slope,
    Surface,
)
from truerisk.report.lab.keys import Json
from truerisk.report.lab.marks import (
    bars,
    contour,
    histogram,
    line,
    maps,
    path,
    points,
    polygons,
    regions,
    slope,
    surface,
)
from truerisk.report.lab.panel import Panel

DRAWERS: dict[type, ModuleType] = {
    Line: line,
    Points: points,
    Bars: bars,
    Slope: slope,
    Histogram: histogram,
    Path: path,
    Map: maps,
    Regions: regions,
    Contour: contour,
    Surface: surface,
    Polygons: polygons,
}


def prepared(figure: Figure, rows: list[Json]) -> list[Json]:
    """The rows as the figure's mark draws them."""
    prepare: Callable[[Figure, list[Json]], list[Json]] | None = getattr(DRAWERS[type(figure.mark)], "prepare", None)
    return prepare(figure, rows) if prepare and rows else rows


def layers(panel: Panel) -> list[Json]:
    """The layers of the figure's mark."""
    found: list[Json] = DRAWERS[type(panel.figure.mark)].layers(panel)
    return found
