r"""Row and column sums of the scaled matrices of a problem, read as rarely as possible.

All that the solver needs to know about a matrix x (an `a` with power p = 2, or a `c` with p = 1) are the sums of
x exp(-p tau) over each of its rows and over each of its columns,

    row_i = exp(-p r_i) sum_j x_ij exp(-p c_j),        col_j = exp(-p c_j) sum_i x_ij exp(-p r_i).

Each costs one product of x with a vector. A change of r multiplies the row sums but makes the column sums
unknown, and the other way round; adding one number to a whole side multiplies both. So sums are kept until a
change really outdates them. Reading every matrix once is called a pass, and `passes` counts them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from truerisk.symmetry.solver.edges import Block, FloatArray, Problem


@dataclass
class Part:
    """One matrix of a block: its contribution to F is  weight * sum of x exp(-power tau)."""

    x: FloatArray
    power: float
    weight: float
    sums: list[FloatArray | None] = field(default_factory=lambda: [None, None])  # of rows, of columns


@dataclass
class Layer:
    """A block at the current point: log-scales of its rows and columns, and the matrices that they scale."""

    block: Block
    scales: list[FloatArray]  # [B, R] and [B, C]
    parts: list[Part]  # the one of `a` comes first
    first: int = 0  # the side to read when any will do
    least: float | None = None  # of the entries of `a` that are not 0, once it was asked for


class Sums:
    """The current point `t` of a minimization, and all sums that are known there."""

    def __init__(self, problem: Problem, split: frozenset[int] = frozenset()) -> None:
        """Start at t = 0. `split` numbers the blocks whose cross terms are needed apart by sign."""
        self.problem = problem
        self.t = np.zeros(problem.dim)
        self.passes = 0.0
        self._size = float(sum(b.a.size + (0 if b.c is None else b.c.size) for b in problem.blocks))
        self.layers = []
        for number, block in enumerate(problem.blocks):
            batch, height, width = block.a.shape
            scales = [np.zeros((batch, height)), np.zeros((batch, width))]
            self.layers.append(Layer(block, scales, self._parts(block, number in split)))

    def _parts(self, block: Block, split: bool) -> list[Part]:
        parts = [Part(block.a, 2.0, 0.5)]
        if block.c is not None:
            self._count(block.c)
            crossed = bool(block.c.any())
            if crossed and split:
                for sign in (1.0, -1.0):
                    self._count(block.c)
                    parts.append(Part(np.maximum(sign * block.c, 0.0), 1.0, -sign))
            elif crossed:
                parts.append(Part(block.c, 1.0, -1.0))
        return parts

    def _count(self, x: FloatArray) -> None:
        self.passes += x.size / self._size

    @property
    def centred(self) -> bool:
        """Whether all cross terms vanish, which makes F convex."""
        return all(len(layer.parts) == 1 for layer in self.layers)

    def of(self, layer: Layer, part: Part, side: int) -> FloatArray:
        """Sums of rows (side 0, shape [B, R]) or columns (side 1, shape [B, C]), read if unknown."""
        known = part.sums[side]
        if known is None:
            self._count(part.x)
            known = part.sums[side] = _read(part, layer.scales, side)
        return known

    def total(self, layer: Layer, part: Part) -> float:
        known = part.sums[1 - layer.first]
        return float((self.of(layer, part, layer.first) if known is None else known).sum())

    def lightest(self, layer: Layer) -> float:
        """A lower bound on a exp(-2 tau) over the edges of a block with a > 0; at least the smallest float."""
        if layer.least is None:
            self._count(layer.block.a)
            layer.least = float(layer.block.a.min(initial=math.inf))
            if layer.least == 0.0:
                layer.least = float(layer.block.a.min(initial=math.inf, where=layer.block.a > 0.0))
        highest = sum(float(scale.max(initial=-math.inf)) for scale in layer.scales)
        return max(layer.least * math.exp(min(-2.0 * highest, 700.0)), 1e-300)

    def value(self) -> float:
        """F(t)."""
        parts = sum(part.weight * self.total(layer, part) for layer in self.layers for part in layer.parts)
        return float(self.problem.slope @ self.t) + parts

    def jump(self, t: FloatArray) -> None:
        """Go to any other point."""
        self.t = t.copy()
        for layer in self.layers:
            changes: list[FloatArray | None] = [None, None]
            for side, terms in enumerate(layer.block.sides):
                if terms:
                    change = sum(coef * t[index] for coef, index in terms) - layer.scales[side]
                    changes[side] = change if change.any() else None
            self.move(layer, changes)

    def move(self, layer: Layer, changes: list[FloatArray | None]) -> None:
        """Change the log-scales of the rows and of the columns of one block; None is no change."""
        for side, change in enumerate(changes):
            if change is None:
                continue
            layer.scales[side] += change
            for part in layer.parts:
                part.sums[1 - side] = None
                own = part.sums[side]
                if own is not None:
                    own *= np.exp(-part.power * change)

    def shift(self, layer: Layer, rows: float, cols: float) -> None:
        """Add one number to all rows and one to all columns, which outdates no sum."""
        layer.scales[0] += rows
        layer.scales[1] += cols
        for part in layer.parts:
            for known in part.sums:
                if known is not None:
                    known *= np.exp(-part.power * (rows + cols))


def _read(part: Part, scales: list[FloatArray], side: int) -> FloatArray:
    """One product of the matrix with the factors of its other side."""
    other = scales[1 - side]
    # The largest factor becomes 1: none overflows, however far the scales have gone.
    base = float(other.min()) if other.size else 0.0
    factor = np.exp(-part.power * (other - base))
    if part.x.shape[1:] == (1, 1):
        product = part.x[:, :, 0] * factor  # thousands of products of 1 x 1 matrices would take their time
    elif side == 0:
        product = np.matmul(part.x, factor[:, :, None])[:, :, 0]
    else:
        product = np.matmul(factor[:, None, :], part.x)[:, 0, :]
    return np.exp(-part.power * (scales[side] + base)) * product
