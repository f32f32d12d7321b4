"""Figures of the lab as Vega-Lite specifications, one for each width of paper."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Literal

from truerisk.lab.figure import Figure
from truerisk.lab.marks import Bars, Contour, Histogram, Line, Map, Path, Polygons, Regions, Slope, Surface
from truerisk.lab.units import PERCENT, POINTS
from truerisk.report.extra import extra
from truerisk.report.figures import AXES, INK
from truerisk.report.lab.ends import end_labels, room_for_ends
from truerisk.report.lab.keys import FACET, SERIES, SLIDE, VALUE, Json, X, Y
from truerisk.report.lab.marks import layers
from truerisk.report.lab.marks.surface import seen
from truerisk.report.lab.ornaments import decorated
from truerisk.report.lab.panel import CHOICE, CHOSEN, HIDDEN, PAPER, Panel
from truerisk.report.lab.rows import Drawable, panelled, words
from truerisk.report.lab.rules import ASIDE, Placed, place_rules, room_aside
from truerisk.report.lab.scales import LETTER, in_lines, labels, span, wrapped, x_encoding, y_domain, y_encoding

WIDTHS = (280, 350, 480, 640, 820, 1040)  # pixels; the page takes the widest that fits
DATA = "rows"  # the name under which the rows are handed over
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"
BLACK, WHITE = "#1b1d21", "#ffffff"  # of a file that is downloaded
PANEL, MOST_COLUMNS, GAP = 270, 4, 26  # a faceted figure: pixels of a panel at least, panels side by side, pixels
PADDING = 6
WIDER = 0.3  # by this share a name may be wider in another font
HERO = 310  # pixels: the height of a hero at most, so that it fits on the first screen with its headline
IDENTIFIERS = re.compile(r'(id="|url\(#)(gradient_\d+|clip\d+)')
SYMBOL = 46  # pixels of a legend's symbol and the gap after its name

# Where a figure stands: on a page that draws its own legend, on one without JavaScript, or in a file of its own.
Medium = Literal["page", "static", "file"]


def safe_name(name: str) -> str:
    """A name that can be part of an identifier or of a file's name.

    >>> safe_name("time to fit/2")
    'time-to-fit-2'
    """
    return re.sub(r"[^A-Za-z0-9-]+", "-", name)


def lab_spec(figure: Figure, drawn: Drawable, width: int, medium: Medium = "page", hero: bool = False) -> Json:
    """The figure on paper ``width`` pixels wide. A hero is low enough for the first screen."""
    figure = panelled(figure)
    file = medium == "file"
    facets = drawn.values(FACET) if figure.facet else []
    columns = _columns(len(facets), width)
    panel = panel_of(figure, drawn, width, columns, medium, hero)
    inner = view(panel)
    spec = frame(panel, params(figure, drawn), file)
    if panel.x.get("axis", {}).get("labelAngle"):  # slanted labels reach to the left of the axis
        spec["padding"] = 40 if file else {**spec["padding"], "left": 26}
    if file:
        spec["title"] = title_of(figure.title, panel, width)
    if isinstance(figure.mark, Surface):
        return spec | _with_surface(panel, inner, width)
    if facets:
        return spec | {
            "facet": {"field": FACET, "type": "nominal", "sort": facets, "header": _header(panel, facets)},
            "columns": columns,
            "spacing": GAP,
            "spec": inner,
            "resolve": {"axis": {"x": "independent", "y": "independent"}},
        }
    aside = any(placed.align == ASIDE for placed in panel.rules)
    if panel.labels and medium != "page":  # the reader's letters may be wider than those that are measured here
        sides = {"left": 24, "top": 24, "bottom": 24} if file else spec["padding"]
        room = room_for_ends(figure, drawn, width, panel.font)
        spec["padding"] = {**sides, "right": round((24 if file else 2 * PADDING) + WIDER * room)}
    if _is_plane(figure) or panel.labels or aside:  # names right of the panel need their own room
        return spec | inner
    return spec | inner | {"autosize": {"type": "fit-x", "contains": "padding"}, "width": width}


def view(panel: Panel) -> Json:
    """A panel with everything in it."""
    return {"width": panel.width, "height": panel.height, "layer": decorated(panel, layers(panel))}


def frame(panel: Panel, moved: list[Json], file: bool) -> Json:
    """What a specification has around its panels; ``moved`` are the parameters that a reader may change."""
    return {
        "data": {"name": DATA},
        "params": moved,
        "padding": 24 if file else {"left": 0, "right": 2 * PADDING, "top": 4, "bottom": 2},
        "background": WHITE if file else "transparent",
        "config": _config(panel),
    }


def static_svg(figure: Figure, drawn: Drawable, width: int, hero: bool = False, medium: Medium = "static") -> str:
    """The figure as an SVG element for readers without JavaScript; of a slider, its first value."""
    spec = lab_spec(figure, drawn, width, medium, hero)
    return drawn_svg(spec, [row for row in drawn.rows if at_start(row, drawn)], f"{safe_name(figure.name)}-{width}")


def at_start(row: Json, drawn: Drawable) -> bool:
    """Whether a row is shown before anyone moves a slider or a switch."""
    return row.get(SLIDE) in (None, drawn.start, -1 - drawn.start // max(1, len(drawn.slides)))


def drawn_svg(spec: Json, rows: list[Json], prefix: str) -> str:
    """A specification with its rows as an SVG element, without marks that only carry tooltips."""
    for view in [spec.get("spec", spec), *spec.get("hconcat", []), *spec.get("vconcat", [])]:
        if "layer" in view:
            view["layer"] = [layer for layer in view["layer"] if layer["encoding"].get("opacity") != HIDDEN]
    svg: str = extra("vl_convert").vegalite_to_svg(spec | {"datasets": {DATA: rows}})
    # Several figures share a page, so the identifiers (of a legend's colors) get the name of the figure.
    found: dict[str, int] = {}
    return re.sub(IDENTIFIERS, lambda match: f"{match[1]}{prefix}-{found.setdefault(match[2], len(found))}", svg)


def params(figure: Figure, drawn: Drawable) -> list[Json]:
    """What a reader may change: the series that stand out, the value of the slider."""
    found: list[Json] = [{"name": CHOSEN, "value": []}] if figure.series else []
    return found + ([{"name": CHOICE, "value": drawn.start}] if drawn.slides or figure.switches else [])


def _columns(panels: int, width: int) -> int:
    """Panels side by side: as many as fit, and no row with a single panel if that can be helped.

    >>> [_columns(4, width) for width in (350, 640, 1040)], _columns(5, 1040)
    ([1, 2, 2], 3)
    """
    most = max(1, min(MOST_COLUMNS, width // PANEL, panels))
    return math.ceil(panels / math.ceil(panels / most)) if panels else 1


def panel_of(figure: Figure, drawn: Drawable, width: int, columns: int, medium: Medium, hero: bool) -> Panel:
    font = 13 if width < 600 else 15
    ink, paper = (BLACK, WHITE) if medium == "file" else (INK, PAPER)
    aside = room_aside(figure, drawn, width, font)
    room = room_for_ends(figure, drawn, width, font) + aside
    labels = drawn.orders[Y] if Y in drawn.orders else ["100%", *map(words, y_domain(figure, drawn))]
    names = min(220.0, LETTER * font * max(map(len, labels))) + 14 + 1.6 * font  # and the title of the axis
    names += 2 * LETTER * font if figure.facet else 0  # the last label of an x axis sticks out
    pair = 2 if isinstance(figure.mark, Surface) and width >= 600 else columns
    across = (width - 2 * PADDING - (pair - 1) * GAP - room) / pair - names
    height, across = _size(figure, drawn, width, across, len(drawn.values(FACET)), columns, hero)
    panel = Panel(figure, drawn, {}, {}, round(across), round(height), None, font, ink, paper)
    rules: list[Placed] = []
    ends = (0.0, 1.0) if Y in drawn.orders else y_domain(figure, drawn)
    if isinstance(figure.mark, Path) and figure.mark.equal:
        ends = (sum(ends) - span(figure, drawn)) / 2, (sum(ends) + span(figure, drawn)) / 2
    if aside:
        rules = [Placed(rule, rule.value, ASIDE) for rule in figure.rules if not rule.upright]
    elif figure.rules and Y not in drawn.orders:
        rules, ends = place_rules(figure, drawn, (panel.width, panel.height), font, ends, room > 0)
    return replace(
        panel,
        x=x_encoding(figure, drawn, across, font, room > 0),
        y=y_encoding(figure, drawn, height, ends, font),
        rules=rules,
        labels=end_labels(figure, drawn, height, font, ends) if room > aside else (),
        legend=_legend(panel, width) if room == aside and (medium != "page" or _by_number(figure, drawn)) else None,
    )


def _size(
    figure: Figure, drawn: Drawable, width: int, across: float, panels: int, columns: int, hero: bool
) -> tuple[float, float]:
    """The height and the width of a panel."""
    if isinstance(figure.mark, Map) and drawn.orders:
        down = len(drawn.orders.get(Y, ())) or len(set(drawn.numbers(Y)))
        height = (
            min(down * 56, HERO) if hero else down * min(max(across / max(len(drawn.orders.get(X, "x")), 1), 28), 56)
        )
        return height, across
    if _is_plane(figure):
        side = min(across, HERO if hero else 430)
        return side * (0.8 if isinstance(figure.mark, Surface) else 1.0), side if not figure.facet else across
    if figure.facet:
        height = min(max(0.72 * across, 180), 280)
        rows = math.ceil(panels / columns)
        return (min(height, max(110, HERO / rows - 40)) if hero and width >= 600 else height), across
    height = min(max(0.45 * width, 240), 430)
    return (min(height, HERO) if hero else height), across


def _is_plane(figure: Figure) -> bool:
    """Whether x and y are two directions of one plane, so that a square panel suits it."""
    if isinstance(figure.mark, Path):
        return figure.mark.equal
    return isinstance(figure.mark, Regions | Contour | Surface | Polygons)


def _by_number(figure: Figure, drawn: Drawable) -> bool:
    """Whether colors stand for numbers: their legend is a ramp, which nobody clicks."""
    return bool(drawn.numbers(VALUE))


def _with_surface(panel: Panel, contour: Json, width: int) -> Json:
    """The surface and, always, its contour map."""
    view = {"width": panel.width, "height": panel.height, "layer": seen(panel)}
    return {"hconcat" if width >= 600 else "vconcat": [view, contour], "spacing": GAP,
            "resolve": {"scale": {"color": "shared", "x": "independent", "y": "independent"}}}  # fmt: skip


def _legend(panel: Panel, width: int) -> Json:
    """Above the figure, in as many columns as fit."""
    figure = panel.figure
    ramp = _by_number(figure, panel.drawn)
    title = getattr(figure.mark, "title", "") if ramp or isinstance(figure.mark, Regions) else figure.series_title
    text = {"labelColor": panel.ink, "titleColor": panel.ink, "labelFontSize": panel.font, "titleFontSize": panel.font}
    legend = {
        "title": wrapped(title, width, panel.font) if title else None,
        "orient": "top",
        "direction": "horizontal",
        "offset": 10,
        "titleLimit": width,
        "titleFontWeight": "normal",
        **text,
    }
    if ramp:
        return legend | {
            "gradientLength": round(min(300, 0.85 * panel.width)),
            "gradientThickness": 12,
            "tickCount": 4 if panel.width > 300 else 2,
            **(
                {"labelExpr": labels(unit)} if (unit := getattr(figure.mark, "unit", None)) in (PERCENT, POINTS) else {}
            ),
        }
    names = panel.drawn.values(SERIES) or panel.drawn.values(VALUE)
    lengths = [LETTER * panel.font * len(str(name)) + SYMBOL for name in names] or [1.0]
    columns = len(lengths) if sum(lengths) <= width else max(1, int(width // max(lengths)))
    symbols = {"symbolSize": 130, "symbolStrokeWidth": 2.75, "symbolOpacity": 1}
    return legend | {"columns": columns, "labelLimit": width - SYMBOL, "columnPadding": 30, "rowPadding": 5, **symbols}


def _header(panel: Panel, names: list[str]) -> Json:
    """The name of a panel of a faceted figure."""
    return {
        "labelExpr": in_lines(names, 0.9 * panel.width, panel.font),  # bold letters are wider
        "title": None,
        "labelFontSize": panel.font,
        "labelFontWeight": 600,
        "labelColor": panel.ink,
        "labelAnchor": "start",
        "labelLimit": panel.width,
        "labelPadding": 6,
    }


def title_of(title: str, panel: Panel, width: int) -> Json:
    """A file must speak for itself; on a page the title stands above the figure."""
    size = panel.font + 6
    text = {"text": wrapped(title, 0.8 * width, size), "fontSize": size, "fontWeight": 600}
    return {"anchor": "start", "color": panel.ink, "offset": 14, **text}


def _config(panel: Panel) -> Json:
    ink = {"gridColor": panel.ink, "labelColor": panel.ink, "titleColor": panel.ink}
    size = {"labelFontSize": panel.font, "titleFontSize": panel.font}
    axis = {**AXES, "ticks": False, "labelPadding": 6, **ink, **size}
    view = {"stroke": panel.ink, "strokeOpacity": 0.4} if isinstance(panel.figure.mark, Polygons) else {"stroke": None}
    return {"aria": False, "font": FONT, "axis": axis, "view": view, "legend": {"symbolLimit": 0}}


def glyph(figure: Figure) -> str:
    """How a series looks in the legend: as a square, a line (with the shape of its points), or a point."""
    if isinstance(figure.mark, Bars | Histogram | Regions):
        return "square"
    return "line" if isinstance(figure.mark, Line | Slope | Path) else "point"
