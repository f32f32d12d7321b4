"""Fill in a matrix from some of its entries: few factors, a small trace norm, or the least trace norm that fits.

With P the projection on the observed entries and Y the observations:

    `low_rank`      min |P(U V^T - Y)|^2 / 2 + (ridge / 2)(|U|_F^2 + |V|_F^2),  U and V of a given width
    `soft_impute`   min |P(X - Y)|^2 / 2 + penalty |X|_tr
    `least_trace`   min |X|_tr  over all X with A(X) = y

The first problem is not convex where the width is below both sides of the matrix: local minima are abundant (Srebro and
Jaakkola 2003). At full width with a ridge it has the value of the second problem at penalty = ridge, which is convex.
Solutions of the convex problems come with a duality gap: an upper bound on how far their value is from the least one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.nets.matrix_factorization import Array, Entries, Measurements

NO_RIDGE = 1e-9  # of the mean squared observation: makes rows with fewer observations than factors solvable
EVERY = 10  # iterations between two duality gaps


@dataclass(frozen=True)
class Filled:
    """A matrix under a penalty, its trace norm, and its duality gap: the share by which its value may be too large."""

    matrix: Array
    penalty: float
    trace: float
    gap: float


@dataclass(frozen=True)
class Factors:
    """Where alternating least squares ended, for each start."""

    left: Array  # (starts, rows, width)
    right: Array  # (starts, columns, width)
    losses: Array  # (starts,)
    slopes: Array  # norm of the gradient over that of P(Y), for each start: 0 at a stationary point
    sweeps: int

    @property
    def matrices(self) -> Array:
        return np.asarray(self.left @ self.right.transpose(0, 2, 1))


def low_rank(entries: Entries, left: Array, ridge: float = 0.0, sweeps: int = 200, tolerance: float = 1e-6) -> Factors:
    """Alternating least squares from each start (starts, rows, width): the best V for U, the best U for V, and so on.

    It ends when no loss falls by more than ``tolerance`` of itself in a sweep.

    >>> truth = np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0])
    >>> seen = Entries(np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0]]), truth)
    >>> end = low_rank(seen, np.ones((1, 3, 1)))
    >>> bool(np.abs(end.matrices[0] - truth).max() < 1e-3)
    True
    """
    left = np.array(left, dtype=np.float64)
    if left.ndim != 3 or left.shape[1] != len(entries.mask):
        raise TrueriskError(
            f"the starts have the shape {left.shape}, but must have (starts, {len(entries.mask)}, width); reshape them."
        )
    total = float(np.sum(entries.values**2))
    added = ridge + NO_RIDGE * (total / max(float(entries.mask.sum()), 1.0) or 1.0)
    before = np.full(len(left), np.inf)
    for sweep in range(1, sweeps + 1):
        right = _best(entries.mask.T, entries.values.T, left, added)
        left = _best(entries.mask, entries.values, right, added)
        losses = _value(entries, left, right, ridge)
        if sweep > 1 and np.all(before - losses <= tolerance * before):
            break
        before = losses
    residual = entries.residual(left @ right.transpose(0, 2, 1))
    down = residual @ right + ridge * left, residual.transpose(0, 2, 1) @ left + ridge * right
    slopes = np.sqrt(sum((part**2).sum(axis=(1, 2)) for part in down)) / (np.sqrt(total) or 1.0)
    return Factors(left, right, losses, slopes, sweep)


def soft_impute(
    entries: Entries, penalties: Iterable[float], tolerance: float = 1e-4, iterations: int = 500
) -> list[Filled]:
    """The solutions for several penalties, from the largest to the smallest, each from the one before.

    Accelerated proximal gradient descent (Beck and Teboulle 2009) with restarts; its step replaces the missing entries
    by those of the solution so far and soft-thresholds the singular values (soft-impute; Mazumder, Hastie, Tibshirani
    2010). It ends at a relative duality gap of at most ``tolerance``.

    >>> [round(one.trace, 3) for one in soft_impute(Entries(np.eye(2), np.diag([3.0, 1.0])), [2.0, 0.5], 1e-8)]
    [1.0, 3.0]
    """
    found, matrix = [], np.zeros_like(entries.values)
    for penalty in sorted(penalties, reverse=True):
        if not penalty > 0:
            raise TrueriskError(f"a penalty is {penalty:g}, but must be positive; use least_trace for a penalty of 0.")
        matrix, trace, gap = _impute(entries, penalty, matrix, tolerance, iterations)
        found.append(Filled(matrix, penalty, trace, gap))
    return found


def largest_penalty(entries: Entries) -> float:
    """The smallest penalty at which the solution of `soft_impute` is 0: the spectral norm of P(Y)."""
    return float(np.linalg.norm(entries.values, 2))


def least_trace(
    problem: Measurements | Entries, positive: bool = False, tolerance: float = 1e-4, iterations: int = 5000
) -> Filled:
    """The matrix of least trace norm among those that fit all measurements; ``positive``: semidefinite ones.

    Douglas-Rachford splitting between the trace norm and the solutions of A(X) = y. The matrix fits exactly.
    The part of the iterate in the range of the adjoint, scaled to spectral norm 1, is a dual solution: ``gap`` is the
    relative distance of the trace norm from its value. With ``positive``, eigenvalues may be negative by
    as much as the gap.
    """
    affine = _onto(problem)
    point = affine(np.zeros(problem.blank().shape[1:]))
    pace = 0.3 * float(np.linalg.norm(point, 2)) or 1.0
    trace, gap = float("inf"), float("inf")
    for step in range(iterations):
        shrunk = _shrink_symmetric(point, pace) if positive else _shrink(point, pace)[0]
        fitting = affine(2 * shrunk - point)
        point = point + fitting - shrunk
        if step % EVERY == 0 or step == iterations - 1:
            dual = (
                point - shrunk
            ) / pace  # in the range of the adjoint: point - (2 shrunk - old) is normal to A(X) = y
            steepest = np.linalg.eigvalsh((dual + dual.T) / 2)[-1] if positive else np.linalg.norm(dual, 2)
            below = float(np.sum(dual * fitting)) / max(1.0, float(steepest))
            trace = float(np.linalg.svd(fitting, compute_uv=False).sum())
            gap = (trace - below) / max(trace, 1e-300)
            if gap <= tolerance:
                break
    return Filled(fitting, 0.0, trace, gap)


def _best(mask: Array, values: Array, fixed: Array, ridge: float) -> Array:
    """For each start and row: the ridge regression of its observations on the rows of the fixed factor."""
    starts, columns, width = fixed.shape
    squares = (fixed[:, :, :, None] * fixed[:, :, None, :]).reshape(starts, columns, width**2)
    grams = (mask @ squares).reshape(starts, len(mask), width, width) + ridge * np.eye(width)
    return np.asarray(np.linalg.solve(grams, (values @ fixed)[..., None])[..., 0])


def _value(entries: Entries, left: Array, right: Array, ridge: float) -> Array:
    residual = entries.residual(left @ right.transpose(0, 2, 1))
    weight = (left**2).sum(axis=(1, 2)) + (right**2).sum(axis=(1, 2))
    return np.asarray((residual**2).sum(axis=(1, 2)) + ridge * weight) / 2


def _impute(
    entries: Entries, penalty: float, matrix: Array, tolerance: float, iterations: int
) -> tuple[Array, float, float]:
    size = float(np.sum(entries.values**2)) / 2
    ahead, momentum, trace, gap = matrix, 1.0, 0.0, float("inf")
    for step in range(1, iterations + 1):
        new, trace = _shrink(ahead - entries.residual(ahead), penalty)
        if np.sum((ahead - new) * (new - matrix)) > 0:
            momentum = 1.0  # the momentum points uphill
        faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead, matrix, momentum = new + (momentum - 1) / faster * (new - matrix), new, faster
        if step % EVERY == 0 or step == iterations:
            residual = -entries.residual(matrix)
            dual = residual * min(1.0, penalty / (_spectral(residual) or 1.0))
            value = float(np.sum(residual**2)) / 2 + penalty * trace
            below = size - float(np.sum((entries.values - dual) ** 2)) / 2
            gap = (value - below) / (value or 1.0)
            if gap <= tolerance:
                break
    return matrix, trace, gap


def _shrink(matrix: Array, by: float) -> tuple[Array, float]:
    """All singular values lowered by ``by``, at most to 0, from eigenvectors of the smaller Gram matrix; their sum."""
    wide = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    squares, basis = np.linalg.eigh(wide @ wide.T)
    kept = squares > by**2
    values, basis = np.sqrt(squares[kept]), basis[:, kept]
    shrunk = (basis * (1 - by / values)) @ (basis.T @ wide)
    return (shrunk if wide is matrix else shrunk.T), float(np.sum(values - by))


def _shrink_symmetric(matrix: Array, by: float) -> Array:
    """All eigenvalues lowered by ``by``, those below 0 set to 0."""
    values, basis = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((basis * np.maximum(values - by, 0)) @ basis.T)


def _spectral(matrix: Array) -> float:
    wide = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    return float(np.sqrt(max(np.linalg.eigvalsh(wide @ wide.T)[-1], 0.0)))


def _onto(problem: Measurements | Entries):  # type: ignore[no-untyped-def]
    """The projection of a matrix on the solutions of A(X) = y."""
    if isinstance(problem, Entries):
        return lambda matrix: np.where(problem.mask != 0, problem.values, matrix)
    flat = problem.operators.reshape(len(problem.values), -1)
    pseudo = np.linalg.pinv(flat)
    return lambda matrix: matrix - (pseudo @ problem.residual(matrix[None])[0]).reshape(matrix.shape)
