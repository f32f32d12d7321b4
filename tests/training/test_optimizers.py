"""Optimizers by name against the published updates in plain numpy, step by step."""

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.training.kfac import KFAC
from truerisk.training.optimizers import OPTIMIZERS, make_optimizer, take_step

STEPS = 6
CURVES = np.array([1.0, 10.0, 0.1])


def slopes_at(w):
    """The gradient of a curved function: sum of a w^2 / 2 + sin(w)."""
    return CURVES * w + np.cos(w)


def sgd(w, lr):
    while True:
        w = w - lr * slopes_at(w)
        yield w


def momentum(w, lr, m=0.9):
    v = np.zeros(3)
    while True:
        v = m * v + slopes_at(w)
        w = w - lr * v
        yield w


def adagrad(w, lr, e=1e-10):
    s = np.zeros(3)
    while True:
        g = slopes_at(w)
        s = s + g**2
        w = w - lr * g / (np.sqrt(s) + e)
        yield w


def rmsprop(w, lr, r=0.99, e=1e-8):
    s = np.zeros(3)
    while True:
        g = slopes_at(w)
        s = r * s + (1 - r) * g**2
        w = w - lr * g / (np.sqrt(s) + e)
        yield w


def adadelta(w, lr, r=0.9, e=1e-6):
    s, u = np.zeros(3), np.zeros(3)
    while True:
        g = slopes_at(w)
        s = r * s + (1 - r) * g**2
        d = g * np.sqrt(u + e) / np.sqrt(s + e)
        u = r * u + (1 - r) * d**2
        w = w - lr * d
        yield w


def adam(w, lr, decay=0.0, decoupled=False, b=0.9, c=0.999, e=1e-8):
    v, s, t = np.zeros(3), np.zeros(3), 0
    while True:
        g = slopes_at(w) + (0 if decoupled else decay * w)
        w = w * (1 - lr * decay) if decoupled else w
        v, s, t = b * v + (1 - b) * g, c * s + (1 - c) * g**2, t + 1
        w = w - lr * (v / (1 - b**t)) / (np.sqrt(s / (1 - c**t)) + e)
        yield w


def l_bfgs(w, lr, memory=10):
    """Two loops over the last changes of w and g; the first step has a gradient of at most 1 (sum of sizes)."""
    g, pairs = slopes_at(w), []
    step = min(1.0, 1 / np.abs(g).sum()) * lr
    while True:
        q, weights = g.copy(), []
        for s, y in reversed(pairs):
            weights.append(s @ q / (y @ s))
            q = q - weights[-1] * y
        q = q * (pairs[-1][0] @ pairs[-1][1] / (pairs[-1][1] @ pairs[-1][1])) if pairs else q
        for (s, y), a in zip(pairs, reversed(weights), strict=True):
            q = q + (a - y @ q / (y @ s)) * s
        new = w - step * q
        pairs = [*pairs, (new - w, slopes_at(new) - g)][-memory:]
        w, g, step = new, slopes_at(new), lr
        yield w


@pytest.mark.parametrize(
    ("name", "reference", "lr", "options"),
    [
        ("sgd", sgd(np.ones(3), 0.05), 0.05, {}),
        ("momentum", momentum(np.ones(3), 0.02), 0.02, {}),
        ("adagrad", adagrad(np.ones(3), 0.3), 0.3, {}),
        ("rmsprop", rmsprop(np.ones(3), 0.01), 0.01, {}),
        ("adadelta", adadelta(np.ones(3), 2.0), 2.0, {}),
        ("adam", adam(np.ones(3), 0.1), 0.1, {}),
        ("adam", adam(np.ones(3), 0.1, 0.5), 0.1, {"weight_decay": 0.5}),
        ("adamw", adam(np.ones(3), 0.1, 0.5, decoupled=True), 0.1, {"weight_decay": 0.5}),
        ("adamw", adam(np.ones(3), 0.1, 0.01, decoupled=True), 0.1, {}),
        ("l-bfgs", l_bfgs(np.ones(3), 0.5), 0.5, {"line_search_fn": None, "max_iter": 1}),
    ],
)
def test_the_published_updates(name, reference, lr, options):
    w = nn.Parameter(torch.ones(3).double())
    optimizer = make_optimizer(name, [w], lr, **options)

    def closure():
        optimizer.zero_grad()
        loss = (torch.tensor(CURVES) * w**2 / 2 + w.sin()).sum()
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
        assert w.detach().numpy() == pytest.approx(next(reference), rel=1e-9, abs=1e-12)


def test_l_bfgs_finds_a_minimum_with_its_line_search():
    w = nn.Parameter(torch.ones(3).double())
    optimizer = make_optimizer("l-bfgs", [w], 1.0)

    def closure():
        optimizer.zero_grad()
        loss = (torch.tensor(CURVES) * w**2 / 2 + w.sin()).sum()
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    assert np.abs(slopes_at(w.detach().numpy())).max() < 1e-4


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_learns_and_counts(name):
    torch.manual_seed(0)
    X = torch.randn(40, 5)
    y = (X[:, 0] > 0).long()
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    rates = {"adadelta": 10.0, "l-bfgs": 1.0, "sgd": 1.0, "shampoo": 0.1}
    optimizer = make_optimizer(name, net, rates.get(name, 0.02))
    first = float(nn.functional.cross_entropy(net(X), y).detach())
    passes = updates = 0
    for _ in range(25):
        more, gradients = take_step(optimizer, net, X, y)
        updates, passes = updates + more, passes + gradients
    assert float(nn.functional.cross_entropy(net(X), y).detach()) < 0.7 * first
    if name == "l-bfgs":
        state = optimizer.state[next(net.parameters())]
        assert (updates, passes) == (state["n_iter"], state["func_evals"])
        assert updates > 10
        assert take_step(optimizer, net, X, y)[0] == 0, "there is nothing left to gain"
    else:
        assert (updates, passes) == (25, 50 if name == "k-fac" else 25)


def test_names_and_targets():
    net = nn.Linear(2, 2)
    assert isinstance(make_optimizer("k-fac", net, 0.1), KFAC)
    with pytest.raises(TrueriskError, match="give the network"):
        make_optimizer("k-fac", net.parameters(), 0.1)
    with pytest.raises(TrueriskError, match="choose one of sgd"):
        make_optimizer("lion", net, 0.1)
    net.bias.requires_grad_(False)
    assert make_optimizer("sgd", net, 0.1).param_groups[0]["params"] == [net.weight]
