"""Optimal log-scales of deep perceptrons, against plain block coordinate descent, in passes over the weights.

Both minimize the KL divergence to a centred Gaussian prior over all rescalings of hidden units. The descent updates
one layer after the other, all units of it at once and exactly: about two passes a sweep. It is told the minimum
and stops where it is close enough; our solver has to find out by its own certificate.
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Row, seconds
from truerisk.symmetry.solver import minimize
from truerisk.symmetry.solver.edges import Block, Problem

DEPTHS = (3, 9, 33, 101)
WIDTH = 128
PRIOR = 0.05  # standard deviation
GAP = 1e-10  # relative to the KL
CAP = 2000  # passes of the descent
Array = NDArray[np.float64]


def rows() -> list[Row]:
    return [_compare(depth) for depth in DEPTHS]


def _compare(depth: int) -> Row:
    problem, constant = _chain(depth)
    best = minimize(problem, tolerance=1e-16).value
    kl = best + constant
    whole = minimize(problem, max_sweeps=0).start + constant
    run = minimize(problem, GAP, whole=whole)
    ours = seconds(lambda: minimize(problem, GAP, whole=whole))
    short = next(r for k in range(100) if (r := minimize(problem, 0.0, max_sweeps=k)).value - best <= GAP * kl)
    start = time.perf_counter()
    passes, value = _descend(problem, best + GAP * kl)
    theirs = time.perf_counter() - start
    told = f"{passes:.1f}" if value <= best + GAP * kl else f">{CAP} (there {(value - best) / kl:.1g} above)"
    note = (
        f"KL {run.start + constant:.4g} becomes {kl:.4g}; passes to a relative gap of {GAP:g}: "
        f"ours {short.passes:.1f}, certified after {run.passes:.1f}; theirs {told}"
    )
    return Row(f"log-scales of {depth} layers of width {WIDTH}", "block coordinate descent", ours, theirs, note)


def _chain(depth: int) -> tuple[Problem, float]:
    """A perceptron with He weights, layers and units out of balance, and the constant that makes F the KL."""
    rng = np.random.default_rng(depth)
    sizes = [2 * WIDTH] + [WIDTH] * (depth - 1) + [10]
    constant, blocks = 0.0, []
    for k, (inputs, outputs) in enumerate(pairwise(sizes)):
        layer = np.exp(rng.normal())
        units = layer * np.exp(0.3 * rng.normal(size=(1, outputs, 1)))
        weights = rng.normal(size=(1, outputs, inputs)) * np.sqrt(2.0 / inputs) * units
        biases = 0.1 * rng.normal(size=(1, outputs, 1)) * units
        rows = ((1.0, np.arange(outputs)[None] + k * WIDTH),) if k < depth - 1 else ()
        cols = ((-1.0, np.arange(inputs)[None] + (k - 1) * WIDTH),) if k else ()
        for means, terms in ((weights, cols), (biases, ())):
            stds = 0.02 * layer * np.exp(0.5 * rng.normal(size=means.shape))
            constant -= float((0.5 + np.log(stds / PRIOR)).sum())
            blocks.append(Block((means**2 + stds**2) / PRIOR**2, rows, terms, 1.0))
    return Problem(tuple(blocks), np.repeat(np.arange(depth - 1), WIDTH)), constant


def _descend(problem: Problem, goal: float) -> tuple[float, float]:
    """Block coordinate descent from t = 0 until F <= goal; returns the passes it took, and F."""
    first, *inner, last = [block.a[0] for block in problem.blocks[::2]]
    biases = [block.a[0, :, 0] for block in problem.blocks[1::2]]
    total = read = sum(block.a.size for block in problem.blocks)
    # As in our solver, what has no scale on its other side is summed up once.
    bottom, top, value = first.sum(1), last.sum(0), np.inf
    t = [np.zeros(len(bias)) for bias in biases[:-1]]
    read -= sum(matrix.size for matrix in inner)
    while read < CAP * total and value > goal:
        value = 0.5 * float(biases[-1].sum())
        for k, scales in enumerate(t):
            fall = biases[k] + (inner[k - 1] @ np.exp(2.0 * t[k - 1]) if k else bottom)
            rise = np.exp(-2.0 * t[k + 1]) @ inner[k] if k < len(inner) else top
            inputs, outputs = problem.blocks[2 * k].a.shape[2], problem.blocks[2 * k + 2].a.shape[1]
            slope = inputs + 1.0 - outputs
            scales[:] = 0.5 * np.log(_root(slope, fall, rise))
            value += float((slope * scales).sum() + 0.5 * (fall * np.exp(-2.0 * scales)).sum())
        value += 0.5 * float((rise * np.exp(2.0 * scales)).sum())
        read += 2 * sum(matrix.size for matrix in inner)
    return read / total, value


def _root(n: float, p: Array, m: Array) -> Array:
    """The positive root of  m x^2 + n x - p."""
    root = np.sqrt(n * n + 4.0 * p * m)
    return 2.0 * p / (n + root) if n >= 0.0 else (root - n) / (2.0 * m)
