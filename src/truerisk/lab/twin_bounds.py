"""What the theorems say about a run of `stability`: with known constants for softmax regression, estimated otherwise.

Softmax regression on inputs of norm at most r, with a bias: the gradient of the cross-entropy is (p - e_y) (x, 1)', its
Hessian (diag p - p p') times (x, 1) (x, 1)'. Since |p - e_y| <= sqrt(2) and diag p - p p' has no eigenvalue above 1/2,

    L = sqrt(2 (r^2 + 1)),      beta = (r^2 + 1) / 2.

The loss 1 - p_y has the gradient -p_y (e_y - p) (x, 1)' of norm at most sqrt(2) p_y (1 - p_y) |(x, 1)|, hence slope at
most sqrt(2 (r^2 + 1)) / 4. These hold for every input and label, so the theorem about convex losses applies.
"""

from __future__ import annotations

import math

import numpy as np

from truerisk.bounds import needed_stability
from truerisk.lab.rows import Row

DELTA = 0.05


def lipschitz(radius: float) -> float:
    """L of the cross-entropy of softmax regression.

    >>> lipschitz(1.0)
    2.0
    """
    return math.sqrt(2 * (radius**2 + 1))


def smoothness(radius: float) -> float:
    """beta of the cross-entropy of softmax regression."""
    return (radius**2 + 1) / 2


def in_theorem(row: Row) -> bool:
    """Whether all steps are small enough for the theorem about convex losses: rate <= 2 / (beta + 2 decay)."""
    beta = smoothness(row["radius"])
    return all(rate <= 2 / (beta + 2 * decay) for rate, decay in zip(row["rates"], row["decays"], strict=True))


def proven(row: Row) -> dict[str, np.ndarray]:
    """Bounds on ``apart``, ``worst_ce``, and ``worst`` of a run of softmax regression: (arms, watched epochs)."""
    slope = lipschitz(row["radius"])
    apart = 2 * slope * np.asarray(row["reach"])
    return {"apart": apart, "worst_ce": slope * apart, "worst": slope / 4 * apart}


def estimated(row: Row, arm: int) -> list[float]:
    """The theorem about smooth losses between 0 and 1, after each watched epoch, with estimated constants.

    L is the largest slope of any training example so far, beta the largest `smoothness` so far: both are lower
    estimates, and so is the result. With batches of b, steps of rate a, and T steps it is the least of

        min(1, t b/n) + (2 L^2 / (beta n)) ((1 + a beta)^(T - t) - 1)        over t from 0 to T,

    where the replaced example is not in the first t batches with probability at least 1 - t b/n, and the expected
    distance grows from there on as in the recursion of `bounds.sgd_distance`.
    """
    found, batches = [], math.ceil(row["n"] / row["batch_size"])
    rate = row["rates"][arm]
    for seen, epoch in enumerate(row["epochs_watched"], 1):
        slope, beta = max(row["slope"][arm][:seen]), max(row["smoothness"][arm][:seen])
        left = np.arange(min(epoch * batches, 10_000) + 1)  # T - t: far fewer steps already expand too much
        early = np.minimum(1.0, (epoch * batches - left) * row["batch_size"] / row["n"])
        with np.errstate(over="ignore"):
            late = np.expm1(left * math.log1p(rate * beta)) * 2 * slope**2 / (beta * row["n"])
        found.append(float(np.min(early + late)))
    return found


def needed(n: int) -> float | None:
    """The stability at which the bound of Bousquet and Elisseeff is 1, for a training loss of 0 and delta = 0.05."""
    return needed_stability(0.0, n, DELTA)
