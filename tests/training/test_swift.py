"""SGD with its gradient written out, against torch's automatic differentiation and optimizer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError
from truerisk.training.swift import answers, grow, sgd_epochs, uniform_weights

HOW = {"epochs": 3, "batch_size": 16, "lr": 0.1, "momentum": 0.8, "seed": 11}


@pytest.fixture
def data():
    rng = np.random.default_rng(5)  # batches of 14: 70 examples do not divide into batches of 16
    return rng.standard_normal((70, 6)), np.eye(3)[rng.integers(3, size=70)]


def doubled(widths, seed=3):
    return [part.astype(np.float64) for part in uniform_weights(widths, seed)]


def by_torch(weights, X, targets, epochs, batch_size, lr, momentum, seed, loss):
    """Reference: an ordinary module, automatic gradients, and torch's SGD."""
    layers = []
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        layer = nn.Linear(*weight.shape, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.copy_(torch.from_numpy(bias))
        layers += [layer, nn.ReLU()]
    module = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(module.parameters(), lr=lr(0) if callable(lr) else lr, momentum=momentum)
    X, targets = torch.from_numpy(X), torch.from_numpy(targets)
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = lr(epoch) if callable(lr) else lr
        order = np.random.default_rng(derive(seed, "epoch", epoch)).permutation(len(X))
        for batch in np.array_split(order, math.ceil(len(X) / batch_size)):
            optimizer.zero_grad()
            out = module(X[batch])
            if loss == "squared":
                value = (out - targets[batch]).square().sum(dim=1).mean() / 2
            else:
                value = nn.functional.cross_entropy(out, targets[batch])
            value.backward()
            optimizer.step()
    return [p.detach().numpy().T for layer in layers[::2] for p in (layer.weight, layer.bias)]


@pytest.mark.parametrize("loss", ["cross-entropy", "squared"])
@pytest.mark.parametrize("hidden", [[], [8], [8, 5]])
@pytest.mark.parametrize("lr", [0.1, lambda epoch: 0.1 * 0.5**epoch])
def test_steps_are_those_of_torch(data, loss, hidden, lr):
    start = doubled([6, *hidden, 3])
    weights, how = [part.copy() for part in start], {**HOW, "lr": lr}
    assert list(sgd_epochs(weights, *data, **how, loss=loss)) == [1, 2, 3]
    for mine, theirs, before in zip(weights, by_torch(start, *data, **how, loss=loss), start, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)
        assert np.abs(mine - before).max() > 1e-3  # something was learned at all


def test_single_precision_differs_by_rounding_only(data):
    single, double = uniform_weights([6, 8, 3], 3), doubled([6, 8, 3])
    for weights in (single, double):
        list(sgd_epochs(weights, *data, **HOW))
    for mine, exact in zip(single, double, strict=True):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, exact, atol=1e-5)


def test_a_longer_training_begins_like_a_shorter_one(data):
    short, long = doubled([6, 8, 3]), doubled([6, 8, 3])
    list(sgd_epochs(short, *data, **HOW))
    for epoch in sgd_epochs(long, *data, **{**HOW, "epochs": 9}):
        if epoch == 3:
            break
    assert all(np.array_equal(a, b) for a, b in zip(short, long, strict=True))


def test_answers_in_pieces_are_those_of_the_whole(monkeypatch):
    weights, X = doubled([4, 7, 2]), np.random.default_rng(0).standard_normal((50, 4))
    whole = np.maximum(X @ weights[0] + weights[1], 0) @ weights[2] + weights[3]
    monkeypatch.setattr("truerisk.training.swift.AT_ONCE", 16)
    np.testing.assert_allclose(answers(weights, X), whole, rtol=1e-12)


def test_initial_weights():
    torchlike, glorot = uniform_weights([400, 100, 10], 1), uniform_weights([400, 100, 10], 1, glorot=True)
    assert 0.049 < np.abs(torchlike[0]).max() <= 0.05  # 1/sqrt(400)
    assert 0.045 < np.abs(torchlike[1]).max() <= 0.05
    assert 0.108 < np.abs(glorot[0]).max() <= math.sqrt(6 / 500)
    assert not glorot[1].any()
    assert abs(torchlike[0].mean()) < 1e-3
    assert not np.array_equal(torchlike[0], uniform_weights([400, 100, 10], 2)[0])


def test_a_grown_network_keeps_its_units_and_draws_the_others():
    small = uniform_weights([300, 20, 10], 1)
    into, bias, out, last = grow(small, 120, seed=2)
    assert [part.shape for part in (into, bias, out, last)] == [(300, 120), (120,), (120, 10), (10,)]
    kept = (into[:, :20], bias[:20], out[:20], last)
    assert all(np.array_equal(a, b) for a, b in zip(kept, small, strict=True))
    for new in (into[:, 20:], out[20:]):  # standard deviation 0.1, up to five standard errors
        assert new.std() == pytest.approx(0.1, abs=5 * 0.1 / math.sqrt(2 * new.size))
        assert abs(new.mean()) < 5 * 0.1 / math.sqrt(new.size)
    assert into.dtype == np.float32
    assert all(np.array_equal(a, b) for a, b in zip(grow(small, 20, seed=2), small, strict=True))


def test_new_units_with_variance_0_change_no_answer():
    small, X = uniform_weights([6, 4, 3], 1), np.random.default_rng(0).standard_normal((9, 6))
    np.testing.assert_allclose(answers(grow(small, 9, 1, variance=0.0), X), answers(small, X), rtol=1e-6)


def test_training_does_not_touch_the_examples(data):
    X, targets = data[0].copy(), data[1].copy()
    list(sgd_epochs(doubled([6, 8, 3]), X, targets, **HOW))
    assert np.array_equal(X, data[0])
    assert np.array_equal(targets, data[1])


def test_divergence_is_noticed(data):
    with pytest.raises(DivergedError, match=r"diverged in epoch \d; lower the learning rate"):
        list(sgd_epochs(uniform_weights([6, 8, 3], 0), *data, **{**HOW, "lr": 1e12, "loss": "squared"}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"loss": "hinge"}, "must be one of cross-entropy, squared"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"X": np.zeros((70, 5))}, r"from 6 to 3 numbers; flatten inputs"),
        ({"targets": np.zeros(70)}, "give one-hot targets"),
        ({"targets": np.zeros((69, 3))}, "give one-hot targets"),
    ],
)
def test_slips_end_in_one_sentence(data, change, said):
    how = {**HOW, "X": data[0], "targets": data[1], **change}
    with pytest.raises(TrueriskError, match=said):
        list(sgd_epochs(doubled([6, 8, 3]), **how))


@pytest.mark.parametrize(("widths", "width"), [([6, 8, 3], 7), ([6, 8, 8, 3], 9), ([6, 3], 9)])
def test_only_one_hidden_layer_grows(widths, width):
    with pytest.raises(TrueriskError, match="give a smaller network"):
        grow(uniform_weights(widths, 0), width, seed=0)
