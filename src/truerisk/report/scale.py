"""A certificate in one picture: a scale of error rates from 0 to guessing, with the certified range and its marks.

The picture is an SVG element of its own. Style sheets color it by classes (``style.css``: light and dark); without one
it has colors of its own. A certificate far below guessing gets a second, magnified scale, joined to the first one.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import permutations

from truerisk.certificates.tale import Quantity, lower, seen, upper

ZOOM_BELOW = 1 / 3  # of the scale: if all marks are in this part, they are magnified
HEADROOM = 1.2  # a magnified scale ends at a round number of at least this times its last mark
ROUND = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
PHONE = 500  # pixels: narrower pictures have smaller letters, and their title above the bar
COLUMN = 150  # pixels: for the title of a wide picture
GAP, POLE = 12, 6  # pixels between two labels of a row, and between a label and the leader line of another one
LINE = 1.3  # from one line of text to the next, in em
WRAPS = (99, 22, 15, 10)  # characters in a line: labels are broken into lines only if they find no place otherwise
LETTERS = (" .,:ijlI'|", 0.4), ("frt-()", 0.5), ("mwMW%\u2192", 1.1)  # widths in em of bold letters: at least DejaVu's
BEYOND = "no better than guessing \u2192"
FILLS = {
    "track": "#dfe0da",
    "zone": "#efcfc5",
    "panel": "#f4f4ef",
    "band": "#6dbb88",
    "band weak": "#e0b05c",
    "mark": "#14653a",
    "mark weak": "#8a5a00",
    "dot": "#1b1d21",
    "tick": "#565b63",
    "leader": "#8b9098",
}  # where no style sheet says otherwise


@dataclass(frozen=True)
class Scale:
    """Error rates on one scale; a value that is None is not drawn.

    ``chance``: the error rate of guessing. ``upper`` and ``lower``: the certified range. ``observed``: the error rate
    on the certification examples. ``baseline``: the hold-out bound. ``training``: the error rate on the training
    examples.
    """

    chance: float
    upper: float
    lower: float | None = None
    observed: float | None = None
    baseline: float | None = None
    training: float | None = None

    @property
    def last(self) -> float:
        """The last of the marks, which may lie beyond guessing."""
        return max(v for v in (self.upper, self.lower, self.observed, self.baseline, self.training) if v is not None)

    @property
    def full(self) -> float:
        """The whole scale ends at guessing, or at 1 if a mark lies beyond."""
        return self.chance if 0 < self.chance <= 1 and self.last <= self.chance else 1.0

    @property
    def end(self) -> float:
        """The scale of the marks ends at a round number if it is magnified, else with the whole scale."""
        return _round_up(HEADROOM * self.last) if 0 < self.last < ZOOM_BELOW * self.full else self.full


def common_end(scales: Sequence[Scale]) -> float:
    """The right end with which several pictures share one scale."""
    last, full = max(scale.last for scale in scales), max(scale.full for scale in scales)
    return _round_up(HEADROOM * last) if 0 < last < ZOOM_BELOW * full else full


def finding(scale: Scale, title: str = "") -> str:
    """The picture in words.

    >>> print(finding(Scale(0.9, 0.029, observed=0.013)).replace(" %", "%"))
    Scale of error rates: certified at most 2.9%, observed 1.3%, guessing 90.0%.
    """
    parts = [f"certified at most {upper(scale.upper).percent}"]
    if scale.lower is not None:
        parts.append(f"at least {lower(scale.lower).percent}")
    for value, words, number, _ in _facts(scale):
        if value is not None:
            parts.append(f"{words} {number.percent}")
    parts.append(f"guessing {seen(scale.chance).percent}")
    worse = " The certificate is no better than guessing." if scale.upper > scale.chance else ""
    return f"{f'{title}. ' if title else ''}Scale of error rates: {', '.join(parts)}.{worse}"


def scale_svg(
    scale: Scale, width: int, *, end: float | None = None, title: str = "", overview: bool = True
) -> str:
    """The picture as an SVG element, ``width`` pixels wide; a phone needs one of 320.

    ``end``: the right end of the scale, for pictures that share one (``common_end``). ``title``: a name for the bar,
    left of it. ``overview``: whether a magnified scale is joined to the whole one.
    """
    if end is not None and end < min(scale.last, 1.0):
        raise ValueError("the scale ends before its last mark; take common_end of all scales")
    end = scale.end if end is None else end
    phone = width < PHONE
    size, big, bar = (13, 16, 30) if phone else (16, 20, 40)
    column = COLUMN if title and not phone else 0
    left, right = column + 2.2 * size, width - 3.7 * size
    weak = " weak" if scale.upper > scale.chance else ""
    inside = end > scale.chance * (1 - 1e-9)  # guessing is on this scale

    def at(value: float) -> float:
        return left + (right - left) * min(max(0.0, value / end), 1.0)

    certified = _Label(at(scale.upper), "certified: at most", upper(scale.upper), f"mark{weak}", big)
    above, below = [certified], []
    if scale.lower:
        above.append(_Label(at(scale.lower), "at least", lower(scale.lower), f"mark{weak}", size))
    below += [
        _Label(at(value), words, number, kind, size) for value, words, number, kind in _facts(scale) if value is not None
    ]
    if inside:
        beyond = BEYOND if end > scale.chance else ""
        below.append(_Label(at(scale.chance), "guessing:", seen(scale.chance), "tick", size, beyond))

    parts: list[str] = []
    y = 0.0
    if title and phone:
        parts.append(_text(0, 1.1 * size, "start", "title", size, [escape(title)]))
        y += 1.8 * size
    panel = overview and end < scale.full
    if panel:
        parts.append(_overview(scale, end, column, width, y, size))
        y += 1.5 * size + 14 + 1.6 * size
    top = y
    y += 12 if panel else 2
    over, under = place(above, column, width), place(below, column, width)
    y += _height(over)
    parts += [
        _rect(left, y, right - left, bar, "track", 4),
        _rect(at(scale.chance), y - 5, right - at(scale.chance), bar + 10, "zone") if end > scale.chance else "",
        _rect(at(scale.lower or 0.0), y, at(scale.upper) - at(scale.lower or 0.0), bar, f"band{weak}"),
        _text(left - 7, y + bar / 2 + 0.35 * size, "end", "end", size, ["0%"]),
    ]
    if not inside or end > scale.chance:
        parts.append(_text(right + 7, y + bar / 2 + 0.35 * size, "start", "end", size, [_tick(end)]))
    if title and not phone:
        lines = textwrap.wrap(title, 15)
        middle = y + bar / 2 + (0.35 - LINE * (len(lines) - 1) / 2) * size
        parts.append(_text(0, middle, "start", "title", size, [escape(line) for line in lines]))
    parts += [_drawn(each, over, y, -1) for each in over] + [_drawn(each, under, y + bar, 1) for each in under]
    parts += [_symbol(each.label, y, bar) for each in (*under, *over[::-1])]
    y += bar + _height(under) + (12 if panel else 4)
    if panel:
        parts.insert(0, _beam(scale, end, column, width, top, y, size))
    head = f'<svg class="scale" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {math.ceil(y)}" role="img"'
    return f'{head} aria-label="{escape(finding(scale, title))}">{"".join(parts)}</svg>'


# ---- where labels are ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Label:
    """Words and a number at a mark; ``note`` is a line of its own."""

    x: float
    words: str
    number: Quantity
    kind: str  # of the mark
    size: int
    note: str = ""

    def lines(self, wrap: int) -> tuple[str, ...]:
        """The text, its number never broken."""
        number = self.number.percent.replace(" ", "\u00a0")
        wrapped = [textwrap.wrap(text, wrap, break_long_words=False, break_on_hyphens=False)
                   for text in (f"{self.words} {number}", self.note)]
        return tuple(sum(wrapped, []))


@dataclass(frozen=True)
class Placed:
    """A label with its place: rows count from the bar outward."""

    label: _Label
    lines: tuple[str, ...]
    left: float
    width: float
    row: int

    @property
    def right(self) -> float:
        return self.left + self.width


def place(labels: Sequence[_Label], start: float, end: float) -> list[Placed]:
    """A place for each label between ``start`` and ``end``, such that no two overlap and no leader line meets a text.

    Leader lines are vertical. Labels are placed from the bar outward, in the order that needs the fewest rows: each in
    the first row where it fits, at a place that leaves out the leader lines of all labels that follow. Such an order
    exists where any two labels fit side by side, so the text is broken into lines until one is found.
    """
    for wrap in WRAPS:
        tries = [_in_order(order, wrap, start, end) for order in permutations(labels)]
        found = [places for places in tries if places is not None]
        if found:
            return min(found, key=lambda places: (max((p.row for p in places), default=0), _shift(places)))
    raise ValueError("the picture is too narrow for its labels")


def _shift(places: Sequence[Placed]) -> float:
    """How far the labels are from the middle above their marks, and from the bar."""
    return sum(abs((p.left + p.right) / 2 - p.label.x) + 40 * p.row for p in places)


def _in_order(labels: Sequence[_Label], wrap: int, start: float, end: float) -> list[Placed] | None:
    placed: list[Placed] = []
    for i, label in enumerate(labels):
        lines = label.lines(wrap)
        wide, later = max(_width(line, label.size) for line in lines), [other.x for other in labels[i + 1 :]]
        edges = [label.x - wide / 2]
        for x in (each.x for each in labels):
            edges += [x + POLE, x - POLE - wide]
        options = []
        for left in edges:
            left = min(max(left, start), end - wide)
            touches = left - POLE <= label.x <= left + wide + POLE and left >= start
            if touches and not any(_in(x, left, wide) for x in later):
                row = _row(label, left, wide, placed)
                options.append(Placed(label, lines, left, wide, row))
        if not options:
            return None
        placed.append(min(options, key=lambda p: (p.row, _shift([p]))))
    return placed


def _row(label: _Label, left: float, wide: float, placed: Sequence[Placed]) -> int:
    """The first row where this label overlaps no other one, and where no leader line of an outer one crosses it."""
    row = 0
    while any(
        (p.row == row and left < p.right + GAP and p.left < left + wide + GAP)
        or (p.row > row and _in(p.label.x, left, wide))
        for p in placed
    ):
        row += 1
    return row


def _in(x: float, left: float, wide: float) -> bool:
    """Whether a leader line at x is too near a text."""
    return left - POLE < x < left + wide + POLE


def _width(text: str, size: float) -> float:
    """An upper end of the width of a text in bold, for common fonts."""
    return size * sum(next((w for some, w in LETTERS if c in some), 0.72) for c in text)


# ---- the drawing ---------------------------------------------------------------------------------------------------


def _facts(scale: Scale) -> list[tuple[float | None, str, Quantity, str]]:
    """The marks below the bar."""
    values = (scale.observed, "observed", "dot"), (scale.training, "on its own training examples", "ring")
    facts: list[tuple[float | None, str, Quantity, str]] = [(v, text, seen(v or 0.0), kind) for v, text, kind in values]
    return [*facts, (scale.baseline, "hold-out baseline", upper(scale.baseline or 0.0), "tick")]


def _tall(row: Sequence[Placed]) -> float:
    return max(LINE * p.label.size * len(p.lines) for p in row) + 4


def _rows(places: Sequence[Placed]) -> list[float]:
    """How far from the bar each row begins, and where the last one ends."""
    ends = [10.0 if places else 0.0]
    for row in range(1 + max((p.row for p in places), default=-1)):
        ends.append(ends[-1] + max((_tall([p]) for p in places if p.row == row), default=0.0))
    return ends


def _height(places: Sequence[Placed]) -> float:
    return _rows(places)[-1]


def _drawn(place: Placed, places: Sequence[Placed], edge: float, way: int) -> str:
    """A label with its leader line to this edge of the bar; ``way``: -1 above, 1 below."""
    label, size = place.label, place.label.size
    near = edge + way * _rows(places)[place.row]
    tall = LINE * size * len(place.lines)
    first = (near if way > 0 else near - tall) + 0.95 * size
    reach = near if place.left <= label.x <= place.right else near + way * tall
    share = (label.x - place.left) / place.width
    anchor, x = next(
        (name, at)
        for least, name, at in (
            (2 / 3, "end", place.right),
            (1 / 3, "middle", (place.left + place.right) / 2),
            (-math.inf, "start", place.left),
        )
        if share > least
    )
    number = label.number.percent.replace(" ", "\u00a0")
    lines = [
        escape(line).replace(number, f'<tspan class="number" font-weight="650">{number}</tspan>')
        for line in place.lines
    ]
    weight = f"strong{label.kind[4:]}" if label.words.startswith("certified") else "label"
    leader = f'<path class="leader {label.kind}" d="M{label.x:.1f},{edge:.1f}V{reach:.1f}" stroke="{FILLS["leader"]}"/>'
    return leader + _text(x, first, anchor, weight, size, lines)


def _symbol(label: _Label, y: float, bar: float) -> str:
    """The mark on the bar."""
    x, middle = f"{label.x:.1f}", y + bar / 2
    if label.kind == "dot":
        return f'<circle class="dot" cx="{x}" cy="{middle:.1f}" r="6" fill="{FILLS["dot"]}"/>'
    if label.kind == "ring":
        return f'<circle class="ring" cx="{x}" cy="{middle:.1f}" r="9" fill="none" stroke="{FILLS["dot"]}"/>'
    wide = {"tick": 2.0}.get(label.kind, 5.0 if label.words.startswith("certified") else 3.0)
    return _rect(label.x - wide / 2, y - 5, wide, bar + 10, label.kind)


def _overview(scale: Scale, end: float, start: float, width: float, y: float, size: int) -> str:
    """The whole scale, slim, with the certified range."""
    full, top = width - start, y + 1.5 * size
    begin, stop = (start + full * min(v / scale.full, 1.0) for v in (scale.lower or 0.0, scale.upper))
    chance = seen(scale.chance).percent.replace(" ", "\u00a0")
    zero, guess = (f'<tspan class="number" font-weight="650">{number}</tspan>' for number in ("0%", chance))
    return (
        _text(start, y + size, "start", "label", size, [f"error rate: {zero}"])
        + _text(width, y + size, "end", "label", size, [f"guessing: {guess}"])
        + _rect(start, top, full, 14, "track", 4)
        + _rect(begin, top, max(stop - begin, 3.0), 14, "band")
        + _rect(width - 2, top - 3, 2, 20, "tick")
    )


def _beam(scale: Scale, end: float, start: float, width: float, top: float, bottom: float, size: int) -> str:
    """From the part of the whole scale that is magnified to the panel that shows it."""
    tip, stop = top - 1.6 * size, start + (width - start) * end / scale.full
    sides = f"M{start:.1f},{tip:.1f}L{start:.1f},{top:.1f}V{bottom:.1f}H{width}V{top:.1f}L{stop:.1f},{tip:.1f}"
    return f'<path class="panel" d="{sides}" fill="{FILLS["panel"]}" stroke="{FILLS["leader"]}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str, radius: int = 0) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.0):.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {size} rx="{radius}" fill="{FILLS[kind]}"/>'


def _text(x: float, y: float, anchor: str, kind: str, size: float, lines: Sequence[str]) -> str:
    """Lines of text that is escaped already."""
    rows = "".join(
        f'<tspan x="{x:.1f}" dy="{LINE * size if i else 0:.1f}">{line}</tspan>' for i, line in enumerate(lines)
    )
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{rows}</text>'


def _round_up(value: float) -> float:
    """The next round number, as a person would end an axis.

    >>> [_round_up(v) for v in (0.0528, 0.0035, 0.11)]
    [0.06, 0.004, 0.15]
    """
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{next(r for r in ROUND if r * power >= value * (1 - 1e-9)) * power:.3g}")


def _tick(value: float) -> str:
    return f"{100 * value:.3g}%"
