r"""One step of block coordinate descent: all variables of one colour at once.

Groups that meet in a block get different colours, so that the variables of one colour seldom share an edge. An
edge that contains several of them all the same (of a layer from a residual stream to itself) moves by
sum_k c_k d_k, and with S = sum_k |c_k| convexity separates it,

    exp(-p sum_k c_k d_k) <= sum_k |c_k|/S exp(-p sign(c_k) S d_k),

with equality at d = 0. A term with a negative sign, -c exp(-tau) with c > 0, lies below its tangent instead.
Minimizing the majorant never increases F. Without shared edges nothing is lost: the step then leads to the exact
minimum over all variables of the colour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from truerisk.symmetry.solver.edges import FloatArray, IntArray, Problem
from truerisk.symmetry.solver.steps import best_steps
from truerisk.symmetry.solver.sums import Sums


def colour_groups(problem: Problem) -> IntArray:
    """Return the colour of each group label, by greedy colouring in breadth-first order.

    That order gives two colours whenever two are enough.
    """
    size = problem.group_count
    neighbours: list[set[int]] = [set() for _ in range(size)]
    for block in problem.blocks:
        present = {problem.group(index) for _, index in block.rows + block.cols if index.size}
        for group in present:
            neighbours[group] |= present - {group}
    colour = np.full(size, -1)
    for start in range(size):
        queue = [start] if colour[start] < 0 else []
        seen = set(queue)
        for group in queue:
            taken = {int(colour[other]) for other in neighbours[group]}
            colour[group] = next(k for k in range(size) if k not in taken)
            fresh = sorted(neighbours[group] - seen)
            seen.update(fresh)
            queue.extend(fresh)
    return colour


@dataclass(frozen=True)
class Use:
    """A term of a block whose variables have the colour."""

    layer: int
    side: int
    coef: float
    index: IntArray  # [B, R] or [B, C], positions in `members`


class Colour:
    """The variables of one colour, and where they occur."""

    def __init__(self, problem: Problem, members: IntArray) -> None:
        self.members = members
        self.slope = problem.slope[members]
        position = np.full(problem.dim, -1)
        position[members] = np.arange(len(members))
        self.uses = [
            Use(number, side, coef, position[index])
            for number, block in enumerate(problem.blocks)
            for side, terms in enumerate(block.sides)
            for coef, index in terms
            if coef and index.size and position[index.flat[0]] >= 0
        ]
        self.spread: dict[int, float] = defaultdict(float)  # S of each block
        for use in self.uses:
            self.spread[use.layer] += abs(use.coef)
        occurrences = Counter(use.layer for use in self.uses)
        self.shared = frozenset(layer for layer, count in occurrences.items() if count > 1)

    def update(self, sums: Sums) -> None:
        """Minimize over the colour, or its majorant where edges are shared."""
        step = best_steps(*self._majorant(sums))
        sums.t[self.members] += step
        changes: dict[int, list[FloatArray | None]] = {}
        for use in self.uses:
            both = changes.setdefault(use.layer, [None, None])
            old, new = both[use.side], use.coef * step[use.index]
            both[use.side] = new if old is None else old + new
        for number, both in changes.items():
            sums.move(sums.layers[number], both)

    def _majorant(self, sums: Sums) -> tuple[FloatArray, dict[float, FloatArray]]:
        """Return the slope and the weight of each exponent, for each variable."""
        linear = [(np.arange(len(self.members)), self.slope)]
        curved: dict[float, list[tuple[IntArray, FloatArray]]] = defaultdict(list)
        for use in self.uses:
            layer, spread, index = sums.layers[use.layer], self.spread[use.layer], use.index.ravel()
            for part in layer.parts:
                here = part.weight * sums.of(layer, part, use.side).ravel()
                if use.layer in self.shared and part.weight < 0.0:
                    linear.append((index, -part.power * use.coef * here))
                else:
                    exponent = float(np.copysign(part.power * spread, use.coef))
                    curved[exponent].append((index, abs(use.coef) / spread * here))
        return self._gather(linear), {q: self._gather(pairs) for q, pairs in curved.items()}

    def _gather(self, pairs: list[tuple[IntArray, FloatArray]]) -> FloatArray:
        index, values = np.concatenate([index for index, _ in pairs]), np.concatenate([values for _, values in pairs])
        return np.asarray(np.bincount(index, values, minlength=len(self.members)), np.float64)
