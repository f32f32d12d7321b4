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

from truerisk.certificates.tale import Quantity, lower, seen, upper
from truerisk.report.labels import Label, Placed, place

ZOOM_BELOW = 1 / 3  # of a scale that ends at guessing: if all marks are in this part, they are magnified
HEADROOM = 1.2  # a magnified scale ends at a round number of at least this times its last mark
FINEST = 1e-4  # numbers in percent have two decimals, so no scale shows less than this
ROUND = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
PHONE = 500  # pixels: narrower pictures have smaller letters, and their title above the bar
COLUMN, COLUMN_LETTERS = 150, 15  # pixels and letters: for the title of a wide picture
MARGIN = 8  # pixels between a label and the edge of the panel
NEAR = 10  # pixels between the bar and the first row of labels
LINE = 1.3  # from one line of text to the next, in em
BEYOND = "no better than guessing \u2192"
ORDER = ("tick", "ring", "dot", "mark", "mark weak")  # later marks are drawn over earlier ones
COLORS = {
    "track": "#dfe0da",
    "zone": "#efcfc5",
    "panel": "#f4f4ef",
    "band": "#7cc596",
    "band weak": "#e6bd73",
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
    def beyond(self) -> bool:
        """Whether a mark lies beyond guessing."""
        return not 0 < self.last <= self.chance <= 1

    @property
    def full(self) -> float:
        """The whole scale ends at guessing, or at 1 if a mark lies beyond."""
        return 1.0 if self.beyond else self.chance

    @property
    def facts(self) -> list[tuple[float, str, Quantity, str]]:
        """The marks that are not certified: value, words, number, and kind of mark."""
        rates = (self.observed, "observed", "dot"), (self.training, "on its own training examples", "ring")
        facts = [(value, words, seen(value), kind) for value, words, kind in rates if value is not None]
        if self.baseline is not None:
            facts.append((self.baseline, "hold-out baseline", upper(self.baseline), "tick"))
        return facts


def common_end(scales: Sequence[Scale]) -> float:
    """The right end with which one picture or several show all marks: a round number if these are magnified."""
    last, full = max(scale.last for scale in scales), max(scale.full for scale in scales)
    beyond = any(scale.beyond for scale in scales)
    return full if beyond or last >= ZOOM_BELOW * full else min(full, _round_up(HEADROOM * max(last, FINEST)))


def finding(scale: Scale, title: str = "") -> str:
    """The picture in words.

    >>> print(finding(Scale(0.9, 0.029, observed=0.013)))
    Scale of error rates: certified at most 2.9%, observed 1.3%, guessing 90.0%.
    """
    parts = [f"certified at most {upper(scale.upper).percent}"]
    if scale.lower is not None:
        parts.append(f"certified at least {lower(scale.lower).percent}")
    parts += [f"{words} {number.percent}" for _, words, number, _ in scale.facts]
    parts.append(f"guessing {seen(scale.chance).percent}")
    worse = " The certificate is no better than guessing." if scale.upper >= scale.chance else ""
    return f"{f'{title}. ' if title else ''}Scale of error rates: {', '.join(parts)}.{worse}"


def scale_svg(scale: Scale, width: int, *, end: float | None = None, title: str = "", overview: bool = True) -> str:
    """The picture as an SVG element, ``width`` pixels wide; a phone needs one of 320.

    ``end``: the right end of the scale, for pictures that share one (``common_end``). ``title``: a name for the bar,
    left of it. ``overview``: whether a magnified scale is joined to the whole one.
    """
    if end is not None and end < min(scale.last, 1.0):
        raise ValueError("the scale ends before its last mark; take common_end of all scales")
    end = common_end([scale]) if end is None else end
    phone = width < PHONE
    size, big, bar = (13, 16, 30) if phone else (16, 20, 40)
    start = COLUMN if title and not phone else 0
    left, right = start + 3.2 * size, width - 4.8 * size
    beside = 3 + 0.3 * bar  # pixels from the bar to the numbers at its ends: room for a dot at the very end
    weak = " weak" if scale.upper >= scale.chance else ""
    panel, zone = overview and end < scale.full and not scale.beyond, end > scale.chance

    def at(value: float) -> float:
        return left + (right - left) * min(max(0.0, value / end), 1.0)

    above = [Label(at(scale.upper), "certified: at most", upper(scale.upper).percent, f"mark{weak}", big, strong=True)]
    if scale.lower:
        above.append(Label(at(scale.lower), "at least", lower(scale.lower).percent, f"mark{weak}", size))
    below = [Label(at(value), words, number.percent, kind, size) for value, words, number, kind in scale.facts]
    if end >= scale.chance:
        note = BEYOND if zone else ""
        below.append(Label(at(scale.chance), "guessing:", seen(scale.chance).percent, "tick", size, note))
    margin = MARGIN if panel else 0
    over, under = (place(labels, start + margin, width - margin) for labels in (above, below))

    parts, y = [], 0.0
    if title and phone:
        parts.append(_text(0, 1.1 * size, "start", "title", size, [escape(title)]))
        y = 1.8 * size
    if panel:
        parts.append(_overview(scale, start, width, y, size))
        y += 14 + 3.1 * size
    top, y = y, y + (12 if panel else 2) + _rows(over)[-1]
    middle = y + bar / 2 + 0.35 * size  # the line of text in the middle of the bar
    begin = at(scale.lower or 0.0)
    parts.append(_rect(left, y, right - left, bar, "track", 4))
    if zone:
        parts.append(_rect(at(scale.chance), y - 5, right - at(scale.chance), bar + 10, "zone"))
    parts.append(_rect(begin, y, at(scale.upper) - begin, bar, f"band{weak}"))
    parts.append(_text(left - beside, middle, "end", "end", size, ["0%"]))
    if end != scale.chance:
        parts.append(_text(right + beside, middle, "start", "end", size, [f"{100 * end:.3g}%"]))
    if start:
        lines = [escape(line) for line in textwrap.wrap(title, COLUMN_LETTERS)]
        parts.append(_text(0, middle - LINE * size * (len(lines) - 1) / 2, "start", "title", size, lines))
    parts += [_label(each, over, y, y, -1) for each in over]
    for each in under:
        parts.append(_label(each, under, y + bar / 2 if each.label.kind in ("dot", "ring") else y + bar, y + bar, 1))
    parts += [_mark(each.label, y, bar) for each in sorted((*under, *over), key=lambda p: ORDER.index(p.label.kind))]
    y += bar + _rows(under)[-1] + (12 if panel else 4)
    if panel:
        tip = start + (width - start) * end / scale.full  # the part of the whole scale that is magnified
        sides = f"M{start},{top - 1.6 * size:.1f}V{y:.1f}H{width}V{top:.1f}L{tip:.1f},{top - 1.6 * size:.1f}"
        parts.insert(0, f'<path class="panel" d="{sides}" fill="{COLORS["panel"]}" stroke="{COLORS["leader"]}"/>')
    head = f'<svg class="scale" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {math.ceil(y)}" role="img"'
    return f'{head} aria-label="{escape(finding(scale, title))}">{"".join(parts)}</svg>'


def _overview(scale: Scale, start: float, width: float, y: float, size: int) -> str:
    """The whole scale, slim, with the certified range."""
    full, top = width - start, y + 1.5 * size
    begin, stop = (start + full * min(value / scale.full, 1.0) for value in (scale.lower or 0.0, scale.upper))
    return (
        _text(start, y + size, "start", "label", size, [_bold("error rate: ", "0%")])
        + _text(width, y + size, "end", "label", size, [_bold("guessing: ", seen(scale.chance).percent)])
        + _rect(start, top, full, 14, "track", 4)
        + _rect(begin, top, max(stop - begin, 3.0), 14, "band")
        + _rect(width - 2, top - 3, 2, 20, "tick")
    )


def _rows(places: Sequence[Placed]) -> list[float]:
    """How far from the bar each row begins, and where the last one ends."""
    ends = [float(NEAR if places else 0)]
    for row in range(1 + max((p.row for p in places), default=-1)):
        ends.append(ends[-1] + 6 + max(LINE * p.label.size * len(p.lines) for p in places if p.row == row))
    return ends


def _label(placed: Placed, places: Sequence[Placed], mark: float, edge: float, way: int) -> str:
    """A label with the leader line from its mark; ``way``: -1 above this edge of the bar, 1 below."""
    label, x = placed.label, placed.label.x
    tall, near = LINE * label.size * len(placed.lines), edge + way * _rows(places)[placed.row]
    first = (near if way > 0 else near - tall) + 0.95 * label.size
    reach = near if placed.left <= x <= placed.right else near + way * tall
    share = (x - placed.left) / placed.width  # a font may be narrower: its text keeps to the side of the leader line
    anchor, origin = ("start", placed.left) if share < 1 / 3 else ("middle", placed.middle)
    if share > 2 / 3:
        anchor, origin = "end", placed.right
    lines = [
        _bold(line.removesuffix(label.number), label.number) if line.endswith(label.number) else line
        for line in map(escape, placed.lines)
    ]
    path = f'd="M{x:.1f},{mark:.1f}V{reach:.1f}" stroke="{COLORS["leader"]}"'
    kind = label.kind.replace("mark", "strong") if label.strong else "label"
    return f'<path class="leader {label.kind}" {path}/>' + _text(origin, first, anchor, kind, label.size, lines)


def _mark(label: Label, y: float, bar: float) -> str:
    """A dot, a ring or a line on the bar."""
    center = f'cx="{label.x:.1f}" cy="{y + bar / 2:.1f}"'
    if label.kind == "dot":
        return f'<circle class="dot" {center} r="{0.15 * bar:.1f}" fill="{COLORS["dot"]}"/>'
    if label.kind == "ring":
        return f'<circle class="ring" {center} r="{0.23 * bar:.1f}" fill="#ffffff" stroke="{COLORS["dot"]}"/>'
    thick = 2 if label.kind == "tick" else 5 if label.strong else 3
    return _rect(label.x - thick / 2, y - 5, thick, bar + 10, label.kind)


def _rect(x: float, y: float, width: float, height: float, kind: str, radius: int = 0) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.0):.1f}" height="{height:.1f}" rx="{radius}"'
    return f'<rect class="{kind}" {size} fill="{COLORS[kind]}"/>'


def _text(x: float, y: float, anchor: str, kind: str, size: float, lines: Sequence[str]) -> str:
    """Lines of text that is escaped already."""
    place = f'y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    rows = (f'<tspan x="{x:.1f}" dy="{LINE * size * bool(i):.1f}">{line}</tspan>' for i, line in enumerate(lines))
    return f'<text class="{kind}" {place}>{"".join(rows)}</text>'


def _bold(words: str, number: str) -> str:
    return f'{words}<tspan class="number" font-weight="650">{number}</tspan>'


def _round_up(value: float) -> float:
    """The next round number, as people end an axis.

    >>> [_round_up(value) for value in (0.0528, 0.0035, 0.11)]
    [0.06, 0.004, 0.15]
    """
    power = 10.0 ** math.floor(math.log10(value))
    return float(f"{next(r for r in ROUND if r * power >= value * (1 - 1e-9)) * power:.3g}")
