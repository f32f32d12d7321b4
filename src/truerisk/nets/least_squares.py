"""Linear least squares with more weights than examples: the solution of smallest norm, and where SGD ends.

Zhang et al. (2017), Section 5. An SGD step on example i adds a multiple of its features x_i to the weights, so the
part of the weights outside the span of the features (the row space of X) never moves. With P the projection on the
row space and w* = X^+ y the solution of smallest norm, SGD from w_0 that fits all examples ends in

    w* + (I - P) w_0,

which is w* itself if it started from zero, and lies |(I - P) w_0| away from it otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

LOOKS = 60  # points on a learning curve, evenly spaced on a logarithmic scale


@dataclass(frozen=True)
class Landing:
    """Where SGD went. Distances are Frobenius norms, in units of the norm of w*."""

    weights: np.ndarray
    steps: list[int]
    distances: list[float]  # to w*, at these steps
    outside: float  # |(I - P) w_0|: the distance that theory says will remain
    drift: float  # how far the part outside the row space has moved: 0 in exact arithmetic


def random_relu(X: np.ndarray, features: int, seed: int) -> np.ndarray:
    """max(V x, 0) for rows of V drawn uniformly from the sphere, divided by sqrt(features)."""
    flat = X.reshape(len(X), -1).astype(np.float64)
    directions = np.random.default_rng(seed).standard_normal((features, flat.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.maximum(flat @ directions.T, 0) / math.sqrt(features)


def min_norm(X: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """X^+ y: among all weights that fit best, those of smallest norm."""
    return np.linalg.lstsq(X, targets, rcond=None)[0]


def sgd(X: np.ndarray, targets: np.ndarray, start: np.ndarray, steps: int, seed: int) -> Landing:
    """Plain SGD on the squared loss, one uniformly random example per step, with the step size 1/max|x_i|^2.

    No smaller step is needed in the end: where all examples can be fitted, the noise of SGD vanishes with the loss.
    """
    best = min_norm(X, targets)
    unit = float(np.linalg.norm(best))
    basis = np.linalg.svd(X, full_matrices=False)[2]  # orthonormal rows that span the row space (X has full rank)
    rate = 1 / float((X**2).sum(axis=1).max())
    order = np.random.default_rng(seed).integers(0, len(X), steps)
    looks = {0, steps, *(round(steps ** (i / LOOKS)) for i in range(LOOKS))}
    weights = start.copy()
    curve: list[tuple[int, float]] = []
    for step in range(steps + 1):
        if step in looks:
            curve.append((step, float(np.linalg.norm(weights - best)) / unit))
        if step < steps:
            x = X[order[step]]
            weights -= rate * np.outer(x, x @ weights - targets[order[step]])
    return Landing(
        weights,
        [step for step, _ in curve],
        [distance for _, distance in curve],
        float(np.linalg.norm(_outside(start, basis))) / unit,
        float(np.linalg.norm(_outside(weights - start, basis))) / unit,
    )


def sharpness(X: np.ndarray, weights: np.ndarray) -> float:
    """The largest eigenvalue of the Hessian (1/n) X^T diag(beta) X of the logistic loss for the first class.

    beta is the second derivative of the loss at the outputs X w. It depends on the weights through the outputs
    alone, so all weights that fit the same targets have the same Hessian, near or far, good or bad.
    """
    outputs = X @ weights[:, 0]
    root = np.sqrt(expit(outputs) * expit(-outputs))
    gram = (root[:, None] * X) @ (root[:, None] * X).T / len(X)  # its eigenvalues are those of the Hessian
    return float(np.linalg.eigvalsh(gram)[-1])


def linear_fit(X: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The best outputs of a linear model on its own training inputs: the targets projected on the columns of X."""
    flat = X.reshape(len(X), -1).astype(np.float64)
    return flat @ min_norm(flat, targets)


def rank_of_gram(X: np.ndarray) -> int:
    """The numerical rank of the linear Gram matrix X X^T: that of X, at most the number of features."""
    return int(np.linalg.matrix_rank(X.reshape(len(X), -1).astype(np.float64)))


def _outside(weights: np.ndarray, basis: np.ndarray) -> np.ndarray:
    return weights - basis.T @ (basis @ weights)
