"""From raw rows, one per run, to what a figure draws: means over seeds with the interval that judges claims.

Up to four seeds are drawn one by one (a t-interval of two seeds is 12.7 standard errors wide and hides everything);
from five on, their interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Axis, Figure
from truerisk.lab.interval import Interval, interval
from truerisk.lab.marks import Line, Slope
from truerisk.lab.units import TIMES, Unit
from truerisk.report.lab.keys import FACET, GROUP, HIGH, LOW, SERIES, SLIDE, X, Y

BAND = 5  # seeds from which an interval is drawn
ROUNDING = 1e-9  # by which a share may exceed its range: sums of many numbers do

Row = dict[str, Any]  # short keys
Place = tuple[Any, ...]


@dataclass(frozen=True)
class Averaged:
    """Means (with their ends from five seeds on), single seeds where there are two to four, and a sentence about it."""

    means: list[Row]
    seeds: list[Row]
    sentence: str


def averaged(figure: Figure, rows: Iterable[tuple[Row, Mapping[str, Any]]]) -> Averaged:
    """``rows``: each drawable row under short keys, and the raw row that it was made from."""
    unit = mean_unit(figure.y)
    values: dict[Place, dict[Any, float]] = {}
    first: dict[Place, Row] = {}
    steps: dict[Place, float] = {}
    for row, raw in rows:
        place = tuple(row.get(key) for key in (FACET, SLIDE, SERIES, X))
        seed = raw.get(figure.group or "")
        if seed in values.setdefault(place, {}):
            _refuse_twice(figure, seed, row)
        values[place][seed] = _checked(figure, unit, row[Y])
        first.setdefault(place, row)
        steps[place] = max(steps.get(place, 0.0), step(figure.y, raw))
    means, seeds = [], []
    for place, some in values.items():
        found = _interval(figure, list(some.values()), unit, steps[place])
        mean: Row = {**first[place], Y: found.mean if found else next(iter(some.values()))}
        if found is not None and len(some) >= BAND:
            mean |= {LOW: found.low, HIGH: found.high}
        elif len(some) > 1:
            seeds += [{**first[place], Y: value, GROUP: str(seed)} for seed, value in some.items()]
        means.append(mean)
    counts = {len(some) for some in values.values()}
    sentence = _sentence(figure, counts, unit, seeds_as_lines(means, seeds))
    return Averaged(means, seeds, sentence.replace("seeds", f"{figure.group}s"))


def _interval(figure: Figure, values: list[float], unit: Unit, least: float) -> Interval | None:
    try:
        return interval(values, unit, least)
    except OverflowError as error:
        raise TrueriskError(
            f"figure {figure.name} has numbers from {min(values):g} to {max(values):g} at one place, too far apart for "
            "an interval; set group=None."
        ) from error


def seeds_as_lines(means: list[Row], seeds: list[Row]) -> bool:
    """Whether single seeds can be thin lines: not where a place next to theirs has one seed, or an interval.

    A line through that place would say that it has such seeds, and one that ends before it may be a single point.
    """
    at = Counter(_line(row) for row in means)
    own = Counter(line for line, _ in {(_line(row), row[X]) for row in seeds})
    points = Counter((_line(row), row[GROUP]) for row in seeds)
    return all(at[line] == count for line, count in own.items()) and min(points.values(), default=2) > 1


def _line(row: Row) -> Place:
    return tuple(row.get(key) for key in (FACET, SLIDE, SERIES))


def _checked(figure: Figure, unit: Unit, value: float) -> float:
    """A number that its unit can have; the interval of another one would be cut off, or could not be taken."""
    if unit.log and value <= 0:
        raise TrueriskError(
            f"figure {figure.name} has {value:g}, but means of {unit.name} need numbers above 0; leave it out."
        )
    slack = ROUNDING if math.isfinite(unit.high) else 0.0
    if not unit.low - slack <= value <= unit.high + slack:
        raise TrueriskError(
            f"figure {figure.name} has {value:g}, but {unit.name} lie between {unit.low:g} and {unit.high:g}; "
            "give its axis another unit."
        )
    return value


def mean_unit(axis: Axis) -> Unit:
    """The unit on whose scale means are taken: logarithms on a logarithmic axis."""
    return TIMES if axis.log and not axis.unit.log else axis.unit


def step(axis: Axis, raw: Mapping[str, Any]) -> float:
    """The smallest change that the number can show: one example more or less."""
    count = raw.get(axis.counted_on) if isinstance(axis.counted_on, str) else axis.counted_on
    return 1 / count if isinstance(count, int) and count > 0 else 0.0


def _refuse_twice(figure: Figure, seed: Any, row: Row) -> None:
    where = ", ".join(str(row[key]) for key in (FACET, SERIES, X) if row.get(key) is not None)
    raise TrueriskError(
        f"figure {figure.name} has two rows of {figure.group} {seed} at the same place ({where}); "
        "tell them apart by series or facet, or set group=None."
    )


def _sentence(figure: Figure, counts: set[int], unit: Unit, lines: bool = True) -> str:
    """What a reader must know about seeds; ``lines``: single seeds are thin lines.

    >>> from truerisk.lab.units import PLAIN
    >>> figure = Figure("f", "F", "f.", [], Axis("x", "x"), Axis("y", "y"))
    >>> _sentence(figure, {5, 1}, PLAIN)
    'Lines are means over 5 seeds (1 where there is no stroke), strokes their 95% intervals.'
    >>> _sentence(figure, {7, 5}, PLAIN)
    'Lines are means over 5 to 7 seeds, bands their 95% intervals.'
    >>> _sentence(figure, {5, 3, 2}, PLAIN, lines=False)
    'Lines are means over 5 seeds (2 or 3 where there is no stroke), strokes their 95% intervals, small dots seeds.'
    >>> _sentence(figure, {3}, PLAIN)
    'Thick lines are means over 3 seeds, thin lines the seeds.'
    """
    if max(counts, default=0) < 2:
        return ""
    many = {count for count in counts if count >= BAND}
    joined, few = isinstance(figure.mark, Line | Slope), counts - many
    lines = lines and joined
    means = f"{'geometric ' if unit.log else ''}means over"
    single = "thin lines" if lines else "small dots"
    if not many:
        alone = f" (1 where there is no {single[:-1]})" if 1 in few else ""
        marks = "Thick lines" if lines else "Lines" if joined else "Large marks"
        return f"{marks} are {means} {_numbers(few - {1})} seeds{alone}, {single} the seeds."
    spread = "band" if isinstance(figure.mark, Line) and not figure.x.ordinal and not few else "stroke"
    rest = f" ({_numbers(few)} where there is no {spread})" if few else ""
    seeds = f", {single} seeds" if few - {1} else ""
    marks = "Lines" if joined else "Marks"
    return f"{marks} are {means} {_numbers(many)} seeds{rest}, {spread}s their 95% intervals{seeds}."


def _numbers(counts: set[int]) -> str:
    """
    >>> _numbers({5}), _numbers({2, 3}), _numbers({1, 3})
    ('5', '2 or 3', '1 to 3')
    """
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} {'or' if high == low + 1 else 'to'} {high}"
