"""A sweep over the number of features: one factorization for all sizes, against ``numpy.linalg.lstsq`` for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.timing import Row, in_turns
from truerisk.nets.nested_least_squares import least_norm, nested_readouts
from truerisk.nets.random_features import random_features

RATIOS = (0.25, 0.5, 0.75, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 1.75)
FAR = (2, 3, 4, 8)
OPPONENT = "numpy.linalg.lstsq for each size"


def rows() -> list[Row]:
    n = 500
    return [
        _sweep("up to N = 7n / 4", n, RATIOS),
        _sweep("up to N = 8n", n, (*RATIOS, *FAR)),
        _one(n),
    ]


def _problem(n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    phi = random_features(20, count, seed=0, kind="fourier", bandwidth=3.0)(rng.standard_normal((n, 20)))
    return phi, np.eye(10)[rng.integers(0, 10, n)]


def _sweep(what: str, n: int, ratios: Sequence[float]) -> Row:
    counts = [round(ratio * n) for ratio in ratios]
    phi, Y = _problem(n, counts[-1])

    def each() -> list[np.ndarray]:
        return [np.linalg.lstsq(phi[:, :count], Y, rcond=1e-12)[0] for count in counts]

    times = in_turns(lambda: nested_readouts(phi, Y, counts), each, repeats=3)
    pairs = zip(nested_readouts(phi, Y, counts), each(), strict=True)
    apart = max(np.linalg.norm(mine - theirs) / np.linalg.norm(theirs) for [mine], theirs in pairs)
    note = f"{len(counts)} sizes, 10 targets; relative difference of readouts at most {apart:.0e}"
    return Row(f"least-norm readouts of {n} examples, {what}", OPPONENT, *times, note=note)


def _one(n: int) -> Row:
    phi, Y = _problem(n, n)
    times = in_turns(lambda: least_norm(phi, Y), lambda: np.linalg.lstsq(phi, Y, rcond=1e-12), repeats=5)
    return Row(f"one least-norm readout, N = n = {n}", "numpy.linalg.lstsq", *times, note="10 targets")
