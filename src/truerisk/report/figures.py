"""The figure of a certificate: the parts of its bound, with the hold-out baseline on the same axis."""

from __future__ import annotations

import io
from typing import Any

from truerisk.certificates.story import Story
from truerisk.report.extra import extra
from truerisk.words import shares

# The page's style sheet replaces these fills by its own, for light and for dark paper; alone they suit both.
PARTS = ("#3b76b0", "#b7791f", "#3f8f8a", "#c2543f")
KNOWN = {
    "Monte Carlo": 1,
    "confidence (delta)": 2,
    "KL(posterior, prior)": 3,
    "log density ratio of posterior and prior": 3,
}  # the same colour in every figure
FLOOR = "#7b8490"
INK = "#808080"
ON_PART = "#ffffff"

TITLE_HEIGHT, BAR_HEIGHT, GAP = 24, 38, 20  # pixels
LABEL_WIDTH = 54  # a narrower segment is labeled in the table below the figure only
HEADROOM = 1.04
AXES = {
    "domain": False,
    "gridColor": INK,
    "gridOpacity": 0.25,
    "labelColor": INK,
    "labelFontSize": 13,
    "titleColor": INK,
    "titleFontSize": 13,
    "titleFontWeight": "normal",
    "titlePadding": 8,
}


def segments(story: Story) -> list[dict[str, Any]]:
    """The parts of the bound in order, each from where the last one ends; the last one ends at the bound."""
    labels = shares([value for _, value in story.parts], story.certificate.quantity.value)
    rows: list[dict[str, Any]] = []
    end = 0.0
    for i, ((part, value), label) in enumerate(zip(story.parts, labels, strict=True)):
        start, end = end, end + max(value, 0.0)
        colour = KNOWN.get(part, i % len(PARTS))
        if rows and rows[-1]["colour"] == colour:  # neighbours must differ
            colour = (colour + 1) % len(PARTS)
        row = {"part": part, "start": start, "end": end, "label": label}
        rows.append({**row, "colour": colour, "fill": PARTS[colour]})
    return rows


def bound_figure(story: Story, width: int) -> str:
    """An SVG element ``width`` pixels wide: a stacked bar for the bound, a bar for the hold-out baseline."""
    alt = extra("altair")
    extra("vl_convert")
    parts, beside = segments(story), story.floor.quantity
    top = min(1.0, HEADROOM * max(parts[-1]["end"], beside.value))
    height = 2 * (TITLE_HEIGHT + BAR_HEIGHT) + GAP + GAP // 2
    second = TITLE_HEIGHT + BAR_HEIGHT + GAP
    floor = {"start": 0.0, "end": beside.value, "label": "", "fill": FLOOR}
    bars = [{**row, "y": TITLE_HEIGHT} for row in parts] + [{**floor, "y": second + TITLE_HEIGHT}]
    bars = [{**row, "bottom": row["y"] + BAR_HEIGHT, "middle": (row["start"] + row["end"]) / 2} for row in bars]
    titles = [
        {"text": f"certificate: {story.certificate.quantity.percent}", "y": 0},
        {"text": f"hold-out baseline: {beside.percent}", "y": second},
    ]
    axis = alt.Axis(
        title="risk",
        labelExpr="format(100 * datum.value, '~r') + '%'",
        tickCount=max(3, width // 110),
        ticks=False,
    )
    x = alt.Scale(domain=[0, top], nice=False)
    y = alt.Scale(domain=[height, 0], nice=False)
    rects = (
        alt.Chart(alt.Data(values=bars))
        .mark_rect()
        .encode(
            x=alt.X("start:Q", scale=x, axis=axis),
            x2="end:Q",
            y=alt.Y("y:Q", scale=y, axis=None),
            y2="bottom:Q",
            color=alt.Color("fill:N", scale=None),
        )
    )
    wide = [row for row in bars if row["label"] and (row["end"] - row["start"]) / top * width >= LABEL_WIDTH]
    values = (
        alt.Chart(alt.Data(values=wide))
        .mark_text(fontSize=13, color=ON_PART, dy=BAR_HEIGHT / 2, baseline="middle")
        .encode(x=alt.X("middle:Q", scale=x), y=alt.Y("y:Q", scale=y, axis=None), text="label:N")
    )
    names = (
        alt.Chart(alt.Data(values=titles))
        .mark_text(fontSize=14, fontWeight=600, color=INK, align="left", baseline="top")
        .encode(x=alt.value(0), y=alt.Y("y:Q", scale=y, axis=None), text="text:N")
    )
    chart = alt.layer(rects, values, names).properties(
        width=width,
        height=height,
        background="transparent",
        padding={"left": 2, "right": 14, "top": 2, "bottom": 2},
    )
    chart = chart.configure(aria=False, axis=AXES, view={"stroke": None})
    svg = io.StringIO()
    chart.save(svg, format="svg")
    return svg.getvalue()
