"""Least-squares polynomials of any size on [-1, 1]: underfit, overfit, and smooth again beyond as many as points.

A polynomial with N coefficients is f = sum_k c_k p_k, k < N, with Legendre polynomials p_k that are orthonormal on
[-1, 1]. Below n points there is one least-squares fit. From N = n on, many polynomials pass through all points, and the
norm decides which of them is taken. The features are p_k / sqrt((1 + k(k+1))^s), so that the squared norm of their
weights is

    s = 0    sum_k c_k^2                 = int f^2
    s = 1    sum_k (1 + k(k+1)) c_k^2    = int f^2 + (1 - x^2) f'^2

because the p_k are eigenfunctions of Legendre's operator, -((1 - x^2) p_k')' = k(k+1) p_k. With s = 0 the norm is small
for functions near zero, and says nothing about how they wind; with s = 1 it is small for smooth ones. Xie, Chou,
Rauhut, and Ward (2020, arXiv 2006.08495) compare plain and weighted least squares for trigonometric series.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import legvander

from truerisk.errors import TrueriskError
from truerisk.nets.random_features import LeastSquares


@dataclass(frozen=True)
class Polynomial:
    """A fitted polynomial; call it on places in [-1, 1]."""

    weights: np.ndarray  # of the features, of length N
    smoothness: float  # s

    @property
    def norm(self) -> float:
        """The norm that was minimized among all polynomials that fit equally well."""
        return float(np.linalg.norm(self.weights))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(legendre_features(x, len(self.weights), self.smoothness) @ self.weights)


def legendre_features(x: np.ndarray, size: int, smoothness: float) -> np.ndarray:
    """The features p_k(x) / sqrt((1 + k(k+1))^s), shape (points, size).

    >>> legendre_features(np.array([1.0]), 2, smoothness=0)**2  # k + 1/2
    array([[0.5, 1.5]])
    """
    x = np.asarray(x, np.float64)
    if x.ndim != 1 or not len(x) or size < 1 or not smoothness >= 0:
        raise TrueriskError(
            f"places of shape {x.shape}, size {size}, and smoothness {smoothness:g} give no features; "
            "give a list of places, a size of at least 1, and a smoothness of at least 0."
        )
    if not np.abs(x).max() <= 1:
        raise TrueriskError("some places lie outside [-1, 1], where Legendre polynomials explode; rescale the inputs.")
    k = np.arange(size)
    return np.asarray(legvander(x, size - 1) * np.sqrt((k + 0.5) / (1.0 + k * (k + 1)) ** smoothness))


def fit_polynomial(x: np.ndarray, y: np.ndarray, size: int, smoothness: float = 1.0) -> Polynomial:
    """The least-squares polynomial with ``size`` coefficients; of several, the one of least norm.

    >>> line = fit_polynomial(np.array([-1.0, 0.0, 1.0]), np.array([1.0, 2.0, 3.0]), size=2)
    >>> line(np.array([0.5])).round(9)
    array([2.5])
    """
    return Polynomial(LeastSquares(legendre_features(x, size, smoothness), y).least_norm(), smoothness)
