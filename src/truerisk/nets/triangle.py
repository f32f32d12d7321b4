"""Symmetric matrices in half the memory, and their Cholesky solves.

Only the lower triangle is held, as panels of some columns each, from the diagonal down: for n = 60,000 that is
14.6 GB where the square would take 28.8 GB. LAPACK has packed formats of its own, but scipy's wrappers of them
compute n(n+1) in 32 bits and so end at n = 46,340. Nearly all the work is in matrix products of whole panels, which
BLAS does in place at full speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from truerisk.errors import TrueriskError

COLUMNS = 512  # of a panel: enough for fast matrix products, little next to the triangle

Block = Callable[[slice, slice], np.ndarray]  # rows and columns of a symmetric matrix


@dataclass(frozen=True)
class Triangle:
    """The lower triangle of a symmetric n x n matrix.

    ``panels[i]`` is a C-contiguous float64 array with the columns of ``spans()[i]`` and all rows from there down. The
    square at its top is held in full.

    >>> triangle = Triangle.of(2, lambda rows, columns: np.array([[4.0, 2.0], [2.0, 5.0]])[rows, columns])
    >>> triangle.factor()
    0
    >>> triangle.solve(np.array([[8.0], [12.0]])).round(12).tolist()
    [[1.0], [2.0]]
    """

    n: int
    panels: list[np.ndarray]

    @classmethod
    def of(cls, n: int, block: Block) -> Triangle:
        """The matrix whose parts ``block(rows, columns)`` computes, one panel at a time."""
        slices = [(slice(s.start, n), s) for s in _spans(n)]
        return cls(n, [np.array(block(rows, columns), dtype=np.float64, order="C") for rows, columns in slices])

    @classmethod
    def zeros(cls, n: int) -> Triangle:
        return cls.of(n, lambda rows, columns: np.zeros((rows.stop - rows.start, columns.stop - columns.start)))

    def spans(self) -> list[slice]:
        """The columns of each panel."""
        return _spans(self.n)

    def diagonal(self) -> np.ndarray:
        return np.concatenate([np.diagonal(panel) for panel in self.panels])

    def add_to_diagonal(self, value: float) -> None:
        for panel in self.panels:
            places = np.arange(panel.shape[1])
            panel[places, places] += value

    def add_outer(self, rows: np.ndarray) -> None:
        """Add ``rows rows^T`` for an array of shape (n, k)."""
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        for span, panel in zip(self.spans(), self.panels, strict=True):
            _add_product(panel, rows[span.start :], rows[span], 1.0)

    def factor(self) -> int:
        """Replace the triangle by its Cholesky factor L, where A = L L^T.

        Returns 0, or the place (from 1) of the first pivot that is not positive: the panels are then useless.
        """
        for i, (span, panel) in enumerate(zip(self.spans(), self.panels, strict=True)):
            width = panel.shape[1]
            top, info = lapack.dpotrf(panel[:width], lower=1, clean=1)
            if info:
                return span.start + int(info)
            panel[:width] = top
            below = panel[width:].T  # column-major: L X = below gives the transposed rest of the panel, in place
            if below.size:
                _in_place(blas.dtrsm(1.0, top, below, lower=1, overwrite_b=1), below)
            for later, other in zip(self.spans()[i + 1 :], self.panels[i + 1 :], strict=True):
                rest = panel[later.start - span.start :]
                _add_product(other, rest, rest[: other.shape[1]], -1.0)
        return 0

    def solve(self, targets: np.ndarray) -> np.ndarray:
        """X with A X = targets (n x k), after `factor`."""
        solution = np.array(targets, dtype=np.float64)
        steps = list(zip(self.spans(), self.panels, strict=True))
        for span, panel in steps:
            width = panel.shape[1]
            solution[span] = blas.dtrsm(1.0, panel[:width], solution[span], lower=1)
            solution[span.stop :] -= panel[width:] @ solution[span]
        for span, panel in reversed(steps):
            width = panel.shape[1]
            rest = solution[span] - panel[width:].T @ solution[span.stop :]
            solution[span] = blas.dtrsm(1.0, panel[:width], rest, lower=1, trans_a=1)
        return solution


def _spans(n: int) -> list[slice]:
    return [slice(start, min(start + COLUMNS, n)) for start in range(0, n, COLUMNS)]


def _add_product(panel: np.ndarray, left: np.ndarray, right: np.ndarray, factor: float) -> None:
    """panel += factor * left right^T, without a copy: transposed, C-contiguous arrays are BLAS's column-major ones."""
    target = panel.T
    _in_place(blas.dgemm(factor, right.T, left.T, beta=1.0, c=target, trans_a=1, overwrite_c=1), target)


def _in_place(done: np.ndarray, target: np.ndarray) -> None:
    """The wrapper may copy instead of overwriting, which would silently leave the target unchanged."""
    if not np.shares_memory(done, target):
        raise TrueriskError("a panel was copied; give contiguous float64 arrays.")
