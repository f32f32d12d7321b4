"""How far can inputs be moved before predictions change? And the nearest neighbor, the classifier to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

ROWS = 1000  # of distances held at a time

Predict = Callable[[np.ndarray], np.ndarray]


def kept(
    predict: Predict, X: np.ndarray, labels: np.ndarray, lengths: Sequence[float], seed: int, most: int = 300
) -> list[float]:
    """Shares of the first ``most`` points that have their label after a move in a random direction, for each length.

    Lengths are in units of the median distance to the nearest other point. ``predict`` gets points as rows, in float64.
    Each point has one direction, whatever the length.

    >>> X, labels = np.array([[0.0], [1.0]]), np.array([0, 1])
    >>> kept(lambda at: np.array([0, 1]), X, labels, [0.1, 10.0], seed=0)
    [1.0, 1.0]
    """
    some = X[:most].reshape(min(most, len(X)), -1).astype(np.float64)
    apart = squared_distances(some, X)
    np.fill_diagonal(apart, np.inf)
    ways = np.random.default_rng(seed).standard_normal(some.shape)
    ways *= np.sqrt(np.median(apart.min(axis=1))) / np.linalg.norm(ways, axis=1, keepdims=True)
    return [float(np.mean(predict(some + length * ways) == labels[: len(some)])) for length in lengths]


def nearest(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """For each row of A the index of the nearest row of B.

    >>> nearest(np.array([[0.1], [2.0]]), np.array([[0.0], [1.0], [3.5]])).tolist()
    [0, 1]
    """
    parts = [squared_distances(A[at : at + ROWS], B).argmin(axis=1) for at in range(0, len(A), ROWS)]
    return np.concatenate(parts)


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Squared Euclidean distances of the rows of A to those of B, by one product of matrices."""
    left, right = (part.reshape(len(part), -1).astype(np.float64) for part in (A, B))
    return np.maximum((left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * left @ right.T, 0)
