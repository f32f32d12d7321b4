"""Two-layer ReLU networks of any width, trained with weight decay on all examples at once: small, in numpy, float64.

The objective is that of `nets.convex_network`, and the gradient is written out:

    f(x) = sum_j u_j max(<v_j, (x, 1)>, 0),   (1/2n) sum_i (f(x_i) - y_i)^2 + (r/2) sum_j (u_j^2 + |v_j|^2).

At a stationary point |u_j| = |v_j| for every unit: u_j times the derivative in u_j is <v_j, derivative in v_j>, because
the loss does not change when u_j grows as v_j shrinks; so r u_j^2 = r |v_j|^2 (`imbalance` measures how nearly).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.nets.convex_network import extended

MOMENTA = (0.9, 0.999)  # of Adam


@dataclass(frozen=True)
class RegularizedNetwork:
    """A trained network: hidden weights (H, d + 1) with the bias last, and outer weights (H,)."""

    hidden: np.ndarray
    outer: np.ndarray

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(extended(X) @ self.hidden.T, 0) @ self.outer)

    @property
    def norm(self) -> float:
        """The sum of |u_j||v_j|: the least penalty of any network that rescales these units, divided by r."""
        return float(np.linalg.norm(self.hidden, axis=1) @ np.abs(self.outer))

    @property
    def imbalance(self) -> float:
        """The sum of |u_j^2 - |v_j|^2| over that of u_j^2 + |v_j|^2: 0 at a stationary point, at most 1.

        >>> RegularizedNetwork(np.array([[3.0, 4.0]]), np.array([5.0])).imbalance
        0.0
        """
        inner, outer = np.sum(self.hidden**2, axis=1), self.outer**2
        total = float(np.sum(inner + outer))
        return float(np.abs(inner - outer).sum()) / total if total else 0.0


def train_regularized(
    X: np.ndarray, y: np.ndarray, width: int, penalty: float, seed: int, steps: int = 4000, rate: float = 0.02
) -> RegularizedNetwork:
    """Train by Adam on all examples, with a rate that falls to 0 along a cosine, from v ~ N(0, I/(d+1)), u ~ N(0, 1/H).

    Weight decay is part of the gradient, so the minimized function is the objective above.

    >>> network = train_regularized(np.array([[-1.0], [1.0]]), np.array([1.0, 1.0]), 32, 1e-3, seed=0, steps=1000)
    >>> network(np.array([[-1.0], [1.0]])).round(1).tolist()
    [1.0, 1.0]
    """
    rows, y = extended(X), np.asarray(y, np.float64)
    if width < 1 or steps < 1 or len(rows) != len(y) or not penalty >= 0:
        raise TrueriskError(
            f"{len(rows)} inputs, {len(y)} targets, width {width}, {steps} steps, and penalty {penalty:g} were given; "
            "give a target for each input, and numbers that are positive."
        )
    n, p = rows.shape
    rng = np.random.default_rng(seed)
    v, u = rng.standard_normal((width, p)) / np.sqrt(p), rng.standard_normal(width) / np.sqrt(width)
    weights = np.concatenate([v, u[:, None]], axis=1)
    mean, square = np.zeros((2, *weights.shape))
    for step in range(1, steps + 1):
        hidden = rows @ weights[:, :p].T
        active = np.maximum(hidden, 0)
        residual = (active @ weights[:, p] - y) / n
        gradient = penalty * weights
        gradient[:, p] += active.T @ residual
        gradient[:, :p] += ((hidden > 0) * (residual[:, None] * weights[:, p])).T @ rows
        mean += (1 - MOMENTA[0]) * (gradient - mean)
        square += (1 - MOMENTA[1]) * (gradient**2 - square)
        size = rate * (1 + np.cos(np.pi * step / steps)) / 2
        scale = np.sqrt(square / (1 - MOMENTA[1] ** step)) + 1e-12
        weights -= size * mean / (1 - MOMENTA[0] ** step) / scale
    return RegularizedNetwork(weights[:, :p].copy(), weights[:, p].copy())
