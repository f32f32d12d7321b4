"""The lesson of `easy-examples`: the same examples are hard for every network."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.stats import binom

from truerisk.data import Data
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Strip, Tile, percent
from truerisk.lab.images import pixels
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Histogram, Line, Points
from truerisk.lab.noise import NAMES, RAND_X, RAND_Y, REAL, noisy_samples
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT, TIMES
from truerisk.seeds import derive
from truerisk.training.together import misclassification_rates

MEASURED, CHANCE = "measured", "if all were equally hard"
TILES = 10  # of a strip
EPOCHS = (1, 2, 4)  # of the demo
MOST = {"n": 1000, "networks": 50, "width": 256}  # of the demo, whatever the scale


def figures(rows: Rows) -> list[Exhibit]:
    several = len(rows.values("lr")) > 1
    named = rows.having(
        rate=lambda row: f"learning rate {row['lr']:g}",
        data=lambda row: NAMES[row["noise"]] + (f", learning rate {row['lr']:g}" if several else ""),
    )
    return [_sorted_rates(named.where(noise=[REAL, RAND_X])), _spreads(named)]


def _sorted_rates(rows: Rows) -> Figure:
    measured = rows.having(curve=lambda _: MEASURED)
    chance = rows.having(curve=lambda _: CHANCE, rates=_equally_hard)
    return Figure(
        "easy-examples",
        "How many networks misclassify each training example?",
        "Share of networks that misclassify a training example after one epoch; examples are sorted by that share. The "
        "second curve is a binomial with the same mean, as if all examples were equally hard. A steeper measured curve "
        "means that networks agree on which examples are easy and which are hard.",
        Rows([*measured, *chance]).unrolled(place="places", share="rates"),
        Axis("place", "training examples, easiest first", PERCENT),
        Axis("share", "share of networks in error", PERCENT, zero=True),
        Line(points=False),
        series="curve",
        facet="data",
        claims=("easy-real", "easy-random-inputs"),
    )


def _equally_hard(row: Any) -> list[float]:
    """The sorted shares of networks, were every example misclassified with the mean rate."""
    found: list[float] = (binom.ppf(row["places"], row["networks"], row["mean_rate"]) / row["networks"]).tolist()
    return found


def _spreads(rows: Rows) -> Figure:
    return Figure(
        "spread",
        "How much more do examples differ than by chance?",
        "Variance of the examples' misclassification rates, divided by the variance of a binomial with the same mean. "
        "At 1, all examples are equally hard. If random inputs lie well above 1, even noise has easier and harder "
        "examples.",
        rows.having(kind=lambda row: NAMES[row["noise"]]),
        Axis("kind", "training data", ordinal=True),
        Axis("spread", "variance / binomial variance", TIMES, log=True),
        Points(),
        series="rate" if len(rows.values("rate")) > 1 else None,
        rules=(Rule(1.0, "all equally hard"),),
        claims=("easy-real", "easy-random-inputs", "rate-matters", "labels-above-inputs", "real-above-labels"),
    )


def demo(setting: Setting) -> Record:
    """The easiest and the hardest examples of each kind of data, and how the rates of real data fall with training."""
    own = {name: min(setting[name], MOST[name]) for name in ("n", "networks")}
    true, _ = noisy_samples(setting["data"], own["n"], 1, REAL, 1.0, setting["seed"])
    strips, labels = [], []
    for noise in (REAL, RAND_X, RAND_Y):
        train, _ = noisy_samples(setting["data"], own["n"], 1, noise, 1.0, setting["seed"])
        rates = _rates(train, setting, own["networks"], 1)
        order = np.argsort(rates, kind="stable")
        for which, chosen in (("easiest", order[:TILES]), ("hardest", order[::-1][:TILES])):
            tiles = [
                {"pixels": pixels(train.X[i]), "label": int(train.y[i]), "rate": float(rates[i]),
                 "wrong": bool(train.y[i] != true.y[i])}
                for i in chosen
            ]  # fmt: skip
            strips.append({"kind": noise, "which": which, "tiles": tiles})
        labels += [
            {"kind": noise, "label": j, "examples": int(own_label.sum()), "mean": float(rates[own_label].mean())}
            for j in range(train.classes)
            if (own_label := train.y == j).any()
        ]
    trained = {str(epochs): _rates(true, setting, own["networks"], epochs).tolist() for epochs in EPOCHS}
    return {"strips": strips, "labels": labels, "trained": trained, "counted": own["networks"]}


def _rates(train: Data, setting: Setting, networks: int, epochs: int) -> np.ndarray:
    """Networks of the same seed start alike, so more epochs continue the same training."""
    return misclassification_rates(
        torch.from_numpy(train.X).flatten(1),
        torch.from_numpy(train.y),
        train.classes,
        [min(width, MOST["width"]) for width in setting["hidden"]],
        runs=networks,
        epochs=epochs,
        batch=setting["batch"],
        lr=setting["lr"],
        seed=derive(setting["seed"], "demo networks"),
    )


def pictures(record: Record) -> list[Exhibit]:
    if not record.get("strips"):
        return []
    strips = [
        Strip(
            f"{NAMES[strip['kind']]}, {strip['which']}",
            [Tile(one["pixels"], f"{one['label']}: {percent(one['rate'], 0)}", one["wrong"]) for one in strip["tiles"]],
        )
        for strip in record["strips"]
    ]
    images = Images(
        "easiest-and-hardest",
        "Which examples are easy, and which are hard?",
        f"Training examples that fewest and most of {record['counted']} networks misclassify after one epoch; below "
        "each are its label and the share of networks in error. Wrong labels are colored. If easy noise mostly has one "
        "label, networks have learned that label, not the images.",
        strips,
        claims=("easy-real",),
    )
    return [images, _by_label(record), _by_epochs(record)]


def _by_label(record: Record) -> Figure:
    return Figure(
        "labels",
        "Why do examples differ under random labels?",
        "Mean misclassification rate of the examples with one label, against the number of training examples with that "
        "label; one point for each label. Some labels are more frequent by chance. If noise is easy only where its "
        "label is frequent, networks have learned frequencies and nothing about the images.",
        [{**one, "data": NAMES[one["kind"]]} for one in record["labels"]],
        Axis("examples", "training examples with the label"),
        Axis("mean", "mean share of networks in error", PERCENT, zero=True),
        Points(),
        series="data",
        series_title="training data",
        group=None,
    )


def _by_epochs(record: Record) -> Figure:
    return Figure(
        "epochs",
        "Do hard examples stay hard?",
        f"Real training examples, counted by the share of {record['counted']} networks that misclassify them. Move the "
        "slider to train the same networks longer. A tail that remains on the right means that a few examples are "
        "still hard when most are learned.",
        [{"epochs": int(epochs), "rate": rate} for epochs, rates in record["trained"].items() for rate in rates],
        Axis("rate", "share of networks in error", PERCENT),
        Axis("count", "training examples", PERCENT),
        Histogram(20),
        slider=Axis("epochs", "epochs of training"),
        group=None,
    )


LESSON = Lesson(
    figures=figures,
    hero="easy-examples",
    findings=(
        Finding(
            ("easy-real",),
            reproduced="Different networks find the same examples hard: {0.mean} the variance expected by chance.",
            not_reproduced="Networks hardly agree on hard examples: {0.mean} the variance expected by chance.",
            no_verdict="Networks may agree on hard examples: {0.mean} the variance expected by chance.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "At the published learning rate of 0.01, are random inputs equally hard on MNIST?",
            "truerisk lab run easy-examples --scale medium",
        ),
        Question(
            "After many epochs, does a network also fit the hardest examples, even if every label is random?",
            "truerisk lab run random-labels",
        ),
        Question(
            "Which regularizer keeps a network from memorizing noise, but not from learning real examples?",
            "truerisk lab run memory-regularizers",
        ),
    ),
    formulas=(
        Formula(
            r"\frac{\mathrm{Var}(r_1, \ldots, r_n)}{\bar r (1 - \bar r) / k}",
            "The spread: variance of the misclassification rates of n examples, over the variance of a binomial with k "
            "networks.",
        ),
    ),
)
