"""Labels that are joined to their marks by leader lines, placed so that nothing overlaps: beside a bar, in a column."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

GAP, POLE = 12, 6  # pixels between two labels of a row, and between a label and the leader line of another one
BREAKS = (99, 22, 15, 10)  # characters in a line: labels are broken into lines only if they find no place otherwise
LETTERS = (" \u00a0.,:ijlI'|", 0.4), ("frt-()", 0.5), ("mwMW%\u2192", 1.1)  # widths in em of bold letters, others: 0.72
REGULAR = 0.91  # of the width of bold letters. Both are upper ends for common fonts; DejaVu Sans is the widest
EPS = 1e-6  # pixels: rounding errors
ROW_COST = 40  # pixels: a label moves sideways by this much rather than one row away from the bar


@dataclass(frozen=True)
class Label:
    """Words and a number at the mark ``x``; ``note`` begins a new line."""

    x: float
    words: str
    number: str  # never broken, in bold; a strong label is bold as a whole
    kind: str  # of the mark
    size: int  # of the letters
    note: str = ""
    strong: bool = False

    def lines(self, length: int) -> tuple[str, ...]:
        """The text in lines of this many characters."""
        lines: list[str] = []
        for text in (f"{self.words} {self.number}", self.note):
            lines += textwrap.wrap(text, length, break_long_words=False, break_on_hyphens=False)
        return tuple(lines)

    def width(self, line: str) -> float:
        """An upper end of the width of a line."""
        bold = line if self.strong else self.number if line.endswith(self.number) else ""
        return self.size * (REGULAR * _em(line.removesuffix(bold)) + _em(bold))


@dataclass(frozen=True)
class Placed:
    """A label with its place; rows count from the bar outward."""

    label: Label
    lines: tuple[str, ...]
    left: float
    width: float
    row: int

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    @property
    def cost(self) -> float:
        """How far the label is from the place next to its mark."""
        return abs(self.middle - self.label.x) + ROW_COST * self.row


def place(labels: Sequence[Label], start: float, end: float) -> list[Placed]:
    """A place for each label between ``start`` and ``end``: no two overlap, and no leader line meets another's text.

    Labels are placed from the bar outward, each in the first row where it fits, off the leader lines of all labels that
    follow. Of all orders the one with the fewest rows is taken. Where any two labels fit side by side there is such an
    order: of three neighboring marks, the first label fits left of the second mark, or the third label right of it.
    So texts are broken into shorter lines until an order is found.
    """
    for length in BREAKS:
        tries = [_in_order(order, length, start, end) for order in permutations(labels)]
        found = [places for places in tries if places is not None]
        if found:
            return min(found, key=lambda places: (max((p.row for p in places), default=0), sum(p.cost for p in places)))
    raise ValueError("the picture is too narrow for its labels")


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near as possible to the wanted ones (in rising order) that keep ``gap`` between neighbors.

    >>> apart([10.0, 10.0, 50.0], 20, 0, 100)
    [0.0, 20.0, 50.0]
    """
    groups: list[list[float]] = []  # of neighbors that touch: [sum of wanted starts, how many]
    for index, value in enumerate(wanted):
        groups.append([value - index * gap, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] >= groups[-1][0] / groups[-1][1]:
            total, number = groups.pop()
            groups[-1] = [groups[-1][0] + total, groups[-1][1] + number]
    starts = [total / number for total, number in groups for _ in range(int(number))]
    most = high - gap * (len(wanted) - 1)
    return [min(max(start, low), max(low, most)) + index * gap for index, start in enumerate(starts)]


def text_width(text: str, size: float) -> float:
    """An upper end of the width of a text in regular letters, in pixels."""
    return size * REGULAR * _em(text)


def _in_order(labels: Sequence[Label], length: int, start: float, end: float) -> list[Placed] | None:
    """The places of labels from the bar outward; None if this order has none."""
    placed: list[Placed] = []
    for i, label in enumerate(labels):
        lines = label.lines(length)
        width, later = max(map(label.width, lines)), [other.x for other in labels[i + 1 :]]
        beside = [left for other in labels for left in (other.x + POLE, other.x - POLE - width)]
        beside += [left for p in placed for left in (p.right + GAP, p.left - GAP - width)]
        options = []
        for wanted in (label.x - width / 2, *beside):
            left = min(max(wanted, start), end - width)
            joined = start <= left and left - POLE - EPS <= label.x <= left + width + POLE + EPS
            if joined and not any(_meets(x, left, width) for x in later):
                options.append(Placed(label, lines, left, width, _row(left, width, placed)))
        if not options:
            return None
        placed.append(min(options, key=lambda p: (p.row, p.cost)))
    return placed


def _row(left: float, width: float, placed: Sequence[Placed]) -> int:
    """The first row where this text overlaps no other one, and where no leader line of an outer row meets it."""
    row = 0
    while any(
        (p.row == row and left < p.right + GAP - EPS and p.left < left + width + GAP - EPS)
        or (p.row > row and _meets(p.label.x, left, width))
        for p in placed
    ):
        row += 1
    return row


def _meets(x: float, left: float, width: float) -> bool:
    """Whether a leader line at ``x`` is too near a text."""
    return left - POLE + EPS < x < left + width + POLE - EPS


def _em(text: str) -> float:
    """The width of a bold text, in em."""
    return sum(next((width for some, width in LETTERS if c in some), 0.72) for c in text)
