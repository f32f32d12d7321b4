"""Power of a set of networks: moves against loops over pairs, noise against closed forms of factorial designs."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest

from truerisk.measures.prediction import power

GRID = {"width": [16, 64, 256], "depth": [1, 2], "lr": [0.01, 0.1]}


def zoo(gap, grid=GRID, seeds=1):
    return [
        {"hyper": dict(zip(grid, values, strict=True)), "seed": s, "measures": {}, "gap": gap(*values, s), "n_test": 99}
        for values in itertools.product(*grid.values())
        for s in range(seeds)
    ]


def slow_moves(rows):
    """For each hyperparameter, the largest mean difference over pairs of networks that differ in it alone."""
    found = {}
    for name, values in GRID.items():
        means = []
        for low, high in itertools.combinations(values, 2):
            apart = [
                b["gap"] - a["gap"]
                for a, b in itertools.product(rows, rows)
                if a["hyper"][name] == low and b["hyper"] == {**a["hyper"], name: high}
            ]
            if apart:
                means.append(abs(statistics.fmean(apart)))
        found[name] = max(means, default=0.0)
    return found


@pytest.mark.parametrize(("seeds", "gone"), [(1, 0), (2, 0), (2, 3)])
def test_moves_against_loops(seeds, gone):
    rng = np.random.default_rng(seeds)
    rows = zoo(lambda *_: float(rng.uniform()), seeds=seeds)[gone:]
    assert power(rows).moves == pytest.approx(slow_moves(rows), abs=1e-12)


def test_moves_of_a_known_gap():
    found = power(zoo(lambda width, depth, lr, s: 0.001 * math.log2(width) - 0.1 * depth))
    assert found.moves == pytest.approx({"width": 0.004, "depth": 0.1, "lr": 0.0}, abs=1e-12)
    assert found.strongest == ("depth", pytest.approx(0.1))


def test_pairs_of_hyper_parameters_are_not_noise():
    found = power(zoo(lambda width, depth, lr, s: 0.1 * depth + 0.01 * width * lr - depth * lr))
    assert found.noise == pytest.approx(0.0, abs=1e-12)
    assert found.tells(3)


def test_the_noise_of_a_two_level_design():
    """A threefold interaction of size e in 2^3 networks: eight residuals of size e, one degree of freedom."""
    grid = {"a": [-1, 1], "b": [-1, 1], "c": [-1, 1]}
    found = power(zoo(lambda a, b, c, s: 0.3 * a + 0.2 * b * c + 0.01 * a * b * c, grid))
    assert found.noise == pytest.approx(0.01 * math.sqrt(8))
    assert found.moves == pytest.approx({"a": 0.6, "b": 0.0, "c": 0.0}, abs=1e-12)
    assert found.tells(21)
    assert not found.tells(22)


def test_the_noise_of_seeds():
    """Two seeds e apart in each of 12 settings, nothing else: 24 residuals of e/2, less what the fit takes."""
    grid = {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1]}
    found = power(zoo(lambda a, b, c, s: 0.02 * s, grid, seeds=2))
    rank = 1 + (2 + 1 + 1) + (2 + 2 + 1)
    assert found.noise == pytest.approx(math.sqrt(24 * 0.01**2 / (24 - rank)))
    assert not found.tells(3)


def test_nothing_is_told_without_a_degree_of_freedom_or_a_change():
    saturated = power(zoo(lambda a, b, s: a + b, {"a": [0, 1], "b": [0, 1]}))
    assert saturated.noise is None
    assert not saturated.tells(3)
    alone = power(zoo(lambda a, s: 0.1 * s, {"a": [7]}, seeds=3))
    assert alone.strongest == ("", 0.0)
    assert alone.noise == pytest.approx(0.1)
    assert not alone.tells(3)
