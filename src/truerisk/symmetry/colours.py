r"""One step of block coordinate descent: all variables of one colour at once.

Groups that meet in a block get different colours, so the variables of one colour move nearly independently. An
edge that contains several of them all the same (a layer from a residual stream to itself) moves by
sum_k c_k d_k, and with S = sum_k |c_k| convexity separates it,

    exp(-p sum_k c_k d_k) <= sum_k |c_k|/S exp(-p sign(c_k) S d_k),

with equality at d = 0. A term with a negative sign, -c exp(-tau) with c > 0, lies below its tangent instead.
Minimizing the majorant never increases F. For a single variable in the edge both sides are equal and the step is
the exact minimum over all variables of the colour.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from truerisk.symmetry.edges import FloatArray, IntArray, Problem
from truerisk.symmetry.steps import best_steps
from truerisk.symmetry.sums import Sums


def colours(problem: Problem) -> IntArray:
    """Return the colour of each group label, by greedy colouring in breadth-first order.

    That order gives two colours whenever two are enough.
    """
    size = int(problem.labels.max(initial=-1)) + 1
    neighbours: list[set[int]] = [set() for _ in range(size)]
    for block in problem.blocks:
        present = {int(problem.labels[index.flat[0]]) for _, index in block.rows + block.cols if index.size}
        for group in present:
            neighbours[group] |= present - {group}
    colour = np.full(size, -1)
    for start in range(size):
        queue = [start] if colour[start] < 0 else []
        seen = set(queue)
        for group in queue:
            taken = {int(colour[other]) for other in neighbours[group]}
            colour[group] = next(k for k in range(size) if k not in taken)
            fresh = [other for other in sorted(neighbours[group]) if colour[other] < 0 and other not in seen]
            seen.update(fresh)
            queue.extend(fresh)
    return colour


@dataclass(frozen=True)
class Use:
    """A term of a block whose variables have the colour."""

    layer: int
    side: int
    coef: float
    index: IntArray  # [B, R] or [B, C], numbers within the colour


class Colour:
    """The variables of one colour and where they occur."""

    def __init__(self, problem: Problem, members: IntArray) -> None:
        self.members = members
        self.uses: list[Use] = []
        self.slope = problem.slope[members]
        local = np.full(problem.dim, -1)
        local[members] = np.arange(len(members))
        for number, block in enumerate(problem.blocks):
            for side, terms in enumerate(block.sides):
                for coef, index in terms:
                    if index.size and coef and local[index.flat[0]] >= 0:
                        self.uses.append(Use(number, side, coef, local[index]))
        self.spread: dict[int, float] = defaultdict(float)  # S of each block
        for use in self.uses:
            self.spread[use.layer] += abs(use.coef)
        terms_of = [use.layer for use in self.uses]
        self.shared = frozenset(layer for layer in terms_of if terms_of.count(layer) > 1)

    def update(self, sums: Sums) -> None:
        """Minimize over the colour, or its majorant where edges are shared."""
        slope, weights = self._majorant(sums)
        step = best_steps(slope, weights)
        sums.t[self.members] += step
        changes: dict[int, list[FloatArray | None]] = {}
        for use in self.uses:
            change = changes.setdefault(use.layer, [None, None])
            old, moved = change[use.side], use.coef * step[use.index]
            change[use.side] = moved if old is None else old + moved
        for number, change in changes.items():
            sums.move(sums.layers[number], change)

    def _majorant(self, sums: Sums) -> tuple[FloatArray, dict[float, FloatArray]]:
        """Return the slope and the weight of each exponent, for each variable."""
        parts: dict[float, list[tuple[IntArray, FloatArray]]] = defaultdict(list)
        linear = [(np.arange(len(self.members)), self.slope)]
        for use in self.uses:
            layer = sums.layers[use.layer]
            spread = self.spread[use.layer]
            for part in layer.parts:
                here = part.weight * sums.of(layer, part, use.side).ravel()
                if use.layer in self.shared and part.weight < 0.0:
                    linear.append((use.index.ravel(), -part.power * use.coef * here))
                else:
                    exponent = part.power * np.copysign(spread, use.coef)
                    parts[float(exponent)].append((use.index.ravel(), abs(use.coef) / spread * here))
        return self._gather(linear), {q: self._gather(pairs) for q, pairs in parts.items()}

    def _gather(self, pairs: list[tuple[IntArray, FloatArray]]) -> FloatArray:
        index = np.concatenate([index for index, _ in pairs])
        return np.bincount(index, np.concatenate([w for _, w in pairs]), minlength=len(self.members))
