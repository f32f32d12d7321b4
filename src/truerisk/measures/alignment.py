"""Whether the weights of a first layer have learned which directions the data vary in.

With the eigenvectors u_i of the covariance of the inputs and their eigenvalues t_i,

    s_i = mean over hidden units of <w_j - mean of w, u_i>^2

is the variance of the incoming weights along u_i. Initial weights are the same in law for every rotation of the inputs,
so s is flat. Maennel et al. (2020) prove that after training on random labels the covariance of the weights has the
eigenvectors of the data (alignment), and observe that s_i first grows with t_i. The rank correlation of s and t, taken
over the directions in which the data vary, sums this up in one number: 0 for no relation, 1 if s always grows with t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.errors import TrueriskError

LEAST = 1e-9  # of the largest eigenvalue: below it, a direction counts as one in which the data do not vary


@dataclass(frozen=True)
class Alignment:
    """Eigenvalues of the data's covariance, largest first; variances of the weights there; their rank correlation."""

    eigenvalues: np.ndarray
    variances: np.ndarray
    correlation: float


def alignment(weight: np.ndarray, X: np.ndarray) -> Alignment:
    """How the incoming weights of hidden units, of shape (features, units), vary along the eigenvectors of the data.

    >>> rng = np.random.default_rng(0)
    >>> data, units = (rng.standard_normal((500, 3)) * [4, 2, 1] for _ in range(2))
    >>> round(alignment(units.T, data).correlation, 6)
    1.0
    """
    flat = np.asarray(X, np.float64).reshape(len(X), -1)
    weight = np.asarray(weight, np.float64)
    if weight.ndim != 2 or len(weight) != flat.shape[1]:
        raise TrueriskError(
            f"the weights have shape {weight.shape}, but must have {flat.shape[1]} rows; give (features, units)."
        )
    values, vectors = np.linalg.eigh(np.cov(flat, rowvar=False).reshape(flat.shape[1], -1))
    order = np.argsort(values)[::-1]
    order = order[values[order] > LEAST * max(values.max(), 0.0)]
    if len(order) < 3:
        raise TrueriskError(
            f"the inputs vary in {len(order)} directions, but must vary in at least 3; give other data."
        )
    centered = weight - weight.mean(axis=1, keepdims=True)
    variances = np.square(vectors[:, order].T @ centered).mean(axis=1)
    return Alignment(values[order], variances, rank_correlation(values[order], variances))


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation: Pearson's, of the ranks; tied values share the mean of their ranks.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 8.0, 27.0]))
    1.0
    """
    ranks = [_ranks(np.asarray(each, np.float64)) for each in (a, b)]
    first, second = (each - each.mean() for each in ranks)
    size = np.sqrt(np.sum(first**2) * np.sum(second**2))
    return 0.0 if size == 0 else float(np.clip(np.sum(first * second) / size, -1, 1))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place.reshape(-1)]
