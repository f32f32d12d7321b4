"""How smooth is a function? Seminorms of values on a grid, in one and two dimensions, and changes of class.

    total variation     int |f'|          sum of all rises and falls; a step counts by its height
    Dirichlet energy    int |grad f|^2    infinite for a step, least for the broken line through given points
    bending energy      int |f''|^2       infinite for a kink, least for the natural cubic spline through given points
                        (in the plane: f_xx^2 + 2 f_xy^2 + f_yy^2, which thin-plate splines minimize)

Values lie on a regular grid, with the same spacing in both directions of a plane. Derivatives are differences of
neighbors, so the two energies approach the integrals as the grid becomes finer, where these exist; for steps and kinks
they grow without limit. Total variation on a grid never exceeds that of the function.

A classifier has no derivative. Its smoothness is the length of its decision boundary, or the number of times that its
answer changes on the way from one example to another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from truerisk.errors import TrueriskError

DIAGONAL = math.sqrt(2)
ROWS = 20_000  # points given to a classifier at a time


def total_variation(values: np.ndarray) -> float:
    """The sum of |f(t_i+1) - f(t_i)|: int |f'| of the broken line through the values, whatever the spacing.

    >>> t = np.linspace(0, 1, 401)
    >>> round(total_variation(np.sin(2 * np.pi * t)), 12), total_variation(t > 0.5)
    (4.0, 1.0)
    """
    return float(np.abs(np.diff(_checked(values, 1, 2))).sum())


def dirichlet_energy(values: np.ndarray, spacing: float) -> float:
    """int |f'|^2, or int |grad f|^2 in the plane; the trapezoidal rule across the direction of each difference.

    >>> t = np.linspace(0, 1, 1001)
    >>> round(dirichlet_energy(np.sin(2 * np.pi * t), 0.001) / (2 * np.pi**2), 4)
    1.0
    >>> round(dirichlet_energy(3 * t[:, None] + 4 * t, 0.001), 9)  # |grad|^2 = 25 on the unit square
    25.0
    """
    f, h = _checked(values, np.ndim(values), 2), _positive(spacing)
    return math.fsum(_sum(np.diff(f, axis=axis) ** 2, axis) for axis in range(f.ndim)) * h ** (f.ndim - 2)


def bending_energy(values: np.ndarray, spacing: float) -> float:
    """int |f''|^2, or int f_xx^2 + 2 f_xy^2 + f_yy^2 in the plane: 0 for what is linear.

    >>> t = np.linspace(-1, 1, 2001)
    >>> round(bending_energy(t**3, 0.001), 3)  # int (6 t)^2 = 24
    24.0
    >>> s = np.linspace(0, 1, 201)
    >>> round(bending_energy(s[:, None] * s, 0.005), 9)  # f_xy = 1 on the unit square
    2.0
    """
    f, h = _checked(values, np.ndim(values), 3), _positive(spacing)
    if f.ndim == 1:
        return _ends(np.diff(f, 2)) * h**-3
    straight = math.fsum(_ends(np.diff(f, 2, axis=axis), axis) for axis in (0, 1))
    return (straight + 2 * float((np.diff(np.diff(f, axis=0), axis=1) ** 2).sum())) * h**-2


def boundary_length(classes: np.ndarray, spacing: float) -> float:
    """Length of the boundaries between classes on a grid of the plane, by Crofton's formula in four directions.

    Each pair of neighbors with different classes, straight or diagonal, is a line that crosses a boundary. The length
    is exact for a circle on a fine grid, and within 5.2% of it for a straight boundary of any direction.

    >>> x = np.linspace(-1, 1, 801)
    >>> round(boundary_length(np.hypot(x[:, None], x) < 0.5, 2 / 800) / np.pi, 2)
    1.0
    """
    c, h = _checked(classes, 2, 2, numbers=False), _positive(spacing)
    straight = np.sum(c[1:] != c[:-1]) + np.sum(c[:, 1:] != c[:, :-1])
    diagonal = np.sum(c[1:, 1:] != c[:-1, :-1]) + np.sum(c[1:, :-1] != c[:-1, 1:])
    return float(np.pi / 8 * h * (straight + diagonal / DIAGONAL))


def class_changes(
    predict: Callable[[np.ndarray], np.ndarray], starts: np.ndarray, ends: np.ndarray, points: int = 50
) -> float:
    """How often the answer of ``predict`` changes on a straight way, on average over ways from starts to ends.

    ``points`` places divide each way evenly, both ends included. ``predict`` gets inputs (places, ...) and returns one
    class for each. A way between two classes has at least one change, and a way within a class may have none.

    >>> class_changes(lambda X: (X[:, 0] > 0).astype(int), np.array([[-1.0], [1.0]]), np.array([[1.0], [2.0]]))
    0.5
    """
    starts, ends = np.asarray(starts), np.asarray(ends)
    if starts.shape != ends.shape or not len(starts) or points < 2:
        raise TrueriskError(
            f"starts have shape {starts.shape}, ends {ends.shape}, with {points} points between; "
            "give as many starts as ends, and at least 2 points."
        )
    shares = np.linspace(0, 1, points).reshape(1, points, *[1] * (starts.ndim - 1))
    changes, each = 0, max(1, ROWS // points)
    for at in range(0, len(starts), each):
        begin, stop = (part[at : at + each, None] for part in (starts, ends))
        places = begin + shares * (stop - begin)
        found = np.asarray(predict(places.reshape(-1, *starts.shape[1:]))).reshape(len(places), points)
        changes += int(np.sum(found[:, 1:] != found[:, :-1]))
    return changes / len(starts)


def _sum(squares: np.ndarray, axis: int) -> float:
    """The sum, where a plane's outermost lines along the difference count half: they bound half a cell only."""
    if squares.ndim == 1:
        return float(squares.sum())
    lines = squares.sum(axis=axis)
    return float(lines.sum() - (lines[0] + lines[-1]) / 2)


def _ends(seconds: np.ndarray, axis: int = 0) -> float:
    """The sum of squares of second differences, in which those next to the ends stand for the ends as well."""
    squares = np.moveaxis(seconds, axis, 0) ** 2
    whole = squares.sum(axis=0) + (squares[0] + squares[-1]) / 2
    return float(whole) if squares.ndim == 1 else float(whole.sum() - (whole[0] + whole[-1]) / 2)


def _checked(values: np.ndarray, axes: int, least: int, numbers: bool = True) -> np.ndarray:
    found = np.asarray(values)
    if found.ndim != axes or axes not in (1, 2) or min(found.shape) < least:
        raise TrueriskError(
            f"values of shape {found.shape} are no grid for this measure; give 1 or 2 axes of at least {least} points."
        )
    if not numbers:
        return found
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        raise TrueriskError("some values on the grid are not finite; evaluate the function where it is.")
    return found


def _positive(spacing: float) -> float:
    if not (spacing > 0 and math.isfinite(spacing)):
        raise TrueriskError(f"the spacing is {spacing:g}, but must be positive; give the distance of grid neighbors.")
    return float(spacing)
