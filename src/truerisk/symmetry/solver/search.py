r"""Minimize the cost of a network's weights over its rescaling group.

A sweep updates one colour of variables after the other (`colours`), then moves whole groups (`coarse`); an
extrapolation (`anderson`) leads to the start of the next sweep. Only updates read matrices: with two colours,
as in a chain of layers, two passes a sweep. The search ends where a certificate (`gap`) says that no point is
better by more than the tolerance. It comes for free with two colours, as the sums that the next update needs are
those that the gradient needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.symmetry.solver.anderson import Anderson
from truerisk.symmetry.solver.coarse import Coarse
from truerisk.symmetry.solver.colours import Colour, colour_groups
from truerisk.symmetry.solver.edges import FloatArray, Problem
from truerisk.symmetry.solver.gap import upper_gap
from truerisk.symmetry.solver.sums import Sums

# Relative error of the cost at 0, which is rounded up. Far from the optimum this is more than the cost at the optimum:
# the constant between them has no digits left, and the gap must be small even if the cost is small.
_UNSURE = 1e-12


@dataclass(frozen=True)
class Solution:
    """A point `t` with `value` = F(t) <= `start` = F(0).

    `gap` bounds F(t) - min F from above. It may be infinite, and is None for problems that are not convex. `values`
    has F at the best point after each sweep, never increasing.
    """

    t: FloatArray
    value: float
    start: float
    gap: float | None
    sweeps: int
    passes: float
    values: tuple[float, ...]


def minimize(problem: Problem, tolerance: float = 1e-10, max_sweeps: int = 300, whole: float | None = None) -> Solution:
    """Return the minimizer of F, up to a gap of `tolerance` times max(1, |F|) there.

    `whole` is the cost at 0 of which F is all but a constant, a KL for instance: the gap is then relative to that cost
    where the search ends, however large it was where the search began.

    With cross terms there is no certificate, and the search ends where two sweeps in a row gain next to nothing.
    Scales on which F does not depend, and those that would run away to infinity, stay where they are.

    >>> from truerisk.symmetry.solver.edges import Block
    >>> one = np.zeros((1, 1), np.int64)
    >>> up = Block(np.full((1, 1, 1), 4.0), ((1.0, one),), (), count=0.0)
    >>> down = Block(np.full((1, 1, 1), 1.0), (), ((-1.0, one),), count=0.0)
    >>> best = minimize(Problem((up, down), np.zeros(1, np.int64)))  # weights 2 and 1 become both 2 ** 0.5
    >>> best.start, round(best.value, 12), round(float(np.exp(best.t[0])), 12)
    (2.5, 2.0, 1.414213562373)
    """
    with np.errstate(all="ignore"):  # a step that overflows has no finite value, and is taken back
        search = _Search(problem, tolerance, whole)
        going = True
        while going and search.sweeps < max_sweeps and not search.certified():
            going = search.sweep()
            search.values.append(search.value)
        return search.solution()


class _Search:
    """The best point so far, and the sums at the point to go on from."""

    def __init__(self, problem: Problem, tolerance: float, whole: float | None) -> None:
        self.tolerance = tolerance
        label = colour_groups(problem)[problem.labels]
        self.colours = [Colour(problem, np.flatnonzero(label == k)) for k in range(label.max(initial=-1) + 1)]
        shared = frozenset(number for colour in self.colours for number in colour.shared)
        self.sums = Sums(problem, shared)
        for colour in reversed(self.colours):
            for use in colour.uses:
                self.sums.layers[use.layer].first = use.side  # the side that will be wanted first
        self.coarse = Coarse(self.sums)
        # A sweep starts by updating the first colour, whatever it was before.
        self.anderson = Anderson(np.flatnonzero(label > 0))
        self.extrapolated = False
        self.sweeps = 0
        self.best, self.start = self.sums.t.copy(), self.sums.value()
        if not math.isfinite(self.start):
            raise TrueriskError("the entries of `a` and `c` need to be finite, and so do their sums.")
        self.value = self.start
        self.constant = 0.0 if whole is None else whole - self.start
        self.unsure = 0.0 if whole is None else _UNSURE * (abs(whole) + abs(self.start))
        self.values: list[float] = []  # after each sweep
        self.gap: float | None = math.inf if self.sums.centred else None
        self.fall, self.left, self.quiet, self.trust = 0.0, math.inf, 0, 0.01
        self.coarse.correct()
        self._accept()

    def _accept(self) -> bool:
        """Keep the current point if it is the best one, and take note of the progress."""
        value = self.sums.value()
        if not value <= self.value:
            return False
        fall = self.value - value
        # Sweeps converge linearly: as much is left as the next ones gain, at the rate of the last two.
        self.left = fall * min(1.0, fall / self.fall) if self.fall > 0.0 else fall
        self.best, self.value, self.fall = self.sums.t.copy(), value, fall
        return True

    def _goal(self) -> float:
        return self.tolerance * max(1.0, abs(self.value + self.constant) - self.unsure)

    def certified(self) -> bool:
        """Whether the gap is small enough; found out only when there is hope, as it may have to read matrices."""
        if self.gap is None or self.sweeps == 0 or self.left > self.trust * self._goal():
            return False
        self.gap = upper_gap(self.sums)
        if self.gap > self._goal():
            # So many times too large is the bound, or the guess of what is left too small: ask again when it is time.
            self.trust = min(self.trust, max(self.left / self.gap, 0.01 * self.trust))
            return False
        # At a worse point than the best one the gap is larger still, so it holds for both.
        self._accept()
        return True

    def sweep(self) -> bool:
        """Descend once, and return whether it is worth going on."""
        self.sweeps += 1
        before = self.sums.t.copy()
        for colour in self.colours:
            colour.update(self.sums)
        self.coarse.correct()
        if not self._accept():
            # Sweeps do not ascend: either the extrapolation was bad, or only rounding errors are left.
            again, self.extrapolated = self.extrapolated, False
            self.anderson.forget()
            self.sums.jump(self.best)
            return again
        self.quiet = self.quiet + 1 if self.fall <= self._negligible() else 0
        if self.quiet == 2:
            return False
        self.extrapolated = True
        self.sums.jump(self.anderson.extrapolate(before, self.best))
        return True

    def _negligible(self) -> float:
        linear = float(self.sums.problem.slope @ self.best)
        rounding = 4.0 * float(np.finfo(np.float64).eps) * (abs(linear) + abs(self.value - linear))
        return rounding if self.gap is not None else max(rounding, 0.1 * self._goal())

    def solution(self) -> Solution:
        if self.gap is not None and self.gap > self._goal():
            self.sums.jump(self.best)
            self.gap = upper_gap(self.sums)
        if self.value >= self.start:
            self.best, self.value = np.zeros_like(self.best), self.start
        values = tuple(self.values)
        return Solution(self.best, self.value, self.start, self.gap, self.sweeps, self.sums.passes, values)
