"""The lesson of `random-label-pretraining`: random labels align weights with the data, and make them larger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data import random_labels
from truerisk.data.scaling import is_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.random_label_pretraining import FAST, SLOW
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Strip, Tile
from truerisk.lab.images import pixels
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Points, Slope
from truerisk.lab.pretraining_runs import STARTS, flat, learn, parts
from truerisk.lab.rows import Row, Rows
from truerisk.lab.units import CORRELATION, PERCENT, STEPS
from truerisk.seeds import derive
from truerisk.training.swift import uniform_weights

NAMES = {
    "scratch": "from scratch",
    "pretrained": "pretrained",
    "scaled": "same scale",
    "shuffled": "shuffled",
    "aligned": "same covariance",
}
RATES = {SLOW: "slow (rate 0.01)", FAST: "fast (rate 0.05)"}
STATES = {"before": "before", "true labels": "true labels", "random labels": "random labels"}
START = Axis("start", "initial weights", ordinal=True)


def figures(rows: Rows) -> Sequence[Exhibit]:
    runs = [{**run, "rate": RATES.get(run["lr"], f"rate {run['lr']:g}")} for run in rows.converged()]
    slow = [run for run in runs if run["lr"] == SLOW]
    return [_steps(slow), _rates(runs), _alignment(runs), _directions(slow), _errors(slow)]


def _second(runs: Sequence[Row], labels: str) -> list[dict[str, Any]]:
    """Steps of the second training from each start."""
    return [
        {"start": NAMES[kind], "steps": run["steps"][f"{kind}, {labels}"], "labels": f"{labels} labels",
         "rate": run["rate"], "seed": run["seed"]}
        for run in runs
        for kind in STARTS
    ]  # fmt: skip


def _steps(slow: Sequence[Row]) -> Figure:
    return Figure(
        "steps",
        "Is a network that has fitted random labels faster?",
        "Steps of SGD until every new random label of new examples is fitted, from five starts. Pretrained weights "
        "have fitted other random labels before. If what they learned made them fast, fresh weights of the same scale, "
        "or the same weights in random order, would be slower.",
        _second(slow, "random"),
        START,
        Axis("steps", "steps to fit new random labels", STEPS),
        mark=Bars(),
        claims=("faster", "faster-than-scale", "scale-explains", "alignment-alone"),
    )


def _rates(runs: Sequence[Row]) -> Figure:
    return Figure(
        "rates",
        "Does the learning rate matter?",
        "Steps until every label is fitted, for new random labels and for true labels, at two learning rates. "
        "Larger weights act like a larger rate: where training is fast already, they gain little.",
        [*_second(runs, "random"), *_second(runs, "true")],
        START,
        Axis("steps", "steps to fit", STEPS, log=True),
        mark=Points(),
        series="rate",
        series_title="training",
        facet="labels",
        claims=("faster", "fast-training-hides-it", "faster-on-true"),
    )


def _alignment(runs: Sequence[Row]) -> Figure:
    made = [
        {"state": state, "correlation": run["correlations"][name], "rate": run["rate"], "seed": run["seed"]}
        for run in runs
        for name, state in STATES.items()
    ]
    return Figure(
        "alignment",
        "Do the weights follow the data?",
        "Rank correlation between the variance of the data along its eigenvectors and that of the hidden units' "
        "incoming weights along the same directions: before training, after true labels, and after random labels. At 0 "
        "the weights know nothing of the data.",
        made,
        Axis("state", "first layer", ordinal=True),
        Axis("correlation", "rank correlation", CORRELATION),
        mark=Slope(),
        series="rate",
        series_title="training",
        claims=("alignment", "no-alignment-before", "random-aligns-more"),
    )


def _directions(slow: Sequence[Row]) -> Figure:
    first = min((run["seed"] for run in slow), default=0)
    made = [
        {"eigenvalue": value, "variance": variance, "state": STATES[name]}
        for run in slow
        if run["seed"] == first
        for name, variances in run["variances"].items()
        for value, variance in zip(run["eigenvalues"], variances, strict=True)
    ]
    return Figure(
        "directions",
        "In which directions do the weights grow?",
        "Variance of the incoming weights along each eigenvector of the data, against that of the data there, in "
        "one run. Initial weights are as large in every direction. Training enlarges them where the data vary.",
        made,
        Axis("eigenvalue", "variance of the data", log=True),
        Axis("variance", "variance of the weights", log=True),
        mark=Points(),
        series="state",
        series_title="first layer",
        claims=("alignment",),
        group=None,
    )


def _errors(slow: Sequence[Row]) -> Figure:
    made = [
        {"start": NAMES[kind], "error": run["test_errors"][kind], "seed": run["seed"], "n_test": run["n_test"]}
        for run in slow
        for kind in STARTS
    ]
    return Figure(
        "errors",
        "What does it do to the error on new examples?",
        "Test error after the second training with true labels, from each start. If random labels taught something "
        "about the classes, the pretrained network would err less than one that started at the same scale.",
        made,
        START,
        Axis("error", "error on new examples", PERCENT, zero=True, counted_on="n_test"),
        mark=Bars(),
        claims=("harm",),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

TILES, MOST = 10, 500


def demo(setting: Setting) -> Record:
    """Incoming weights of ten hidden units before training, after true labels, and after random labels."""
    few = {**setting, "n": min(setting["n"], MOST), "lr": FAST, "epochs": 200}
    train, _, _ = parts(few)
    if not is_images(train):
        return {}
    seed = derive(setting["seed"], "demo weights")
    start = uniform_weights([flat(train).shape[1], setting["width"], train.classes], seed)
    noise = random_labels(train, derive(setting["seed"], "demo labels"))
    states = {
        "before": start,
        "true labels": learn(start, train, few, seed)[0],
        "random labels": learn(start, noise, few, seed)[0],
    }
    order = np.argsort(np.linalg.norm(states["random labels"][0], axis=0))[::-1][:TILES]
    strips = []
    for name, weights in states.items():
        high = float(np.abs(weights[0][:, order]).max())
        images = (weights[0][:, unit].reshape(train.input_shape) for unit in order)
        strips.append({"name": name, "tiles": [pixels(image, -high, high) for image in images]})
    return {"strips": strips, "examples": len(train)}


def pictures(record: Record) -> Sequence[Exhibit]:
    if not record.get("strips"):
        return []
    return [
        Images(
            "units",
            "What the hidden units look like",
            "Incoming weights of the ten units that are largest after random labels, as images: before training, after "
            f"true labels, and after random labels of the same {record['examples']:,} examples. "
            "Each row has its own contrast.",
            [Strip(each["name"], [Tile(tile) for tile in each["tiles"]]) for each in record["strips"]],
            claims=("alignment",),
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="steps",
    findings=(
        Finding(
            ("faster", "scale-explains"),
            "Random labels make later fitting faster ({0.mean} the steps), but so does weight scale alone.",
            "Pretraining on random labels, or its scale control, does not act as expected.",
            "Whether weight scale explains the gain from random labels is not settled.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does weight scale explain the speed on MNIST as well?",
            "truerisk lab run random-label-pretraining --scale medium",
        ),
        Question(
            "Do the weights also follow one-dimensional signals?",
            "truerisk lab run random-label-pretraining --data mnist1d",
        ),
        Question("How long do random labels take in larger networks?", "truerisk lab run random-labels"),
    ),
    formulas=(
        Formula(
            r"\sigma_i^2 = \frac{1}{h} \sum_{j=1}^{h} \langle w_j - \bar{w}, u_i \rangle^2",
            "Variance of the incoming weights of h hidden units along the i-th eigenvector of the data.",
        ),
        Formula(
            r"\rho = \mathrm{corr} ( \mathrm{rank}(\sigma_i^2), \mathrm{rank}(\tau_i^2) )",
            "Alignment in one number: the rank correlation of these variances with the eigenvalues of the data.",
        ),
        Formula(
            r"\tilde{W} = \frac{\| W \|_F}{\| W_0 \|_F} W_0",
            "The control: fresh weights, multiplied to the norm of the pretrained ones, layer by layer.",
        ),
    ),
)
