"""Pictures for `nonconvex`: the loss of the smallest network, its valley, descents on it, and paths off a saddle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.figure import Axis, Exhibit, Figure, Linked
from truerisk.lab.marks import Contour, Path, Surface
from truerisk.lab.nonconvex_runs import LIMIT, RATES
from truerisk.nets.two_weights import TwoWeights, example_points, two_weights
from truerisk.training.paths import path, saddle

LOW, HIGH, TICKS = -1.5, 3.0, 37  # the plane of both weights
SHOWN = (0, 5, 10, 20, 40, 80, 160, 320, 640, 1280)  # steps of the slider
RATE, TICKED = 0.002, 16  # of the descents; points of each path, evenly spaced
STARTS = {
    "A arrives": (2.6, 2.0),
    "B arrives": (2.4, -1.2),
    "C arrives": (0.3, 0.2),
    "D dies": (1.0, -1.4),
    "E is dead": (-0.8, 1.5),
}
VALLEY = "valley"
BATCHES = (1, 3, 10, 30)  # examples of a stochastic loss
RIDGE, MOVES = 1e-3, (0, 5, 10, 15, 20, 25, 30, 40, 60, 80)  # start of the paths off the saddle; their slider
DRAWN = ("gradient descent", "momentum", "AdaGrad", "RMSProp", "AdaDelta", "Adam")
W1, W2 = Axis("w1", "weight into the unit, w1"), Axis("w2", "weight out of the unit, w2")


def demo(setting: Setting) -> Record:
    """Descents on the two-weight loss and paths off the saddle; the points are the lecture's, whatever the seed."""
    x, y = example_points()
    net = two_weights(x, y)
    descents = {name: _spaced(net.descend(*start, RATE, SHOWN[-1])) for name, start in STARTS.items()}
    paths = {name: path(saddle(), (1.0, RIDGE), name, RATES[name], MOVES[-1]).round(5).tolist() for name in DRAWN}
    batches = {str(k): two_weights(x[:k], y[:k]) for k in BATCHES}
    moments = {k: [net.sxx, net.sxy, net.syy] for k, net in batches.items()}
    return {"descents": descents, "saddle": paths, "moments": moments}


def pictures(record: Record) -> Sequence[Exhibit]:
    if not record.get("moments"):
        return []
    nets = {int(k): TwoWeights(*moments) for k, moments in record["moments"].items()}
    whole = nets[BATCHES[-1]]
    return [_hero(whole, record["descents"]), _surface(whole), _stochastic(nets), _off_saddle(record["saddle"])]


def plane(net: TwoWeights) -> list[dict[str, float]]:
    places = np.linspace(LOW, HIGH, TICKS).round(4)
    w1, w2 = np.meshgrid(places, places)
    values = net.loss(w1, w2)
    return [
        {"w1": float(a), "w2": float(b), "loss": float(f"{v:.4g}")}
        for a, b, v in zip(w1.flat, w2.flat, values.flat, strict=True)
    ]


def orbit(net: TwoWeights, count: int = 25) -> list[dict[str, float]]:
    """Points of the valley inside the plane, evenly spaced on a logarithmic scale."""
    if net.product <= 0:
        return []
    w1 = np.geomspace(net.product / HIGH, HIGH, count)
    return [{"w1": round(float(a), 4), "w2": round(float(b), 4)} for a, b in zip(w1, net.valley(w1), strict=True)]


def _hero(net: TwoWeights, descents: dict[str, list[list[float]]]) -> Linked:
    moved: dict[str, Any] = {"slider": Axis("step", "steps of gradient descent"), "starts_at": SHOWN[-1], "group": None}
    marks = [
        {"w1": a, "w2": b, "step": shown, "path": name}
        for name, walk in descents.items()
        for shown in SHOWN
        for step, a, b in walk
        if step <= shown and (step not in SHOWN or step == shown or not step)  # so far, and where it is
    ]
    plain = [{name: value for name, value in row.items() if name != "path"} for row in marks]
    valley = [{**point, "path": VALLEY, "step": step} for step in SHOWN for point in orbit(net)]
    return Linked(
        "descents",
        "The smallest network: w2 relu(w1 x)",
        "Training loss over both weights, and gradient descent from five starts; move the slider. Every point of the "
        "valley is the same function with the least loss. Where w1 is 0 or less, the unit is dead: the loss is a "
        "plateau, its gradient is 0, and nothing moves.",
        [
            Figure("loss", "Its loss: a plateau where w1 < 0", "", plane(net), W1, W2,
                   Contour("loss", "training loss", levels=10, log=True), dots=plain, **moved),
            Figure("trails", "Five descents, and the valley", "", [*marks, *valley], W1, W2, Path(), series="path",
                   series_title="start", **moved),
        ],
        claims=("closed-form", "three-eighths"),
    )  # fmt: skip


def _spaced(walk: np.ndarray) -> list[list[float]]:
    """[step, w1, w2] at the steps of the slider, and at points that divide the path into pieces of equal length."""
    gone = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(walk, axis=0).T))])
    even = np.searchsorted(gone, np.linspace(0, gone[-1], TICKED)[:-1])  # of a path that stays, its start
    keep = sorted({*SHOWN, *even.tolist()})
    return [[step, *walk[step].round(4).tolist()] for step in keep]


def _surface(net: TwoWeights) -> Figure:
    return Figure(
        "surface",
        "A valley, a plateau, and a saddle",
        "The same loss as a surface, and as a map on which dots mark its valley: all of them are one function with the "
        "least loss. It is not convex: between two dots the loss is higher. At (0, 0), where plateau and slope meet, "
        "the gradient is 0 as well.",
        [{**row, "height": float(np.log(row["loss"]))} for row in plane(net)],
        W1,
        W2,
        Surface("height", "logarithm of the training loss"),
        dots=orbit(net),
        dots_title="valley",
        claims=("closed-form",),
    )


def _stochastic(nets: dict[int, TwoWeights]) -> Figure:
    return Figure(
        "stochastic",
        "The loss that a mini-batch sees",
        "Loss of the first 1, 3, 10, or all 30 examples; dots mark the valley of each. Move the slider: every batch "
        "has a valley of its own near that of all examples, and a plateau in the same place. So the noise of batches "
        "cannot move a network off the plateau.",
        [{**row, "batch": k, "loss": max(row["loss"], 1e-3)} for k, net in nets.items() for row in plane(net)],
        W1,
        W2,
        Contour("loss", "loss of the batch", levels=10, log=True),
        slider=Axis("batch", "examples in the batch"),
        dots=[{**point, "batch": k} for k, net in nets.items() for point in orbit(net)],
        dots_title="valley of the batch",
        group=None,
    )


def _off_saddle(paths: dict[str, list[list[float]]]) -> Figure:
    rows = [
        {"x": x, "y": y, "step": step, "optimizer": name}
        for step in MOVES
        for name, walk in paths.items()
        for x, y in _inside(walk[: step + 1])
    ]
    return Figure(
        "saddle",
        "Who leaves the saddle first?",
        "Paths on our own saddle x\u00b2 \u2212 y\u00b2, from (1, 0.001); move the slider through the steps. Gradient "
        "descent runs to the origin and waits until the slope along y has grown. Optimizers with a rate for each "
        "coordinate move along y at once, however small its slope.",
        rows,
        Axis("x", "x (downhill to the saddle)"),
        Axis("y", "y (downhill away from it)"),
        Path(arrow=True),
        series="optimizer",
        series_title="optimizer",
        slider=Axis("step", "steps"),
        starts_at=30,
        group=None,
        claims=("momentum-leaves", "adam-ignores-distance"),
    )


def _inside(walk: list[list[float]]) -> list[list[float]]:
    """The part of a path before it is far beyond the limit at which the saddle counts as left."""
    beyond = next((k for k, (_, y) in enumerate(walk) if abs(y) > 1.5 * LIMIT), len(walk))
    return [[x, min(max(y, -1.5 * LIMIT), 1.5 * LIMIT)] for x, y in walk[: beyond + 1]]
