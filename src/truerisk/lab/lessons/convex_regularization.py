"""The lesson of `convex-regularization`: who needs a regularizer is decided by the solution that training finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data import Data
from truerisk.data.scaling import is_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.convex_regularization import AT_N, NAMES, RATIOS, STRENGTHS, _standardized
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Line
from truerisk.lab.rows import Row, Rows
from truerisk.lab.samples import samples
from truerisk.lab.strips import class_words, one_of_each, strip, strips
from truerisk.lab.units import PERCENT
from truerisk.nets.random_features import LeastSquares, random_features
from truerisk.seeds import derive

WITHOUT, WITH = "no regularizer", "with a regularizer"
TOP = ("least-squares-exact", "network")
WIDTH = Axis("ratio", "width / number of examples", log=True)
# The curve: a line through few points, with features of as many waves.
POINTS, WAVES, NOISE, BANDWIDTH, RIDGE, LIMIT = 15, (4, 8, 15, 30, 60, 240), 0.2, 0.15, 1e-2, 3.0
# Training examples for answers, and for norms, where eight times as many features are decomposed.
MOST, FEW, TILES = 500, 200, 10


def figures(rows: Rows) -> list[Exhibit]:
    runs = rows.converged().having(name=lambda run: NAMES[run["model"]], regularizer=_with)
    # On a user's own data the number of classes is not in the records.
    guess = [] if any("data_sha256" in run for run in runs) else [Rule(0.9, "guessing")]
    return [_widths(runs, guess), _models(runs, guess), _other_widths(runs, guess)]


def _with(run: Row) -> str:
    return WITH if run["regularized"] else WITHOUT


def _widths(runs: Rows, guess: list[Rule]) -> Figure:
    return Figure(
        "errors",
        "Test error against width",
        "Test error of least squares on random features, and of a network of the same width, each without a "
        "regularizer and with one. At 1 (width n), there are as many features as examples. If only the curve without "
        "a regularizer has a peak, the model needs a regularizer there.",
        runs.where(model=TOP),
        WIDTH,
        Axis("test_error", "test error", PERCENT, zero=True, counted_on="n_test"),
        series="regularizer",
        facet="name",
        rules=guess,
        claims=("least-squares-needs-ridge", "network-needs-no-decay", "wide-needs-no-ridge", "interpolates"),
    )


def _models(runs: Rows, guess: list[Rule]) -> Figure:
    return Figure(
        "models",
        "Which models need a regularizer at width n?",
        "Test error of five models with as many units as examples, without a regularizer and with one. The first four "
        "models are convex and have the same features; exact means minimized to the end. If convexity made a "
        "regularizer necessary, all four would need their ridge.",
        runs.where(ratio=AT_N),
        Axis("name", "model", ordinal=True),
        Axis("test_error", "test error", PERCENT, zero=True, counted_on="n_test"),
        Bars(),
        series="regularizer",
        rules=guess,
        claims=("least-squares-needs-ridge", "network-needs-no-decay", "sgd-needs-no-ridge", "softmax-needs-ridge"),
    )


def _other_widths(runs: Rows, guess: list[Rule]) -> Figure:
    return Figure(
        "other-models",
        "Do the other convex models have a peak?",
        "Test error against width for the convex models that are not exact least squares; SGD starts at zero and stops "
        "early enough to keep its solution small. If convexity caused the peak, these models would have it too.",
        runs.where(model=[model for model in NAMES if model not in TOP]),
        WIDTH,
        Axis("test_error", "test error", PERCENT, zero=True, counted_on="n_test"),
        series="regularizer",
        facet="name",
        rules=guess,
        claims=("sgd-needs-no-ridge", "softmax-needs-ridge"),
    )


def demo(setting: Setting) -> Record:
    """Answers of least squares on new images at width n, norms of its solutions at all widths, and a small curve."""
    s = setting
    sizes, seed = (s["n"] + s["n_validation"], s["n_test"]), derive(s["seed"], "examples")
    rows, test = samples(s["data"], *sizes, seed, s.get("data_sha256"))
    parts = rows.take(np.arange(min(s["n"], MOST))), rows.take(np.arange(s["n"], len(rows))), test
    X = _standardized(*parts)
    return {**_answers(X, parts, s["seed"]), "norms": _norms(X[0][:FEW], parts[0], s["seed"]), **_curve(s["seed"])}


def _answers(X: Sequence[np.ndarray], parts: Sequence[Data], seed: int) -> Record:
    """New images of each class with the answers of least squares at width n, without a ridge and with the best one."""
    train, validation, test = parts
    if not is_images(test):
        return {"strips": []}
    phi = random_features(X[0].shape[1], len(train), derive(seed, "features"))
    problem = LeastSquares(phi(X[0]), np.eye(train.classes)[train.y])

    def answers(readout: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.asarray((phi(x) @ readout).argmax(axis=1))

    best = min(STRENGTHS, key=lambda strength: np.mean(answers(problem.ridge(strength), X[1]) != validation.y))
    chosen = one_of_each(test, TILES)
    found = []
    for kind, readout in (("without a ridge", problem.least_norm()), ("with a ridge", problem.ridge(best))):
        said = answers(readout, X[2])[chosen]
        found.append(strip(kind, test.X[chosen], class_words(test, said), said != test.y[chosen]))
    return {"strips": found}


def _norms(X: np.ndarray, train: Data, seed: int) -> list[dict[str, Any]]:
    found = []
    for ratio in RATIOS:
        phi = random_features(X.shape[1], round(ratio * len(X)), derive(seed, "features"))
        problem = LeastSquares(phi(X), np.eye(train.classes)[train.y[: len(X)]])
        for kind, readout in ((WITHOUT, problem.least_norm()), (WITH, problem.ridge(1e-4))):
            found.append({"ratio": ratio, "regularizer": kind, "norm": float(np.linalg.norm(readout))})
    return found


def _curve(seed: int) -> Record:
    """Least squares through a few noisy points of a sine, with more and more waves as features."""
    x, grid = np.linspace(-1, 1, POINTS), np.linspace(-1, 1, 161)
    y = np.sin(3 * x) + NOISE * np.random.default_rng(derive(seed, "demo curve")).standard_normal(POINTS)
    lines = []
    for waves in WAVES:
        phi = random_features(1, waves, derive(seed, "demo curve", "features"), "fourier", BANDWIDTH)
        problem = LeastSquares(phi(x[:, None]), y)
        for kind, readout in ((WITHOUT, problem.least_norm()), (WITH, problem.ridge(RIDGE))):
            values = np.clip(phi(grid[:, None]) @ readout, -LIMIT, LIMIT).round(4)
            lines.append({"waves": waves, "regularizer": kind, "values": values.tolist()})
    return {"x": grid.round(4).tolist(), "lines": lines, "points": np.column_stack([x, y]).round(4).tolist()}


def pictures(record: Record) -> Sequence[Exhibit]:
    found: list[Exhibit] = []
    if record.get("strips"):
        found.append(_answered(record))
    if record.get("lines"):
        found += [_curve_figure(record), _norm_figure(record["norms"])]
    return found


def _answered(record: Record) -> Images:
    return Images(
        "answers",
        "New images with the answers of exact least squares",
        "One new image of each class with the class that least squares gives it, at width n, without a ridge and with "
        "the ridge that is best on validation examples. Misclassified images are marked. Both models fit their "
        "training examples perfectly or nearly so.",
        strips(record),
        claims=("least-squares-needs-ridge",),
    )


def _curve_figure(record: Record) -> Figure:
    rows = [
        {"x": x, "y": y, "waves": line["waves"], "regularizer": line["regularizer"]}
        for line in record["lines"]
        for x, y in zip(record["x"], line["values"], strict=True)
    ]
    return Figure(
        "curve",
        "The same peak in one dimension: a curve through 15 points",
        "Least squares on random waves through 15 noisy points of a sine; move the slider to add waves. With 15 waves "
        "the curve must hit every point in the only way it can, and swings wildly between them (cut off at \u22123 and "
        "3). With many more waves the solution of smallest norm is smooth again.",
        rows,
        Axis("x", "x"),
        Axis("y", "y"),
        Line(points=False),
        series="regularizer",
        slider=Axis("waves", "waves"),
        dots=[{"x": x, "y": y} for x, y in record["points"]],
        dots_title="training points",
        group=None,
        claims=("interpolates",),
    )


def _norm_figure(norms: list[dict[str, Any]]) -> Figure:
    return Figure(
        "norms",
        "The norm of the solution peaks at width n",
        "Norm of the least-squares solution against width, without a ridge and with one of 0.0001, on part of the "
        "examples of the first run. At 1 (width n), a singular value of the features is nearly 0, and the solution "
        "divides by it. The ridge limits that factor.",
        norms,
        WIDTH,
        Axis("norm", "norm of the solution", log=True),
        series="regularizer",
        group=None,
        claims=("least-squares-needs-ridge",),
    )


LESSON = Lesson(
    figures=figures,
    hero="errors",
    findings=(
        Finding(
            ("least-squares-needs-ridge", "network-needs-no-decay"),
            "At width n, least squares errs {0.mean} more without a ridge; networks need none.",
            "Not as published: regularizers lower error by {0.mean} (least squares), {1.mean} (network).",
            "Still open: regularizers lower error by {0.mean} (least squares), {1.mean} (network).",
        ),
    ),
    demo=demo,
    pictures=pictures,
    formulas=(
        Formula(
            r"\hat{W}_0 = \sum_j (1 / s_j) v_j u_j^T Y",
            "Without a ridge, the solution divides by every singular value s of the features that is not 0.",
        ),
        Formula(
            r"\hat{W}_\lambda = \sum_j ( s_j / (s_j^2 + n \lambda) ) v_j u_j^T Y",
            "With a ridge lambda, the factor stays small even where s is nearly 0.",
        ),
    ),
    questions=(
        Question(
            "Does least squares need its ridge only on digits, or on one-dimensional signals as well?",
            "truerisk lab run convex-regularization --data mnist1d",
        ),
        Question(
            "Does the peak stay at width n on MNIST, with 1,000 examples instead of 500?",
            "truerisk lab run convex-regularization --scale medium",
        ),
        Question(
            "Why does SGD avoid the peak: does it find the solution of smallest norm?",
            "truerisk lab run minimum-norm",
        ),
    ),
)
