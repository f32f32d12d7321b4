"""The runs of `kernel-interpolation`: a kernel solve, SGD on a linear model, the rank of a linear Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.data import Data, corrupt_labels, shuffle
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.kernel_interpolation.kernels import (
    Choice,
    DistanceKernel,
    Kernel,
    choose,
    fit,
    median_distance,
    one_hot,
)
from truerisk.lab.kernel_interpolation.least_squares import (
    linear_fit,
    min_norm,
    random_relu,
    rank_of_gram,
    sgd,
    sharpness,
)
from truerisk.lab.kernel_interpolation.patches import patch_kernel
from truerisk.lab.samples import samples
from truerisk.seeds import derive

# The paper does not say how wide its kernels were. These are tried, in units of the median distance between examples.
MULTIPLES = (0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # all kernels have k(x, x) = 1, exactly or on average


def task(setting: Setting) -> Record:
    """One run, of the kind that its setting names."""
    return {"kernel": _solve, "sgd": _sgd, "rank": _rank}[setting["kind"]](setting)


@dataclass(frozen=True)
class Tuned:
    """What was chosen on held-out training examples; None where there was nothing to choose."""

    kernel: Kernel
    multiple: float | None
    bandwidth: float | None
    ridge: float
    validation_error: float | None


def _solve(setting: Setting) -> Record:
    """Interpolate (or nearly, with a ridge) the given labels, and count errors on test examples with true labels."""
    train, test = samples(setting["data"], setting["n"], setting["n_test"], setting["seed"])
    given = corrupt_labels(train, setting["noise"], derive(setting["seed"], "noise"))
    tuned = _tune(setting, train if setting["tuned"] == "true labels" else given)
    targets = one_hot(given.y, given.classes)
    found = fit(tuned.kernel, train.X, targets, tuned.ridge)
    outputs = tuned.kernel.apply(np.concatenate([train.X, test.X]), train.X, found.coefficients)
    on_train, on_test = outputs[: len(train)], outputs[len(train) :]
    return {
        "train_error": float(np.mean(on_train.argmax(1) != given.y)),
        "test_error": float(np.mean(on_test.argmax(1) != test.y)),
        "residual": float(np.abs(on_train - targets).max()),
        "norm": found.norm,
        "jitter": found.jitter,
        "smallest_pivot": found.pivot,
        "multiple": tuned.multiple,
        "bandwidth": tuned.bandwidth,
        "ridge_value": tuned.ridge,
        "validation_error": tuned.validation_error,
        "triangle_gib": len(train) * (len(train) + 1) / 2 * 8 / 2**30,
    }


def _tune(setting: Setting, data: Data) -> Tuned:
    """Bandwidth first, without a ridge; then the ridge, if one is wanted. Only training examples are looked at.

    `tuning` of them fit, as many others judge. The final fit uses all.
    """
    seed, size = setting["seed"], setting["tuning"]
    rows = shuffle(len(data), derive(seed, "tuning"))
    small, held_out = data.take(rows[:size]), data.take(rows[size : 2 * size])
    targets = one_hot(small.y, data.classes)

    def outputs(kernel: Kernel, ridge: float) -> np.ndarray:
        return kernel.apply(held_out.X, small.X, fit(kernel, small.X, targets, ridge).coefficients)

    choice: Choice | None = None
    multiple = bandwidth = None
    kernel: Kernel
    if setting["kernel"] == "patches":
        kernel = patch_kernel(data.X, setting["filters"], setting["patch"], derive(seed, "filters"))
    else:
        unit, name = median_distance(small.X), setting["kernel"]
        choice = choose(MULTIPLES, lambda value: outputs(DistanceKernel(name, value * unit), 0.0), held_out.y)
        multiple, bandwidth = choice.value, choice.value * unit
        kernel = DistanceKernel(name, bandwidth)
    if setting["ridge"] == "none":
        return Tuned(kernel, multiple, bandwidth, 0.0, choice.error if choice else None)
    choice = choose(RIDGES, lambda value: outputs(kernel, value), held_out.y)
    return Tuned(kernel, multiple, bandwidth, choice.value, choice.error)


def _sgd(setting: Setting) -> Record:
    """SGD on random ReLU features, more of them than examples, from a start of norm `start` times that of w*."""
    seed, n = setting["seed"], setting["n"]
    train, test = samples(setting["data"], n, setting["n_test"], seed)
    inputs, on_test = (random_relu(part.X, setting["features"], derive(seed, "features")) for part in (train, test))
    targets = one_hot(train.y, train.classes)
    size = float(np.linalg.norm(min_norm(inputs, targets)))
    away = np.random.default_rng(derive(seed, "start")).standard_normal((setting["features"], train.classes))
    start = away * (setting["start"] * size / np.linalg.norm(away))
    landing = sgd(inputs, targets, start, setting["steps"], derive(seed, "order"))
    return {
        "at_steps": landing.steps,
        "distances": landing.distances,
        "distance": landing.distances[-1],
        "outside": landing.outside,
        "drift": landing.drift,
        "residual": float(np.abs(inputs @ landing.weights - targets).max()),
        "sharpness": sharpness(inputs, landing.weights),
        "test_error": float(np.mean((on_test @ landing.weights).argmax(1) != test.y)),
    }


def _rank(setting: Setting) -> Record:
    """The Gram matrix X X^T of raw pixels, and what is left over when it must fit true and random labels."""
    train, _ = samples(setting["data"], setting["n"], 10, setting["seed"])
    random = corrupt_labels(train, 1.0, derive(setting["seed"], "noise"))

    def error(labels: np.ndarray) -> float:
        return float(np.mean(linear_fit(train.X, one_hot(labels, 10)).argmax(1) != labels))

    return {
        "rank": rank_of_gram(train.X),
        "inputs": int(np.prod(train.input_shape)),
        "error_on_true_labels": error(train.y),
        "error_on_random_labels": error(random.y),
    }
