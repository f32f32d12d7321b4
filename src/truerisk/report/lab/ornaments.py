"""What stands in a panel besides its mark: reference lines with their labels, and names at the ends of lines."""

from __future__ import annotations

import math

from truerisk.lab.figure import Rule
from truerisk.lab.marks import Bars, Histogram
from truerisk.report.lab.ends import GAP
from truerisk.report.lab.keys import SERIES, TEXT, Json, X
from truerisk.report.lab.panel import Panel
from truerisk.report.lab.rules import ASIDE

TINT = 0.12  # opacity of a shaded region


def decorated(panel: Panel, marks: list[Json]) -> list[Json]:
    """All layers of a panel, from the back to the front."""
    lines = [*_upright(panel), *_rule_lines(panel)]
    in_front = isinstance(panel.figure.mark, Bars | Histogram)  # bars would hide them
    marks = [*marks, *lines] if in_front else [*lines, *marks]
    return [*_shades(panel), *marks, *_rule_labels(panel), *_names(panel)]


def _shades(panel: Panel) -> list[Json]:
    """The tinted regions above rules, behind everything else."""
    rows = [{"value": placed.rule.value} for placed in panel.rules if placed.rule.shaded]
    mark = {"type": "rect", "color": panel.ink, "opacity": TINT, "tooltip": None}
    place = {"x": {"value": 0}, "x2": {"value": "width"}, "y": {**panel.y, "field": "value"}, "y2": {"value": 0}}
    return [{"data": {"values": rows}, "mark": mark, "encoding": place}] if rows else []


def _rule_lines(panel: Panel) -> list[Json]:
    mark = {"type": "rule", "strokeDash": [6, 5], "strokeWidth": 1.75, "color": panel.ink, "tooltip": None}
    data = {"values": [{"value": placed.rule.value} for placed in panel.rules]}
    y = {**panel.y, "field": "value"}
    return [{"data": data, "mark": mark, "encoding": {"y": y}}] if panel.rules else []


def _upright(panel: Panel) -> list[Json]:
    """Vertical rules; their labels stand above the panel, one line each, towards the middle."""
    on_paper = X not in panel.drawn.orders
    rules = [r for r in panel.figure.rules if r.upright and on_paper and (r.value > 0 or not panel.figure.x.log)]
    mark = {"type": "rule", "strokeDash": [6, 5], "strokeWidth": 1.75, "color": panel.ink, "tooltip": None}
    text = {"type": "text", "baseline": "bottom", "fontSize": panel.font, "color": panel.ink, "tooltip": None}
    found: list[Json] = []
    for line, rule in enumerate(sorted(rules, key=lambda rule: rule.value)):
        data, x = {"values": [{"value": rule.value, "label": rule.label}]}, {**panel.x, "field": "value"}
        share = _share(rule, panel)
        side = {"align": "left", "dx": -2} if share <= 0.5 else {"align": "right", "dx": 2}  # towards the middle
        style = {**text, **side, "dy": -GAP - 1.2 * panel.font * line, "limit": max(share, 1 - share) * panel.width}
        found.append({"data": data, "mark": mark, "encoding": {"x": x}})
        place = {"x": x, "y": {"value": 0}, "text": {"field": "label", "type": "nominal"}}
        found.append({"data": data, "mark": style, "encoding": place})
    return found


def _share(rule: Rule, panel: Panel) -> float:
    """How far along the x axis an upright rule stands, from 0 to 1."""
    read = math.log if panel.figure.x.log else float
    low, high = (read(end) for end in panel.x["scale"]["domain"])
    return (read(rule.value) - low) / (high - low) if low < high else 0.5


def _rule_labels(panel: Panel) -> list[Json]:
    """The labels of rules, twice: first as wide strokes in the color of the paper, then as text."""
    halo = {"color": panel.paper, "stroke": panel.paper, "strokeWidth": 5, "strokeJoin": "round"}
    found: list[Json] = []
    for align, x in (("left", 0), ("center", panel.width / 2), ("right", "width"), (ASIDE, "width")):
        rows = [{"label": placed.rule.label, "at": placed.at} for placed in panel.rules if placed.align == align]
        place = {"align": "left", "baseline": "middle", "dx": GAP} if align == ASIDE else {"align": align}
        mark = {"type": "text", "baseline": "bottom", "fontSize": panel.font, "limit": panel.width, "tooltip": None}
        mark |= place
        encoding = {
            "x": {"value": x},
            "y": {**panel.y, "field": "at"},
            "text": {"field": "label", "type": "nominal"},
        }
        styles = (halo, {"color": panel.ink}) if rows else ()
        found += [{"data": {"values": rows}, "mark": {**mark, **style}, "encoding": encoding} for style in styles]
    return found


def _names(panel: Panel) -> list[Json]:
    """The names of lines at their ends, in their colors."""
    if not panel.labels:
        return []
    mark = {"type": "text", "align": "left", "baseline": "middle", "dx": GAP, "fontSize": panel.font, "tooltip": None}
    place = {"x": {"value": "width"}, "y": panel.y, "text": {"field": TEXT, "type": "nominal"}}
    named, heading = ([{"filter": f"{panel.of_state} && datum.{SERIES} {sign} ''"}] for sign in ("!==", "==="))
    bold = {**mark, "fontWeight": 600}
    data = {"data": {"values": list(panel.labels)}}
    colored = {**panel.look("color"), **panel.strength(1)}
    return [
        {**data, "transform": named, "mark": bold, "encoding": {**place, **colored}},
        {**data, "transform": heading, "mark": {**mark, "color": panel.ink}, "encoding": place},
    ]
