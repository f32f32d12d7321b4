"""From raw rows, one per run, to what a figure draws: means over seeds with the interval that judges claims.

Up to four seeds are drawn one by one (a t-interval of two seeds is 12.7 standard errors wide and hides everything);
from five on, their interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Axis, Figure
from truerisk.lab.interval import interval
from truerisk.lab.marks import Line, Slope
from truerisk.lab.units import TIMES, Unit
from truerisk.report.lab.keys import FACET, GROUP, HIGH, LOW, SERIES, SLIDE, X, Y

BAND = 5  # seeds from which an interval is drawn

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
    values: dict[Place, dict[Any, float]] = {}
    first: dict[Place, Row] = {}
    steps: dict[Place, float] = {}
    for row, raw in rows:
        place = tuple(row.get(key) for key in (FACET, SLIDE, SERIES, X))
        seed = raw.get(figure.group or "")
        if seed in values.setdefault(place, {}):
            _refuse_twice(figure, seed, row)
        values[place][seed] = row[Y]
        first.setdefault(place, row)
        steps[place] = max(steps.get(place, 0.0), step(figure.y, raw))
    unit = mean_unit(figure.y)
    means, seeds = [], []
    for place, some in values.items():
        found = interval(list(some.values()), unit, steps[place])
        mean: Row = {**first[place], Y: found.mean if found else next(iter(some.values()))}
        if found is not None and len(some) >= BAND:
            mean |= {LOW: found.low, HIGH: found.high}
        elif len(some) > 1:
            seeds += [{**first[place], Y: value, GROUP: str(seed)} for seed, value in some.items()]
        means.append(mean)
    return Averaged(means, seeds, _sentence(figure, {len(some) for some in values.values()}, unit))


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


def _sentence(figure: Figure, counts: set[int], unit: Unit) -> str:
    """What a reader must know about seeds.

    >>> from truerisk.lab.units import PLAIN
    >>> figure = Figure("f", "F", "f.", [], Axis("x", "x"), Axis("y", "y"))
    >>> _sentence(figure, {5, 1}, PLAIN)
    'Lines are means over 5 seeds (1 where there is no stroke), strokes their 95% intervals.'
    >>> _sentence(figure, {3}, PLAIN)
    'Thick lines are means over 3 seeds, thin lines the seeds.'
    """
    most = max(counts, default=0)
    if most < 2:
        return ""
    joined = isinstance(figure.mark, Line | Slope)
    means = f"{'geometric ' if unit.log else ''}means over {most} seeds"
    few = f" ({', '.join(map(str, sorted(counts - {most})))} where there is no {{}})" if len(counts) > 1 else ""
    if most < BAND:
        marks = ("Thick lines", "thin lines") if joined else ("Large marks", "small dots")
        return f"{marks[0]} are {means}, {marks[1]} the seeds."
    spread = "band" if isinstance(figure.mark, Line) and not figure.x.ordinal and len(counts) == 1 else "stroke"
    marks = ("Lines" if joined else "Marks", f"{spread}s")
    return f"{marks[0]} are {means}{few.format(spread)}, {marks[1]} their 95% intervals."
