"""The lesson of `loss-landscape`: a picture of the loss is a picture of weights, not of the function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.figure import Axis, Exhibit, Figure, Table
from truerisk.lab.landscape_runs import column
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Contour, Points, Surface
from truerisk.lab.rows import Row, Rows
from truerisk.lab.units import PERCENT

WITH, WITHOUT, TWIN = "with skips", "without skips", "with skips, rescaled"
CLIP = 1000.0  # largest loss that maps show
WINDOW = Axis("x", "first random direction")
ACROSS = Axis("y", "second random direction")


def figures(rows: Rows) -> list[Exhibit]:
    done = [row for row in rows.converged() if row["reached"]]
    judged = [row for row in done if row["view"] == "numbers"]
    pictures = [row for row in done if row["view"] == "picture"]
    found: list[Exhibit] = []
    if len(pictures) == 2:
        found.append(_maps(pictures))
    found.append(_distances(judged))
    if len(pictures) == 2:
        found += [_turned(pictures, WITH, True), _turned(pictures, WITHOUT, False)]
    deep = max((row["blocks"] for row in judged), default=0)
    found.append(_depth([row for row in done if row["view"] == "depth" or (row["blocks"] == deep and row in judged)]))
    found += [_planes(judged), _exact(judged)]
    return found


def _name(row: Row) -> str:
    return WITH if row["skips"] else WITHOUT


def _cells(losses: Sequence[Sequence[float | None]], **more: Any) -> list[dict[str, Any]]:
    """A row for each point of the window [-1, 1]^2; losses above the limit, or not finite, are at the limit."""
    at = np.linspace(-1, 1, len(losses)).round(4).tolist()
    clipped = [[CLIP if v is None else min(v, CLIP) for v in line] for line in losses]
    return [
        {**more, "x": at[j], "y": at[i], "loss": value, "log": round(math.log10(max(value, 1e-12)), 4)}
        for i, line in enumerate(clipped)
        for j, value in enumerate(line)
    ]


def _maps(pictures: Sequence[Row]) -> Figure:
    with_, without = (next(row for row in pictures if row["skips"] is skips) for skips in (True, False))
    shown = {WITH: with_["network_surface"], WITHOUT: without["network_surface"], TWIN: with_["twin_surface"]}
    made = [row for name, losses in shown.items() for row in _cells(losses, network=name)]
    return Figure(
        "maps",
        "The loss around three trained networks",
        f"Training loss on a filter-normalized random plane; the network, with loss {with_['target']:g}, is in the "
        "middle. The first and the third network compute the same function. Colors end at "
        f"a loss of {CLIP:,.0f}; the third reaches {_power(with_['twin'][0]['highest'])}.",
        made,
        WINDOW,
        ACROSS,
        mark=Contour("loss", "training loss", levels=9, log=True),
        facet="network",
        claims=("skips-smooth", "twin-looks-sharper", "same-function"),
        group=None,
    )


def _power(value: float) -> str:
    """
    >>> _power(155570968934.4), _power(320.2)
    ('10¹¹', '320')
    """
    raised = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
    return f"{value:,.0f}" if value < 1e5 else f"10{str(round(math.log10(value))).translate(raised)}"


def _turned(pictures: Sequence[Row], name: str, skips: bool) -> Figure:
    row = next(row for row in pictures if row["skips"] is skips)
    made = _cells(row["network_surface"])
    return Figure(
        f"surface-{name.replace(' ', '-')}",
        f"The surface {name}",
        "Logarithm of the training loss over the same plane as a height, next to its map; move the slider to turn it. "
        "A bowl rises in every direction, a rough surface has ridges and side valleys.",
        made,
        WINDOW,
        ACROSS,
        mark=Surface("log", "log10 of the training loss", levels=10),
        claims=("skips-smooth",),
        group=None,
    )


def _distances(judged: Sequence[Row]) -> Figure:
    made = []
    for row in judged:
        own = {_name(row): "network", f"{_name(row)}, rescaled": "twin"}
        made += [
            {"seed": row["seed"], "network": name, "distance": fmean(column(row[which], "doubling"))}
            for name, which in own.items()
        ]
    order = [WITH, WITHOUT, TWIN, f"{WITHOUT}, rescaled"]
    return Figure(
        "distances",
        "How far can weights move until the loss doubles?",
        "Median distance over eight rays of a random plane, mean over planes; 1 means as far as each filter is long. "
        "Rescaling does not change the function. If the distance measured something about the function, a network and "
        "its rescaled twin would have the same.",
        sorted(made, key=lambda each: order.index(str(each["network"]))),
        Axis("network", "network", ordinal=True),
        Axis("distance", "distance at which the loss doubles", log=True),
        mark=Points(),
        claims=("skips-flatten", "twin-looks-sharper", "twin-reverses-order"),
    )


def _depth(runs: Sequence[Row]) -> Figure:
    made = [
        {"seed": run["seed"], "layers": 2 * run["blocks"] + 2, "network": _name(run),
         "share": fmean(column(run["network"], "nonconvex"))}
        for run in runs
    ]  # fmt: skip
    return Figure(
        "depth",
        "Does the surface get rough with depth?",
        "Share of the points of the window that are not convex, against the number of layers, at the same training "
        "loss. In the paper, surfaces without skips turn from nearly convex to chaotic with depth. If skips prevent "
        "that, their curve stays low.",
        sorted(made, key=lambda each: (each["layers"], each["network"] != WITH)),
        Axis("layers", "layers"),
        Axis("share", "points that are not convex", PERCENT, zero=True, counted_on=100),
        series="network",
        claims=("skips-smooth",),
    )


def _planes(judged: Sequence[Row]) -> Figure:
    made = [
        {"seed": row["seed"], "network": _name(row), "plane": f"plane {number + 1}", "share": plane["nonconvex"]}
        for row in judged
        for number, plane in enumerate(row["network"])
    ]
    return Figure(
        "planes",
        "Do random planes of one network agree?",
        "Share of points that are not convex on each of several random planes. If one plane could mislead about the "
        "skips, the points of the two colors would overlap.",
        made,
        Axis("plane", "random plane", ordinal=True),
        Axis("share", "points that are not convex", PERCENT, zero=True, counted_on=100),
        mark=Points(),
        series="network",
        claims=("planes-agree",),
    )


def _exact(judged: Sequence[Row]) -> Table:
    kinds = {
        "outputs_change": ("outputs", "every unit by its own factor"),
        "layers_filter": ("surface, filter-normalized", "whole layers by one factor"),
        "units_filter": ("surface, filter-normalized", "every unit by its own factor"),
        "units_elementwise": ("surface, in proportion to each weight", "every unit by its own factor"),
    }
    body = [
        [what, how, f"{max(float(row[name]) for row in judged):.1g}"] for name, (what, how) in kinds.items() if judged
    ]
    return Table(
        "exact",
        "What rescaling changes",
        "Largest relative difference between a network and its twin, in float64, over all networks. Numbers near "
        "1e-15 are rounding. Filter normalization removes the factors of whole layers, not those of units.",
        ["compared", "rescaled", "largest relative difference"],
        body,
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

POINTS_ACROSS, FAR = 33, 3.2


def demo(setting: Setting) -> Record:
    """The smallest network with a twin: f(x) = v max(u x, 0) at x = 1, target 1. Its loss is (u v - 1)^2 for u > 0."""
    at = np.linspace(0.1, FAR, POINTS_ACROSS)
    loss = (at[None, :] * at[:, None] - 1) ** 2
    return {"at": at.round(4).tolist(), "loss": loss.round(6).tolist()}


def pictures(record: Record) -> Sequence[Exhibit]:
    if "at" not in record:
        return []
    made = [
        {"x": u, "y": v, "loss": max(record["loss"][i][j], 1e-3)}
        for i, v in enumerate(record["at"])
        for j, u in enumerate(record["at"])
    ]
    return [
        Figure(
            "smallest",
            "The smallest network with a twin",
            "Squared loss of f(x) = v max(u x, 0) at x = 1 with target 1, over both weights. All points of the valley "
            "u v = 1 compute the same function, so both dots do. The valley is wide at one of them and narrow at the "
            "other: sharpness belongs to the weights.",
            made,
            Axis("x", "u, weight into the hidden unit"),
            Axis("y", "v, weight out of it"),
            mark=Contour("loss", "loss", levels=10, log=True),
            dots=[{"x": 1.0, "y": 1.0}, {"x": 3.0, "y": 1 / 3}],
            claims=("same-function",),
            group=None,
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="maps",
    findings=(
        Finding(
            ("twin-looks-sharper", "skips-smooth"),
            "Skips smooth the picture; rescaling makes it {0.mean} as sharp, function unchanged.",
            "Not as expected: skips or rescaling do not change the picture of the loss.",
            "Whether skips smooth the picture and rescaling sharpens it is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does a twin look sharper on one-dimensional signals, too?",
            "truerisk lab run loss-landscape --data mnist1d",
        ),
        Question("What does the surface of another network look like, next to its twin?", "truerisk landscape"),
        Question("Which measures of flatness does a rescaling change?", "truerisk measure --audit"),
    ),
    formulas=(
        Formula(
            r"d_{ij} \leftarrow \frac{d_{ij}}{\| d_{ij} \|} \| \theta_{ij} \|",
            "Filter normalization: each filter j of layer i of a direction gets the norm of that filter of weights.",
        ),
        Formula(
            r"L(C \theta + a\, C d) = L(\theta + a\, d)",
            "If C rescales hidden units without changing the function, a slice is unchanged where the direction is "
            "rescaled with the weights.",
        ),
        Formula(
            r"d_k = | \theta_k | z_k, \quad z_k \sim N(0, 1)",
            "Directions in proportion to each weight are rescaled with the weights: network and twin have one surface.",
        ),
    ),
)
