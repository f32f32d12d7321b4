r"""Anderson acceleration: extrapolate a sequence of sweeps, without reading a matrix.

A sweep maps a point x to G(x). From the last points the combination with coefficients adding up to 1 is taken whose
combined residual G(x) - x is least in norm, which for an affine G is as good as a Krylov method. The extrapolated
point may be worse; the solver compares and goes back.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from truerisk.symmetry.edges import FloatArray, IntArray

_FARTHEST = 1.0  # a longer extrapolation is not to be trusted


class Anderson:
    """The last few sweeps. Only the variables `chosen` are extrapolated: those that a sweep starts from."""

    def __init__(self, chosen: IntArray, memory: int = 5) -> None:
        self._chosen = chosen
        self._pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=memory + 1)

    def forget(self) -> None:
        self._pairs.clear()

    def extrapolate(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Take note of one sweep and return the point to start the next one from; `after` if there is none better."""
        image, residual = after[self._chosen], (after - before)[self._chosen]
        steps = [(image - x, residual - r) for x, r in self._pairs]
        self._pairs.append((image, residual))
        point = after.copy()
        if steps:
            differences = np.stack([r for _, r in steps], axis=1)
            # Old residuals are far larger than the last one: columns of one length keep the fit well conditioned.
            lengths = np.maximum(np.linalg.norm(differences, axis=0), 1e-300)
            fit = np.linalg.lstsq(differences / lengths, residual, rcond=1e-10)[0] / lengths
            change = -sum(share * x for share, (x, _) in zip(fit, steps, strict=True))
            if np.abs(change).max(initial=0.0) <= _FARTHEST:
                point[self._chosen] += change
        return point
