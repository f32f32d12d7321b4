"""Spectra of layers against WeightWatcher: largest eigenvalues, stable ranks, power-law exponents."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from peers.installed import peer
from torch import nn

from truerisk.data import Data
from truerisk.measures import MEASURES, Subject
from truerisk.measures.families.tails import tail_exponent

SHAPES = [(80, 60), (60, 100), (90, 120), (64, 64), (100, 200), (150, 150)]


@pytest.fixture(scope="module")
def watched():
    """(singular values of six layers with heavy tails, WeightWatcher's table for them)."""
    tool = peer("weightwatcher")
    rng = np.random.default_rng(0)
    layers = []
    for k, shape in enumerate(SHAPES):
        layer = nn.Linear(shape[1], shape[0], bias=False).double()
        layer.weight.data = torch.from_numpy(rng.standard_t(2 + k, size=shape))
        layers.append(layer)
    table = tool.WeightWatcher(model=nn.ModuleList(layers)).analyze(min_evals=20)
    return [torch.linalg.svdvals(layer.weight.detach()) for layer in layers], table


@pytest.mark.filterwarnings("ignore")
def test_largest_eigenvalues_and_stable_ranks(watched):
    """Relative tolerance 1e-6: WeightWatcher works in single precision."""
    values, table = watched
    assert len(table) == len(SHAPES)
    largest = [float(s[0] ** 2) for s in values]
    ranks = [float((s / s[0]).square().sum()) for s in values]
    assert table["spectral_norm"].tolist() == pytest.approx(largest, rel=1e-6)
    assert table["stable_rank"].tolist() == pytest.approx(ranks, rel=1e-6)


def fit(values: list[float], two_sided: bool) -> tuple[float, float]:
    """(alpha, xmin) of the closest power law, with the distance on one side of each step or on both."""
    best = (math.inf, math.nan, math.nan)
    for start, xmin in enumerate(values[:-1]):
        tail = values[start:]
        alpha = 1 + len(tail) / sum(math.log(x / xmin) for x in tail)
        law = [1 - (x / xmin) ** (1 - alpha) for x in tail]
        gaps = [abs(f - i / len(tail)) for i, f in enumerate(law)]
        if two_sided:
            gaps += [abs(f - (i + 1) / len(tail)) for i, f in enumerate(law)]
        best = min(best, (max(gaps), alpha, xmin))
    return best[1:]


@pytest.mark.filterwarnings("ignore")
def test_tail_exponents_differ_by_the_side_of_the_distance_only(watched):
    """WeightWatcher is the one-sided fit in every layer, to 1e-5; truerisk is the two-sided one, to 1e-9.

    So wherever both choose the same xmin, they have the same exponent. Layers of both kinds are among the six.
    """
    values, table = watched
    agree = []
    for s, row in zip(values, table.itertuples(), strict=True):
        eigenvalues = s.square().flip(0).tolist()
        assert (row.alpha, row.xmin) == pytest.approx(fit(eigenvalues, two_sided=False), rel=1e-5)
        alpha, xmin, distance = tail_exponent(s.square())
        assert (alpha, xmin) == pytest.approx(fit(eigenvalues, two_sided=True), rel=1e-9)
        assert distance + 1e-6 >= row.D
        agree.append(row.alpha == pytest.approx(alpha, rel=1e-5))
    assert set(agree) == {True, False}


@pytest.mark.filterwarnings("ignore")
def test_the_measures_of_a_network():
    """stable-ranks to 1e-5, and the weights of layers in tail-exponent-weighted, whatever their exponents."""
    tool = peer("weightwatcher")
    rng = np.random.default_rng(1)
    net = nn.Sequential(nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 40), nn.ReLU(), nn.Linear(40, 24)).double()
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight.copy_(torch.from_numpy(rng.standard_t(4, size=tuple(layer.weight.shape))))
    data = Data("noise", rng.normal(size=(50, 64)), rng.integers(0, 24, size=50), 24)
    subject = Subject(net, data)
    table = tool.WeightWatcher(model=net).analyze(min_evals=20)
    assert MEASURES["stable-ranks"](subject).value == pytest.approx(table["stable_rank"].sum(), rel=1e-5)
    plain, weighted = (MEASURES[name](subject).layers for name in ("tail-exponent", "tail-exponent-weighted"))
    factors = [weighted[name] / plain[name] for name in plain]
    assert factors == pytest.approx((table["alpha_weighted"] / table["alpha"]).tolist(), rel=1e-5)
