"""The solve of `kernel-interpolation` and `minimum-norm`: one Gram system, tuned on held-out training examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerisk.data import corrupt_labels, shuffle
from truerisk.lab.claim import Paper
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.nets.kernels import RIDGES, Kernel, distance_kernels, fit, one_hot, tune
from truerisk.nets.patches import patch_kernel
from truerisk.seeds import derive

COATES = Paper("Coates, Ng", 2012, "Learning feature representations with k-means", "Tricks of the Trade")
KERNELS = {"gaussian": "Gaussian", "laplacian": "Laplacian", "patches": "patches"}
DATA = {"digits": "digits", "mnist1d": "MNIST-1D", "mnist": "MNIST", "cifar-10": "CIFAR-10"}


def solve(setting: Setting) -> Record:
    """Fit the given labels, exactly or with a ridge, and count errors on test examples with true labels.

    The labels are replaced with probability ``noise`` by random classes. ``tuning`` training examples fit the
    candidates, as many others choose among them, and the final fit uses all. Without a ridge the bandwidth is chosen on
    true labels, so that noise changes nothing but the labels to fit; with a ridge, both are chosen on the given labels.
    """
    seed, size, ridge = setting["seed"], setting["tuning"], setting["ridge"] == "validated"
    train, test = samples(setting["data"], setting["n"], setting["n_test"], seed)
    given = corrupt_labels(train, setting["noise"], derive(seed, "noise"))
    order, labels = shuffle(len(train), derive(seed, "tuning")), (given if ridge else train).y
    small, held_out = ((train.X[some], labels[some]) for some in (order[:size], order[size : 2 * size]))
    kernels: Sequence[Kernel]
    if setting["kernel"] == "patches":
        kernels = [patch_kernel(train.X, setting["filters"], setting["patch"], derive(seed, "filters"))]
    else:
        kernels = distance_kernels(setting["kernel"], small[0])
    tuned = tune(kernels, small, held_out, train.classes, RIDGES if ridge else ())
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
        "bandwidth": getattr(tuned.kernel, "bandwidth", None),
        "ridge_value": tuned.ridge,
        "validation_error": tuned.error,
    }


def operations(setting: Setting) -> float:
    """Operations of a solve, roughly, in units of 1e9: its cost."""
    n, small = setting["n"], setting["tuning"]
    return (n**3 / 3 + 15 * small**3 / 3 + setting.get("filters", 0) * 3e4 * n) / 1e9 + 1


def panel(row: Setting) -> str:
    """The name of a dataset and its size, above a panel of a figure."""
    return f"{DATA[row['data']]}, {row['n']:,} examples"
