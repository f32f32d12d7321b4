"""One run of `stability`: twins at several step sizes and weight decays, watched over their epochs.

A *twin pair* is a run on the training set and a run on the set with one example replaced by a new one. All numbers of
a record are lists, one entry for each arm (a step size with a weight decay), of lists over the watched epochs:

    distance       mean over twin pairs of |w - w'| / sqrt(|w|^2 + |w'|^2)
    layers         the same for each layer, after the last epoch
    apart, reach   largest |w - w'|; and `Twins.reach`, which bounds it for convex losses as 2 L reach
    worst_ce       largest difference of cross-entropy between twins, over inputs and all labels that they can have
    worst          largest difference of 1 - p(label), a loss between 0 and 1, over the same
    gap_ce, gap    mean loss on new examples minus mean loss on training examples, for both losses
    by_twins       mean over pairs of the loss 1 - p on z_i of the run that never saw z_i, minus that of its twin

`by_twins` estimates `gap` without new examples: z_i is as new to the run without it as any example is. `worst` counts
over finitely many pairs and inputs; it is a lower estimate of the uniform stability of training in this order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from truerisk.data import Data, corrupt_labels, shuffle
from truerisk.data.scaling import is_images, normalize, shrink_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError
from truerisk.training.swift import uniform_weights
from truerisk.training.twins import Twins

WATCHED = (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 75, 100, 150)  # epochs, and the last one
LEAST = 1e-300  # of a probability, before its logarithm
SOME = 500  # training examples that estimate slopes and smoothness
SPREAD = 2.0  # a table's inputs beyond this many typical norms are pulled back
DIGITS = 6  # of a number in a record


@dataclass(frozen=True)
class Sets:
    """Inputs as rows of norm at most ``radius``; training examples, those that replace some of them, and new ones."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    classes: int


def prepared(s: Setting) -> Sets:
    """The examples of a setting; random labels are drawn for training and replacing examples."""
    count = s["n"] + s["twins"]
    train, test = samples(s["data"], count, s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    train, test = (shrink_images(part, s.get("side", 10**6)) for part in (train, test))
    if s["labels"] == "random":
        train = corrupt_labels(train, 1.0, derive(s["seed"], "labels"))
    test, train = normalize(test, train)  # a table's columns by inputs that no run trains on
    rows, new = _in_ball(train, s["radius"]), _in_ball(test, s["radius"])
    n = s["n"]
    return Sets(rows[:n], train.y[:n], rows[n:], train.y[n:], new, test.y, train.classes)


def _in_ball(data: Data, radius: float) -> np.ndarray:
    """Inputs of norm at most ``radius``, by a map that does not depend on the training set."""
    rows = data.X.reshape(len(data), -1).astype(np.float64) / math.sqrt(math.prod(data.input_shape))
    if not is_images(data):
        rows /= SPREAD
    norms = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return rows / np.maximum(norms, 1.0) * radius


def run_twins(setting: Setting) -> Record:
    """Train all twin pairs of a setting; see the top of this file for the numbers."""
    s = setting
    sets, twins = _begun(s)
    found: dict[str, list[np.ndarray]] = {}
    watched = sorted({epoch for epoch in WATCHED if epoch < s["epochs"]} | {s["epochs"]})
    try:
        for epoch in twins.epochs(s["epochs"], batch_size=s["batch_size"], seed=derive(s["seed"], "order")):
            if epoch in watched:
                for name, values in _looked(twins, sets).items():
                    found.setdefault(name, []).append(values)
    except DivergedError:
        return {"diverged": True}
    record = {name: _plain(np.stack(values, axis=1)) for name, values in found.items()}
    return {"epochs_watched": watched, **record, "layers": _plain(twins.normalized().mean(axis=1)), "diverged": False}


def _begun(s: Setting) -> tuple[Sets, Twins]:
    sets = prepared(s)
    sizes = [sets.X.shape[1], *s["hidden"], sets.classes]
    start = uniform_weights(sizes, derive(s["seed"], "weights"))
    if not s["hidden"]:  # softmax regression starts at 0
        start = [np.zeros_like(part) for part in start]
    positions = shuffle(s["n"], derive(s["seed"], "positions"))[: s["twins"]]
    given = {"rates": s["rates"], "decays": s["decays"]}
    return sets, Twins(start, sets.X, sets.y, positions, sets.X_new, sets.y_new, **given)


def _looked(twins: Twins, sets: Sets) -> dict[str, np.ndarray]:
    """All numbers of a record at one moment, each of shape (arms,)."""
    own, n_test, pairs = twins.positions, len(sets.y_test), np.arange(len(twins.positions))
    p = twins.probabilities(np.concatenate([sets.X_test, sets.X[own], sets.X_new]))
    logs, new = np.log(np.maximum(p, LEAST)), p[:, 0, :n_test]
    learned = twins.probabilities(sets.X, slice(1))[:, 0]
    right, right_new = _of(learned, sets.y), _of(new, sets.y_test)
    mine = p[:, :, n_test + pairs, sets.y[own]]  # (arms, runs, pairs): of the labels of the replaced examples
    return {
        "distance": twins.normalized()[..., -1].mean(axis=1),
        "apart": twins.distances().max(axis=1),
        "reach": twins.reach.max(axis=1),
        "worst_ce": np.abs(logs[:, 1:] - logs[:, :1]).max(axis=(1, 2, 3)),
        "worst": np.abs(p[:, 1:] - p[:, :1]).max(axis=(1, 2, 3)),
        "gap_ce": np.log(right).mean(axis=1) - np.log(right_new).mean(axis=1),
        "gap": right.mean(axis=1) - right_new.mean(axis=1),
        "by_twins": (mine[:, 0] - mine[:, 1 + pairs, pairs]).mean(axis=1),
        "train_loss": 1 - right.mean(axis=1),
        "train_error": (learned.argmax(axis=2) != sets.y).mean(axis=1),
        "test_error": (new.argmax(axis=2) != sets.y_test).mean(axis=1),
        "slope": twins.slopes(sets.X[:SOME], sets.y[:SOME]).max(axis=1),
        "smoothness": _smoothness(twins, sets),
    }


def _of(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Probabilities of the labels: (arms, examples)."""
    return np.maximum(p[:, np.arange(len(y)), y], LEAST)


def _smoothness(twins: Twins, sets: Sets) -> np.ndarray:
    """Largest |g - g'| / |w - w'| over twin pairs, g the gradient of the mean training loss: a lower estimate."""
    gradients = twins.gradient(sets.X[:SOME], np.eye(sets.classes)[sets.y[:SOME]])
    squares = sum(np.square(g[:, 1:] - g[:, :1]).sum(axis=tuple(range(2, g.ndim))) for g in gradients)
    apart = twins.distances()
    return (np.sqrt(squares) / np.where(apart > 0, apart, np.inf)).max(axis=1)


def _plain(values: np.ndarray) -> list[list[float]]:
    return [[float(f"{value:.{DIGITS}g}") for value in row] for row in values.tolist()]
