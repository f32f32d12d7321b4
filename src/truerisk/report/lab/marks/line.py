"""Lines over a continuous axis: bands from five seeds on, thin lines for two to four."""

from __future__ import annotations

from collections import Counter

from truerisk.lab.marks import Line
from truerisk.report.lab.averages import seeds_as_lines
from truerisk.report.lab.keys import FACET, GROUP, HIGH, LOW, MEAN, ONE_SEED, SERIES, SLIDE, Json, X
from truerisk.report.lab.panel import HIDDEN, Panel

MANY_POINTS = 40  # a line of more points is drawn without them
WIDTH = 2.75


def layers(panel: Panel) -> list[Json]:
    return [*band(panel), *thin(panel), line(panel), tips(panel), *panel.dots()]


def line(panel: Panel) -> Json:
    look = {**panel.look("color"), **panel.dash()}
    mark = {"type": "line", "strokeWidth": WIDTH, "strokeJoin": "round", "tooltip": None}
    return panel.layer(mark, {**panel.place, **look, **panel.strength(1)})


def thin(panel: Panel) -> list[Json]:
    """The seeds one by one."""
    seeds = panel.drawn.of(ONE_SEED)
    if not seeds or not seeds_as_lines(panel.drawn.of(MEAN), seeds):
        return panel.seeds_as_dots()
    mark = {"type": "line", "strokeWidth": 1.1, "tooltip": None}
    encoding = {**panel.place, **panel.look("color"), "detail": {"field": GROUP}, **panel.strength(0.45)}
    return [panel.layer(mark, encoding, ONE_SEED)]


def band(panel: Panel) -> list[Json]:
    """From low to high around a line; a stroke where values stand side by side, or some have no interval."""
    if not panel.drawn.numbers(LOW):
        return []
    place = {**panel.place, "y": {**panel.y, "field": LOW}, "y2": {"field": HIGH}}
    stroke = X in panel.drawn.orders or any(LOW not in row for row in panel.drawn.of(MEAN))
    mark: Json = {"type": "rule", "strokeWidth": 2} if stroke else {"type": "area"}
    encoding = {**place, **panel.look("color"), **panel.strength(1 if stroke else 0.2)}
    return [panel.layer({**mark, "tooltip": None}, encoding, more=inside(panel))]


def inside(panel: Panel) -> list[Json]:
    """Only rows with an interval; on a logarithmic axis its lower end may have no place."""
    transforms: list[Json] = [{"filter": f"isValid(datum.{LOW}) && isValid(datum.{HIGH})"}]
    if panel.figure.y.log:
        least = panel.y["scale"]["domain"][0]
        transforms.append({"calculate": f"max(datum.{LOW}, {least!r})", "as": LOW})
    return transforms


def tips(panel: Panel) -> Json:
    """Points, which also carry the tooltips; along a line of many points they show nothing else."""
    lengths = Counter((row.get(SERIES), row.get(FACET), row.get(SLIDE)) for row in panel.drawn.rows)
    mark = panel.figure.mark
    hidden = isinstance(mark, Line) and (not mark.points or max(lengths.values()) > MANY_POINTS)
    strength = {"opacity": HIDDEN} if hidden else panel.strength(1)
    point = {"type": "point", "filled": True, "size": 80, "tooltip": {"content": "data"}}
    point |= {"stroke": panel.paper, "strokeWidth": 0.75}  # points that overlap stay apart
    return panel.layer(point, {**panel.place, **panel.look("color", "shape"), **strength})
