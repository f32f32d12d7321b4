"""Matrices learned as a product of two factors: gradient descent on X = U V^T or X = U U^T, many starts at once.

Linear measurements y = A(X) of an unknown matrix leave many X that fit. Descent on the factors minimizes

    f(U, V) = |A(U V^T) - y|^2 / 2 + (decay / 2) (|U|_F^2 + |V|_F^2),        f(U) = |A(U U^T) - y|^2 / 2.

Full factors can represent every matrix, so without decay only the start and the path choose among the solutions.
Gunasekar et al. (2017) conjecture that descent in small steps from a start near 0 ends at the solution of smallest
trace norm (the sum of singular values), and prove it for U U^T where the measurements commute. With decay, the least
sum of squares of the factors is the trace norm itself (Srebro, Rennie, Jaakkola 2005):

    |W|_tr = min over W = U V^T of (|U|_F^2 + |V|_F^2) / 2.

All arrays of factors have a leading axis of starts, and every start has a step size of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from truerisk.errors import TrueriskError

Array = np.ndarray
GROWTH, ENOUGH = 1.1, 0.5  # a step is tried 10% longer than the last; it must keep half of the promised decrease
ROUNDING = 1e-15  # of the loss at the start


class Problem(Protocol):
    """Linear measurements of a matrix: what `descend` needs of them."""

    def residual(self, matrices: Array) -> Array:
        """A(X) - y for each of several matrices (starts, rows, columns)."""

    def matrix(self, residuals: Array) -> Array:
        """The adjoint of A: one matrix for each residual."""

    def blank(self) -> Array:
        """The matrix of zeros, with a leading axis of 1."""


@dataclass(frozen=True)
class Measurements:
    """y_i = <A_i, X>: ``operators`` is (m, rows, columns), ``values`` is (m,)."""

    operators: Array
    values: Array

    def __post_init__(self) -> None:
        if self.operators.ndim != 3 or self.values.shape != self.operators.shape[:1]:
            raise TrueriskError(
                f"operators have the shape {self.operators.shape} and values {self.values.shape}, but must have "
                "(m, rows, columns) and (m,); reshape them."
            )

    def residual(self, matrices: Array) -> Array:
        flat = self.operators.reshape(len(self.values), -1)
        return np.asarray(matrices.reshape(len(matrices), -1) @ flat.T - self.values)

    def matrix(self, residuals: Array) -> Array:
        flat = self.operators.reshape(len(self.values), -1)
        return np.asarray(residuals @ flat).reshape(len(residuals), *self.operators.shape[1:])

    def blank(self) -> Array:
        return np.zeros((1, *self.operators.shape[1:]))


@dataclass(frozen=True)
class Entries:
    """Observed entries of a matrix: ``mask`` is 1 where ``values`` was observed and 0 elsewhere."""

    mask: Array
    values: Array

    def __post_init__(self) -> None:
        if self.mask.shape != self.values.shape or self.mask.ndim != 2:
            raise TrueriskError(
                f"mask and values have the shapes {self.mask.shape} and {self.values.shape}, but must be matrices of "
                "one shape; reshape them."
            )
        if not np.isfinite(self.values[self.mask != 0]).all():
            raise TrueriskError("an observed value is not a finite number; set its mask to 0.")
        object.__setattr__(self, "mask", (self.mask != 0).astype(np.float64))
        object.__setattr__(self, "values", np.where(self.mask != 0, self.values, 0.0).astype(np.float64))

    def residual(self, matrices: Array) -> Array:
        return np.asarray(self.mask * matrices - self.values)

    def matrix(self, residuals: Array) -> Array:
        return residuals

    def blank(self) -> Array:
        return np.zeros((1, *self.mask.shape))


def random_measurements(target: Array, count: int, seed: int, commuting: bool = False) -> Measurements:
    """``count`` Gaussian measurements of a symmetric matrix, divided by sqrt(count), so that E|A(X)|^2 = |X|_F^2.

    Commuting measurements have random eigenvalues and share one random basis of eigenvectors.
    """
    if target.ndim != 2 or len(target) != len(target.T) or count < 1:
        raise TrueriskError(
            f"the target has the shape {target.shape} and count is {count}; give a square matrix and a positive count."
        )
    rng, size = np.random.default_rng(seed), len(target)
    if commuting:
        basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
        operators = np.einsum("ab,mb,cb->mac", basis, rng.standard_normal((count, size)), basis)
    else:
        drawn = rng.standard_normal((count, size, size))
        operators = (drawn + drawn.transpose(0, 2, 1)) / 2
    operators /= np.sqrt(count)
    return Measurements(operators, np.einsum("mij,ij->m", operators, target))


@dataclass(frozen=True)
class Descent:
    """Where gradient descent ended, for each start."""

    left: Array  # (starts, rows, width)
    right: Array  # (starts, columns, width); equal to ``left`` for U U^T
    losses: Array  # (starts,)
    misfit: Array  # |A(X) - y| / |y|
    steps: Array  # until the misfit fell below the tolerance, or the limit

    @property
    def matrices(self) -> Array:
        return np.asarray(self.left @ self.right.transpose(0, 2, 1))


def descend(
    problem: Problem,
    left: Array,
    right: Array | None = None,
    *,
    steps: int = 20_000,
    rate: float | None = None,
    tolerance: float = 1e-6,
    decay: float = 0.0,
    watch: Callable[[int, Array], None] | None = None,
) -> Descent:
    """Gradient descent on the factors from each start; without ``right`` on U U^T, where operators are symmetrized.

    The step size of each start grows by 10% after a step and is halved where a step lowers the loss by less than half
    of what its gradient promises, so the loss never rises. It never exceeds ``rate`` (default: 1/4 over the spectral
    norm of the adjoint at y), because the bias of descent is that of small steps. ``watch`` gets the number of the step
    and all matrices, before every step and at the end.

    >>> truth = np.outer([1.0, 2.0, 0.0], [1.0, 2.0, 0.0]) / 5
    >>> problem = random_measurements(truth, 6, seed=0)  # as many as a symmetric 3 x 3 matrix has entries
    >>> end = descend(problem, 1e-2 * np.eye(3)[None])
    >>> bool(np.abs(end.matrices[0] - truth).max() < 1e-3)
    True
    """
    symmetric = right is None
    left = np.array(left, dtype=np.float64)
    right = left if right is None else np.array(right, dtype=np.float64)
    origin = problem.residual(problem.blank())
    size = float(np.sqrt(np.sum(origin**2))) or 1.0
    slope = float(np.linalg.norm(problem.matrix(origin)[0], 2)) or 1.0
    limit = 0.25 / slope if rate is None else rate
    if not (limit > 0 and steps >= 0 and decay >= 0):
        raise TrueriskError(
            f"rate, steps, and decay are {limit:g}, {steps}, and {decay:g}; make rate positive and none negative."
        )
    starts = len(left)
    rates, ends = np.full(starts, limit), np.full(starts, steps)
    residuals = problem.residual(_product(left, right))
    losses = _loss(residuals, left, right, symmetric, decay)
    slack = ROUNDING * np.abs(losses)
    active = np.arange(starts)
    for step in range(steps):
        misfit = np.sqrt(_squares(residuals[active])) / size
        ends[active[misfit <= tolerance]] = step
        active = active[misfit > tolerance]
        if watch is not None:
            watch(step, _product(left, right))
        if not len(active):
            break
        u, v, r = left[active], right[active], residuals[active]
        down_u, down_v = _gradients(problem.matrix(r), u, v, symmetric, decay)
        promised = _squares(down_u) + (0 if symmetric else _squares(down_v))
        pace = rates[active][:, None, None]
        new_u = u - pace * down_u
        new_v = new_u if symmetric else v - pace * down_v
        new_r = problem.residual(_product(new_u, new_v))
        new = _loss(new_r, new_u, new_v, symmetric, decay)
        good = new <= losses[active] - ENOUGH * rates[active] * promised + slack[active]
        moved = active[good]
        left[moved], residuals[moved], losses[moved] = new_u[good], new_r[good], new[good]
        if not symmetric:
            right[moved] = new_v[good]
        rates[active] = np.where(good, np.minimum(limit, GROWTH * rates[active]), rates[active] / 2)
    if watch is not None:
        watch(steps, _product(left, right))
    return Descent(left, right, losses, np.sqrt(_squares(residuals)) / size, ends)


def scaled_starts(shape: tuple[int, int], scales: Array | list[float], seed: int) -> Array:
    """One Gaussian start at several scales: entries of standard deviation scale / sqrt(width), so |X_0| ~ scale^2."""
    drawn = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[1])
    return np.asarray(np.asarray(scales, dtype=np.float64)[:, None, None] * drawn)


def trace_norm(matrices: Array) -> Array:
    """The sum of singular values of one matrix or of each of several.

    >>> float(trace_norm(np.diag([3.0, -4.0])))
    7.0
    """
    return np.asarray(np.linalg.svd(matrices, compute_uv=False).sum(axis=-1))


def effective_rank(matrices: Array) -> Array:
    """exp of the entropy of the singular values, divided by their sum (Roy and Vetterli 2007); 0 for a matrix of zeros.

    >>> effective_rank(np.stack([np.eye(3), np.diag([1.0, 0.0, 0.0])])).round(6).tolist()
    [3.0, 1.0]
    """
    values = np.linalg.svd(matrices, compute_uv=False)
    total = values.sum(axis=-1, keepdims=True)
    shares = np.divide(values, total, out=np.zeros_like(values), where=total > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.where(total[..., 0] > 0, np.exp(-(shares * logs).sum(axis=-1)), 0.0)


def balanced_factors(matrix: Array) -> tuple[Array, Array]:
    """U = P sqrt(S) and V = Q sqrt(S) for the decomposition P S Q^T: the factors of least sum of squares, 2 |W|_tr.

    >>> U, V = balanced_factors(np.diag([3.0, -4.0]))
    >>> round(float(np.sum(U**2) + np.sum(V**2)) / 2, 9)
    7.0
    """
    p, s, qt = np.linalg.svd(np.asarray(matrix, dtype=np.float64), full_matrices=False)
    return p * np.sqrt(s), qt.T * np.sqrt(s)


def rebalance(left: Array, right: Array, steps: int = 2000, tolerance: float = 1e-10) -> tuple[Array, Array]:
    """Lower (|U|_F^2 + |V|_F^2) / 2 without changing U V^T, by descent along U -> U M, V -> V M^-T.

    The derivative at M = I is the symmetric matrix D = U^T U - V^T V, so a step is M = exp(-rate D / scale). The end is
    where D = 0, a balanced factorization, and the value there is the trace norm.

    >>> U, V = rebalance(np.array([[8.0]]), np.array([[0.5]]))
    >>> round(float(U[0, 0]), 6), round(float(V[0, 0]), 6)
    (2.0, 2.0)
    """
    left, right = np.array(left, dtype=np.float64), np.array(right, dtype=np.float64)
    value, rate = _half(left, right), 1.0
    for _ in range(steps):
        down = left.T @ left - right.T @ right
        scale = float(np.linalg.norm(left, 2) ** 2 + np.linalg.norm(right, 2) ** 2) or 1.0
        if np.abs(down).max() <= tolerance * scale:
            break
        values, basis = np.linalg.eigh(down / scale)
        change = rate * values / 2
        new_left = left @ (basis * np.exp(-change)) @ basis.T
        new_right = right @ (basis * np.exp(change)) @ basis.T
        new = _half(new_left, new_right)
        if new <= value * (1 + ROUNDING):
            left, right, value, rate = new_left, new_right, new, GROWTH * rate
        else:
            rate /= 2
    return left, right


def _half(left: Array, right: Array) -> float:
    return float(np.sum(left**2) + np.sum(right**2)) / 2


def _product(left: Array, right: Array) -> Array:
    return np.asarray(left @ right.transpose(0, 2, 1))


def _squares(arrays: Array) -> Array:
    return np.asarray((arrays.reshape(len(arrays), -1) ** 2).sum(axis=1))


def _loss(residuals: Array, left: Array, right: Array, symmetric: bool, decay: float) -> Array:
    weight = _squares(left) + (0 if symmetric else _squares(right)) if decay else 0.0
    return np.asarray((_squares(residuals) + decay * weight) / 2)


def _gradients(slopes: Array, left: Array, right: Array, symmetric: bool, decay: float) -> tuple[Array, Array]:
    if symmetric:
        down = (slopes + slopes.transpose(0, 2, 1)) @ left + decay * left
        return down, down
    return slopes @ right + decay * left, slopes.transpose(0, 2, 1) @ left + decay * right
