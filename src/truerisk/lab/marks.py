"""The marks of a figure: what a row becomes on paper. `truerisk.report.lab.marks` has one drawer for each of them.

`Line`, `Points`, `Bars`, and `Slope` take raw rows, one per run, and average them over seeds with the interval that
judges claims. The others show rows as they are: a histogram counts them, a map gives each of them a cell.
"""

from __future__ import annotations

from dataclasses import dataclass

from truerisk.errors import TrueriskError
from truerisk.lab.plain import plain_texts
from truerisk.lab.units import PLAIN, Unit

MOST = 1000  # bins of a histogram, levels of a contour


@dataclass(frozen=True)
class Line:
    """Lines over a continuous x, one for each series. ``points`` marks the places where there are numbers."""

    points: bool = True


@dataclass(frozen=True)
class Points:
    """Points, with their interval as a stroke."""


@dataclass(frozen=True)
class Bars:
    """Bars from 0, with their interval as a stroke."""


@dataclass(frozen=True)
class Slope:
    """Few states side by side, joined by lines whose ends are labeled: before and after, true and random."""


@dataclass(frozen=True)
class Histogram:
    """The share of rows in each bin of x, for each series (of all rows of that series, panel, and slider value).

    The y axis is made here: give it any field name and its title.
    """

    bins: int = 30

    def __post_init__(self) -> None:
        _refuse_none(self.bins, "bins")


@dataclass(frozen=True)
class Path:
    """Points joined in the order of the rows: a walk, not a function of x."""

    arrow: bool = False  # mark the last point of each path
    equal: bool = False  # one unit is as long on both axes: angles are true


@dataclass(frozen=True)
class Map:
    """A color for each pair of x and y: a heat map. Numbers on both axes give it real, also logarithmic, axes."""

    value: str
    title: str
    unit: Unit = PLAIN
    log: bool = False  # colors on a logarithmic scale

    def __post_init__(self) -> None:
        plain_texts(self, f"the {type(self).__name__} of {self.value!r}", "title")


@dataclass(frozen=True)
class Regions:
    """Which class a classifier gives to each point of a plane: ``value`` names it, on a regular grid of x and y."""

    value: str
    title: str = "class"

    def __post_init__(self) -> None:
        plain_texts(self, f"the {type(self).__name__} of {self.value!r}", "title")


@dataclass(frozen=True)
class Contour:
    """Lines of equal ``value`` over a plane, from its values on a regular grid of x and y."""

    value: str
    title: str
    levels: int = 12
    log: bool = False  # levels evenly spaced on a logarithmic scale

    def __post_init__(self) -> None:
        plain_texts(self, f"the {type(self).__name__} of {self.value!r}", "title")
        _refuse_none(self.levels, "levels")


@dataclass(frozen=True)
class Surface:
    """``value`` as a height over a plane, which can be turned; its contour map always stands next to it."""

    value: str
    title: str
    levels: int = 12
    log: bool = False

    def __post_init__(self) -> None:
        plain_texts(self, f"the {type(self).__name__} of {self.value!r}", "title")
        _refuse_none(self.levels, "levels")


@dataclass(frozen=True)
class Polygons:
    """Closed shapes: rows with the same ``shape`` are the corners of one, in order. ``value`` colors them."""

    shape: str
    value: str
    title: str = ""

    def __post_init__(self) -> None:
        plain_texts(self, f"the {type(self).__name__} of {self.value!r}", "title")


def _refuse_none(count: object, what: str) -> None:
    if not isinstance(count, int) or not 1 <= count <= MOST:
        raise TrueriskError(f"{what} is {count!r}, but must be an integer from 1 to {MOST}; try {what}=12.")


Averaged = Line | Points | Bars | Slope
Plane = Map | Regions | Contour | Surface
Mark = Averaged | Histogram | Path | Plane | Polygons
