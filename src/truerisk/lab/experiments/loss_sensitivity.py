"""Do few training examples matter, or all of them (Arpit et al. 2017, Section 3.2)?

The loss sensitivity of an example is the norm of the derivative of later training losses with respect to its input,
through unrolled SGD (`truerisk.training.unrolled`), averaged over several moments of training. A high Gini coefficient
of the sensitivities means that few examples carry most of it.

The paper trains two hidden layers of 16 units on 1,000 images: real data and random inputs (randX), with the true
classes, and with a class for each example, where a network can only memorize. A second kind of run splits the loss by
class, to see whether the loss of a class depends on examples of other classes.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from truerisk.lab.claim import Claim
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.noise import RAND_X, RAND_Y, REAL, noisy_samples
from truerisk.lab.papers import ARPIT
from truerisk.lab.rows import Rows
from truerisk.lab.units import PLAIN, TIMES, at_least
from truerisk.seeds import derive
from truerisk.training.unrolled import gini, influence, initial_weights

TRUE, UNIQUE = "true classes", "one class per example"
EXAMPLES, CLASSES = "examples", "classes"  # whose loss is differentiated: that of all examples, or that of each class

BASE: Setting = {"data": "digits", "n": 1000, "n_test": 100, "pool": 1, "hidden": [16, 16], "batch": 50, "lr": 0.1,
                 "epochs": 20}  # fmt: skip
SIZES: dict[str, Setting] = {
    "smoke": {"n": 100, "batch": 20, "epochs": 5},
    "quick": {},
    "medium": {"data": "mnist", "pool": 2, "epochs": 40},
    "paper": {"data": "mnist", "pool": 2, "epochs": 100},
}
SEEDS = {"smoke": range(20, 21), "quick": range(20, 25), "medium": range(20, 23), "paper": range(20, 23)}


def grid(scale: str) -> list[Setting]:
    base, seeds = {**BASE, **SIZES[scale]}, SEEDS[scale]
    by_example = {**base, "by": EXAMPLES, "marks": 10}
    # The loss of a thousand classes starts flat: at the other runs' rate and length it would not move at all.
    unique = {**by_example, "lr": 5 * base["lr"], "epochs": 2 * base["epochs"], "labels": UNIQUE}
    by_class = {**base, "by": CLASSES, "marks": 5, "labels": TRUE}  # fewer marks: a backward pass for each class
    return [
        *product({**by_example, "labels": TRUE}, noise=(REAL, RAND_X), seed=seeds),
        {**by_example, "labels": TRUE, "noise": RAND_Y, "seed": seeds[0]},  # for the figure: no claim is about it
        *product(unique, noise=(REAL, RAND_X), seed=seeds),
        *product(by_class, noise=(REAL, RAND_X), seed=seeds),
    ]


def task(setting: Setting) -> Record:
    """Gini coefficients of the sensitivities averaged up to each mark; by class, the matrix of mean sensitivities."""
    seed, n = setting["seed"], setting["n"]
    train, _ = noisy_samples(setting["data"], n, setting["n_test"], setting["noise"], 1.0, seed, setting["pool"])
    X, labels = torch.from_numpy(train.X).flatten(1), torch.from_numpy(train.y)
    y, classes = (torch.arange(n), n) if setting["labels"] == UNIQUE else (labels, train.classes)
    order = torch.Generator().manual_seed(derive(seed, "order"))
    epochs = [torch.randperm(n, generator=order) for _ in range(setting["epochs"])]
    batches = [rows for epoch in epochs for rows in epoch.split(setting["batch"])]
    marks = [len(batches) * (i + 1) // setting["marks"] for i in range(setting["marks"])]
    weights = initial_weights([X.shape[1], *setting["hidden"], classes], derive(seed, "weights"))
    groups = y if setting["by"] == CLASSES else None
    gradients = influence(X, y, weights, batches, setting["lr"], marks, groups).double()
    norms = gradients.abs().sum(dim=3).numpy()  # (marks, groups, examples)
    if groups is not None:
        mean = norms.mean(axis=0)
        matrix = np.stack([mean[:, train.y == j].mean(axis=1) for j in range(classes)], axis=1)
        return {"class_sensitivity": matrix.tolist(), "off_diagonal": off_diagonal(matrix)}
    running = np.cumsum(norms[:, 0], axis=0) / np.arange(1, len(marks) + 1)[:, None]
    return {"steps": marks, "gini": [gini(values) for values in running]}


def off_diagonal(matrix: np.ndarray) -> float:
    """The mean entry off the diagonal over the mean entry on it.

    >>> off_diagonal(np.array([[2.0, 1.0], [1.0, 2.0]]))
    0.5
    """
    n, trace = len(matrix), float(np.trace(matrix))
    return (float(matrix.sum()) - trace) / (n * n - n) / (trace / n)


def gini_gap(runs: Rows) -> float:
    """By how much the Gini coefficient at the end of training is higher on real data than on random inputs."""
    real, noise = (runs.where(noise=kind).one("gini")[-1] for kind in (REAL, RAND_X))
    return real - noise


def sharing(runs: Rows) -> float:
    """How many times as large off-diagonal sensitivity, relative to the diagonal, is on real data."""
    return runs.where(noise=REAL).one("off_diagonal") / runs.where(noise=RAND_X).one("off_diagonal")


# The paper shows curves and matrices, no numbers; 0.1 is a tenth of the range of the Gini coefficient, 1.2 a visible
# difference in a matrix.
HIGHER = "a clearly higher Gini coefficient on real data throughout training; no number"
CLAIMS = (
    Claim(
        "gini",
        "The Gini coefficient of loss sensitivity is higher on real data, where few examples matter, than on noise.",
        gini_gap,
        at_least(0.1, PLAIN),
        ARPIT.at("Figure 3, left"),
        HIGHER,
        where={"by": EXAMPLES, "labels": TRUE},
    ),
    Claim(
        "gini-unique",
        "With one class per example, so that a network can only memorize, few examples still matter most in real data.",
        gini_gap,
        at_least(0.1, PLAIN),
        ARPIT.at("Figure 3, right"),
        HIGHER,
        where={"by": EXAMPLES, "labels": UNIQUE},
    ),
    Claim(
        "class-sensitivity",
        "The loss on a class depends more on examples of other classes in real data than in noise.",
        sharing,
        at_least(1.2, TIMES),
        ARPIT.at("Figure 4"),
        "high values only on the diagonal for noise, many off the diagonal for real data; no number",
        where={"by": CLASSES},
        note="Mean sensitivity off the diagonal over that on it, real data against random inputs.",
    ),
)


EXPERIMENT = Experiment(
    name="loss-sensitivity",
    title="Do few examples matter, or all of them?",
    about=(
        "A network that learns patterns should depend on a few telling examples; one that memorizes needs every "
        "example. Arpit et al. differentiate the training loss with respect to the training inputs, through all "
        "earlier steps of SGD. They report that few examples carry much of this sensitivity on real data, and that "
        "nearly all examples matter on random inputs."
    ),
    papers=(ARPIT,),
    grids={scale: partial(grid, scale) for scale in SIZES},
    task=task,
    claims=CLAIMS,
    cost=lambda setting: 4.0 if setting["by"] == CLASSES else 1.5,  # seconds at quick scale
)
