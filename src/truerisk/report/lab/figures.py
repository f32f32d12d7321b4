"""Figures of the lab as Vega-Lite specifications, one for each width of paper."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from truerisk.lab.figure import Figure
from truerisk.report.extra import extra
from truerisk.report.figures import AXES, INK
from truerisk.report.lab.layers import HIDDEN, PAPER, Json, Panel, layers
from truerisk.report.lab.rows import FACET, SERIES, Drawable, Y, words
from truerisk.report.lab.rules import Placed, place_rules
from truerisk.report.lab.scales import LETTER, in_lines, wrapped, x_encoding, y_domain, y_encoding

WIDTHS = (280, 350, 480, 640, 820, 1040)  # pixels; the page takes the widest that fits
DATA = "rows"  # the name under which the rows are handed over
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif"
BLACK, WHITE = "#1b1d21", "#ffffff"  # of a file that is downloaded
PANEL, MOST_COLUMNS, GAP = 270, 4, 26  # a faceted figure: pixels of a panel at least, panels side by side, pixels
PADDING = 6
IDENTIFIERS = re.compile(r'(id="|url\(#)(gradient_\d+|clip\d+)')
SYMBOL = 46  # pixels of a legend's symbol and the gap after its name


def safe_name(name: str) -> str:
    """A name that can be part of an identifier or of a file's name.

    >>> safe_name("time to fit/2")
    'time-to-fit-2'
    """
    return re.sub(r"[^A-Za-z0-9-]+", "-", name)


def lab_spec(figure: Figure, drawn: Drawable, width: int, titled: bool = False) -> Json:
    """The figure on paper ``width`` pixels wide; ``titled`` for a file that must speak for itself."""
    font = 13 if width < 600 else 15
    facets = drawn.values(FACET) if figure.facet else []
    columns = _columns(len(facets), width)
    panel = _panel(figure, drawn, width, columns, BLACK if titled else INK, WHITE if titled else PAPER, font)
    inner: Json = {"width": panel.width, "height": panel.height, "layer": layers(panel)}
    spec: Json = {
        "data": {"name": DATA},
        "title": _title(figure, panel, width, titled),
        "padding": 24 if titled else {"left": 0, "right": 2 * PADDING, "top": 2, "bottom": 2},
        "background": WHITE if titled else "transparent",
        "config": _config(panel),
    }
    if not facets:
        return spec | inner | {"width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    return spec | {
        "facet": {"field": FACET, "type": "nominal", "sort": facets, "header": _header(panel, facets)},
        "columns": columns,
        "spacing": GAP,
        "spec": inner,
        "resolve": {"axis": {"x": "independent", "y": "independent"}},
    }


def static_svg(figure: Figure, drawn: Drawable, width: int) -> str:
    """The figure as an SVG element for readers without JavaScript."""
    spec = lab_spec(figure, drawn, width)
    panel = spec.get("spec", spec)
    panel["layer"] = [layer for layer in panel["layer"] if layer["encoding"].get("opacity") != HIDDEN]
    svg: str = extra("vl_convert").vegalite_to_svg(spec | {"datasets": {DATA: drawn.rows}})
    # Several figures share a page, so the identifiers (of a legend's colours) get the name of the figure.
    found: dict[str, int] = {}
    prefix = f"{safe_name(figure.name)}-{width}"
    return re.sub(IDENTIFIERS, lambda match: f"{match[1]}{prefix}-{found.setdefault(match[2], len(found))}", svg)


def _columns(panels: int, width: int) -> int:
    """Panels side by side: as many as fit, and no row with a single panel if that can be helped.

    >>> [_columns(4, width) for width in (350, 640, 1040)], _columns(5, 1040)
    ([1, 2, 2], 3)
    """
    most = max(1, min(MOST_COLUMNS, width // PANEL, panels))
    return math.ceil(panels / math.ceil(panels / most)) if panels else 1


def _panel(figure: Figure, drawn: Drawable, width: int, columns: int, ink: str, paper: str, font: int) -> Panel:
    labels = drawn.orders[Y] if Y in drawn.orders else ["100%", *map(words, y_domain(figure, drawn))]
    names = min(220.0, LETTER * font * max(map(len, labels))) + 14
    names += 2 * LETTER * font if figure.facet else 0  # the last label of an x axis sticks out
    across = (width - 2 * PADDING - (columns - 1) * GAP) / columns - names
    if figure.mark == "heat":
        x, y = (len(order) for order in drawn.orders.values())
        height = y * min(max(across / x, 28), 56)
    elif figure.facet:
        height = min(max(0.72 * across, 180), 280)
    else:
        height = min(max(0.45 * width, 240), 430)
    panel = Panel(figure, drawn, {}, {}, round(across), round(height), {}, font, ink, paper)
    rules: list[Placed] = []
    ends = (0.0, 1.0) if Y in drawn.orders else y_domain(figure, drawn)
    if figure.rules and Y not in drawn.orders:
        rules, ends = place_rules(figure, drawn, (panel.width, panel.height), font, ends)
    return replace(
        panel,
        x=x_encoding(figure, drawn, across, font),
        y=y_encoding(figure, drawn, height, ends),
        rules=rules,
        legend=_legend(panel, width),
    )


def _legend(panel: Panel, width: int) -> Json:
    """Above the figure, in as many columns as fit."""
    heat = panel.figure.mark == "heat"
    title = panel.figure.series_title or (panel.figure.series if heat else "")
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
    if heat:
        return legend | {"gradientLength": min(300, width - 60), "gradientThickness": 12, "tickCount": 4}
    lengths = [LETTER * panel.font * len(name) + SYMBOL for name in panel.drawn.values(SERIES)] or [1.0]
    columns = len(lengths) if sum(lengths) <= width else max(1, int(width // max(lengths)))
    symbols = {"symbolSize": 130, "symbolStrokeWidth": 2.75, "symbolOpacity": 1}
    return legend | {"columns": columns, "labelLimit": width - SYMBOL, "columnPadding": 18, "rowPadding": 5, **symbols}


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


def _title(figure: Figure, panel: Panel, width: int, titled: bool) -> Json:
    """What the y axis shows; on the page the title stands above, in a file it must be part of the figure."""
    style = {"anchor": "start", "color": panel.ink, "subtitleColor": panel.ink, "offset": 14}
    measured = wrapped(figure.y.title, width, panel.font)
    if titled:
        size = panel.font + 6
        text = {"text": wrapped(figure.title, width, size), "fontSize": size, "fontWeight": 600}
        return style | text | {"subtitle": measured, "subtitleFontSize": panel.font, "subtitlePadding": 8}
    return style | {"text": measured, "fontSize": panel.font, "fontWeight": 600}


def _config(panel: Panel) -> Json:
    ink = {"gridColor": panel.ink, "labelColor": panel.ink, "titleColor": panel.ink}
    size = {"labelFontSize": panel.font, "titleFontSize": panel.font}
    axis = {**AXES, "ticks": False, "labelPadding": 6, **ink, **size}
    return {"aria": False, "font": FONT, "axis": axis, "view": {"stroke": None}, "legend": {"symbolLimit": 0}}
