"""The best possible classifier of `moons`, `circles`, and `spirals`: class probabilities from the densities.

An example of `toy` lies at curve_y(t) plus Gaussian noise, with a fair class y and t uniform on [0, 1], so its density
given the class is the mean over t of a Gaussian around curve_y(t), and

    eta(x) = P(y = 1 | x) = q_1(x) / (q_0(x) + q_1(x)),    q_y(x) = int_0^1 exp(-|x - curve_y(t)|^2 / (2 s^2)) dt.

The integral over t is a sum over the middles of `PIECES` equal parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from truerisk.data.toy import SHAPES
from truerisk.errors import TrueriskError

PIECES = 400  # of a curve, each much shorter than the noise of the named datasets
REACH = 6.0  # standard deviations around the curves that a grid covers
CELLS = 600  # places of a grid, in each direction
ROWS = 4000  # of densities held at a time


class ToyRisks(NamedTuple):
    """Error rates in the limit of infinitely many examples."""

    bayes: float  # E[min(eta, 1 - eta)]: no classifier errs less often
    neighbor: float  # E[2 eta (1 - eta)]: the limit of the nearest-neighbor rule


def toy_posterior(name: str, X: np.ndarray, noise: float | None = None) -> np.ndarray:
    """The probability of class 1 at each row of ``X``; None takes the noise of the named dataset.

    >>> toy_posterior("circles", np.array([[0.0, 0.0], [3.0, 0.0]])).round(3).tolist()
    [1.0, 0.0]
    """
    logs = _log_densities(name, np.asarray(X, np.float64), noise)
    return np.asarray(1 / (1 + np.exp(np.clip(logs[:, 0] - logs[:, 1], -700, 700))))


def toy_risks(name: str, noise: float | None = None) -> ToyRisks:
    """Bayes risk and limit of the nearest neighbor, by sums over a grid of the plane.

    A Gaussian is a product over coordinates, so the densities on a grid are a product of two matrices.

    >>> round(toy_risks("moons").bayes, 3)
    0.029
    """
    curve, s = _shape(name, noise)
    t = (np.arange(PIECES) + 0.5) / PIECES
    curves = [curve(t, np.full(PIECES, y)) for y in (0, 1)]
    low, high = (end(np.concatenate(curves), axis=0) for end in (np.min, np.max))
    axes = np.linspace(low - REACH * s, high + REACH * s, CELLS)  # (cells, 2): places along both coordinates
    near = [np.exp(-((axes[:, None] - at) ** 2) / (2 * s**2)) for at in curves]  # (cells, pieces, 2)
    q = np.stack([each[:, :, 0] @ each[:, :, 1].T for each in near])
    total = q.sum(axis=0)
    both = np.divide(2 * q.prod(axis=0), total, out=np.zeros_like(total), where=total > 0)
    return ToyRisks(float(q.min(axis=0).sum() / total.sum()), float(both.sum() / total.sum()))


def _log_densities(name: str, X: np.ndarray, noise: float | None) -> np.ndarray:
    """ln q_y(x) for both classes, shape (rows, 2), up to a constant that both share."""
    curve, s = _shape(name, noise)
    if X.ndim != 2 or X.shape[1] != 2:
        raise TrueriskError(f"inputs of shape {X.shape} are no points of the plane; give rows of 2 numbers.")
    t = (np.arange(PIECES) + 0.5) / PIECES
    found = np.empty((len(X), 2))
    for y in (0, 1):
        at = curve(t, np.full(PIECES, y))
        for start in range(0, len(X), ROWS):
            rows = X[start : start + ROWS]
            exponents = -((rows[:, None] - at) ** 2).sum(axis=2) / (2 * s**2)
            top = exponents.max(axis=1)
            found[start : start + ROWS, y] = top + np.log(np.exp(exponents - top[:, None]).mean(axis=1))
    return found


def _shape(name: str, noise: float | None) -> tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], float]:
    """The curve, and the noise that is meant."""
    if name not in SHAPES:
        raise TrueriskError(f"the toy dataset is {name!r}, but must be {', '.join(SHAPES)}; choose one of these.")
    curve, usual = SHAPES[name]
    s = usual if noise is None else noise
    if not 0 < s < np.inf:
        raise TrueriskError(f"{name}: the noise is {s}, but must be positive and finite; try {usual}.")
    return curve, s
