"""Spectra against plain loops: one logit at a time, one weight at a time."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.measures.conditioning import (
    condition_number,
    effective_rank,
    gauss_newton_spectrum,
    hessian_spectrum,
    positive,
)
from truerisk.nets.deep import deep_mlp


def networks():
    torch.manual_seed(0)
    made = {norm: deep_mlp((4,), 3, 2, 5, "tanh", norm, "he") for norm in ("none", "batch", "layer", "weight")}
    return {**made, "skips": deep_mlp((4,), 3, 3, 5, "relu", skips=True)}


def flat_gradient(value, weights, graph=False):
    found = torch.autograd.grad(value, weights, retain_graph=True, create_graph=graph, allow_unused=True)
    return torch.cat([(torch.zeros_like(w) if g is None else g).flatten() for g, w in zip(found, weights, strict=True)])


def slow_gauss_newton(module, X):
    net = copy.deepcopy(module).double()
    weights = list(net.parameters())
    logits = net(X.double())
    G = 0
    for i in range(len(X)):
        J = torch.stack([flat_gradient(logits[i, c], weights) for c in range(logits.shape[1])])
        p = logits[i].detach().softmax(0)
        G = G + J.T @ (torch.diag(p) - torch.outer(p, p)) @ J / len(X)
    return G.numpy()


def slow_hessian(module, X, y):
    net = copy.deepcopy(module).double()
    weights = list(net.parameters())
    slope = flat_gradient(F.cross_entropy(net(X.double()), y), weights, graph=True)
    return torch.stack([flat_gradient(entry, weights) for entry in slope]).detach().numpy()


def data():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(7, 4, generator=generator), torch.arange(7) % 3


@pytest.mark.parametrize("name", networks())
def test_spectra_against_loops(name):
    """In training mode: batch norm uses the statistics of all examples, so that logits depend on all of them."""
    net, (X, y) = networks()[name].train(), data()
    slow = np.linalg.eigvalsh(slow_gauss_newton(net, X))[::-1]
    fast = gauss_newton_spectrum(net, X)
    assert len(fast) == min(21, len(slow))
    np.testing.assert_allclose(fast, slow[: len(fast)].clip(0), rtol=1e-7, atol=1e-12 * slow[0])
    H = slow_hessian(net, X, y)
    np.testing.assert_allclose(hessian_spectrum(net, X, y), np.linalg.eigvalsh((H + H.T) / 2)[::-1], atol=1e-9)


def test_linear_networks_have_one_matrix():
    X, y = data()
    net = nn.Linear(4, 3)
    fast = gauss_newton_spectrum(net, X)
    np.testing.assert_allclose(fast[:15], hessian_spectrum(net, X, y)[:15], atol=1e-9)


def test_the_network_stays_as_it_was():
    net, (X, y) = networks()["batch"].train(), data()
    before = copy.deepcopy(net.state_dict())
    gauss_newton_spectrum(net, X)
    hessian_spectrum(net, X, y)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.grad is None and p.dtype == torch.float32 for p in net.parameters())


def test_weight_norm_at_its_default_start_changes_no_eigenvalue():
    X, _ = data()
    torch.manual_seed(5)
    plain = deep_mlp((4,), 3, 2, 5, start="default")
    torch.manual_seed(5)
    normed = deep_mlp((4,), 3, 2, 5, norm="weight", start="default")
    one, other = gauss_newton_spectrum(plain, X), gauss_newton_spectrum(normed, X)
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-10 * one[0])
    with torch.no_grad():  # and gains that are not norms change it
        normed[1][0].parametrizations.weight.original0.mul_(3)
    assert abs(gauss_newton_spectrum(normed, X)[0] / one[0] - 1) > 0.05


def test_numbers_of_a_spectrum():
    values = np.array([100.0, 10.0, 1.0, 0.0, -5.0])
    assert condition_number(values) == 10  # the median of 100, 10, and 1
    assert condition_number(values, 0.0) == 100
    assert condition_number(values, 0.0, count=2) == 10
    assert condition_number(values, 0.0, count=4) == pytest.approx(1e15)
    assert condition_number(values, 1.0) == 1
    assert effective_rank(values) == pytest.approx(1.11)
    assert positive(values).tolist() == [100, 10, 1]


def test_refusals():
    X, y = data()
    frozen = nn.Linear(4, 3).requires_grad_(False)
    for call in (
        lambda: positive(np.zeros(3)),
        lambda: positive(np.array([np.nan])),
        lambda: condition_number(np.ones(3), 2.0),
        lambda: condition_number(np.ones(3), 0.5, count=4),
        lambda: gauss_newton_spectrum(frozen, X),
        lambda: gauss_newton_spectrum(nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Linear(2, 2)), X),
        lambda: hessian_spectrum(nn.Linear(4, 2000), X, y),
    ):
        with pytest.raises(TrueriskError):
            call()
