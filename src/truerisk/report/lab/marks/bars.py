"""Bars from 0, with their interval as a stroke."""

from __future__ import annotations

from truerisk.report.lab.keys import Json, X
from truerisk.report.lab.marks.points import strokes
from truerisk.report.lab.panel import Panel

WIDEST = 130  # pixels of a bar


def layers(panel: Panel) -> list[Json]:
    place = {**panel.place, "y": {**panel.y, "stack": None}, **panel.beside()}
    if panel.figure.y.log:
        place["y2"] = {"datum": panel.y["scale"]["domain"][0]}
    mark: Json = {"type": "bar", "tooltip": {"content": "data"}}
    count = len(panel.drawn.orders[X]) * (max(len(panel.names), 1) if panel.beside() else 1)
    if panel.width / count > WIDEST:
        mark["width"] = {"band": round(WIDEST * count / panel.width, 3)}
    bars = panel.layer(mark, {**place, **panel.look("color"), **panel.strength(1)})
    return [bars, *strokes(panel, panel.ink), *panel.seeds_as_dots(), *panel.dots()]
