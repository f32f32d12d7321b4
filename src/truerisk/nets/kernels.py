"""Kernel interpolation: Gram matrices of Gaussian and Laplacian kernels, and the solve K a = y.

Zhang et al. (2017), Section 5. A Gram matrix is held as one `Triangle`, and everything else is computed in blocks, so
that all 60,000 examples of MNIST fit into 16 GiB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.nets.triangle import Triangle

ROWS = 512  # of a Gram matrix held at a time outside the triangle
SAMPLE = 1000  # examples whose distances set the unit of bandwidths
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)  # tried in turn where rounding makes the Gram matrix singular
MULTIPLES = (0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)  # bandwidths to try, in median distances
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # to try, for kernels with k(x, x) = 1, exactly or on average

T = TypeVar("T")
Labeled = tuple[np.ndarray, np.ndarray]  # examples and their labels


class Kernel(Protocol):
    """A similarity k(x, x') whose Gram matrix is never held as a square."""

    def triangle(self, X: np.ndarray) -> Triangle:
        """The Gram matrix of the rows of X."""

    def apply(self, A: np.ndarray, B: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """k(A, B) times the coefficients (one row for each row of B)."""


@dataclass(frozen=True)
class DistanceKernel:
    """Gaussian exp(-|x - x'|^2 / (2 s^2)) or Laplacian exp(-|x - x'| / s), with the Euclidean distance in both.

    >>> kernel = DistanceKernel("gaussian", bandwidth=2.0)
    >>> kernel.apply(np.array([[0.0]]), np.array([[0.0], [2.0]]), np.eye(2)).round(4).tolist()
    [[1.0, 0.6065]]
    """

    name: Literal["gaussian", "laplacian"]
    bandwidth: float

    def triangle(self, X: np.ndarray) -> Triangle:
        inputs, lengths = _flat(X)

        def block(rows: slice, columns: slice) -> np.ndarray:
            square = _squares(inputs[rows], lengths[rows], inputs[columns], lengths[columns])
            # The distance of a point to itself is 0; rounding would leave 1e-7 after the Laplacian's square root.
            overlap = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
            square[overlap - rows.start, overlap - columns.start] = 0
            return self._of(square)

        return Triangle.of(len(X), block)

    def apply(self, A: np.ndarray, B: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        (left, left_lengths), (right, right_lengths) = _flat(A), _flat(B)
        out = np.empty((len(A), coefficients.shape[1]))
        for start in range(0, len(A), ROWS):
            rows = slice(start, start + ROWS)
            out[rows] = self._of(_squares(left[rows], left_lengths[rows], right, right_lengths)) @ coefficients
        return out

    def _of(self, square: np.ndarray) -> np.ndarray:
        """The kernel of squared distances, in place."""
        if self.name == "gaussian":
            square *= -1 / (2 * self.bandwidth**2)
        else:
            np.sqrt(square, out=square)
            square *= -1 / self.bandwidth
        return np.exp(square, out=square)


@dataclass(frozen=True)
class Fit:
    """The solution of (K + (ridge + jitter) I) a = y, one column per class."""

    coefficients: np.ndarray
    jitter: float  # what had to be added to the diagonal for the factorization to succeed
    pivot: float  # the smallest pivot: about the smallest eigenvalue or more
    norm: float  # of the function in the kernel's space: sqrt(sum over classes of a^T K a)


def fit(kernel: Kernel, X: np.ndarray, targets: np.ndarray, ridge: float = 0.0) -> Fit:
    """Solve the Gram system by Cholesky factorization, with the smallest of `JITTERS` for which it succeeds.

    The norm without ridge is sqrt(y^T K^-1 y). In general a^T K a = a^T y - (ridge + jitter) a^T a.
    """
    n = len(X)
    for jitter in JITTERS:
        triangle = kernel.triangle(X)
        triangle.add_to_diagonal(ridge + jitter)
        if triangle.factor() == 0:
            break
        triangle.panels.clear()  # before the next one is built: two may not fit into memory
    else:
        raise TrueriskError(
            f"the Gram matrix of {n} examples is singular even with {JITTERS[-1]} on its diagonal; use a smaller "
            "bandwidth or remove duplicate examples."
        )
    coefficients = triangle.solve(targets)
    square = float((coefficients * targets).sum() - (ridge + jitter) * (coefficients**2).sum())
    pivot = float(triangle.diagonal().min()) ** 2
    return Fit(coefficients, jitter, pivot, math.sqrt(max(square, 0.0)))


@dataclass(frozen=True)
class Tuned:
    """A kernel and a ridge chosen on held-out examples, and the share of those that they misclassify."""

    kernel: Kernel
    ridge: float
    error: float | None  # None where there was nothing to choose


def tune(
    kernels: Sequence[Kernel], fitted: Labeled, held_out: Labeled, classes: int, ridges: Sequence[float] = ()
) -> Tuned:
    """Choose the kernel without a ridge, then the ridge for this kernel, if there are any ridges to try.

    Each candidate interpolates the examples ``fitted`` and is judged on ``held_out`` (`choose`).
    """
    inputs, labels = fitted
    targets = one_hot(labels, classes)

    def outputs(kernel: Kernel, ridge: float) -> np.ndarray:
        return kernel.apply(held_out[0], inputs, fit(kernel, inputs, targets, ridge).coefficients)

    best, ridge, error = kernels[0], 0.0, None
    if len(kernels) > 1:
        best, error = choose(kernels, lambda kernel: outputs(kernel, 0.0), held_out[1])
    if ridges:
        ridge, error = choose(ridges, lambda value: outputs(best, value), held_out[1])
    return Tuned(best, ridge, error)


def choose(values: Sequence[T], outputs: Callable[[T], np.ndarray], labels: np.ndarray) -> tuple[T, float]:
    """The value whose outputs misclassify the fewest examples, and their share.

    Ties go to the smaller squared error, then to the earlier value.
    """
    scores = []
    for value in values:
        found = outputs(value)
        wrong = float(np.mean(found.argmax(1) != labels))
        scores.append((wrong, float(np.mean((found - one_hot(labels, found.shape[1])) ** 2))))
    best = min(range(len(values)), key=scores.__getitem__)
    return values[best], scores[best][0]


def distance_kernels(name: Literal["gaussian", "laplacian"], X: np.ndarray) -> list[DistanceKernel]:
    """One kernel for each of `MULTIPLES` of the median distance between these examples."""
    unit = median_distance(X)
    return [DistanceKernel(name, multiple * unit) for multiple in MULTIPLES]


def one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
    """Rows of the identity: the regression targets of a classifier."""
    return np.eye(classes)[labels]


def median_distance(X: np.ndarray) -> float:
    """The median Euclidean distance between two of the first `SAMPLE` rows: the unit in which bandwidths are tried."""
    inputs, lengths = _flat(X[:SAMPLE])
    square = _squares(inputs, lengths, inputs, lengths)
    return float(np.sqrt(np.median(square[np.triu_indices(len(inputs), 1)])))


def _flat(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in float64, and their squared lengths."""
    flat = np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float64)
    return flat, np.einsum("ij,ij->i", flat, flat)


def _squares(A: np.ndarray, a: np.ndarray, B: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances from inner products: one matrix product; rounding below zero is cut off."""
    square = A @ B.T
    square *= -2
    square += a[:, None]
    square += b
    return np.maximum(square, 0, out=square)
