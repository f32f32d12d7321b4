"""Names at the ends of lines, so that no legend has to be looked up: one column, in the order of the lines."""

from __future__ import annotations

import math

from truerisk.lab.figure import Figure
from truerisk.lab.marks import Line, Slope
from truerisk.report.lab.keys import DOT, KIND, MEAN, SERIES, SLIDE, TEXT, Json, X, Y
from truerisk.report.lab.rows import MOST_SERIES, Drawable
from truerisk.report.lab.scales import y_domain
from truerisk.report.labels import text_width

GAP = 6  # pixels between the panel and a name: right of it, where neither marks nor rules go
SHARE = 0.3  # of the paper, at most, for the names
HEIGHT, MOVED = 300, 1.9  # pixels of a usual panel; names may be moved by so many times their size
NEAR = 0.02  # of the x axis: a line that ends earlier than this would have its name among the others


def room_for_ends(figure: Figure, drawn: Drawable, width: float, font: int) -> float:
    """Pixels for the names at the right; 0 where lines cannot be named there."""
    names = drawn.values(SERIES) if figure.series else []
    if not isinstance(figure.mark, Line | Slope) or drawn.faceted or not 1 < len(names) <= MOST_SERIES or width < 600:
        return 0.0
    if {row[SERIES] for row in drawn.of(DOT) if SERIES in row} - {row[SERIES] for row in drawn.of(MEAN)}:
        return 0.0  # dots of a series of their own: only a legend says what they are
    room = GAP + max(text_width(name, font) for name in [*names, heading(figure, drawn)])
    fits = room <= SHARE * width and _all_reach_the_end(figure, drawn) and not _crowded(figure, drawn, font)
    return room if fits else 0.0


def _crowded(figure: Figure, drawn: Drawable, font: int) -> bool:
    """Whether lines end so close together that the order of their names would say nothing."""
    read = math.log if figure.y.log else float
    low, high = (read(end) for end in y_domain(figure, drawn))
    ends: dict[object, list[float]] = {}  # of the lines, for each value of the slider
    for row in _last(drawn).values():
        ends.setdefault(row.get(SLIDE), []).append(HEIGHT * (high - read(row[Y])) / (high - low))
    names = [(some, apart(some, 1.2 * font, HEIGHT)) for some in ends.values()]
    moved = [abs(a - b) for some, placed in names for a, b in zip(some, placed, strict=True)]
    return max(moved, default=0.0) > MOVED * font


def _all_reach_the_end(figure: Figure, drawn: Drawable) -> bool:
    if X in drawn.orders:
        return {_place(drawn, row) for row in _last(drawn).values()} == {float(len(drawn.orders[X]) - 1)}
    read = math.log if figure.x.log else float
    numbers = [read(number) for number in drawn.numbers(X)]
    edge = max(numbers) - NEAR * (max(numbers) - min(numbers))
    return all(read(row[X]) >= edge for row in _last(drawn).values())


def end_labels(figure: Figure, drawn: Drawable, height: float, font: int, ends: tuple[float, float]) -> list[Json]:
    """The last point of each line, its name, and the height of the name in the numbers of the y axis."""
    read = math.log if figure.y.log else float
    low, high = read(ends[0]), read(ends[1])
    found: list[Json] = []
    for slide in sorted({row.get(SLIDE, -1) for row in _last(drawn).values()}):
        rows = [row for row in _last(drawn).values() if row.get(SLIDE, -1) == slide]
        wanted = [height * (high - read(row[Y])) / (high - low) for row in rows]
        if heading(figure, drawn):  # above the highest name
            rows, wanted = [{**rows[0], SERIES: ""}, *rows], [min(wanted) - 1.2 * font, *wanted]
        for row, place in zip(rows, apart(wanted, 1.2 * font, height - 0.5 * font), strict=True):
            at = high - place / height * (high - low)
            common = {key: row[key] for key in (X, SERIES, SLIDE) if key in row}
            text = row[SERIES] or heading(figure, drawn)
            found.append({**common, TEXT: text, Y: math.exp(at) if figure.y.log else at})
    return found


def heading(figure: Figure, drawn: Drawable) -> str:
    """What stands above the names: numbers alone say nothing."""
    return figure.series_title if drawn.ordered else ""


def apart(wanted: list[float], least: float, height: float) -> list[float]:
    """Places near those wanted, at least ``least`` apart, within the height if there is room.

    >>> apart([10.0, 12.0, 50.0], 10.0, 100.0)
    [6.0, 16.0, 50.0]
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    blocks: list[list[int]] = []  # neighbors that touch, each block around the mean of what its members want

    def top(block: list[int]) -> float:
        long = least * (len(block) - 1)
        return min(sum(wanted[i] for i in block) / len(block) - long / 2, height - long)

    for i in order:
        blocks.append([i])
        while len(blocks) > 1 and top(blocks[-2]) + least * len(blocks[-2]) > top(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    found = [0.0] * len(wanted)
    for block in blocks:
        for k, i in enumerate(block):
            found[i] = top(block) + k * least
    return found


def _last(drawn: Drawable) -> dict[tuple[object, ...], Json]:
    """The last mean of each series, for each value of the slider."""
    found: dict[tuple[object, ...], Json] = {}
    for row in drawn.rows:
        key = (row.get(SERIES), row.get(SLIDE))
        if row[KIND] == MEAN and (key not in found or _place(drawn, row) >= _place(drawn, found[key])):
            found[key] = row
    return found


def _place(drawn: Drawable, row: Json) -> float:
    return float(drawn.orders[X].index(row[X])) if X in drawn.orders else float(row[X])
