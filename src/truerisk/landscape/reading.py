"""What a surface says in numbers: how far one can walk until the loss doubles, and where the surface is not convex."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from truerisk.landscape.surface import Surface

FACTOR = 2.0  # of the loss
RATIO = 0.1  # |smallest curvature| over |largest| from which a point counts as not convex
NOISE = 1e-6  # relative second difference that rounding explains
RAYS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # steps (up, across) on the grid


@dataclass(frozen=True)
class Reading:
    """The numbers of one surface.

    ``doubling``: median distance from the network at which the loss reaches twice its value, over eight rays (two on
    a line); infinite where half of the rays end before. ``nearest``: the smallest of these distances. ``nonconvex``:
    share of inner points that are not convex. ``highest``: largest finite loss.
    """

    center: float
    center_error: float
    doubling: float
    nearest: float
    nonconvex: float
    highest: float
    not_finite: int

    def record(self) -> dict[str, Any]:
        """Plain JSON; infinite numbers are null."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def read(surface: Surface) -> Reading:
    """All numbers of a surface."""
    rays = surface.rays or doubling(surface)
    finite = surface.loss[np.isfinite(surface.loss)]
    return Reading(
        surface.center,
        float(surface.error[surface.middle]),
        float(np.median(rays)),
        float(min(rays)),
        nonconvex(surface),
        float(finite.max()) if len(finite) else math.nan,
        surface.not_finite,
    )


def doubling(surface: Surface, level: float | None = None) -> list[float]:
    """Distance to ``level`` (twice the loss at the network) along each ray; infinite if it ends before.

    Between two points of the grid the loss is taken to be linear in the squared distance: for a quadratic bowl around
    the network that is exact. A loss that is not finite is above every level. A loss of 0 cannot double: then NaN.

    >>> x = np.linspace(-1, 1, 5)
    >>> bowl = 0.1 + x[None, :] ** 2 + x[:, None] ** 2
    >>> [round(r, 4) for r in doubling(Surface(x, x, bowl, bowl))][:2]
    [0.3162, 0.3162]
    """
    wanted = FACTOR * surface.center if level is None else level
    rays = [(0, 1), (0, -1)] if surface.is_line else RAYS
    if not wanted > surface.center:
        return [math.nan if level is None else 0.0 for _ in rays]
    return [_along(surface, up, across, wanted) for up, across in rays]


def _along(surface: Surface, up: int, across: int, level: float) -> float:
    i, j = surface.middle
    before, last = 0.0, surface.center
    for step in range(1, (len(surface.x) if across else len(surface.y)) // 2 + 1):
        here = float(surface.loss[i + step * up, j + step * across])
        square = float(surface.x[j + step * across] ** 2 + surface.y[i + step * up] ** 2)
        if not here < level:
            share = (level - last) / (here - last) if math.isfinite(here) else 1.0
            return math.sqrt(before + share * (square - before))
        before, last = square, here
    return math.inf


def curvatures(surface: Surface) -> tuple[np.ndarray, np.ndarray]:
    """(smallest, largest) curvature of the surface at each inner point, from second differences; equal on a line.

    They are eigenvalues of the 2 x 2 Hessian in the plane. A random slice averages the curvatures of the whole space,
    so a negative one shows a direction of negative curvature there; a surface that seems convex proves nothing (Li et
    al. 2018, Section 6).
    """
    with np.errstate(invalid="ignore", over="ignore"):
        L = surface.loss
        dx = surface.x[1] - surface.x[0]
        if surface.is_line:
            second = (L[:, 2:] - 2 * L[:, 1:-1] + L[:, :-2]) / dx**2
            return second, second
        dy = surface.y[1] - surface.y[0]
        inner = L[1:-1, 1:-1]
        xx = (L[1:-1, 2:] - 2 * inner + L[1:-1, :-2]) / dx**2
        yy = (L[2:, 1:-1] - 2 * inner + L[:-2, 1:-1]) / dy**2
        xy = (L[2:, 2:] - L[2:, :-2] - L[:-2, 2:] + L[:-2, :-2]) / (4 * dx * dy)
        middle, half = (xx + yy) / 2, np.hypot((xx - yy) / 2, xy)
    return middle - half, middle + half


def nonconvex(surface: Surface, ratio: float = RATIO) -> float:
    """Share of inner points whose smallest curvature is negative and at least ``ratio`` of the largest in size.

    Differences that rounding explains count as 0. Points next to a loss that is not finite are left out.

    >>> x = np.linspace(-1, 1, 9)
    >>> saddle = 1 + x[None, :] ** 2 - 0.5 * x[:, None] ** 2
    >>> nonconvex(Surface(x, x, saddle, saddle))
    1.0
    """
    low, high = curvatures(surface)
    step = min(float(side[1] - side[0]) for side in (surface.x, surface.y) if len(side) > 1)
    inner = surface.loss if surface.is_line else surface.loss[1:-1]
    size = np.abs(inner[:, 1:-1]) / step**2
    known = np.isfinite(low) & np.isfinite(high)
    if not known.any():
        return math.nan
    with np.errstate(invalid="ignore"):
        bent = (low < -NOISE * size) & (-low >= ratio * np.abs(high))
    return float(bent[known].mean())


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
