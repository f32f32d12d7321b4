"""The pictures of `smoothness`: curves through the same points, and classifiers of the same plane, all of which fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.figure import Axis, Exhibit, Figure
from truerisk.lab.interpolants import Function, classifiers, curves
from truerisk.lab.marks import Line, Regions
from truerisk.lab.smooth_runs import POINTS_ON_CURVE, REACH, SPIRALS, points, target, toy_samples
from truerisk.seeds import derive

NAMES = {
    "smooth": "polynomials, smooth norm",
    "plain": "polynomials, plain norm",
    "fourier": "random waves",
    "relu": "random ReLU units",
    "kernel": "Gaussian kernel",
    "gaussian": "Gaussian kernel",
    "laplacian": "Laplacian kernel",
    "network": "network",
    "line": "broken line",
    "neighbor": "nearest neighbor",
}
PLACES = np.linspace(-1, 1, 201)
LIMIT = 2.5  # curves are cut off there
STAGES = (1, 3, 6, 10, 13, 15, 18, 30, 300)  # coefficients of the polynomials on the slider
SHAPES = (("neighbor", 0), ("line", 0), ("kernel", 0), ("network", 301), ("plain", 300), ("smooth", 300))
SIDE, STORED, EPOCHS = 61, 120, 3000  # of a picture of the plane, its training examples, and how long a network trains
PLANES = (("neighbor", 0), ("laplacian", 0), ("network", 0), ("relu", 2 * STORED))
FITTED = {**NAMES, "relu": "random ReLU units, 2 per example", "plain": "polynomial, plain norm"}
FITTED["smooth"] = "polynomial, smooth norm"


def demo(setting: Setting) -> Record:
    """Curves through one draw of points, and four classifiers of one draw of spirals."""
    seed = setting["seed"]
    x, y = points("bump", POINTS_ON_CURVE, 0.2, derive(seed, "demo points"))
    return {
        "points": np.column_stack([x, y]).round(4).tolist(),
        "stages": [_values(one.function) for one in curves("smooth", x, y, STAGES, seed)],
        "shapes": [_values(next(curves(model, x, y, [size], seed)).function) for model, size in SHAPES],
        **_planes(derive(seed, "demo plane")),
    }


def _values(function: Function) -> list[float]:
    return np.clip(function(PLACES), -LIMIT, LIMIT).round(3).tolist()


def _planes(seed: int) -> Record:
    """The class at each place of a grid, one text for each line of places."""
    stored, _ = toy_samples({**SPIRALS, "n_test": 10, "seed": seed}, STORED)
    X, ticks = stored.X.astype(np.float64) / REACH, np.linspace(-1, 1, SIDE)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    found = []
    for model, size in PLANES:
        fitted = next(classifiers(model, X, stored.y, 2, [size], seed, EPOCHS))
        answers = fitted.function(grid).reshape(SIDE, SIDE)
        missed = int(np.sum(fitted.function(X) != stored.y))
        found.append({"model": model, "missed": missed, "lines": ["".join(map(str, line)) for line in answers]})
    return {"planes": found, "stored": X.round(4).tolist(), "labels": stored.y.tolist()}


def pictures(record: Record) -> Sequence[Exhibit]:
    return [_stages(record), _shapes(record), _regions(record)] if record.get("planes") else []


def _stages(record: Record) -> Figure:
    curve = [
        {"x": x, "y": y, "size": size, "curve": "polynomial"}
        for size, values in zip(STAGES, record["stages"], strict=True)
        for x, y in zip(PLACES.round(3).tolist(), values, strict=True)
    ]
    truth = target("bump", PLACES).round(3).tolist()
    curve += [
        {"x": x, "y": y, "size": size, "curve": "target"}
        for size in STAGES
        for x, y in zip(PLACES.round(3).tolist(), truth, strict=True)
    ]
    return Figure(
        "stages",
        "Underfit, good fit, overfit, and smooth again",
        "Least-squares polynomials through the same 15 points; move the slider to add coefficients. Up to 6 or so the "
        "fit improves. At 15 one polynomial passes through all points, and swings wildly (cut off at \u22122.5 and "
        "2.5). Beyond, there are many, and the smoothest of 300 coefficients hardly swings.",
        curve,
        Axis("x", "x"),
        Axis("y", "y"),
        Line(points=False),
        series="curve",
        slider=Axis("size", "coefficients"),
        dots=[{"x": x, "y": y} for x, y in record["points"]],
        dots_title="training points",
        group=None,
        claims=("classical-u", "second-descent"),
    )


def _shapes(record: Record) -> Figure:
    rows = [
        {"x": x, "y": y, "curve": FITTED[model]}
        for (model, _), values in zip(SHAPES, record["shapes"], strict=True)
        for x, y in zip(PLACES.round(3).tolist(), values, strict=True)
    ]
    names = [FITTED[model] for model, _ in SHAPES]
    return Figure(
        "shapes",
        "Six curves with a training error of 0",
        "Curves that pass through the same 15 points. The nearest neighbor jumps, the broken line bends at each point. "
        "Both polynomials have 300 coefficients: with the plain norm the curve returns to 0 between points, with "
        "the smooth norm it does not. The training error cannot show which to prefer.",
        rows,
        Axis("x", "x"),
        Axis("y", "y"),
        Line(points=False),
        facet="curve",
        dots=[{"x": x, "y": y, "curve": name} for name in names for x, y in record["points"]],
        dots_title="training points",
        group=None,
        claims=("same-size-curve", "norm-must-be-smooth"),
    )


def _regions(record: Record) -> Figure:
    ticks = np.linspace(-REACH, REACH, SIDE).round(3).tolist()
    places = [
        {"x": x, "y": y, "class": label, "classifier": FITTED[one["model"]]}
        for one in record["planes"]
        for y, line in zip(ticks, one["lines"], strict=True)
        for x, label in zip(ticks, line, strict=True)
    ]
    dots = [
        {"x": REACH * x, "y": REACH * y, "class": str(label), "classifier": FITTED[one["model"]]}
        for one in record["planes"]
        for (x, y), label in zip(record["stored"], record["labels"], strict=True)
    ]
    return Figure(
        "regions",
        "Four classifiers with a training error of 0",
        "Answers of four classifiers at each place of the plane. Dots are training examples of two noisy spirals, some "
        "of them on the wrong side; every classifier gives each dot its own class. They differ in how far a noisy "
        "example reaches, and in the length of the boundary.",
        places,
        Axis("x", "first coordinate"),
        Axis("y", "second coordinate"),
        Regions("class"),
        facet="classifier",
        dots=dots,
        dots_title="training example",
        claims=("smoother-plane", "same-size-plane"),
    )
