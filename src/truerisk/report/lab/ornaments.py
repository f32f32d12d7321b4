"""What stands in a panel besides its mark: reference lines with their labels, and names at the ends of lines."""

from __future__ import annotations

from truerisk.lab.marks import Bars, Histogram
from truerisk.report.lab.ends import GAP
from truerisk.report.lab.keys import SERIES, SLIDE, TEXT, Json
from truerisk.report.lab.panel import CHOICE, Panel
from truerisk.report.lab.rules import ASIDE

TINT = 0.12  # opacity of a shaded region


def decorated(panel: Panel, marks: list[Json]) -> list[Json]:
    """All layers of a panel, from the back to the front."""
    lines = _rule_lines(panel)
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
    of_slide = f"(datum.{SLIDE} === {CHOICE} || !isValid(datum.{SLIDE}))" if panel.drawn.slides else "true"
    named, heading = ([{"filter": f"{of_slide} && datum.{SERIES} {sign} ''"}] for sign in ("!==", "==="))
    bold = {**mark, "fontWeight": 600}
    data = {"data": {"values": list(panel.labels)}}
    colored = {**panel.look("color"), **panel.strength(1)}
    return [
        {**data, "transform": named, "mark": bold, "encoding": {**place, **colored}},
        {**data, "transform": heading, "mark": {**mark, "color": panel.ink}, "encoding": place},
    ]
