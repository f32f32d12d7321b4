"""Figures of a network's measures: its margins, its bounds on a logarithmic axis, what its layers contribute."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from truerisk.measures.margin_shapes import histogram
from truerisk.measures.theorems import Bound
from truerisk.measures.words import quantity
from truerisk.report.extra import extra
from truerisk.report.figures import AXES, INK, PARTS
from truerisk.words import magnitude

WRONG, RIGHT = PARTS[3], PARTS[0]
VACUOUS, USEFUL = PARTS[3], PARTS[2]
BINS = 30
PANEL_HEIGHT = 170
ROW, BAR, TEXT = 48, 14, 20  # pixels of a bound: all of it, its bar, its name above the bar
SPILL = 3  # pixels: lines of the axis reach this far above and below a bar
LAYER_ROW, NAME_WIDTH, DIGIT_WIDTH = 20, 120, 66
GAP = 26
SUPERSCRIPTS = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


def margins_figure(panels: Mapping[str, np.ndarray], width: int) -> str:
    """Histograms, side by side where there is room: the share of examples at each margin, wrong ones apart."""
    alt = _altair()
    columns = len(panels) if width >= 600 else 1
    each = (width - (columns - 1) * GAP) // columns - 44  # without the axis' own labels
    charts = [_histogram(alt, title, margins, each) for title, margins in panels.items()]
    return _svg(alt.concat(*charts, columns=columns, spacing=GAP))


def _histogram(alt: Any, title: str, margins: np.ndarray, width: int) -> Any:
    bins, step = histogram(margins, BINS)
    rows = [{"start": b.start, "end": b.end, "share": b.share, "fill": WRONG if b.wrong else RIGHT} for b in bins]
    power = math.floor(math.log10(step)) if step > 0 else 0
    style = "~g" if -4 <= power <= 3 else ".1~e"
    label = f"datum.value ? format(datum.value, '{style}') : '0'"
    axis = alt.Axis(title=None, tickCount=max(3, width // 60), ticks=False, labelExpr=label, labelPadding=9)
    shares = alt.Axis(title=None, tickCount=4, ticks=False, labelExpr="format(100 * datum.value, '~g') + '%'")
    marks = alt.Chart(alt.Data(values=rows)).mark_rect(stroke=None)
    marks = marks.encode(
        x=alt.X("start:Q", axis=axis, scale=alt.Scale(nice=False, zero=True)),
        x2="end:Q",
        y=alt.Y("share:Q", axis=shares),
        y2=alt.datum(0),
        color=alt.Color("fill:N", scale=None),
    )
    return marks.properties(width=width, height=PANEL_HEIGHT, title=_title(alt, title))


def bounds_figure(bounds: Sequence[Bound], width: int) -> str:
    """Bars on a logarithmic axis from 1, above which a bound says nothing, to each bound.

    Lines of the axis pass behind the bars only, so that none runs through a name or a number.
    """
    alt = _altair()
    rows = [_bound_row(bound, place) for place, bound in enumerate(bounds)]
    low, high = min(-1.0, *(row["at"] for row in rows)), max(1.0, *(row["at"] for row in rows))
    high += (high - low) * DIGIT_WIDTH / width  # room for the number beside the longest bar
    height = ROW * len(rows)
    ticks = _powers(low, high, max(3, width // 90))
    labels = ", ".join(f"'{power}': '{_power(power)}'" for power in ticks)
    expression = f"({{{labels}}})[datum.value]"
    axis = alt.Axis(title="bound on the true risk", values=ticks, ticks=False, grid=False, labelExpr=expression)
    across, down = alt.Scale(domain=[low, high], nice=False), alt.Scale(domain=[height, 0], nice=False)
    x, y = alt.X("one:Q", scale=across, axis=axis), alt.Y("top:Q", scale=down, axis=None)
    data = alt.Chart(alt.Data(values=rows))
    bars = data.mark_rect().encode(x=x, x2="at:Q", y=y, y2="bottom:Q", color=alt.Color("fill:N", scale=None))
    middle = alt.Y("middle:Q", scale=down, axis=None)
    value = data.mark_text(fontSize=13, color=INK, align="left", baseline="middle", dx=5)
    values = value.encode(x=alt.X("beside:Q", scale=across), y=middle, text="value:N")
    name = data.mark_text(fontSize=14, fontWeight=600, color=INK, align="left", baseline="top", limit=width)
    names = name.encode(x=alt.value(0), y=alt.Y("name_at:Q", scale=down, axis=None), text="name:N")
    lines = [
        {"one": tick, "top": row["top"] - SPILL, "bottom": row["bottom"] + SPILL}
        for row in rows
        for tick in ticks
        if not 0 < (tick - row["beside"]) / (high - low) * width < DIGIT_WIDTH  # nor through a number
    ]
    behind = alt.Chart(alt.Data(values=[line for line in lines if line["one"]])).mark_rule(color=INK, opacity=0.35)
    front = alt.Chart(alt.Data(values=[line for line in lines if not line["one"]])).mark_rule(color=INK, strokeWidth=2)
    grid, one = (rules.encode(x=x, y=y, y2="bottom:Q") for rules in (behind, front))
    return _svg(alt.layer(grid, bars, one, values, names).properties(width=width, height=height))


def _bound_row(bound: Bound, place: int) -> dict[str, Any]:
    at = log10(bound)
    top = place * ROW + TEXT
    return {
        "name": bound.name,
        "one": 0.0,
        "at": at,
        "beside": max(at, 0.0),
        "name_at": place * ROW,
        "top": top,
        "bottom": top + BAR,
        "middle": top + BAR / 2,
        "value": magnitude(bound.value, bound.log),
        "fill": VACUOUS if bound.vacuous else USEFUL,
    }


def log10(bound: Bound) -> float:
    """Of its value; infinity, where nothing more is known, becomes the end of floats."""
    return float(np.clip(bound.natural_log / math.log(10), -308, 1e6))


def _powers(low: float, high: float, most: int) -> list[int]:
    """Whole powers of ten between two, evenly apart, 0 among them.

    >>> _powers(-1.0, 9.0, 5), _powers(-1.0, 1.5, 5)
    ([0, 2, 4, 6, 8], [-1, 0, 1])
    """
    step = next(s * 10**k for k in range(7) for s in (1, 2, 5) if (high - low) / (s * 10**k) <= most)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _power(exponent: int) -> str:
    """
    >>> _power(0), _power(-1), _power(12)
    ('1', '0.1', '10\u00b9\u00b2')
    """
    if -2 <= exponent <= 2:
        return f"{10.0**exponent:g}"
    return "10" + str(exponent).translate(SUPERSCRIPTS)


def layers_figure(panels: Mapping[str, Mapping[str, float]], width: int) -> str:
    """For each measure a bar for each layer, in the order in which they run."""
    alt = _altair()
    columns = 2 if width >= 600 and len(panels) > 1 else 1
    each = (width - (columns - 1) * GAP) // columns
    charts = [_layer_bars(alt, name, parts, each) for name, parts in panels.items()]
    return _svg(alt.concat(*charts, columns=columns, spacing=GAP))


def _layer_bars(alt: Any, title: str, parts: Mapping[str, float], width: int) -> Any:
    """Names on the left, bars from where they end. The names are no axis: browsers and we disagree on their width."""
    rows: list[dict[str, Any]] = [
        {"layer": name, "none": 0, "value": value, "label": quantity(value), "top": LAYER_ROW * place + 3}
        for place, (name, value) in enumerate(parts.items())
    ]
    rows = [{**row, "bottom": row["top"] + BAR, "middle": row["top"] + BAR / 2} for row in rows]
    height = LAYER_ROW * len(rows)
    across = alt.Scale(domain=[0, max(parts.values())], range=[NAME_WIDTH, width - DIGIT_WIDTH], nice=False)
    down = alt.Scale(domain=[height, 0], nice=False)
    data = alt.Chart(alt.Data(values=rows))
    x, x2 = alt.X("none:Q", scale=across, axis=None), "value:Q"
    bars = data.mark_rect(color=RIGHT).encode(x=x, x2=x2, y=alt.Y("top:Q", scale=down, axis=None), y2="bottom:Q")
    text = data.mark_text(fontSize=13, color=INK, align="left", baseline="middle", limit=NAME_WIDTH - 16)
    middle = alt.Y("middle:Q", scale=down, axis=None)
    names = text.encode(x=alt.value(0), y=middle, text="layer:N")
    value = data.mark_text(fontSize=13, color=INK, align="left", baseline="middle", dx=5)
    values = value.encode(x=alt.X("value:Q", scale=across, axis=None), y=middle, text="label:N")
    return alt.layer(bars, names, values).properties(width=width, height=height, title=_title(alt, title))


def _altair() -> Any:
    alt = extra("altair")
    extra("vl_convert")
    return alt


def _title(alt: Any, text: str) -> Any:
    return alt.TitleParams(text, anchor="start", frame="group", fontSize=14, fontWeight=600, color=INK, offset=8)


def _svg(chart: Any) -> str:
    chart = chart.properties(background="transparent", padding={"left": 6, "right": 14, "top": 2, "bottom": 2})
    svg = io.StringIO()
    chart.configure(aria=False, axis=AXES, view={"stroke": None}).save(svg, format="svg")
    return svg.getvalue()
