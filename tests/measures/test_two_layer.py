"""Capacity terms of two-layer networks against plain loops, closed forms, and the measures of any network."""

import math

import numpy as np
import pytest
import torch

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.measures import MEASURES, Subject
from truerisk.measures.two_layer import margin_level, spectral_norm, terms, unit_capacity, unit_impact
from truerisk.nets.two_layer import TwoLayer, initial_two_layer

RNG = np.random.default_rng(0)


def case(h=7, d=5, c=3, n=40, seed=0):
    """A network that gets its own labels right, moved away from its start by a random amount."""
    start = initial_two_layer(d, h, c, seed)
    generator = torch.Generator().manual_seed(seed + 10)
    net = TwoLayer(
        start.U + 0.3 * torch.randn(h, d, generator=generator), start.V + 0.3 * torch.randn(c, h, generator=generator)
    )
    X = torch.randn(n, d, generator=generator)
    return net, start, X, net.double()(X.double()).argmax(1)


def l2(row):
    return math.sqrt(sum(float(x) ** 2 for x in row))


def slow(net, start, X, y):
    """All terms with sums and squares alone; spectral norms by numpy's singular values."""
    U, V, U0, V0, X = (np.array(part.tolist()) for part in (net.U, net.V, start.U, start.V, X))
    (c, h), m = V.shape, len(X)
    found = []
    for x, label in zip(X, y.tolist(), strict=True):
        out = [sum(V[k, j] * max(0.0, float(U[j] @ x)) for j in range(h)) for k in range(c)]
        found.append(out[label] - max(out[k] for k in range(c) if k != label))
    gamma = sorted(found)[max(1, m // 20) - 1]
    beta = [l2(U[j] - U0[j]) for j in range(h)]
    alpha = [l2(V[:, j]) for j in range(h)]
    response = [l2(float(U0[j] @ x) for x in X) for j in range(h)]
    size = l2(X.ravel())
    s = [float(np.linalg.svd(W)[1][0]) for W in (U, V, U0)]
    inner = sum(a * (b * size + g) for a, b, g in zip(alpha, beta, response, strict=True))
    distance, top = l2((U - U0).ravel()), l2(V.ravel())
    return {
        "margin": gamma,
        "distance": distance,
        "distance_top": l2((V - V0).ravel()),
        "capacity": sum(beta) / h,
        "impact": sum(alpha) / h,
        "unit_wise": (2 * math.sqrt(2 * c) + 2) / (gamma * m) * inner,
        "product": math.sqrt(c) / (gamma * m) * top * (distance * size + l2(response)),
        "table": (s[2] * top + distance * top) / gamma,
        "row_sums": max(sum(abs(r)) for r in U) * max(sum(abs(r)) for r in V) / gamma,
        "frobenius": l2(U.ravel()) * top / gamma,
        "spectral_rows": (s[0] * sum(map(l2, V - V0)) + sum(beta) * s[1]) / gamma,
        "spectral_frobenius": (s[0] * l2((V - V0).ravel()) + math.sqrt(h) * distance * s[1]) / gamma,
        "weights": U.size + V.size,
    }


@pytest.mark.parametrize("shape", [{}, {"h": 12}, {"c": 2}, {"d": 1}, {"n": 3}, {"h": 60, "seed": 3}])
def test_terms_match_plain_loops(shape):
    net, start, X, y = case(**shape)
    found, wanted = vars(terms(net, start, X, y)), slow(net, start, X, y)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-9), name


def test_theorem_one_is_the_measure_of_any_network():
    """`unit-capacity-over-margin` finds the layers itself, in a module."""
    net, start, X, y = case()
    data = Data("own", X.numpy(), y.numpy(), 3)
    subject = Subject(net.double().module((5,)), data, start.double().module((5,)))
    found = terms(net, start, X, y)
    assert float(MEASURES["unit-capacity-over-margin"](subject).value) == pytest.approx(found.unit_wise, rel=1e-9)
    assert float(MEASURES["unit-capacity-mean"](subject).value) == pytest.approx(found.capacity, rel=1e-9)
    assert float(MEASURES["unit-impact-mean"](subject).value) == pytest.approx(found.impact, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_of_theorem_one_is_at_most_the_product_of_theorem_two(seed):
    """Cauchy and Schwarz; the two have different constants in front."""
    found, c = terms(*case(seed=seed)), 3
    assert found.unit_wise / (2 * math.sqrt(2 * c) + 2) <= found.product / math.sqrt(c)


def test_the_target_is_left_out_of_the_largest_output():
    """With it, every correct example would have margin 0, as in a public implementation."""
    net, start, X, y = case()
    assert terms(net, start, X, y).margin > 0


def test_doubling_the_outputs_changes_no_ratio_of_output_to_margin():
    net, start, X, y = case()
    twice = TwoLayer(net.U, 2 * net.V)
    a, b = terms(net, start, X, y), terms(twice, start, X, y)
    assert b.margin == pytest.approx(2 * a.margin)
    for name in ("unit_wise", "product", "table", "row_sums", "frobenius"):
        assert getattr(b, name) == pytest.approx(getattr(a, name)), name


def test_a_network_that_errs_has_no_terms_over_a_margin():
    net, start, X, y = case()
    found = terms(net, start, X, (y + 1) % 3)
    assert found.margin < 0
    assert found.unit_wise == found.product == found.frobenius == found.spectral_rows == math.inf
    assert found.distance == terms(net, start, X, y).distance


def test_a_network_of_zeros_has_a_margin_of_zero():
    """0 over 0 is not a number; such a network fits nothing."""
    _, start, X, y = case()
    found = terms(TwoLayer(0 * start.U, 0 * start.V), start, X, y)
    assert found.margin == found.impact == 0
    assert found.unit_wise == found.frobenius == found.table == math.inf


def test_units_and_levels():
    net, start, *_ = case()
    assert unit_capacity(start, start).sum() == 0
    assert float(unit_impact(net).square().sum()) == pytest.approx(float(net.V.double().square().sum()))
    assert margin_level(torch.arange(500.0)) == 24
    assert margin_level(torch.tensor([3.0, 1.0])) == 1


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (1, 1), (3, 1)])
def test_spectral_norm(shape):
    A = RNG.standard_normal(shape)
    assert spectral_norm(torch.from_numpy(A)) == pytest.approx(np.linalg.svd(A)[1][0], rel=1e-12)
    assert spectral_norm(torch.zeros(shape)) == 0


def test_another_networks_start_is_refused():
    net, _, X, y = case()
    with pytest.raises(TrueriskError, match="exact copy from before training"):
        terms(net, initial_two_layer(5, 8, 3, 0), X, y)
