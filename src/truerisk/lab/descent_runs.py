"""The networks of the experiment `network-descent`: two hidden layers trained once, or one hidden layer that grows."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from truerisk.data import corrupt_labels
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.seeds import derive
from truerisk.training.swift import Weights, answers, grow, sgd_epochs, uniform_weights

LENGTH = 64  # mean squared norm of inputs with many coordinates, so that one rate suits digits and MNIST
LOOKS = 14  # counts of errors along the way
Examples = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # training inputs, one-hot labels, test inputs, labels


def trained(s: Setting) -> Record:
    """Two hidden layers by cross-entropy; errors after some epochs, evenly spaced on a logarithmic scale."""
    X, targets, X_test, y_test = _examples(s)
    weights = uniform_weights([X.shape[1], s["width"], s["width"], targets.shape[1]], derive(s["seed"], "weights"))
    looks = {round(epoch) for epoch in np.geomspace(1, s["epochs"], LOOKS)}
    found: dict[str, list[float]] = {"at": [], "train_errors": [], "test_errors": []}
    how = {"epochs": s["epochs"], "batch_size": s["batch_size"], "lr": s["lr"]}
    for epoch in sgd_epochs(weights, X, targets, **how, seed=derive(s["seed"], "order")):
        if epoch in looks:
            errors = _error(weights, X, targets.argmax(axis=1)), _error(weights, X_test, y_test)
            for name, value in zip(found, (epoch, *errors), strict=True):
                found[name].append(value)
    ends = {"train_error": found["train_errors"][-1], "test_error": found["test_errors"][-1]}
    return {**found, **ends, "weights": sum(part.size for part in weights)}


def grown(s: Setting) -> Record:
    """One hidden layer by squared error, wider and wider: below the threshold with the last weights, and afresh."""
    X, targets, X_test, y_test = _examples(s)
    dim, classes = X.shape[1], targets.shape[1]
    found: Record = {"sizes": [], "reused": [], "fresh": [], "reused_train": [], "fresh_train": []}
    kept: Weights = []
    for width in s["widths"]:
        size = ((dim + 1) * width + (width + 1) * classes) / targets.size  # weights over examples times classes
        start = uniform_weights([dim, width, classes], derive(s["seed"], "weights", width), glorot=True)
        fresh = _fit(s, start, X, targets, width, size < 1)
        if size < 1 and kept:
            kept = _fit(s, grow(kept, width, derive(s["seed"], "units", width)), X, targets, width, True)
        else:  # nothing to reuse: the narrowest, and all above the threshold
            kept = fresh
        found["sizes"].append(size)
        for name, weights in (("reused", kept), ("fresh", fresh)):
            found[name].append(_error(weights, X_test, y_test))
            found[f"{name}_train"].append(_error(weights, X, targets.argmax(axis=1)))
    return found


def _fit(s: Setting, weights: Weights, X: np.ndarray, targets: np.ndarray, width: int, below: bool) -> Weights:
    """Below the threshold the rate shrinks by 10% now and then, and training ends without training error."""
    lasts = max(1, s["epochs"] // 12)  # published: 500 of 6,000 epochs
    how = {"epochs": s["epochs"], "batch_size": s["batch_size"], "momentum": 0.95, "loss": "squared"}
    rate = (lambda epoch: s["lr"] * 0.9 ** (epoch // lasts)) if below else s["lr"]
    for epoch in sgd_epochs(weights, X, targets, **how, lr=rate, seed=derive(s["seed"], "order", width)):
        if below and epoch % 10 == 0 and _error(weights, X, targets.argmax(axis=1)) == 0:
            break
    return weights


def _error(weights: Weights, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(answers(weights, X).argmax(axis=1) != y))


def _examples(s: Setting) -> Examples:
    """The first ``n`` of ``pool`` training examples, some labels replaced, and test examples that no ``n`` changes."""
    drawn = _drawn(s["data"], s.get("pool", s["n"]), s["n_test"], s["noise"], s["seed"], s.get("data_sha256"))
    X, targets, X_test, y_test = drawn
    X, targets = X[: s["n"]], targets[: s["n"]]
    center = X.mean(axis=0)
    # One factor for all coordinates: a mean squared norm of 1 for each, at most LENGTH. Identical inputs stay at 0.
    scale = math.sqrt(np.square(X - center).sum(axis=1).mean() / min(X.shape[1], LENGTH)) or 1.0
    return ((X - center) / scale).astype(np.float32), targets, ((X_test - center) / scale).astype(np.float32), y_test


@lru_cache(maxsize=10)  # neighbors in a grid share their examples, and drawing MNIST-1D takes longer than training
def _drawn(name: str, n: int, n_test: int, noise: float, seed: int, sha256: str | None) -> Examples:
    train, test = samples(name, n, n_test, derive(seed, "examples"), sha256)
    noisy = corrupt_labels(train, noise, derive(seed, "label noise"))
    X, X_test = (part.X.reshape(len(part), -1).astype(np.float64) for part in (train, test))
    return X, np.eye(train.classes, dtype=np.float32)[noisy.y], X_test, test.y
