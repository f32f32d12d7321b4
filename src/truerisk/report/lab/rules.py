"""Places for the labels of a figure's rules: near their line, off the points and lines of all panels, and apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from truerisk.lab.figure import Figure, Rule
from truerisk.lab.marks import Bars, Histogram, Line, Slope
from truerisk.report.lab.keys import DOT as POINT
from truerisk.report.lab.keys import FACET, GROUP, HIGH, KIND, LOW, SERIES, Json, X, Y
from truerisk.report.lab.rows import Drawable
from truerisk.report.lab.scales import EDGE, slope_places, x_numbers
from truerisk.report.labels import text_width

DOT = 6  # pixels from the middle of a point to its edge, and a little air
STEP = 3  # pixels between the places at which a line is looked at
GAP = 2  # pixels between a rule and its label
ROWS = 3  # labels move at most this many times their height away from their rule for the sake of points
BELOW = 8  # pixels: a label moves away from its rule by this much rather than below it
ASIDE = "aside"  # right of the panel
ALIGNS = ("right", "left", "center")  # where on its rule a label stands, the best one first
WIDE, SHARE = 600, 0.25  # pixels of paper from which labels stand right of the panel, and their share of it at most
GROW = 3  # times that the y axis is extended to make room at the top


@dataclass(frozen=True)
class Placed:
    """A rule with the place of its label: the bottom line of the text, in the numbers of the y axis."""

    rule: Rule
    at: float
    align: str


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


@dataclass(frozen=True)
class _Paper:
    """A panel in pixels: from the numbers of the axes to places."""

    figure: Figure
    drawn: Drawable
    width: float
    height: float
    font: int
    low: float
    high: float
    named: bool  # lines have names at their ends

    @cached_property
    def x_ends(self) -> tuple[float, float]:
        numbers = x_numbers(self.figure, self.drawn)
        low, high = min(numbers), max(numbers)
        return (math.log(low), math.log(high)) if self.figure.x.log else (low, high)

    def x(self, value: float) -> float:
        (low, high), at = self.x_ends, math.log(value) if self.figure.x.log else value
        return EDGE + (self.width - 2 * EDGE) * (at - low) / (high - low) if low < high else self.width / 2

    def y(self, value: float) -> float:
        low, high, at = (self.axis(number) for number in (self.low, self.high, max(value, self.least)))
        return self.height * (high - at) / (high - low)

    def number(self, y: float) -> float:
        low, high = self.axis(self.low), self.axis(self.high)
        at = high - y / self.height * (high - low)
        return math.exp(at) if self.figure.y.log else at

    def axis(self, value: float) -> float:
        return math.log(value) if self.figure.y.log else value

    @property
    def least(self) -> float:
        return self.low if self.figure.y.log else -math.inf


def room_aside(figure: Figure, drawn: Drawable, width: float, font: int) -> float:
    """Pixels right of a panel of bars for the labels of its rules: inside, bars would stand behind them; 0 if none."""
    if len(figure.rules) != 1 or not isinstance(figure.mark, Bars) or drawn.faceted or width < WIDE:
        return 0.0
    room = 3 * GAP + text_width(figure.rules[0].label, font)
    return room if room <= SHARE * width else 0.0


def place_rules(
    figure: Figure, drawn: Drawable, size: tuple[float, float], font: int, ends: tuple[float, float], named: bool
) -> tuple[list[Placed], tuple[float, float]]:
    """The rules with places for their labels, and the ends of the y axis, extended upwards if a label needs it."""
    rules = [r for r in figure.rules if not r.upright and (r.value > 0 or not figure.y.log)]
    rules.sort(key=lambda rule: rule.value)
    placed: list[Placed] = []
    for _ in range(1 + GROW):
        paper = _Paper(figure, drawn, *size, font, *ends, named)
        placed, top = _placed(paper, rules)
        if top >= 0:
            break
        ends = (ends[0], paper.number(1.1 * top))
    return placed, ends


def _placed(paper: _Paper, rules: Sequence[Rule]) -> tuple[list[Placed], float]:
    """The labels, and where the highest one begins: below 0 it sticks out of the panel."""
    found: list[Placed] = []
    boxes: list[_Box] = []
    marks = list(_marks(paper)) if rules else []
    for rule in rules:
        lines = [_line(paper, other) for other in rules if other.value != rule.value]
        box, align = _best(paper, rule, [*marks, *lines], boxes)
        boxes.append(box)
        found.append(Placed(rule, paper.number(box.bottom), align))
    return found, min((box.top for box in boxes), default=0.0)


def _best(paper: _Paper, rule: Rule, marks: Sequence[_Box], taken: Sequence[_Box]) -> tuple[_Box, str]:
    """The nearest place off all marks; without one, the nearest place with the fewest marks. Labels never overlap."""
    tall, wide = 1.2 * paper.font, min(text_width(rule.label, paper.font), paper.width)
    at, far = paper.y(rule.value), ROWS * 1.2 * paper.font
    near = [mark for mark in marks if mark.top < at + far + tall + GAP and mark.bottom > at - far - tall - GAP]
    best: tuple[tuple[int, float], _Box, str] | None = None
    for align in ALIGNS:
        left = {"right": paper.width - wide, "left": 0.0, "center": (paper.width - wide) / 2}[align]
        column = [mark for mark in near if mark.left < left + wide and mark.right > left]
        away = 0.0
        while away <= far or best is None:
            for below in (False, True):
                bottom = at + GAP + away + tall if below else at - GAP - away
                box = _Box(left, bottom - tall, left + wide, bottom)
                if bottom > paper.height or any(box.meets(other) for other in taken):
                    continue
                cost = (sum(box.meets(mark) for mark in column), away + BELOW * below + ALIGNS.index(align))
                if best is None or cost < best[0]:
                    best = cost, box, align
            away += 1.0
    assert best is not None  # the loop of the first alignment goes up until there is room
    return best[1], best[2]


def _line(paper: _Paper, rule: Rule) -> _Box:
    at = paper.y(rule.value)
    return _Box(0.0, at - 1, paper.width, at + 1)


def _marks(paper: _Paper) -> Iterator[_Box]:
    """All that is drawn in any panel, as small boxes."""
    drawn = paper.drawn
    if X in drawn.orders:
        if isinstance(paper.figure.mark, Slope):
            yield from _slopes(paper)
            return
        band = paper.width / max(len(drawn.orders[X]), 1)
        for row in drawn.rows:
            left = drawn.orders[X].index(row[X]) * band
            top, bottom = _reach(paper, row)
            yield _Box(left, top - DOT, left + band, bottom + DOT)
        return
    lines: dict[tuple[object, ...], list[tuple[float, float, float]]] = {}
    for row in drawn.rows:
        x, (top, bottom) = paper.x(row[X]), _reach(paper, row)
        if row[KIND] != POINT:
            lines.setdefault((row.get(SERIES), row.get(FACET), row.get(GROUP)), []).append((x, top, bottom))
        yield _Box(x - DOT, top - DOT, x + DOT, bottom + DOT)
    if not isinstance(paper.figure.mark, Line):
        return
    for points in lines.values():
        for (x, top, bottom), (other, top_2, bottom_2) in pairwise(sorted(points)):
            steps = max(1, math.ceil((other - x) / STEP))
            for share in (k / steps for k in range(1, steps)):
                middle = x + share * (other - x)
                ends = top + share * (top_2 - top), bottom + share * (bottom_2 - bottom)
                yield _Box(middle - STEP, ends[0] - GAP, middle + STEP, ends[1] + GAP)


def _slopes(paper: _Paper) -> Iterator[_Box]:
    """The states and the lines between them, as small boxes."""
    lines: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    order = paper.drawn.orders[X]
    first, last = slope_places(len(order), paper.width, paper.named)
    for row in paper.drawn.rows:
        x = first + order.index(row[X]) * (last - first) / max(len(order) - 1, 1)
        top, bottom = _reach(paper, row)
        yield _Box(x - DOT, top - DOT, x + DOT, bottom + DOT)
        lines.setdefault((row.get(SERIES), row.get(FACET), row.get(GROUP)), []).append((x, paper.y(row[Y])))
    for points in lines.values():
        for (x, y), (other, y_2) in pairwise(sorted(points)):
            steps = max(1, math.ceil((other - x) / STEP))
            for share in (k / steps for k in range(steps + 1)):
                middle, at = x + share * (other - x), y + share * (y_2 - y)
                yield _Box(middle - STEP, at - GAP, middle + STEP, at + GAP)


def _reach(paper: _Paper, row: Json) -> tuple[float, float]:
    """From where to where a point reaches with its interval; a bar begins at the end of the axis, or at 0."""
    values = [value for key in (Y, LOW, HIGH) if (value := row.get(key)) is not None]
    if isinstance(paper.figure.mark, Bars | Histogram):
        values.append(paper.low if paper.figure.y.log else 0.0)
    places = [paper.y(value) for value in values]
    return min(places), max(places)
