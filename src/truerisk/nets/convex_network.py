"""Infinitely wide two-layer ReLU networks with weight decay, solved as a convex problem with a certified gap.

A network of H hidden units on inputs x with a constant 1 appended, f(x) = sum_j u_j max(<v_j, (x, 1)>, 0), trained with

    (1/2n) sum_i (f(x_i) - y_i)^2 + (r/2) sum_j (u_j^2 + |v_j|^2).

Scaling u_j up and v_j down leaves f alone; the penalty of a unit is least where |u_j| = |v_j|: then it is r |u_j||v_j|.
So the smallest value over all widths is that of a convex problem over signed combinations of units of norm 1,

    min over c, unit w:  (1/2n) sum_i (f(x_i) - y_i)^2 + r sum_k |c_k|,   f(x) = sum_k c_k max(<w_k, (x, 1)>, 0)

(Neyshabur, Tomioka, Srebro 2015; Bengio et al. 2006; Bach 2017). Some solution has at most n + 1 units (Rosset et al.
2007), so networks of that width already reach it. Its dual is

    max over z:  <z, y> - (n/2)|z|^2   such that   |sum_i z_i max(<w, (x_i, 1)>, 0)| <= r  for all unit w.

Any z that meets the constraint bounds the value of every network of every width from below. To know that it does, the
largest correlation over all w must be exact: `steepest` finds it for inputs of one or two coordinates by going through
all cells that the examples cut the sphere into.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from truerisk.errors import TrueriskError

ROUNDS = 200
NEW = 50  # units added in a round
SAME = 1e-12  # squared distance of two directions that count as one


@dataclass(frozen=True)
class ConvexNetwork:
    """A solution: units of norm 1 with coefficients, its objective, and a lower bound on that of every network."""

    directions: np.ndarray  # (units, d + 1), of norm 1
    coefficients: np.ndarray
    objective: float
    bound: float  # certified: no network of any width is below
    penalty: float

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(np.maximum(extended(X) @ self.directions.T, 0) @ self.coefficients)

    @property
    def norm(self) -> float:
        """The sum of |c_k|: the variation norm of the function."""
        return float(np.abs(self.coefficients).sum())

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """The balanced network with these units: hidden weights (units, d + 1) and outer weights, |u_j| = |v_j|."""
        roots = np.sqrt(np.abs(self.coefficients))
        return roots[:, None] * self.directions, roots * np.sign(self.coefficients)


def extended(X: np.ndarray) -> np.ndarray:
    """Inputs as rows with a constant 1 appended: the bias of a unit is one of its weights."""
    flat = np.asarray(X, np.float64).reshape(len(X), -1)
    return np.column_stack([flat, np.ones(len(flat))])


def objective(X: np.ndarray, y: np.ndarray, hidden: np.ndarray, outer: np.ndarray, penalty: float) -> float:
    """The objective of a network with hidden weights (H, d + 1) and outer weights (H,)."""
    residual = np.maximum(extended(X) @ hidden.T, 0) @ outer - y
    return float(residual @ residual / (2 * len(y)) + penalty / 2 * (np.sum(hidden**2) + np.sum(outer**2)))


def solve_convex(X: np.ndarray, y: np.ndarray, penalty: float, gap: float = 1e-6) -> ConvexNetwork:
    """Solve the convex problem by column generation until objective <= (1 + gap) bound, or for 200 rounds.

    Each round solves the problem over the units at hand exactly, then adds units whose correlation with the residual
    exceeds the penalty. Objective and bound are true however far it gets; with penalties so small that the residual is
    hardly more than rounding, it does not get far.

    >>> found = solve_convex(np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, 0.0, 1.0]), penalty=0.01)
    >>> bool(found.objective <= (1 + 1e-6) * found.bound), found(np.array([[1.0]])).round(1).tolist()
    (True, [1.0])
    """
    y, n = np.asarray(y, np.float64), len(y)
    rows = extended(X)
    if (
        rows.shape[1] not in (2, 3)
        or y.shape != (len(rows),)
        or not n
        or not 0 < penalty < math.inf
        or not (np.isfinite(rows).all() and np.isfinite(y).all())
    ):
        raise TrueriskError(
            f"inputs have shape {np.shape(X)}, targets {np.shape(y)}, the penalty is {penalty:g}; give finite inputs "
            "of one or two coordinates, a finite target each, and a positive penalty."
        )
    units = np.empty((0, rows.shape[1]))
    best, bound = (math.inf, units, np.empty(0)), -math.inf
    coefficients, residual = np.empty(0), y / n
    for _ in range(ROUNDS):
        value = n * float(residual @ residual) / 2 + penalty * float(np.abs(coefficients).sum())
        best = min(best, (value, units, coefficients), key=lambda one: one[0])
        candidates, sizes = steepest(rows, residual)
        scale = min(1.0, penalty / sizes[0]) if sizes[0] > 0 else 1.0
        bound = max(bound, scale * float(residual @ y) - n * scale**2 * float(residual @ residual) / 2)
        if best[0] <= (1 + gap) * bound:
            break
        kept = units[np.abs(coefficients) > 0]
        units = _different(np.concatenate([kept, candidates[sizes > penalty][:NEW]]))
        coefficients = _restricted(np.maximum(rows @ units.T, 0), y, penalty)
        if not np.isfinite(coefficients).all():  # the penalty is lost in rounding: no further round would be better
            break
        residual = (y - np.maximum(rows @ units.T, 0) @ coefficients) / n
    value, units, coefficients = best
    used = np.abs(coefficients) > 0
    return ConvexNetwork(units[used], coefficients[used], value, float(min(bound, value)), penalty)


def steepest(rows: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit directions w and |sum_i z_i max(<w, x_i>, 0)|, the largest over all w first.

    The hyperplanes <w, x_i> = 0 cut the sphere into cells. Within one, with active examples S, the sum is <w, g> for
    g = sum over S of z_i x_i: its largest absolute value is at g/|g| or -g/|g| if that lies inside, else on the border,
    which is a problem with one dimension less. All these candidates are evaluated.
    """
    found = [_within_plane(rows, residual)] if rows.shape[1] == 2 else _within_space(rows, residual)
    directions = np.concatenate(found)
    sizes = np.concatenate([np.abs(np.maximum(some @ rows.T, 0) @ residual) for some in found])
    order = np.argsort(-sizes, kind="stable")
    return directions[order], sizes[order]


def _within_plane(rows: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Candidates on a circle: borders of all arcs, and the stationary points of all arcs."""
    rows, residual = rows[np.any(rows != 0, axis=1)], residual[np.any(rows != 0, axis=1)]
    normals = np.arctan2(rows[:, 0], -rows[:, 1])
    angles = np.unique(np.concatenate([normals, normals + np.pi]) % (2 * np.pi))
    if not len(angles):
        return np.eye(2)
    middles = (angles + np.append(angles[1:], angles[0] + 2 * np.pi)) / 2
    active = _circle(middles) @ rows.T > 0
    inner = _unit(active @ (residual[:, None] * rows))
    return np.concatenate([_circle(angles), inner, -inner])


def _within_space(rows: np.ndarray, residual: np.ndarray) -> list[np.ndarray]:
    """Candidates on a sphere: on each great circle <w, x_i> = 0, and the stationary points of the cells next to it."""
    found = []
    for row in rows:
        size = np.linalg.norm(row)
        if size == 0:
            continue
        plane = np.linalg.svd(row[None] / size)[2][1:]  # two orthonormal directions of the great circle
        others = rows @ plane.T
        others[np.abs(others).max(axis=1) <= 1e-12 * np.linalg.norm(rows, axis=1)] = 0  # parallel to this one
        found.append(_within_plane(others, residual) @ plane)
        normals = np.arctan2(others[:, 0], -others[:, 1])[np.any(others != 0, axis=1)]
        angles = np.unique(np.concatenate([normals, normals + np.pi]) % (2 * np.pi))
        if not len(angles):
            found.append(np.array([row, -row]) / size)
            continue
        middles = _circle((angles + np.append(angles[1:], angles[0] + 2 * np.pi)) / 2)
        active = middles @ others.T > 0
        along = np.sign(rows @ row) * np.all(others == 0, axis=1)  # active on one side of the circle only
        for side in (1, -1):
            inner = _unit((active | (side * along > 0)) @ (residual[:, None] * rows))
            found += [inner, -inner]
    return found or [np.eye(3)]


def _restricted(features: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """The coefficients that minimize |F c - y|^2 / (2n) + penalty |c|_1: exactly, as least-distance programming.

    The dual point nearest to y/n among |F' z| <= penalty is found by non-negative least squares (Lawson and Hanson).
    """
    n, units = features.shape
    both = np.concatenate([features, -features], axis=1)
    levels = both.T @ y / n - penalty
    if levels.max() <= 0:
        return np.zeros(units)
    system = np.concatenate([-both, levels[None] / penalty])
    goal = np.append(np.zeros(n), 1.0)
    multipliers = nnls(system, goal, maxiter=100 * units)[0]
    rest = system @ multipliers - goal
    if not rest[-1] < 0:
        return np.full(units, math.nan)
    parts = n * penalty * multipliers / -rest[-1]
    return np.asarray(parts[:units] - parts[units:])


def _different(directions: np.ndarray) -> np.ndarray:
    """The directions without repetitions."""
    kept: list[np.ndarray] = []
    for one in directions:
        if all(float((one - other) @ (one - other)) > SAME for other in kept):
            kept.append(one)
    return np.array(kept).reshape(-1, directions.shape[1])


def _circle(angles: np.ndarray) -> np.ndarray:
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _unit(vectors: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray((vectors / np.where(sizes > 0, sizes, 1))[sizes[:, 0] > 0])
