"""The marks of a lab figure as layers of a Vega-Lite panel."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from truerisk.lab.figure import Figure
from truerisk.report.lab.palette import ON_LIGHT, SAME_DASH, SOLID, colours, dashes, shapes
from truerisk.report.lab.rows import FACET, HIGH, LOW, SERIES, Drawable, X, Y
from truerisk.report.lab.rules import Placed

PAPER = "#fdfdfb"  # behind labels that stand on lines; the style sheet replaces it on dark paper
ON_CELL = ("#fefefe", "#101010")  # text on the dark and on the light squares of a heat map
CHOSEN = "chosen"  # the series that were clicked in the legend
FADED = 0.1
HIDDEN = {"value": 0}
MANY_POINTS = 40  # a line of more points is drawn without them
CELL_ROOM = (3.8, 1.6)  # sizes of the type: a smaller square carries no number

Json = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """One panel: what is drawn in it, its x and y channels, its size in pixels, legend and type."""

    figure: Figure
    drawn: Drawable
    x: Json
    y: Json
    width: float
    height: float
    legend: Json
    font: int
    ink: str
    paper: str
    rules: Sequence[Placed] = ()

    @property
    def place(self) -> Json:
        return {"x": self.x, "y": self.y}

    def look(self, *channels: str) -> Json:
        """Those of the channels that tell the series apart; they share one legend."""
        if not self.figure.series:
            return {"color": {"value": ON_LIGHT[0]}} if "color" in channels else {}
        names = self.drawn.values(SERIES)
        ranges = {"color": colours(len(names)), "shape": shapes(len(names))}
        base = {"field": SERIES, "type": "nominal", "sort": names, "legend": self.legend}
        return {c: {**base, "scale": {"domain": names, "range": ranges[c]}} for c in channels}

    def dash(self) -> Json:
        """Dashes of lines. They have no part in the legend, where they would spoil the shapes of the points."""
        names = self.drawn.values(SERIES) if self.figure.series else []
        if len(names) <= SAME_DASH:
            return {}
        dashed = [(name, dash) for name, dash in zip(names, dashes(len(names)), strict=True) if dash != SOLID]
        conditions = [{"test": f"datum.{SERIES} === {json.dumps(name)}", "value": dash} for name, dash in dashed]
        return {"strokeDash": {"condition": conditions, "value": SOLID}}

    def strength(self, opacity: float) -> Json:
        """Full strength, unless other series were chosen in the legend."""
        if not self.figure.series:
            return {"opacity": {"value": opacity}}
        return {"opacity": {"condition": {"param": CHOSEN, "value": opacity}, "value": FADED * opacity}}


def layers(panel: Panel) -> list[Json]:
    """All layers of a panel, from the back to the front."""
    figure = panel.figure
    if figure.mark == "heat":
        return _heat(panel)
    interval = [_interval(panel)] if figure.low and figure.high else []
    main = {"bar": _bars, "points": _points, "line": _line}[figure.mark](panel)
    if figure.series:
        click = {"type": "point", "fields": [SERIES], "toggle": "event.shiftKey"}
        main["params"] = [{"name": CHOSEN, "select": click, "bind": "legend"}]
    marks = [main, *interval] if figure.mark == "bar" else [*interval, main]
    marks += [_points(panel)] if figure.mark == "line" else []
    rules = _rule_lines(panel)
    marks = [*marks, *rules] if figure.mark == "bar" else [*rules, *marks]  # bars would hide them
    return [*marks, *_rule_labels(panel)]


def _line(panel: Panel) -> Json:
    look = {**panel.look("color"), **panel.dash()}
    mark = {"type": "line", "strokeWidth": 2.75, "strokeJoin": "round", "tooltip": None}
    return {"mark": mark, "encoding": {**panel.place, **look, **panel.strength(1)}}


def _points(panel: Panel) -> Json:
    """Points, which also carry the tooltips; along a line of many points they show nothing else."""
    lengths = Counter((row.get(SERIES), row.get(FACET)) for row in panel.drawn.rows)
    hidden = panel.figure.mark == "line" and max(lengths.values()) > MANY_POINTS
    strength = {"opacity": HIDDEN} if hidden else panel.strength(1)
    mark = {"type": "point", "filled": True, "size": 80, "tooltip": {"content": "data"}}
    place = {**panel.place, **_beside(panel)} if panel.figure.mark == "points" else panel.place
    return {"mark": mark, "encoding": {**place, **panel.look("color", "shape"), **strength}}


def _bars(panel: Panel) -> Json:
    place = {**panel.place, "y": {**panel.y, "stack": None}, **_beside(panel)}
    if panel.figure.y.log:
        place["y2"] = {"datum": panel.y["scale"]["domain"][0]}
    mark = {"type": "bar", "tooltip": {"content": "data"}}
    return {"mark": mark, "encoding": {**place, **panel.look("color"), **panel.strength(1)}}


def _beside(panel: Panel) -> Json:
    """Bars and points of several series stand beside one another, unless the series is the x axis again."""
    figure = panel.figure
    if not figure.series or figure.series == figure.x.field or X not in panel.drawn.orders:
        return {}
    return {"xOffset": {"field": SERIES, "type": "nominal", "sort": panel.drawn.values(SERIES)}}


def _interval(panel: Panel) -> Json:
    """From low to high: a band around a line, a stroke through a point or a bar."""
    place = {**panel.place, "y": {**panel.y, "field": LOW}, "y2": {"field": HIGH}}
    band = panel.figure.mark == "line" and X not in panel.drawn.orders
    mark: Json = {"type": "area", "tooltip": None} if band else {"type": "rule", "strokeWidth": 2, "tooltip": None}
    look = panel.look("color")
    if panel.figure.mark != "line":
        place |= _beside(panel)
    if panel.figure.mark == "bar":
        look = {"color": {"value": panel.ink}}
    transforms = [{"filter": f"isValid(datum.{LOW}) && isValid(datum.{HIGH})"}]
    if panel.figure.y.log:  # which may have no place for the lower end
        transforms.append({"calculate": f"max(datum.{LOW}, {panel.y['scale']['domain'][0]!r})", "as": LOW})
    return {
        "transform": transforms,
        "mark": mark,
        "encoding": {**place, **look, **panel.strength(0.2 if band else 1)},
    }


def _rule_lines(panel: Panel) -> list[Json]:
    mark = {"type": "rule", "strokeDash": [6, 5], "strokeWidth": 1.75, "color": panel.ink, "tooltip": None}
    data = {"values": [{"value": placed.rule.value} for placed in panel.rules]}
    y = {**panel.y, "field": "value"}
    return [{"data": data, "mark": mark, "encoding": {"y": y}}] if panel.rules else []


def _rule_labels(panel: Panel) -> list[Json]:
    """The labels of rules, twice: first as wide strokes in the colour of the paper, then as text."""
    halo = {"color": panel.paper, "stroke": panel.paper, "strokeWidth": 5, "strokeJoin": "round"}
    found: list[Json] = []
    for align, x in (("left", 0), ("center", panel.width / 2), ("right", "width")):
        rows = [{"label": placed.rule.label, "at": placed.at} for placed in panel.rules if placed.align == align]
        mark = {"type": "text", "align": align, "baseline": "bottom", "fontSize": panel.font,
                "limit": panel.width, "tooltip": None}  # fmt: skip
        encoding = {
            "x": {"value": x},
            "y": {**panel.y, "field": "at"},
            "text": {"field": "label", "type": "nominal"},
        }
        styles = (halo, {"color": panel.ink}) if rows else ()
        found += [{"data": {"values": rows}, "mark": {**mark, **style}, "encoding": encoding} for style in styles]
    return found


def _heat(panel: Panel) -> list[Json]:
    """Squares, with their numbers where there is room for them."""
    values = panel.drawn.numbers(SERIES)
    low, high = min(values), max(values)
    domain = [low, high] if low < high else [low - 0.5, high + 0.5]
    scale = {"scheme": "viridis", "domain": domain}
    colour = {"field": SERIES, "type": "quantitative", "scale": scale, "legend": panel.legend}
    cells: Json = {
        "mark": {"type": "rect", "tooltip": {"content": "data"}},
        "encoding": {**panel.place, "color": colour},
    }
    columns, rows = (max(len(panel.drawn.orders[key]), 1) for key in (X, Y))
    if panel.width / columns < CELL_ROOM[0] * panel.font or panel.height / rows < CELL_ROOM[1] * panel.font:
        return [cells]
    light = f"datum.{SERIES} > {domain[0] + 0.55 * (domain[1] - domain[0])!r}"
    ink = {"condition": {"test": light, "value": ON_CELL[1]}, "value": ON_CELL[0]}
    text = {"field": SERIES, "type": "quantitative", "format": ".3~g"}
    numbers = {
        "mark": {"type": "text", "fontSize": panel.font, "tooltip": None},
        "encoding": {**panel.place, "color": ink, "text": text},
    }
    return [cells, numbers]
