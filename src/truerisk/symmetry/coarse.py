r"""Move whole groups at once, without reading a matrix.

Adding delta_g to every variable of group g changes tau by one number sigma_b = sum_g B_bg delta_g in block b, so

    F(delta) = N . delta + sum over parts of blocks of  weight total exp(-power sigma_b)

needs only the total of each matrix, which the last reading left behind. Coordinate descent carries a change of
scale from layer to layer, one layer a sweep; this step solves for the scales of all layers together.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from truerisk.symmetry.edges import FloatArray, Problem
from truerisk.symmetry.sums import Sums

_ITERATIONS = 100
_FARTHEST = 5.0  # largest change of a tau in one Newton step: exponentials are no parabolas
_RIDGE = 1e-13  # relative to the diagonal: symmetries that leave F constant make the Hessian singular
_ENOUGH = 1e-17  # relative decrease


class Coarse:
    """The shape of the group problem, which stays the same during a minimization."""

    def __init__(self, problem: Problem) -> None:
        self.labels = problem.labels
        self.slope = np.bincount(problem.labels, problem.slope, minlength=problem.group_count)
        self.rows, self.cols = (_incidence(problem, side) for side in (0, 1))
        self.both = sparse.csr_array(self.rows + self.cols)

    def correct(self, sums: Sums) -> None:
        """Move `sums` to the best point that shifts of groups reach; never to a worse one."""
        delta = self._solve(sums)
        if not delta.any():
            return
        sums.t += delta[self.labels]
        for layer, row, col in zip(sums.layers, self.rows @ delta, self.cols @ delta, strict=True):
            if row or col:
                sums.shift(layer, row, col)

    def _solve(self, sums: Sums) -> FloatArray:
        """Newton's method with backtracking."""
        parts = [(number, layer, part) for number, layer in enumerate(sums.layers) for part in layer.parts]
        matrix = self.both[[number for number, _, _ in parts]]
        power = np.array([part.power for _, _, part in parts])
        start = np.array([part.weight * sums.total(layer, part) for _, layer, part in parts])
        delta, terms = np.zeros(len(self.slope)), start
        for _ in range(_ITERATIONS):
            gradient = self.slope - matrix.T @ (power * terms)
            # Concave terms are left out of the curvature, which keeps it positive.
            step = _newton_step(matrix, power**2 * np.maximum(terms, 0.0), gradient)
            decrease = -float(gradient @ step)
            if not decrease > _ENOUGH * np.abs(start).sum():
                break
            sigma = matrix @ step
            size = min(1.0, _FARTHEST / max(np.abs(sigma).max(), 1e-300))
            while not size * (self.slope @ step) + terms @ np.expm1(-size * power * sigma) <= -0.25 * size * decrease:
                size *= 0.5
                if size < 1e-6:
                    return delta
            delta += size * step
            terms = start * np.exp(-power * (matrix @ delta))
        return delta


def _incidence(problem: Problem, side: int) -> sparse.csr_array:
    """Return the matrix [blocks, groups] of the coefficients on one side."""
    entries = [
        (coef, number, problem.group(index))
        for number, block in enumerate(problem.blocks)
        for coef, index in block.sides[side]
        if index.size
    ]
    coefs, rows, cols = zip(*entries, strict=True) if entries else ((), (), ())
    shape = (len(problem.blocks), problem.group_count)
    return sparse.csr_array((np.array(coefs, float), (np.array(rows, int), np.array(cols, int))), shape=shape)


def _newton_step(matrix: sparse.csr_array, curvature: FloatArray, gradient: FloatArray) -> FloatArray:
    """Groups without any curvature stay where they are."""
    hessian = matrix.T @ (matrix * curvature[:, None])
    diagonal = hessian.diagonal()
    ridge = np.where(diagonal > 0.0, _RIDGE * diagonal, 1.0)
    step = -splu(sparse.csc_array(hessian + sparse.diags_array(ridge))).solve(gradient)
    return np.where(diagonal > 0.0, step, 0.0)
