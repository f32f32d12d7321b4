r"""Anderson acceleration: extrapolate a sequence of sweeps, without reading a matrix.

A sweep maps a point x to G(x). Of the last points that combination with coefficients adding up to 1 is taken whose
combined residual G(x) - x has the least norm; close to the minimum, where G is nearly affine, this squares the
rate at which sweeps alone converge slowly. The point may be worse, so the solver compares, and goes back.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from truerisk.symmetry.solver.edges import FloatArray, IntArray

_MEMORY = 3  # earlier sweeps; more of them gain nothing measurable
_FARTHEST = 1.0  # a longer extrapolation is not to be trusted


class Anderson:
    """The last few sweeps. Only the variables `chosen` are extrapolated: those that a sweep starts from."""

    def __init__(self, chosen: IntArray) -> None:
        self._chosen = chosen
        self._pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=_MEMORY)

    def forget(self) -> None:
        self._pairs.clear()

    def extrapolate(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Note one sweep, and return the point to start the next one from."""
        image, residual = after[self._chosen], (after - before)[self._chosen]
        images = np.array([image - x for x, _ in self._pairs])
        residuals = np.array([residual - r for _, r in self._pairs])
        self._pairs.append((image, residual))
        point = after.copy()
        if len(images):
            # Early residuals are far larger than late ones: rows of one length keep the fit well conditioned.
            lengths = np.maximum(np.linalg.norm(residuals, axis=1, keepdims=True), 1e-300)
            shares = np.linalg.lstsq((residuals / lengths).T, residual, rcond=1e-10)[0]
            change = shares @ (images / lengths)
            if np.abs(change).max(initial=0.0) <= _FARTHEST:
                point[self._chosen] -= change
        return point
