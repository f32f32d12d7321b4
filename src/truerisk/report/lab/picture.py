"""Pictures of claims: where the intervals of the cells lie, next to the region that they must lie in.

Both pictures are drawn from the same plain form, the JSON of a verdict (`Verdict.json`), which may come from a damaged
file. `picture` is the larger one, with a row for each cell, for the page of an experiment; `strip` is one line of the
scoreboard. Shaded: the region. Bar or triangle at the top: published numbers. Line with a bar: interval and mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from truerisk.lab import units
from truerisk.lab.claim import Claim
from truerisk.lab.units import Unit
from truerisk.lab.verdict import Verdict
from truerisk.report.lab.ticks import label, ticks

WIDTH, ROW, EDGE, TOP, FOOT = 240, 14, 8, 6, 16  # pixels
STRIP, HEIGHT, STRIP_EDGE = 104, 15, 4
MOST_ROWS = 12  # cells; more are in the folded table
MARGIN = 0.06  # of the picture, beyond the outermost number
LETTER, FONT, GAP = 6.4, 11, 8  # pixels: width of a digit, size, room between two numbers below the picture
CSS = {"reproduced": "yes", "exact": "yes", "not reproduced": "no", "no verdict": "open"}
KNOWN = {unit.name: unit for unit in vars(units).values() if isinstance(unit, Unit)}


@dataclass(frozen=True)
class Span:
    """One cell: its interval, infinite where an end is not known; no mean for a single seed."""

    low: float
    mean: float | None
    high: float
    seeds: tuple[float, ...]
    decisive: bool


@dataclass(frozen=True)
class Shape:
    """A claim as it is drawn: plain numbers on one scale."""

    css: str
    log: bool
    factor: float
    low: float
    high: float
    published: tuple[float, ...]
    spans: tuple[Span, ...]


def shape(claim: Mapping[str, Any]) -> Shape | None:
    """What can be drawn of a claim in JSON; None without a region. Fields of a wrong type count as missing."""
    wants = claim.get("wants")
    ends = [number(end) for end in wants] if isinstance(wants, list | tuple) and len(wants) == 2 else [None, None]
    low, high = -math.inf if ends[0] is None else ends[0], math.inf if ends[1] is None else ends[1]
    unit = KNOWN.get(str(claim.get("unit")), units.PLAIN)
    log = claim["log"] if isinstance(claim.get("log"), bool) else unit.log
    edges = [end for end in (low, high) if math.isfinite(end) and not (log and end <= 0)]
    if not edges or low >= high:
        return None
    factor = number(claim.get("factor")) or 0.0
    factor = factor if factor > 0 else unit.factor
    published = claim.get("published_at")
    said = [number(each) for each in (published if isinstance(published, list | tuple) else [published])][:2]
    cells = claim["cells"] if isinstance(claim.get("cells"), list | tuple) else []
    spans = [_span(cell, place == claim.get("decisive") or len(cells) == 1) for place, cell in enumerate(cells)]
    found = tuple(sorted(each / factor for each in said if each is not None and math.isfinite(each / factor)))
    css = CSS.get(str(claim.get("verdict")), "open")
    return Shape(css, log, factor, low, high, found, tuple(span for span in spans if span is not None))


def number(value: Any) -> float | None:
    """A finite number, or None.

    >>> number(3), number(True), number("3"), number(float("nan")), number(10**400)
    (3.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _span(cell: Any, decisive: bool) -> Span | None:
    if not isinstance(cell, Mapping):
        return None
    by_seed = cell.get("seeds")
    values = list(by_seed.values()) if isinstance(by_seed, Mapping) else []
    seeds = tuple(value for value in map(number, values) if value is not None)
    low, mean, high = (number(cell.get(name)) for name in ("low", "mean", "high"))
    if mean is None:
        return Span(math.inf, None, -math.inf, seeds, decisive) if seeds else None
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    return Span(min(low, mean), mean, max(high, mean), seeds, decisive)


class Scale:
    """From a number to pixels; what lies outside ends just beyond the edge."""

    def __init__(self, numbers: Iterable[float], log: bool, width: float, edge: float) -> None:
        self.log, self.width, self.edge = log, width, edge
        found = [read for read in map(self._read, numbers) if math.isfinite(read)] or [0.0]
        self.size = max(map(abs, found)) or 1.0  # divided by it, no difference of two numbers is too large for a float
        least, most = min(found) / self.size, max(found) / self.size
        room = MARGIN * ((most - least) or 1.0)
        self.low, self.high = least - room, most + room

    def _read(self, value: float) -> float:
        if not self.log:
            return value
        return math.log(value) if value > 0 else -math.inf

    def __call__(self, value: float) -> float:
        share = (self._read(value) / self.size - self.low) / (self.high - self.low)
        return round(self.edge + (self.width - 2 * self.edge) * min(max(share, -0.02), 1.02), 1)

    @property
    def ends(self) -> tuple[float, float]:
        """The numbers at the two ends, infinite if they are too large for a float."""
        found = (self.low * self.size, self.high * self.size)
        return (_exp(found[0]), _exp(found[1])) if self.log else found


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf


def picture(verdict: Verdict) -> str:
    """An SVG element with a row for each cell; "" where there is nothing to draw. It holds numbers only."""
    claim = verdict.claim
    if not isinstance(claim, Claim) or not verdict.cells:
        return ""
    unit = claim.wants.unit
    drawn = shape({**verdict.json(), "log": unit.log, "factor": unit.factor})
    return large(drawn, unit.suffix == "%") if drawn and drawn.spans else ""


def large(drawn: Shape, percent: bool = False) -> str:
    """The picture of a claim on its page, with numbers below."""
    spans = _shown(drawn.spans)
    seeds = [value for span in spans for value in span.seeds]
    place = Scale([*_numbers(drawn, spans), *seeds], drawn.log, WIDTH, EDGE)
    bottom = TOP + ROW * len(spans) + 2
    parts = [*_region(drawn, place, 0, bottom), *_published(drawn, place)]
    for row, span in enumerate(spans):
        y = TOP + ROW * (row + 0.5)
        parts += _interval(span, place, y, 5)
        kind = "seed" if span.mean is not None else "seed alone"  # an open circle: its spread is unknown
        parts += [f'<circle class="{kind}" cx="{place(value)}" cy="{y}" r="2"/>' for value in span.seeds]
    parts += _axis(drawn, place, bottom + FOOT - 4, percent)
    return _svg(f"interval {drawn.css}", WIDTH, bottom + FOOT, parts)


def strip(drawn: Shape) -> str:
    """One line of the scoreboard: the decisive cell in front, the other cells faint behind it."""
    spans = _shown(drawn.spans)
    place = Scale(_numbers(drawn, spans), drawn.log, STRIP, STRIP_EDGE)
    parts = [*_region(drawn, place, 0, HEIGHT - 1), *_published(drawn, place)]
    y = HEIGHT / 2 + 1
    for span in sorted(spans, key=lambda each: each.decisive):  # what is drawn last lies in front
        if span.mean is None:
            parts += [f'<circle class="seed alone" cx="{place(v)}" cy="{y}" r="2.5"/>' for v in span.seeds[:1]]
        else:
            parts += _interval(span, place, y, 4.5 if span.decisive else 2.5)
    return _svg(f"strip {drawn.css}", STRIP, HEIGHT, parts)


def _svg(css: str, width: float, height: float, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="{css}" {size} aria-hidden="true">{"".join(parts)}</svg>'


def _shown(spans: Sequence[Span]) -> list[Span]:
    """As many cells as there is room for; the decisive one is always among them."""
    if len(spans) <= MOST_ROWS:
        return list(spans)
    return sorted(spans, key=lambda span: not span.decisive)[:MOST_ROWS]


def _numbers(drawn: Shape, spans: Iterable[Span]) -> list[float]:
    """Every number that should lie inside the picture. Infinite ones reach its edge."""
    found = [drawn.low, drawn.high, *drawn.published]
    for span in spans:
        found += list(span.seeds) if span.mean is None else [span.low, span.mean, span.high]
    return found


def _region(drawn: Shape, place: Scale, top: float, bottom: float) -> list[str]:
    left = place(drawn.low) if math.isfinite(drawn.low) else 0.0
    right = place(drawn.high) if math.isfinite(drawn.high) else float(place.width)
    wide = round(max(right - left, 1.0), 1)
    parts = [f'<rect class="region" x="{left}" y="{top}" width="{wide}" height="{bottom - top}"/>']
    edges = [place(end) for end in (drawn.low, drawn.high) if math.isfinite(end)]
    return parts + [f'<line class="edge" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>' for x in edges]


def _published(drawn: Shape, place: Scale) -> list[str]:
    """One number: a triangle. Two: a bar. Both are at the top, where nothing measured is."""
    spots = [place(value) for value in drawn.published]
    if not spots:
        return []
    if len(spots) == 1 or spots[1] - spots[0] < 3:
        middle = sum(spots) / len(spots)
        left, right = round(max(middle - 3.5, 0), 1), round(min(middle + 3.5, place.width), 1)
        return [f'<path class="published" d="M{left} 0H{right}L{round(middle, 1)} 4.5Z"/>']
    return [f'<rect class="published" x="{spots[0]}" y="0.5" width="{round(spots[1] - spots[0], 1)}" height="2.5"/>']


def _interval(span: Span, place: Scale, y: float, half: float) -> list[str]:
    if span.mean is None:
        return []
    css = "" if span.decisive else " other"
    low, mean, high = place(span.low), place(span.mean), place(span.high)
    low = low if math.isfinite(span.low) else 0.0
    high = high if math.isfinite(span.high) else float(place.width)
    parts = [f'<line class="span{css}" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>']
    if math.isinf(span.high):  # the runs stopped at their limit: the number is larger than measured
        tip, back = float(place.width), place.width - 5.0
        parts.append(f'<path class="arrow{css}" d="M{tip} {y}L{back} {y - 3}V{y + 3}Z"/>')
    return [*parts, f'<line class="mean{css}" x1="{mean}" x2="{mean}" y1="{y - half}" y2="{y + half}"/>']


def _axis(drawn: Shape, place: Scale, y: float, percent: bool) -> list[str]:
    """The ends of the region as numbers, then others where there is room."""
    edges = [end for end in (drawn.low, drawn.high) if math.isfinite(end)]
    low, high = place.ends
    others = [each / drawn.factor for each in ticks(low * drawn.factor, high * drawn.factor, drawn.log)]
    taken: list[tuple[float, float]] = []
    parts = []
    for value in [*edges, *others]:
        text = label(value * drawn.factor) + ("%" if percent else "")
        half = LETTER * len(text) / 2
        x = round(min(max(place(value), half), WIDTH - half), 1)
        if any(abs(x - other) < half + wide + GAP for other, wide in taken):
            continue
        taken.append((x, half))
        css = "number" if value in edges else "number other"
        parts.append(f'<text class="{css}" x="{x}" y="{y}" text-anchor="middle" font-size="{FONT}">{text}</text>')
    return parts
