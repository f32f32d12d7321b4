"""The lesson of `regularizers`: networks generalize without explicit regularizers, and mostly memorize with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from truerisk.data import random_labels
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.regularizers import build, regularizer
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Images, Rule, Table, percent
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars
from truerisk.lab.rows import Row, Rows
from truerisk.lab.samples import samples
from truerisk.lab.spelling import spell
from truerisk.lab.strips import class_words, strip, strips
from truerisk.lab.units import PERCENT
from truerisk.seeds import derive, seeded_globals
from truerisk.training.augment import centre_crop, whiten

NONE, EARLY = "no regularizer", "early stopping"
ORDER = (NONE, "weight decay", "crops", "crops and weight decay", "dropout", EARLY)
GUESSED = 0.9  # error of a guess among the ten classes that all data sets here have
TILES, UNITS = 8, 64


def figures(rows: Rows) -> list[Exhibit]:
    runs = rows.converged().having(network=lambda run: spell(run["model"]), treatment=_treatment)
    true, random = runs.where(labels="true"), runs.where(labels="random")
    return [_errors(true), _fitted(random), _strengths(random, true), _table(true)]


def _treatment(run: Row) -> str:
    """What regularizes a run, without its strength."""
    name = regularizer({**run, "weight_decay": 1.0 if run["weight_decay"] else 0.0}).replace(" decay 1", " decay")
    return NONE if name == "none" else name


def _errors(runs: Rows) -> Figure:
    return Figure(
        "errors",
        "Test error without and with a regularizer",
        "Error on new images of networks without a regularizer, and with each one; the dashed line is guessing. "
        "Early stopping takes the epoch with the lowest test error, which flatters it. If regularizers explained "
        "generalization, the bars without a regularizer would reach the dashed line.",
        _with_rivals(runs),
        Axis("treatment", "", ordinal=True),
        Axis("error", "test error", PERCENT, zero=True, counted_on="n_test"),
        Bars(),
        series="network",
        rules=[Rule(GUESSED, "guessing")],
        claims=("generalizes-without", "regularizers-gain-little", "decay-changes-little", "crops-beat-decay",
                "early-stopping-gains-little"),
    )  # fmt: skip


def _with_rivals(runs: Rows) -> list[dict[str, Any]]:
    """Runs on true labels with their test error, and for each one without a regularizer its best epoch."""
    found: list[dict[str, Any]] = []
    for run in runs:
        found.append({**run, "error": run["test_error"]})
        if run["treatment"] == NONE:
            found.append({**run, "treatment": EARLY, "error": run["test_error"] - run["last_minus_best"]})
    return sorted(found, key=lambda row: ORDER.index(row["treatment"]))


def _fitted(runs: Rows) -> Figure:
    kept = runs.where(decay=("none", "judged")).having(fitted=lambda run: 1 - run["train_error"])
    return Figure(
        "random-labels",
        "How many random labels does each network still fit?",
        "Share of random labels that each network fits, without a regularizer and with each one. The dashed line is "
        "guessing; a bar near that line means that the regularizer prevents memorizing, as the paper reports for "
        "AlexNet with weight decay. Epochs are limited, so a lower bar may also mean slower fitting.",
        sorted(kept, key=lambda row: ORDER.index(row["treatment"])),
        Axis("network", "network", ordinal=True),
        Axis("fitted", "random labels fitted", PERCENT, zero=True, counted_on="n"),
        Bars(),
        series="treatment",
        series_title="regularizer",
        rules=[Rule(1 - GUESSED, "guessing")],
        claims=("decay-does-not-prevent", "alexnet-decay-fails", "dropout-does-not-prevent"),
    )


def _strengths(runs: Rows, true: Rows) -> Figure:
    judged, usual = (_strength(some) for some in (runs, true))
    decayed = (run for run in runs if run["weight_decay"] and not run["dropout"])
    return Figure(
        "strengths",
        "How strong must weight decay be to prevent memorizing?",
        "Share of random labels that each network fits against the strength of weight decay. The paper does not say "
        f"which strength it used; here it is {judged} in other figures on random labels, {usual} on true labels. A "
        "curve that stays at 100% means that weight decay of this size does not limit what the network can memorize.",
        Rows(decayed).having(fitted=lambda run: 1 - run["train_error"]),
        Axis("weight_decay", "weight decay", log=True),
        Axis("fitted", "random labels fitted", PERCENT, zero=True, counted_on="n"),
        series="network",
        rules=[Rule(1 - GUESSED, "guessing")],
        claims=("decay-does-not-prevent", "alexnet-decay-fails"),
    )


def _strength(runs: Rows) -> str:
    """The weight decay that claims judge."""
    return " or ".join(f"{value:g}" for value in sorted({run["weight_decay"] for run in runs.where(decay="judged")}))


def _table(runs: Rows) -> Table:
    shown = Rows(_with_rivals(runs))
    kinds = [kind for kind in ORDER if kind in shown.values("treatment")]
    lines: list[list[Cell]] = []
    for (network,), some in shown.groups("network"):
        each = [some.where(treatment=kind) for kind in kinds]
        lines.append([network, *(percent(one.mean("error")) if len(one) else "" for one in each)])
    return Table(
        "test-errors",
        "Test error of every network",
        "Means over seeds (dropout on true labels: one seed). Compare the two Inception networks for the effect of "
        "batch norm. An empty cell was not run: 8x8 digits are too small to crop, and only networks with hidden dense "
        "layers have dropout.",
        ("network", *kinds),
        lines,
    )


def demo(setting: Setting) -> Record:
    """What a network gets to see: images with true and random labels, two crops, and hidden units with dropout."""
    s = setting
    both = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"))
    train = both[0].take(range(min(TILES, s["n"])))
    noise = random_labels(both[0], derive(s["seed"], "labels")).take(range(len(train)))
    true, random = class_words(train, train.y), class_words(train, noise.y)
    found = [strip("true labels", train.X, true), strip("random labels", train.X, random, noise.y != train.y)]
    for kind, shown in _views(s, torch.from_numpy(train.X), train.classes):
        found.append(strip(kind, shown.numpy(), true))
    return {"strips": found}


def _views(s: Setting, images: Tensor, classes: int) -> Iterator[tuple[str, Tensor]]:
    """Images as the first layer gets them with random crops, in two epochs, and hidden units with dropout."""
    dropped = {**s, "model": "mlp-1x512", "crop": True, "dropout": 0.5}
    with seeded_globals(derive(s["seed"], "demo views")), torch.no_grad():
        view, trunk = build(dropped, images.shape[1], classes).train().children()
        for epoch in ("crops, one epoch", "crops, next epoch"):
            yield epoch, view(images)
        *hidden, dropout, _ = trunk.children()
        units = nn.Sequential(*hidden)(whiten(centre_crop(images, s["size"])))
        yield "hidden units", units[:, :UNITS].reshape(-1, 8, 8)
        yield "hidden units with dropout", dropout(units)[:, :UNITS].reshape(-1, 8, 8)


def pictures(record: Record) -> Sequence[Exhibit]:
    shown = strips(record)
    caption = (
        "Training images with true and with random labels. Crops shift each image anew in every epoch; runs on 8x8 "
        "digits do without crops, because these images are too small. Dropout sets a random half of the hidden units "
        "to zero in every step; each tile shows 64 of them."
    )
    return (
        [Images("views", "How regularizers change a training example", caption, shown, ("dropout-does-not-prevent",))]
        if shown
        else []
    )


LESSON = Lesson(
    figures=figures,
    hero="errors",
    findings=(
        # Crops are compared with weight decay only at scales that have both: there the first one speaks.
        Finding(
            ("regularizers-gain-little", "crops-beat-decay"),
            "Weight decay and crops lower the test error by at most {0.high}.",
            "Test error falls most in {0.cell}: by {0.mean}.",
            "Weight decay and crops lower test error by {0.mean} in {0.cell}: still open.",
        ),
        Finding(
            ("regularizers-gain-little",),
            "Weight decay lowers the test error of every network by at most {0.high}.",
            "Weight decay lowers test error by {0.mean} in {0.cell}.",
            "Weight decay lowers test error by {0.low} to {0.high}, too close to 6 points.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    formulas=(
        Formula(
            r"\frac{1}{n} \sum_{i=1}^{n} \ell(f_w(x_i), y_i) + \frac{\lambda}{2} |w|^2",
            "Weight decay with strength lambda adds the squared norm of all weights to the training loss.",
        ),
    ),
    questions=(
        Question(
            "Do random crops help more than weight decay on images that are large enough to crop?",
            "truerisk lab run regularizers --scale medium",
        ),
        Question(
            "Is there a dropout rate that prevents memorizing and keeps the accuracy?",
            "truerisk lab run memory-regularizers",
        ),
        Question(
            "Do convex models generalize without a regularizer, as networks do?",
            "truerisk lab run convex-regularization",
        ),
    ),
)
