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
_FARTHEST = 5.0  # largest change of a tau in one Newton step; exponentials are no parabolas beyond
_RIDGE = 1e-13  # relative to the diagonal; groups without curvature get a step of size 0


class Coarse:
    """The shape of the group problem, which stays the same during a minimization."""

    def __init__(self, problem: Problem) -> None:
        self.size = int(problem.labels.max(initial=-1)) + 1
        self.labels = problem.labels
        self.slope = np.bincount(self.labels, problem.slope, minlength=self.size)
        entries = [
            (number, side, coef, int(self.labels[index.flat[0]]))
            for number, block in enumerate(problem.blocks)
            for side, terms in enumerate(block.sides)
            for coef, index in terms
            if index.size
        ]
        shape = (len(problem.blocks), self.size)
        self.sides = [
            sparse.csr_array(
                ([e[2] for e in entries if e[1] == side], _positions(entries, side)), shape=shape, dtype=np.float64
            )
            for side in (0, 1)
        ]
        self.both = sparse.csr_array(self.sides[0] + self.sides[1])

    def correct(self, sums: Sums) -> None:
        """Move `sums` to the best point that shifts of groups reach; never to a worse one."""
        if not self.size:
            return
        delta = self._solve(sums)
        if not delta.any():
            return
        rows, cols = (side @ delta for side in self.sides)
        sums.t += delta[self.labels]
        for layer, row, col in zip(sums.layers, rows, cols, strict=True):
            if row or col:
                sums.shift(layer, row, col)

    def _solve(self, sums: Sums) -> FloatArray:
        parts = [(b, part, sums.total(layer, part)) for b, layer in enumerate(sums.layers) for part in layer.parts]
        matrix = self.both[[b for b, _, _ in parts]]
        power = np.array([part.power for _, part, _ in parts])
        weight = np.array([part.weight * total for _, part, total in parts])
        delta = np.zeros(self.size)
        terms = weight
        for _ in range(_ITERATIONS):
            gradient = self.slope - matrix.T @ (power * terms)
            # Concave terms have no curvature to offer; without them the system is positive.
            curvature = power**2 * np.maximum(terms, 0.0)
            step = _newton_step(matrix, curvature, gradient)
            reach = np.abs(matrix @ step).max(initial=0.0)
            decrement = -float(gradient @ step)
            if not decrement > 1e-17 * np.abs(weight).sum():
                break
            size = min(1.0, _FARTHEST / reach) if reach else 1.0
            while size > 1e-6:
                change = self.slope @ (size * step) + terms @ np.expm1(-power * (matrix @ (size * step)))
                if change <= -0.25 * size * decrement:
                    break
                size *= 0.5
            else:
                break
            delta += size * step
            terms = weight * np.exp(-power * (matrix @ delta))
        return delta


def _positions(entries: list[tuple[int, int, float, int]], side: int) -> tuple[list[int], list[int]]:
    chosen = [(number, group) for number, where, _, group in entries if where == side]
    return [number for number, _ in chosen], [group for _, group in chosen]


def _newton_step(matrix: sparse.csr_array, curvature: FloatArray, gradient: FloatArray) -> FloatArray:
    hessian = matrix.T @ (matrix * curvature[:, None])
    diagonal = hessian.diagonal()
    ridge = np.where(diagonal > 0.0, _RIDGE * diagonal, 1.0)
    step = -splu(sparse.csc_array(hessian + sparse.diags_array(ridge))).solve(gradient)
    return np.where(diagonal > 0.0, step, 0.0)
