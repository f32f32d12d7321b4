"""What a figure, a table, or a strip of images shows, in plain data; `truerisk.report` draws it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from truerisk.errors import TrueriskError
from truerisk.lab.marks import Averaged, Bars, Histogram, Line, Map, Mark, Path, Slope, Surface
from truerisk.lab.plain import number, plain_rows, plain_texts
from truerisk.lab.units import PLAIN, Unit

Cell = str | int | float | bool | None
SEED = "seed"
MOST_LINKED = 4  # figures side by side
MADE = (Histogram,)  # marks whose y is computed from the rows


@dataclass(frozen=True)
class Axis:
    """One direction of a figure: which field of the rows, its title, its unit, and how it is drawn.

    PERCENT shows fractions as percentages, POINTS differences of fractions; means of units with ``log`` (TIMES, STEPS)
    are means of logarithms, and so are means on a logarithmic axis. ``counted_on``: the number is a share of so many
    examples, or of as many as this field of the row says, as for a claim.
    """

    field: str
    title: str
    unit: Unit = PLAIN
    log: bool = False
    ordinal: bool = False  # separate values in order of appearance, not a continuous scale
    zero: bool = False  # the axis starts at 0 (bars always do)
    bound: bool = False  # upper bounds: tooltips round them up
    counted_on: int | str | None = None

    def __post_init__(self) -> None:
        plain_texts(self, f"the axis {self.field!r}", "title")
        if not isinstance(self.unit, Unit):
            raise TrueriskError(
                f"the unit of the axis {self.title!r} is {self.unit!r}, but must be a Unit; use PERCENT or PLAIN."
            )


@dataclass(frozen=True)
class Rule:
    """A dashed line that gives a scale to the rest: chance level, a published number, an interpolation threshold.

    It is horizontal, at ``value`` on the y axis; ``upright`` makes it vertical, at ``value`` on a continuous x axis,
    with its label above the panel. ``shaded``: the region above a horizontal line is tinted.
    """

    value: float
    label: str
    shaded: bool = False
    upright: bool = False

    def __post_init__(self) -> None:
        plain_texts(self, f"the rule at {self.value!r}", "label")
        if number(self.value) is None:
            raise TrueriskError(
                f"the rule {self.label!r} is {self.value!r}, but must be a finite number; use float(...)."
            )
        if self.shaded and self.upright:
            raise TrueriskError(f"the rule {self.label!r} is upright and shaded; only horizontal rules are shaded.")


@dataclass(frozen=True)
class Switch:
    """A switch above a figure: on, it shows the rows whose ``field`` is true; off, those whose field is false."""

    field: str
    title: str
    on: bool = False  # at the start

    def __post_init__(self) -> None:
        plain_texts(self, f"the switch {self.field!r}", "title")


@dataclass(frozen=True)
class Figure:
    """A figure in long form. Rows are raw, one per run: the drawer averages over ``group`` (see `lab.marks`).

    `series` is the field that colors and whose legend can be clicked; its values are names (at most six share a panel)
    or ordered numbers. `facet` gives each of its values a panel. `slider` is an axis without a place: the reader moves
    through its values, from `starts_at` or the first one (rows without a value are always shown). `switches` choose
    rows by yes or no; a row has the fields of all switches, or of none. `dots` are further rows (of x and y, and of
    series, facet, slider, and switches where they have them), drawn as plain points over the mark: training examples,
    say. `observed` are series that were measured, on an axis of bounds: their tooltips round to the nearest. `claims`
    are names of the claims that the figure shows. Rows whose y is None are left out.
    """

    name: str  # of a downloaded file: letters, digits and hyphens
    title: str
    caption: str  # what is plotted, what a line means, what to look for; the drawer adds a sentence about seeds
    rows: Iterable[Mapping[str, Any]]
    x: Axis
    y: Axis
    mark: Mark = field(default_factory=Line)
    series: str | None = None
    series_title: str = ""
    facet: str | None = None
    slider: Axis | None = None
    starts_at: Cell = None  # the value of the slider at the start; None: the first
    switches: Sequence[Switch] = ()
    rules: Sequence[Rule] = ()
    claims: Sequence[str] = ()
    dots: Iterable[Mapping[str, Any]] = ()
    dots_title: str = ""  # what the dots are, for the legend
    observed: Sequence[str] = ()
    group: str | None = SEED  # None: rows of several seeds are drawn as they are

    def __post_init__(self) -> None:
        plain_texts(self, f"figure {self.name}", "title", "caption", "series_title", "dots_title")
        if not isinstance(self.mark, get_args(Mark)):
            known = ", ".join(f"{kind.__name__}()" for kind in get_args(Mark))
            raise TrueriskError(f"the mark of figure {self.name} is {self.mark!r}, but must be one of {known}.")
        self._refuse_axes()
        counts = [self.y.counted_on] if isinstance(self.y.counted_on, str) else []
        for rows in ("rows", "dots"):
            names = {*self.drawn_fields(), *self.chosen_fields(), self.y.field, *counts}
            object.__setattr__(self, rows, plain_rows(getattr(self, rows), names, self.name))
        there = {name for row in self.rows for name in row}
        moved = {name for row in self.dots for name in row}
        for wanted in self.chosen_fields():
            if there and wanted not in there | moved:
                raise TrueriskError(
                    f"no row of figure {self.name} has the field {wanted!r}, nor has a dot; leave its control out."
                )
        for wanted in self.drawn_fields():
            if there and wanted not in there:
                known = ", ".join(sorted(there))
                raise TrueriskError(f"no row of figure {self.name} has the field {wanted!r}; its rows have {known}.")

    @property
    def averaged(self) -> bool:
        """Whether rows of several seeds become one mean."""
        return self.group is not None and isinstance(self.mark, get_args(Averaged))

    def _refuse_axes(self) -> None:
        """Refuse names on an axis where the mark needs numbers."""
        kind = type(self.mark).__name__
        if self.y.ordinal and not isinstance(self.mark, Map):
            raise TrueriskError(f"the y axis of figure {self.name} is ordinal, which only a Map draws; swap x and y.")
        if self.x.ordinal and not isinstance(self.mark, (*get_args(Averaged), Map, Path)):
            raise TrueriskError(f"the x axis of figure {self.name} is ordinal, but {kind} needs numbers; use Bars.")
        if any(rule.upright for rule in self.rules) and (self.x.ordinal or isinstance(self.mark, Bars | Slope)):
            raise TrueriskError(f"figure {self.name} has an upright rule, but no numbers on its x axis; use Line.")

    def drawn_fields(self) -> list[str]:
        """The fields that rows must have."""
        own = [getattr(self.mark, each.name) for each in fields(self.mark) if each.name in ("value", "shape")]
        places = [self.x.field] if isinstance(self.mark, MADE) else [self.x.field, self.y.field]
        counted = self.y.counted_on if isinstance(self.y.counted_on, str) else None
        return [each for each in (*places, self.series, self.facet, counted, *own) if each is not None]

    def chosen_fields(self) -> list[str]:
        """The fields by which slider and switches choose rows and dots."""
        return [*([self.slider.field] if self.slider else []), *(switch.field for switch in self.switches)]


@dataclass(frozen=True)
class Linked:
    """Figures side by side that one slider and the same switches move together: a fit, and its point on a curve.

    All of them have the slider and the switches of the first; the title of each stands above its panel. ``shares`` are
    the widths of the panels relative to each other. Series of several panels have the same names in the same order.
    """

    name: str
    title: str
    caption: str
    figures: Sequence[Figure]
    shares: Sequence[float] = ()  # (): panels are equally wide
    claims: Sequence[str] = ()

    def __post_init__(self) -> None:
        plain_texts(self, f"the linked figures {self.name}", "title", "caption")
        if not 2 <= len(self.figures) <= MOST_LINKED:
            raise TrueriskError(f"{self.name} links {len(self.figures)} figures, but must link 2 to {MOST_LINKED}.")
        first = self.figures[0]
        for each in self.figures:
            if _controls(each) != _controls(first) or not each.slider:
                raise TrueriskError(
                    f"the figures of {self.name} differ in slider or switches; give all of them the same."
                )
            if each.facet or isinstance(each.mark, Surface):
                raise TrueriskError(f"figure {each.name} of {self.name} has panels of its own; leave out its facet.")
        if self.shares and (len(self.shares) != len(self.figures) or not all(share > 0 for share in self.shares)):
            raise TrueriskError(f"{self.name} has shares {self.shares}; give one positive number for each figure.")


def _controls(figure: Figure) -> tuple[Any, ...]:
    """What a reader may move."""
    return figure.slider, figure.starts_at, tuple(figure.switches)


@dataclass(frozen=True)
class Table:
    """A table of an experiment. Numbers are given as text where their rounding matters."""

    name: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Tile:
    """One small image: rows of gray values from 0 to 255, or of [red, green, blue]; a few words below it."""

    pixels: Sequence[Sequence[Any]]
    under: str = ""
    wrong: bool = False  # the words are wrong, and shown as such: a label that is not the image's own


@dataclass(frozen=True)
class Strip:
    """A row of tiles with a name."""

    label: str
    tiles: Sequence[Tile]


@dataclass(frozen=True)
class Images:
    """Pictures of the data: strips of tiles, one below the other."""

    name: str
    title: str
    caption: str
    strips: Sequence[Strip]
    claims: Sequence[str] = ()


Exhibit = Figure | Linked | Table | Images


def percent(value: float, digits: int = 1) -> str:
    """A fraction as people read it.

    >>> percent(0.1234)
    '12.3%'
    """
    return f"{100 * value:.{digits}f}%"
