"""A panel of a lab figure: what all marks share when they become layers of Vega-Lite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from truerisk.lab.figure import Figure
from truerisk.lab.units import CORRELATION
from truerisk.report.lab.keys import DOT, GROUP, KIND, MEAN, ONE_SEED, SERIES, SLIDE, VALUE, Json, X
from truerisk.report.lab.palette import ON_LIGHT, SAME_DASH, SOLID, colors, dashes, shapes
from truerisk.report.lab.rows import Drawable
from truerisk.report.lab.rules import Placed

PAPER = "#fdfdfb"  # behind labels that stand on lines; the style sheet replaces it on dark paper
CHOSEN, CHOICE = "chosen", "slide"  # parameters: the series picked in the legend, the value of the slider
FADED = 0.1
HIDDEN = {"value": 0}
SHOWN = f"(length({CHOSEN}) == 0 || indexof({CHOSEN}, datum.{SERIES}) >= 0)"
SCHEME = "viridis"  # of maps: its lightness rises, and color-blind readers can follow it
DIVERGING = "blueorange"  # of correlations: pale at 0


def signed(figure: Figure) -> bool:
    """Whether a map shows correlations: its colors then have a neutral middle."""
    return getattr(figure.mark, "unit", None) == CORRELATION


@dataclass(frozen=True)
class Panel:
    """One panel: what is drawn in it, its x and y channels, its size in pixels, legend and type."""

    figure: Figure
    drawn: Drawable
    x: Json
    y: Json
    width: float
    height: float
    legend: Json | None
    font: int
    ink: str
    paper: str
    rules: Sequence[Placed] = ()
    labels: Sequence[Json] = ()  # names at the ends of lines, each with its place

    @property
    def place(self) -> Json:
        return {"x": self.x, "y": self.y}

    @property
    def names(self) -> list[str]:
        return self.drawn.values(SERIES) if self.figure.series else []

    def rows(self, kind: str = MEAN) -> list[Json]:
        """The transform that keeps rows of one kind, and of the slider's value."""
        return [{"filter": f"datum.{KIND} === '{kind}' && {self.of_state}"}]

    @property
    def of_state(self) -> str:
        """The expression that keeps rows of the state that slider and switches are in."""
        count = len(self.drawn.slides)
        if not count and not self.figure.switches:
            return "true"
        ever = f"(datum.{SLIDE} === {CHOICE} || !isValid(datum.{SLIDE})"
        # a row of one setting of the switches, whatever the slider says
        return (
            f"{ever} || datum.{SLIDE} === -1 - floor({CHOICE} / {max(1, count)}))"
            if self.figure.switches
            else f"{ever})"
        )

    def layer(self, mark: Json, encoding: Json, kind: str = MEAN, more: Sequence[Json] = ()) -> Json:
        return {"transform": [*self.rows(kind), *more], "mark": mark, "encoding": encoding}

    def look(self, *channels: str) -> Json:
        """Those of the channels that tell the series apart; they share one legend."""
        if not self.figure.series:
            return {"color": {"value": ON_LIGHT[0]}} if "color" in channels else {}
        names = self.names
        ranges = {"color": colors(len(names), self.drawn.ordered), "shape": shapes(len(names))}
        base = {"field": SERIES, "type": "nominal", "sort": names, "legend": self.legend}
        return {c: {**base, "scale": {"domain": names, "range": ranges[c]}} for c in channels}

    def dash(self) -> Json:
        """Dashes of lines. They have no part in the legend, where they would spoil the shapes of the points."""
        if len(self.names) <= SAME_DASH:
            return {}
        pairs = zip(self.names, dashes(len(self.names)), strict=True)
        conditions = [
            {"test": f"datum.{SERIES} === {json.dumps(name)}", "value": dash} for name, dash in pairs if dash != SOLID
        ]
        return {"strokeDash": {"condition": conditions, "value": SOLID}}

    def strength(self, opacity: float) -> Json:
        """Full strength, unless other series were chosen in the legend."""
        if not self.figure.series:
            return {"opacity": {"value": opacity}}
        return {"opacity": {"condition": {"test": SHOWN, "value": opacity}, "value": FADED * opacity}}

    def beside(self) -> Json:
        """Bars and points of several series stand side by side, unless the series is the x axis again."""
        figure = self.figure
        if not figure.series or figure.series == figure.x.field or X not in self.drawn.orders:
            return {}
        return {"xOffset": {"field": SERIES, "type": "nominal", "sort": self.names}}

    def seeds_as_dots(self) -> list[Json]:
        """Two to four seeds, each a small dot."""
        if not self.drawn.of(ONE_SEED):
            return []
        mark = {"type": "point", "filled": True, "size": 22, "tooltip": None}
        color = self.look("color") if self.figure.series else {"color": {"value": self.ink}}
        place = {**self.place, **self.beside(), "detail": {"field": GROUP}}
        return [self.layer(mark, {**place, **color, **self.strength(0.75)}, ONE_SEED)]

    def dots(self) -> list[Json]:
        """Further points over the mark: training examples, say."""
        if not self.drawn.of(DOT):
            return []
        colored = any(SERIES in row for row in self.drawn.of(DOT))
        mark = {"type": "point", "filled": True, "size": 110, "opacity": 1, "tooltip": None}
        mark |= {"stroke": self.paper, "strokeWidth": 1}
        look = self.look("color") if colored else {"color": {"value": self.ink}}
        strength = self.strength(1) if colored else {}
        return [self.layer(mark, {**self.place, **look, **strength}, DOT)]

    def value_color(self, log: bool = False) -> Json:
        """The color of cells and shapes by their number."""
        numbers = self.drawn.numbers(VALUE)
        low, high = min(numbers), max(numbers)
        log = log and low > 0
        domain = [low, high] if low < high else [low / 2, 2 * low] if log else [low - 0.5, high + 0.5]
        scale: Json = {"scheme": SCHEME, "domain": domain, **({"type": "log"} if log else {})}
        if signed(self.figure):
            scale = {"scheme": DIVERGING, "domain": [-1, 1]}
        return {"field": VALUE, "type": "quantitative", "scale": scale, "legend": self.legend}
