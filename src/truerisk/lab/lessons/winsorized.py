"""The lesson of `winsorized`: clipping per-example gradients memorizes less, and so does stopping early."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.winsorized import CLEAN, HALF, MOST, PLAIN
from truerisk.lab.figure import Axis, Exhibit, Figure, Table, percent
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Histogram, Line, Path
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT, POINTS
from truerisk.lab.winsorized_runs import M3, RM3, built, count, learned, optimizer, tensors
from truerisk.nets.signals import signals
from truerisk.seeds import derive

EPOCH = Axis("epoch", "epochs", log=True)
NAMES = {PLAIN: "plain SGD (c = 0)", M3: "M3", RM3: "RM3"}

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> list[Exhibit]:
    runs = rows.converged().having(
        name=lambda row: NAMES.get(row["method"], row["method"]),
        c=lambda row: count(row["method"]),
        labels=lambda row: f"{percent(row['noise'], 0)} of labels redrawn" if row["noise"] else "true labels",
    )
    half = Rows(run for run in runs if run["noise"] == HALF)
    return [_overfit(runs), _curves(half), _same_fit(half), _stopping(half), _clean(runs), _numbers(runs)]


def _overfit(runs: Rows) -> Figure:
    own = sorted((run for run in runs if run["c"] is not None), key=lambda run: (run["noise"], run["c"]))
    return Figure(
        "overfit",
        "Overfit against the number of clipped examples",
        "Overfit at the end of training: training accuracy minus the accuracy that the network would have on training "
        "labels if it treated them like new ones. c examples on each side of a batch are pulled in; c = 0 is plain "
        "SGD. At 0, nothing is memorized.",
        own,
        Axis("c", "c: examples clipped on each side, of a batch of 100"),
        Axis("overfit", "overfit", POINTS, zero=True, counted_on="n"),
        Line(),
        series="labels",
        series_title="training labels",
        claims=("overfit-falls",),
    )


def _curves(half: Rows) -> Figure:
    names = {"training labels": "train_accuracies", "wrong training labels": "corrupt_accuracies",
             "new examples": "test_accuracies"}  # fmt: skip
    chosen = [run for run in half if run["method"] in (PLAIN, MOST, RM3)]
    return Figure(
        "curves",
        "What is learned, and when is it lost?",
        "Accuracy during training with half of the labels redrawn: on all training labels, on wrong ones, and on new "
        "examples with true labels. Every method is best on new examples early on. If the curve of wrong labels stays "
        "low, less is memorized.",
        Rows(chosen).longer("values", names, into="on").unrolled(epoch="at", accuracy="values"),
        EPOCH,
        Axis("accuracy", "accuracy", PERCENT, zero=True, counted_on="n"),
        Line(points=False),
        series="on",
        series_title="accuracy on",
        facet="name",
        claims=("final-accuracy", "overfit-falls"),
    )


def _same_fit(half: Rows) -> Figure:
    first = min((run["seed"] for run in half), default=None)
    chosen = [run for run in half if run["seed"] == first and run["c"] is not None]
    chosen.sort(key=lambda run: run["c"])
    return Figure(
        "same-fit",
        "At the same training accuracy, is winsorized SGD better?",
        "Accuracy on new examples against accuracy on training labels, both in the course of one training run with "
        "half of the labels redrawn. Training goes from left to right. If the paths lie on one another, clipping "
        "delays memorization, but learns nothing else.",
        Rows(chosen).unrolled(train="train_accuracies", test="test_accuracies"),
        Axis("train", "accuracy on training labels", PERCENT),
        Axis("test", "accuracy on new examples", PERCENT),
        Path(arrow=True),
        series="name",
        series_title="method",
        group=None,
        claims=("same-fit",),
    )


def _stopping(half: Rows) -> Figure:
    ordered = sorted(half, key=lambda run: (run["c"] is None, run["c"] or 0, run["method"]))
    names = {"last epoch": "test_accuracy", "stopped early": "stopped_accuracy", "best epoch": "best_accuracy"}
    return Figure(
        "stopping",
        "Would stopping early do as well?",
        "Accuracy on new examples with half of the training labels redrawn: at the last epoch, at the epoch with the "
        "best accuracy on noisy validation examples, and at the epoch that is best in hindsight. If bars for stopping "
        "are equal, no method learns more than another.",
        Rows(ordered).longer("accuracy", names, into="when"),
        Axis("name", "method", ordinal=True),
        Axis("accuracy", "accuracy on new examples", PERCENT, counted_on="n_test"),
        Bars(),
        series="when",
        series_title="taken at",
        claims=("early-stopping", "same-best", "final-accuracy"),
    )


def _clean(runs: Rows) -> Figure:
    own = [run for run in runs if run["noise"] == CLEAN]
    made = Rows(own).having(train_accuracy=lambda row: row["train_accuracies"][-1])
    return Figure(
        "clean",
        "What does clipping lose where no label is wrong?",
        "Accuracy on training and on new examples at the end of training with true labels. Clipping treats examples "
        "that are rare as if they were wrong. If c = 8 loses little, rare examples matter little here.",
        made.longer("accuracy", {"training": "train_accuracy", "new": "test_accuracy"}, into="on"),
        Axis("name", "method", ordinal=True),
        Axis("accuracy", "accuracy", PERCENT, counted_on="n_test"),
        Bars(),
        series="on",
        series_title="examples",
        claims=("clean-cost",),
    )


def _numbers(runs: Rows) -> Table:
    columns = ("overfit", "corrupt_fitted", "test_accuracy", "stopped_accuracy", "best_accuracy")
    table: list[list[str]] = []
    for (noise, method), some in Rows(runs.present, fields=("noise", "method")).groups("noise", "method"):
        means = [sum(run[name] for run in some) / len(some) for name in columns]
        known = [f"{100 * means[0]:.1f}", percent(means[1]) if noise else "", *map(percent, means[2:])]
        table.append([percent(noise, 0), NAMES.get(method, method), str(len(some)), *known])
    return Table(
        "numbers",
        "All methods in numbers",
        "Means over seeds. Overfit is in percentage points.",
        (
            "labels redrawn",
            "method",
            "seeds",
            "overfit",
            "wrong labels fitted",
            "new, last",
            "new, stopped",
            "new, best",
        ),
        table,
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

EPOCHS, BATCH = (0, 2, 10, 40), 100


def demo(setting: Setting) -> Record:
    """Per-example gradients of one weight in a batch, at some epochs of plain SGD with half of the labels redrawn."""
    s = {**setting, "noise": HALF, "n": min(setting["n"], 500), "seed": derive(setting["seed"], "demo run") % 2**31}
    train, clean, _, _ = learned(s)
    net, (X, y) = built(s, train), tensors(train)
    step, generator = optimizer(PLAIN, net, s["lr"]).step, torch.Generator().manual_seed(s["seed"])
    some = slice(0, min(BATCH, len(X)))
    wrong = (train.y != clean.y)[some]
    found: dict[str, list[list[float]]] = {}
    for before, epochs in pairwise((0, *EPOCHS)):
        for _ in range(epochs - before):
            for batch in torch.randperm(len(X), generator=generator).split(s["batch"]):
                step(X[batch], y[batch])
        last = signals(net, X[some], y[some]).signals[-1]
        unit = int(last.inputs.square().mean(0).argmax())
        values = (last.deltas[:, 0] * last.inputs[:, unit]).tolist()
        found[str(epochs)] = [[float(f"{v:.3g}"), int(bad)] for v, bad in zip(values, wrong, strict=True)]
    return {"one_weight": found}


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    if not record.get("one_weight"):
        return []
    rows = [
        {"gradient": value, "label": "wrong" if bad else "true", "epoch": int(epoch)}
        for epoch, values in record["one_weight"].items()
        for value, bad in values
    ]
    return [
        Figure(
            "one-weight",
            "Who moves one weight?",
            "Gradients of the examples of one batch at one weight, the one from the most active hidden unit to the "
            "first class, by whether their label is true. Move the slider through epochs of plain SGD. When most "
            "gradients are near 0, a few examples far out move the weight, and clipping pulls them in.",
            rows,
            Axis("gradient", "gradient of one example at the weight"),
            Axis("count", "share of examples", PERCENT),
            Histogram(40),
            series="label",
            series_title="label",
            slider=Axis("epoch", "epochs of plain SGD"),
            group=None,
            claims=("overfit-falls",),
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="overfit",
    findings=(
        Finding(
            ("overfit-falls", "early-stopping"),
            "Clipping per-example gradients memorizes less; stopping early generalizes better.",
            "Clipping does not memorize less at each c, or beats stopping early.",
            "Clipping may memorize less; whether stopping early is better is open.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does overfit fall with c on MNIST with two hidden layers?",
            "truerisk lab run winsorized --scale medium",
        ),
        Question(
            "In two dimensions noise lies next to clean points. Is anything gained on two moons?",
            "truerisk lab run winsorized --data moons",
        ),
        Question(
            "When do gradients of mislabeled examples start to agree with the sum?",
            "truerisk lab run coherent-gradients",
        ),
    ),
    formulas=(
        Formula(
            r"g^{(c)} = \frac{1}{B} \sum_{i=1}^{B} \min ( \max ( g_i, g_{(c+1)} ), g_{(B-c)} )",
            "For each weight, the c smallest and the c largest of B gradients are pulled in to the next ones.",
        ),
        Formula(
            r"\text{overfit} = a_{train} - [ \varepsilon / k + (1 - \varepsilon) \, a_{test} ]",
            "With k classes and a share of labels redrawn, the bracket is the training accuracy without memorization.",
        ),
        Formula(
            r"g^{RM3}_t = \text{median} ( \bar g_t, \bar g_{t-1}, \bar g_{t-2} )",
            "RM3 takes, for each weight, the median over the mean gradients of the last three batches.",
        ),
    ),
)
