"""A network with one hidden layer of tanh units, trained until it passes through every point (float64, no torch).

SGD on the squared error takes very long to follow noise in one dimension, because the tangent kernel of a small network
has tiny eigenvalues. A step of Levenberg and Marquardt solves for all residuals r at once. With the Jacobian J of the
outputs, one row for each of n points,

    step = J^T (J J^T + lambda (tr(J J^T) / n) I)^-1 r,

which is the smallest step of all that fit the linearized problem, up to the damping lambda. It costs one n x n system,
whatever the number of weights. The damping falls after a step that lowers the squared error, and grows until one does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.errors import TrueriskError

STEEPNESS = 6.0  # factor on the first layer's initial weights, uniform on [-1, 1]: how sharply a unit bends
FALL, RISE, MOST = 3.0, 4.0, 1e8  # factors on the damping, and where the search for a step ends


@dataclass(frozen=True)
class TanhNetwork:
    """c + sum_j v_j tanh(<u_j, x> + b_j); call it on inputs (points, d)."""

    inner: np.ndarray  # u, shape (width, d)
    offsets: np.ndarray  # b
    outer: np.ndarray  # v
    constant: float  # c

    @property
    def size(self) -> int:
        """The number of weights."""
        return self.inner.size + 2 * len(self.outer) + 1

    @property
    def norm(self) -> float:
        """The Euclidean norm of all weights."""
        return float(np.sqrt((self.inner**2).sum() + (self.offsets**2).sum() + (self.outer**2).sum()))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(np.tanh(X @ self.inner.T + self.offsets) @ self.outer + self.constant)

    def _jacobian(self, X: np.ndarray) -> np.ndarray:
        units = np.tanh(X @ self.inner.T + self.offsets)
        slopes = (1 - units**2) * self.outer
        inner = (slopes[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        return np.concatenate([inner, slopes, units, np.ones((len(X), 1))], axis=1)

    def _moved(self, step: np.ndarray) -> TanhNetwork:
        ends = np.cumsum([self.inner.size, len(self.outer), len(self.outer)])
        inner, offsets, outer, constant = np.split(step, ends)
        return TanhNetwork(
            self.inner + inner.reshape(self.inner.shape),
            self.offsets + offsets,
            self.outer + outer,
            self.constant + float(constant[0]),
        )


@dataclass(frozen=True)
class Trained:
    """The network, its largest residual on the training points, and the number of steps taken."""

    network: TanhNetwork
    residual: float
    steps: int


def initial_network(inputs: int, width: int, seed: int) -> TanhNetwork:
    """Uniform weights: the first layer on [-6, 6], the second on [-1, 1] / sqrt(width)."""
    if inputs < 1 or width < 1:
        raise TrueriskError(f"inputs and width are {inputs} and {width}, but must be at least 1; raise them.")
    rng = np.random.default_rng(seed)
    first = STEEPNESS * rng.uniform(-1, 1, (width, inputs + 1))
    return TanhNetwork(first[:, 1:], first[:, 0], rng.uniform(-1, 1, width) / np.sqrt(width), 0.0)


def train_exactly(
    X: np.ndarray, y: np.ndarray, width: int, seed: int, tolerance: float = 1e-6, steps: int = 300
) -> Trained:
    """Train until no residual exceeds ``tolerance``, or for so many steps, or until no step lowers the error.

    >>> found = train_exactly(np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, -1.0, 1.0]), width=20, seed=0)
    >>> found.residual <= 1e-6, found.network(np.array([[0.0]])).round(5).tolist()
    (True, [-1.0])
    """
    X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
    if X.ndim != 2 or y.shape != (len(X),) or not len(X):
        raise TrueriskError(
            f"inputs of shape {X.shape} and targets of shape {y.shape} do not match; give rows for each."
        )
    network, damping = initial_network(X.shape[1], width, seed), 1e-3
    residuals = y - network(X)
    for step in range(steps):
        if np.abs(residuals).max() <= tolerance:
            return Trained(network, float(np.abs(residuals).max()), step)
        jacobian = network._jacobian(X)
        gram = jacobian @ jacobian.T
        unit = np.trace(gram) / len(X) * np.eye(len(X))
        while damping <= MOST:
            moved = network._moved(jacobian.T @ np.linalg.solve(gram + damping * unit, residuals))
            left = y - moved(X)
            if left @ left < residuals @ residuals:
                network, residuals, damping = moved, left, damping / FALL
                break
            damping *= RISE
        else:
            break
    return Trained(network, float(np.abs(residuals).max()), steps)
