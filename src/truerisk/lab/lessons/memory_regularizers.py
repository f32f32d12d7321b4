"""The lesson of `memory-regularizers`: a network can lose its memory and learn as well as before."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.memory_regularizers import (
    ADVERSARIAL,
    AT_INPUT,
    DROPOUT,
    HALF,
    NONE,
    SMALL,
    advantage,
)
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Rule, Strip, Tile
from truerisk.lab.images import pixels
from truerisk.lab.lesson import Finding, Lesson, Question
from truerisk.lab.marks import Line, Path, Points
from truerisk.lab.noise import RAND_Y, REAL, noisy_samples
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.units import PERCENT, POINTS
from truerisk.seeds import derive, seeded_globals

MEMORY, LEARNING = "memory of random labels", "test accuracy on true labels"
RATES = (ADVERSARIAL, "input dropout")  # their strength is a probability, like that of dropout
NOISES = ("input noise", "hidden noise")  # their strength is a standard deviation
IMAGES = 2  # examples of the demo


def figures(rows: Rows) -> list[Exhibit]:
    some = rows.converged()
    rate, deviation = Axis("strength", "dropout rate", PERCENT), Axis("strength", "standard deviation of the noise")
    return [
        _dropout(some),
        _paths(some),
        _advantages(some),
        _others(some, RATES, rate, "Do other kinds of dropout remove only memory?"),
        _others(some, NOISES, deviation, "Does noise in training remove only memory?"),
    ]


def _dropout(rows: Rows) -> Figure:
    return Figure(
        "dropout",
        "Can a network lose its memory and still learn?",
        "Final training accuracy on random labels, which is the memory, and best test accuracy on true labels, against "
        "the share of hidden units that dropout switches off. Guessing gets about 10% right. A gap between the curves "
        "means that labels are no longer learned by heart while patterns still are.",
        _by_strength(rows, (DROPOUT,)),
        Axis("strength", "hidden units dropped in each step of training", PERCENT),
        Axis("accuracy", "accuracy", PERCENT, zero=True),
        Line(),
        series="on",
        claims=("memory-without", "dropout-memory", "dropout-free"),
    )


def _by_strength(rows: Rows, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Memory and learning of regularizers; strength 0 is none of them."""
    return [
        {**row, "regularizer": name, "accuracy": row[field], "on": on}
        for name in names
        for row in rows.where(regularizer=[NONE, name])
        for noise, field, on in ((RAND_Y, "train_accuracy", MEMORY), (REAL, "best_accuracy", LEARNING))
        if row["noise"] == noise
    ]


def _paths(rows: Rows) -> Figure:
    """A path has two measured numbers at each point, so it is drawn through means over seeds."""
    means = {}
    for (name, strength), some in Rows(rows.present).groups("regularizer", "strength"):
        memory, learned = (
            [row[field] for row in some.where(noise=noise)]
            for noise, field in ((RAND_Y, "train_accuracy"), (REAL, "best_accuracy"))
        )
        if memory and learned:
            means[name, strength] = {"memory": statistics.fmean(memory), "error": 1 - statistics.fmean(learned)}
    points = []
    for own in dict.fromkeys(name for name, _ in means if name != NONE):
        path = sorted((strength, point) for (name, strength), point in means.items() if name in (NONE, own))
        points += [{**point, "regularizer": own, "strength": strength} for strength, point in path]
    return Figure(
        "regularizers",
        "Which regularizer takes away memory with the least harm?",
        "Lowest test error on true labels against final training accuracy on random labels, which is the memory; mean "
        "over all runs. Each path starts without a regularizer, on the right, and ends in a ring at its greatest "
        "strength. A path that runs left without rising takes memory away and keeps learning.",
        points,
        Axis("memory", "memory: training accuracy on random labels", PERCENT, zero=True),
        Axis("error", "lowest test error on true labels", PERCENT, log=True),
        Path(arrow=True),
        series="regularizer",
        claims=("dropout-best", "dropout-adversarial"),
    )


def _others(rows: Rows, names: tuple[str, ...], strength: Axis, title: str) -> Figure:
    return Figure(
        f"strength-{names[0].replace(' ', '-')}",
        title,
        f"Final training accuracy on random labels, and best test accuracy on true labels, against the "
        f"{strength.title}; 0 is no regularizer. Guessing gets about 10% right in both. A wide gap between the "
        "curves means that memory is lost and learning is not.",
        _by_strength(rows, names),
        strength,
        Axis("accuracy", "accuracy", PERCENT, zero=True),
        Line(),
        series="on",
        facet="regularizer",
    )


def _advantages(rows: Rows) -> Figure:
    found = []
    for seed in rows.seeds():
        runs = rows.where(seed=seed)
        for name, aside in ((DROPOUT, (ADVERSARIAL,)), (ADVERSARIAL, ())):
            with suppress(IncompleteError):  # a run is missing, or the memory is never halved: a gap
                values = advantage(runs, name, aside).items()
                common = {"seed": seed, "n_test": runs.values("n_test")[0], "own": name}
                found += [{**common, "rival": rival, "more": float(value)} for rival, value in values]
    return Figure(
        "advantage",
        "Does dropout keep more accuracy than its rivals?",
        "Test accuracy on true labels that dropout keeps, minus the accuracy that a rival keeps, where the memory for "
        f"random labels is halved (to {HALF:.0%}). Below the dashed line a claim fails. Points near 0 mean that the "
        "choice of regularizer hardly matters.",
        found,
        Axis("rival", "rival", ordinal=True),
        Axis("more", "more test accuracy than the rival", POINTS, counted_on="n_test"),
        Points(),
        series="own",
        series_title="regularizer",
        rules=(Rule(-0.005, "threshold of the claims"),),
        claims=("dropout-best", "dropout-adversarial"),
    )


def demo(setting: Setting) -> Record:
    """The same training images under the regularizers that act on the input, at all strengths."""
    seed = setting["seed"]
    train, _ = noisy_samples(setting["data"], IMAGES, 1, REAL, 1.0, seed)
    strips = []
    for name, layer in AT_INPUT.items():
        for i in range(IMAGES):
            with seeded_globals(derive(seed, "demo", name, i)):
                strips.append({"kind": name, "tiles": _disturbed(layer, torch.from_numpy(train.X[i]), SMALL[name])})
    return {"strips": strips}


def _disturbed(layer: Callable[[float], nn.Module], image: Tensor, strengths: list[float]) -> list[Record]:
    """The image as it is, and as a network sees it in training; what goes beyond its black and white is cut off."""
    low, high = float(image.min()), float(image.max())
    seen = [(0.0, image), *((strength, layer(strength).train()(image)) for strength in strengths)]
    return [{"pixels": pixels(one.numpy(), low, high), "degree": strength} for strength, one in seen]


def pictures(record: Record) -> list[Exhibit]:
    if not record.get("strips"):
        return []
    strips, named = [], set()
    for strip in record["strips"]:
        name = f"{strip['kind']}, another image" if strip["kind"] in named else strip["kind"]
        tiles = [Tile(one["pixels"], f"{one['degree']:g}" if one["degree"] else "none") for one in strip["tiles"]]
        strips.append(Strip(name, tiles))
        named.add(strip["kind"])
    return [
        Images(
            "disturbed",
            "What does a network see in training?",
            "Training images under the two regularizers that act on the input. The number is the strength: the "
            "probability that a pixel is set to the mean gray, or the standard deviation of Gaussian noise. Up to "
            "which strength do you recognize the image?",
            strips,
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="dropout",
    findings=(
        Finding(
            ("dropout-memory", "dropout-free"),
            reproduced="Dropout cuts memory of random labels to {0.mean} and keeps test accuracy.",
            not_reproduced="With dropout, networks memorize {0.mean} of random labels; test accuracy changes "
            "by {1.mean}.",
            no_verdict="Dropout may cut memory to {0.mean}; test accuracy changes by {1.mean}: no verdict.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does dropout of 0.85 suit wider networks on MNIST as well as 256 units on digits?",
            "truerisk lab run memory-regularizers --scale medium",
        ),
        Question(
            "If memory is not needed, do networks without any regularizer generalize worse?",
            "truerisk lab run regularizers",
        ),
        Question(
            "Can a network without any regularizer still get a small certified error?",
            "truerisk certify --model mlp:256",
        ),
    ),
)
