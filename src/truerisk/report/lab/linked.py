"""Linked figures: panels side by side in one Vega view, so that one slider and its switches move all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Linked
from truerisk.lab.marks import Regions
from truerisk.report.lab.figures import (
    GAP,
    Medium,
    at_start,
    drawn_svg,
    frame,
    panel_of,
    params,
    safe_name,
    title_of,
    view,
)
from truerisk.report.lab.keys import PANEL, SERIES, Json
from truerisk.report.lab.panel import Panel
from truerisk.report.lab.rows import Drawable, drawable
from truerisk.report.lab.scales import wrapped

SIDE_BY_SIDE = 600  # pixels of paper from which panels stand side by side; below, one under the other


def drawables(linked: Linked) -> list[Drawable]:
    """What can be drawn of each panel; [] where one of them has nothing."""
    drawn = [drawable(figure) for figure in linked.figures]
    if not all(each.rows for each in drawn):
        return []
    if len({tuple(each.slides) for each in drawn}) > 1:
        raise TrueriskError(f"the figures of {linked.name} have other values of the slider; give all of them the same.")
    names = [each.values(SERIES) for each, figure in zip(drawn, linked.figures, strict=True) if figure.series]
    if any(some != names[0] for some in names):
        raise TrueriskError(f"the figures of {linked.name} have other series; give all of them the same, or none.")
    return drawn


def linked_rows(drawn: Sequence[Drawable]) -> list[Json]:
    """The rows of all panels, each with the number of its panel."""
    return [{**row, PANEL: number} for number, each in enumerate(drawn) for row in each.rows]


def linked_spec(
    linked: Linked, drawn: Sequence[Drawable], width: int, medium: Medium = "page", hero: bool = False
) -> Json:
    """All panels on paper ``width`` pixels wide."""
    beside = width >= SIDE_BY_SIDE
    shares = list(linked.shares) or [1.0] * len(drawn)
    across = width - GAP * (len(drawn) - 1)
    views, panels = [], []
    for number, (figure, each, share) in enumerate(zip(linked.figures, drawn, shares, strict=True)):
        own = int(across * share / sum(shares)) if beside else width
        panel = _smaller(panel_of(figure, each, own, 1, medium, hero), width)
        made = {
            "transform": [{"filter": f"datum.{PANEL} === {number}"}],
            **view(panel),
            "title": _above(figure.title, panel),
        }
        views.append(made)
        panels.append(panel)
    series = next(
        (pair for pair in zip(linked.figures, drawn, strict=True) if pair[0].series), (linked.figures[0], drawn[0])
    )
    spec = frame(panels[0], params(*series), medium == "file")
    if medium == "file":
        spec["title"] = title_of(linked.title, panels[0], width)
    # classes of regions are no series: they have colors, shapes, and a legend of their own
    apart = dict.fromkeys(("color", "shape", "fill", "stroke"), "independent")
    mixed = any(isinstance(figure.mark, Regions) for figure in linked.figures)
    own_scales = {"resolve": {"scale": apart}} if mixed else {}
    return spec | {"hconcat" if beside else "vconcat": views, "spacing": GAP, **own_scales}


def linked_svg(linked: Linked, drawn: Sequence[Drawable], width: int, hero: bool = False) -> str:
    """The panels as an SVG element for readers without JavaScript, as they are at the start."""
    rows = [{**row, PANEL: n} for n, each in enumerate(drawn) for row in each.rows if at_start(row, each)]
    return drawn_svg(linked_spec(linked, drawn, width, "static", hero), rows, f"{safe_name(linked.name)}-{width}")


def _smaller(panel: Panel, width: int) -> Panel:
    """Small panels on wide paper have the type of the paper, not of their own width."""
    return replace(panel, font=13 if width < SIDE_BY_SIDE else 14)


def _above(title: str, panel: Panel) -> Json:
    """The title of a panel, over its left edge."""
    text = {"text": wrapped(title, panel.width, panel.font), "fontSize": panel.font, "fontWeight": 600}
    return {**text, "anchor": "start", "frame": "group", "color": panel.ink, "offset": 10}
