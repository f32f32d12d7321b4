"""Two-layer networks as pairs of matrices, and their initial weights."""

import numpy as np
import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.nets.two_layer import SCHEMES, TwoLayer, initial_two_layer


def slow(U, V, x):
    """One output at a time."""
    hidden = [max(0.0, sum(u * z for u, z in zip(row, x, strict=True))) for row in U]
    return [sum(v * z for v, z in zip(row, hidden, strict=True)) for row in V]


def test_outputs_match_plain_loops():
    net = initial_two_layer(5, 7, 3, seed=1).double()
    X = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    kept = X.clone()
    assert np.allclose(net(X), [slow(net.U.tolist(), net.V.tolist(), x) for x in X.tolist()], rtol=1e-12)
    assert torch.equal(X, kept)


def test_the_module_is_the_same_function():
    net = initial_two_layer(12, 9, 3, seed=2)
    X = torch.rand(6, 3, 2, 2)
    assert torch.allclose(net.module((3, 2, 2))(X), net(X.flatten(1)))
    with pytest.raises(TrueriskError, match="have 8 values, but the network takes 12"):
        net.module((2, 2, 2))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spread_of_initial_weights(scheme):
    """Standard deviations 1/sqrt(3k) and sqrt(2/k); the estimate from 60,000 entries is within 1.5%."""
    net = initial_two_layer(300, 200, 300, seed=3, scheme=scheme)
    for W in (net.U, net.V):
        k = W.shape[1]
        wanted = (2 / k) ** 0.5 if scheme == "he" else (1 / (3 * k)) ** 0.5
        assert float(W.std()) == pytest.approx(wanted, rel=0.015)
        assert scheme == "he" or float(W.abs().max()) <= k**-0.5
    assert not torch.equal(net.U[:200, :200] / net.U.std(), net.V[:200, :200] / net.V.std())


def test_uniform_is_the_default_of_torch():
    linear = torch.nn.Linear(300, 200, bias=False)
    net = initial_two_layer(300, 200, 1, seed=0)
    assert float(net.U.std()) == pytest.approx(float(linear.weight.detach().std()), rel=0.02)
    assert float(net.U.abs().max()) == pytest.approx(float(linear.weight.detach().abs().max()), rel=0.01)


def test_seeds_matter_and_repeat():
    one, again, other = (initial_two_layer(4, 3, 2, seed) for seed in (0, 0, 5))
    assert torch.equal(one.U, again.U)
    assert torch.equal(one.V, again.V)
    assert not torch.equal(one.U, other.U)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TwoLayer(torch.ones(3, 2), torch.ones(2, 4)), "V needs one column for each row of U"),
        (lambda: initial_two_layer(0, 2, 2, 0), "must be positive"),
        (lambda: initial_two_layer(2, 2, 2, 0, "zeros"), "must be one of uniform, he"),
    ],
)
def test_slips(make, said):
    with pytest.raises(TrueriskError, match=said):
        make()
