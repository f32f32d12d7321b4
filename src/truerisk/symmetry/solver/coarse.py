r"""Move whole groups at once, without reading a matrix.

Adding delta_g to every variable of group g changes tau by one number sigma_b = sum_g B_bg delta_g in block b, so

    F(delta) = N . delta + sum over parts of blocks of  weight total exp(-power sigma_b)

needs only the total of each matrix, which the last reading left behind. Coordinate descent carries a change of
scale from layer to layer, one layer a sweep; this step solves for the scales of all layers together.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from truerisk.symmetry.solver.edges import FloatArray, Problem
from truerisk.symmetry.solver.sums import Sums

_ITERATIONS = 100
_FARTHEST = 5.0  # largest change of a tau in one Newton step: exponentials are no parabolas
_RIDGE = 1e-11  # relative to the diagonal: symmetries that leave F constant make the Hessian singular
_ENOUGH = 1e-17  # relative decrease
_DENSE = 500  # groups up to which a dense solve beats a sparse one


class Coarse:
    """The group problem of one minimization; all but the totals of the matrices stays the same."""

    def __init__(self, sums: Sums) -> None:
        problem = sums.problem
        self.sums = sums
        self.slope = np.bincount(problem.labels, problem.slope, minlength=problem.group_count)
        self.rows, self.cols = (_incidence(problem, side) for side in (0, 1))
        self.parts = [(number, layer, part) for number, layer in enumerate(sums.layers) for part in layer.parts]
        self.power = np.array([part.power for _, _, part in self.parts])
        self.matrix = sparse.csr_array(self.rows + self.cols)[[number for number, _, _ in self.parts]]
        # For the Hessian sum_p curvature_p B_p B_p': all pairs of entries of each row of the matrix.
        starts, groups, coefs = self.matrix.indptr, self.matrix.indices, self.matrix.data
        spans = [np.arange(a, b) for a, b in pairwise(starts)]
        left = np.concatenate([np.repeat(span, len(span)) for span in spans] or [np.zeros(0, int)])
        right = np.concatenate([np.tile(span, len(span)) for span in spans] or [np.zeros(0, int)])
        self.pair = np.repeat(np.arange(len(spans)), [len(span) ** 2 for span in spans])
        self.product = coefs[left] * coefs[right]
        self.place = groups[left].astype(np.int64) * len(self.slope) + groups[right]

    def correct(self) -> None:
        """Move to the best point that shifts of groups reach; never to a worse one."""
        delta = self._solve()
        if not delta.any():
            return
        self.sums.t += delta[self.sums.problem.labels]
        for layer, row, col in zip(self.sums.layers, self.rows @ delta, self.cols @ delta, strict=True):
            if row or col:
                self.sums.shift(layer, row, col)

    def _solve(self) -> FloatArray:
        """Newton's method with backtracking."""
        matrix, power = self.matrix, self.power
        start = np.array([part.weight * self.sums.total(layer, part) for _, layer, part in self.parts])
        delta, terms = np.zeros(len(self.slope)), start
        for _ in range(_ITERATIONS):
            gradient = self.slope - matrix.T @ (power * terms)
            # Concave terms are left out of the curvature, which keeps it positive.
            step = self._newton_step(power**2 * np.maximum(terms, 0.0), gradient)
            decrease = -float(gradient @ step)
            if not decrease > _ENOUGH * np.abs(terms).sum():
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

    def _newton_step(self, curvature: FloatArray, gradient: FloatArray) -> FloatArray:
        """Groups without any curvature stay where they are."""
        size, values = len(gradient), self.product * curvature[self.pair]
        on = self.place % (size + 1) == 0
        diagonal = np.bincount(self.place[on] // (size + 1), values[on], minlength=size)
        ridge = np.where(diagonal > 0.0, _RIDGE * diagonal, 1.0)
        if size <= _DENSE:
            hessian = np.bincount(self.place, values, minlength=size * size).reshape(size, size)
            step = -np.linalg.solve(hessian + np.diag(ridge), gradient)
        else:
            hessian = sparse.csc_array((values, divmod(self.place, size)), shape=(size, size))
            step = -splu(sparse.csc_array(hessian + sparse.diags_array(ridge))).solve(gradient)
        return np.where(diagonal > 0.0, step, 0.0)


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
