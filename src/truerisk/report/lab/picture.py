"""The little picture of a claim: where its cells' intervals lie, beside the region that they must lie in.

Region shaded, published numbers as ticks, one row per cell: seeds as dots, the interval as a line, the mean as a bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from truerisk.lab.cells import Cell
from truerisk.lab.claim import Claim
from truerisk.lab.effect import Above
from truerisk.lab.units import Unit
from truerisk.lab.verdict import Verdict

WIDTH, ROW, EDGE = 240, 14, 8  # pixels
MOST_ROWS = 12  # cells; more are in the folded table
MARGIN = 0.06  # of the picture, beyond the outermost number


def picture(verdict: Verdict) -> str:
    """An SVG element, "" where there is nothing to draw. It holds numbers only, no text of a user's."""
    claim = verdict.claim
    if not isinstance(claim, Claim) or not verdict.cells:
        return ""
    cells = _shown(verdict)
    place = _scale(claim, cells)
    height = ROW * len(cells) + 2
    parts = [_region(claim, place, height), *_published(claim, place, height)]
    for row, cell in enumerate(cells):
        parts += _row(cell, place, 1 + ROW * (row + 0.5))
    drawn = "".join(parts)
    return (
        f'<svg class="interval" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'aria-hidden="true">{drawn}</svg>'
    )


def _shown(verdict: Verdict) -> list[Cell]:
    """The decisive cell is always among them."""
    cells = list(verdict.cells)
    if len(cells) > MOST_ROWS and verdict.decisive in cells:
        cells.remove(verdict.decisive)
        cells.insert(0, verdict.decisive)
    return cells[:MOST_ROWS]


class _Scale:
    """From a number to pixels, on the unit's scale; what lies outside ends at the edge."""

    def __init__(self, numbers: Iterable[float], unit: Unit) -> None:
        self.log = unit.log
        read = [self._read(number) for number in numbers]
        found = [number for number in read if math.isfinite(number)]
        least, most = min(found), max(found)
        room = MARGIN * ((most - least) or abs(most) or 1.0)
        self.low, self.high = least - room, most + room

    def _read(self, number: float) -> float:
        if not self.log:
            return number
        return math.log(number) if number > 0 else -math.inf

    def __call__(self, number: float) -> float:
        share = (self._read(number) - self.low) / (self.high - self.low)
        return round(EDGE + (WIDTH - 2 * EDGE) * min(max(share, -0.02), 1.02), 1)


def _scale(claim: Claim, cells: list[Cell]) -> _Scale:
    numbers = [claim.wants.low, claim.wants.high, *_ticks(claim)]
    for cell in cells:
        numbers += [_plain(value) for value in cell.values.values()]
        numbers += [cell.interval.low, cell.interval.high] if cell.interval else []
    return _Scale(numbers, claim.wants.unit)


def _ticks(claim: Claim) -> list[float]:
    if claim.published_at is None:
        return []
    ends = claim.published_at if isinstance(claim.published_at, tuple) else (claim.published_at,)
    return [end / claim.wants.unit.factor for end in ends]


def _region(claim: Claim, place: _Scale, height: float) -> str:
    left, right = place(claim.wants.low), place(claim.wants.high)
    return f'<rect class="region" x="{left}" y="0" width="{max(right - left, 1):.1f}" height="{height}"/>'


def _published(claim: Claim, place: _Scale, height: float) -> list[str]:
    spots = [place(tick) for tick in _ticks(claim)]
    return [f'<line class="published" x1="{x}" x2="{x}" y1="0" y2="{height}"/>' for x in spots]


def _row(cell: Cell, place: _Scale, y: float) -> list[str]:
    parts = []
    if cell.interval is not None:
        low, mean, high = (place(v) for v in (cell.interval.low, cell.interval.mean, cell.interval.high))
        parts.append(f'<line class="span" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>')
        parts.append(f'<line class="mean" x1="{mean}" x2="{mean}" y1="{y - 5}" y2="{y + 5}"/>')
    alone = cell.interval is None  # an open circle: one seed, its spread is unknown
    kind = "seed alone" if alone else "seed"
    return parts + [f'<circle class="{kind}" cx="{place(_plain(v))}" cy="{y}" r="2"/>' for v in cell.values.values()]


def _plain(value: float | Above) -> float:
    return value.value if isinstance(value, Above) else float(value)
