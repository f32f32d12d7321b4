r"""Minimize the cost of a network's weights over its rescaling group.

A sweep updates one colour of variables after the other (see `colours`), then moves whole groups (`coarse`). Two
sweeps are joined by an extrapolation (`anderson`). Only the updates read matrices, in a network of two colours two
passes a sweep. Where the certificate of the remaining gap (`gap`) is small enough, the search ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.symmetry.anderson import Anderson
from truerisk.symmetry.coarse import Coarse
from truerisk.symmetry.colours import Colour, colours
from truerisk.symmetry.edges import FloatArray, Problem
from truerisk.symmetry.gap import upper_gap
from truerisk.symmetry.sums import Sums


@dataclass(frozen=True)
class Solution:
    """A point `t` with value F(t) <= start = F(0).

    `gap` bounds F(t) - min F from above; it may be infinite, and is None for problems that are not convex.
    """

    t: FloatArray
    value: float
    start: float
    gap: float | None
    sweeps: int
    passes: float


def minimize(problem: Problem, tolerance: float = 1e-10, max_sweeps: int = 200, scale: float | None = None, acc=True) -> Solution:
    label = colours(problem)[problem.labels]
    count = int(label.max(initial=-1)) + 1
    palette = [Colour(problem, np.flatnonzero(label == k)) for k in range(count)]
    sums = Sums(problem, frozenset().union(*(colour.shared for colour in palette)))
    for colour in reversed(palette):
        for use in colour.uses:
            sums.layers[use.layer].first = use.side
    coarse = Coarse(problem)
    anderson = Anderson(np.flatnonzero(label > 0))
    start = sums.value()
    coarse.correct(sums)
    best, value = sums.t.copy(), sums.value()
    history=[(sums.passes,value)]
    gap = None
    decs=[start-value]
    for sweep in range(max_sweeps):
        size = scale if scale is not None else max(1.0, abs(value))
        if sums.centred and len(decs)>1 and decs[-1]**2/max(decs[-2],1e-300) <= tolerance*size:
            gap = upper_gap(sums)
            if gap <= tolerance*size: 
                v=sums.value()
                if v<value: best,value=sums.t.copy(),v
                break
        before = sums.t.copy()
        for colour in palette: colour.update(sums)
        coarse.correct(sums)
        v = sums.value()
        history.append((sums.passes,v))
        if v > value:
            sums.jump(best); anderson.forget()
            print('rej',sweep, v-value)
            continue
        decs.append(value-v)
        best, value = sums.t.copy(), v
        if acc: sums.jump(anderson.extrapolate(before, best))
    s= Solution(best, value, start, gap, sweep, sums.passes)
    object.__setattr__(s,'history',history)
    return s
