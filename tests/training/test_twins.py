"""Twins trained together against networks trained one by one, in torch, and what the theorem says about them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from truerisk.errors import TrueriskError
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError
from truerisk.training.swift import uniform_weights
from truerisk.training.twins import Twins

N, D, K, BATCH, SEED = 23, 5, 3, 4, 7


@pytest.fixture(scope="module")
def examples():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), rng.integers(0, K, N), rng.normal(size=(3, D)), rng.integers(0, K, 3)


def alone(start, X, y, rate, decay, epochs):
    """One network by autograd; returns its weights."""
    weights = [torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in start]
    X, y = torch.tensor(X), torch.tensor(y)
    for epoch in range(epochs):
        order = np.random.default_rng(derive(SEED, "epoch", epoch)).permutation(len(X))
        for rows in np.array_split(order, -(-len(X) // BATCH)):
            hidden = X[rows]
            for i in range(0, len(weights), 2):
                hidden = hidden @ weights[i] + weights[i + 1]
                hidden = hidden.relu() if i < len(weights) - 2 else hidden
            penalty = sum((w**2).sum() for w in weights) * decay / 2
            gradients = torch.autograd.grad(F.cross_entropy(hidden, y[rows]) + penalty, weights)
            weights = [(w - rate * g).detach().requires_grad_() for w, g in zip(weights, gradients, strict=True)]
    return [w.detach().numpy() for w in weights]


def replaced(X, y, i, x_new, y_new):
    X, y = X.copy(), y.copy()
    X[i], y[i] = x_new, y_new
    return X, y


@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_twins_are_what_they_would_be_alone(examples, hidden):
    X, y, X_new, y_new = examples
    start, positions, rates, decays = uniform_weights([D, *hidden, K], 3), [4, 0, 22], [0.3, 0.05], [0.0, 0.2]
    twins = Twins(start, X, y, positions, X_new, y_new, rates=rates, decays=decays)
    assert list(twins.epochs(3, batch_size=BATCH, seed=SEED)) == [1, 2, 3]
    for a, (rate, decay) in enumerate(zip(rates, decays, strict=True)):
        base = alone(start, X, y, rate, decay, 3)
        for part, wanted in zip(twins.weights, base, strict=True):
            np.testing.assert_allclose(part[a, 0], wanted, rtol=1e-11, atol=1e-13)
        for k, i in enumerate(positions):
            other = alone(start, *replaced(X, y, i, X_new[k], y_new[k]), rate, decay, 3)
            for part, wanted in zip(twins.weights, other, strict=True):
                np.testing.assert_allclose(part[a, 1 + k], wanted, rtol=1e-11, atol=1e-13)
            apart = [np.sum((u - v) ** 2) for u, v in zip(base, other, strict=True)]
            sizes = [np.sum(u**2) + np.sum(v**2) for u, v in zip(base, other, strict=True)]
            assert twins.distances()[a, k] == pytest.approx(np.sqrt(sum(apart)), rel=1e-9)
            layers = [np.sqrt((apart[i] + apart[i + 1]) / (sizes[i] + sizes[i + 1])) for i in range(0, len(apart), 2)]
            wanted = [*layers, np.sqrt(sum(apart) / sum(sizes))]
            np.testing.assert_allclose(twins.normalized()[a, k], wanted, rtol=1e-9)


def test_an_example_replaced_by_itself_changes_nothing(examples):
    X, y, X_new, y_new = examples
    twins = Twins(uniform_weights([D, 6, K], 3), X, y, [4, 1], [X[4], X_new[0]], [y[4], y_new[0]], rates=[0.1])
    for _ in twins.epochs(2, batch_size=BATCH, seed=SEED):
        pass
    assert twins.distances()[0, 0] == 0 < twins.distances()[0, 1]
    assert twins.normalized()[0, 0].tolist() == [0, 0, 0]


def test_probabilities_slopes_and_gradients(examples, monkeypatch):
    X, y, X_new, y_new = examples
    twins = Twins(uniform_weights([D, 6, K], 3), X, y, [4, 1], X_new[:2], y_new[:2], rates=[0.1, 0.4])
    for _ in twins.epochs(2, batch_size=BATCH, seed=SEED):
        pass
    whole = twins.probabilities(X)
    monkeypatch.setattr("truerisk.training.twins.AT_ONCE", 100)  # in many pieces
    np.testing.assert_allclose(twins.probabilities(X), whole, rtol=1e-12)
    np.testing.assert_allclose(twins.probabilities(X, slice(1)), whole[:, :1], rtol=1e-12)
    weights = [torch.tensor(part[1, 0], requires_grad=True) for part in twins.weights]

    def forward(inputs):
        return (inputs @ weights[0] + weights[1]).relu() @ weights[2] + weights[3]

    np.testing.assert_allclose(whole[1, 0], forward(torch.tensor(X)).softmax(1).detach().numpy(), rtol=1e-10)
    for i in range(5):
        loss = F.cross_entropy(forward(torch.tensor(X[i : i + 1])), torch.tensor(y[i : i + 1]))
        norm = np.sqrt(sum(float((g**2).sum()) for g in torch.autograd.grad(loss, weights)))
        assert twins.slopes(X, y)[1, i] == pytest.approx(norm, rel=1e-9)
    mean = torch.autograd.grad(F.cross_entropy(forward(torch.tensor(X)), torch.tensor(y)), weights)
    for found, wanted in zip(twins.gradient(X, np.eye(K)[y]), mean, strict=True):
        np.testing.assert_allclose(found[1, 0], wanted.numpy(), rtol=1e-9, atol=1e-14)


def test_reach_sums_the_steps_that_use_the_replaced_example(examples):
    X, y, X_new, y_new = examples
    rate, decay, epochs, positions = 0.3, 0.2, 4, [4, 0]
    twins = Twins(uniform_weights([D, K], 3), X, y, positions, X_new[:2], y_new[:2], rates=[rate], decays=[decay])
    for _ in twins.epochs(epochs, batch_size=BATCH, seed=SEED):
        pass
    for k, i in enumerate(positions):
        reach = 0.0
        for epoch in range(epochs):
            order = np.random.default_rng(derive(SEED, "epoch", epoch)).permutation(N)
            for rows in np.array_split(order, 6):
                reach = reach * (1 - rate * decay) + (rate / len(rows) if i in rows else 0)
        assert twins.reach[0, k] == pytest.approx(reach, rel=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_convex_twins_stay_within_the_bound_and_opposite_ones_come_near(decay):
    """Inputs of norm 1, so L = 2 and beta = 1; the replaced example has the opposite input and another label."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 6))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 2, 40)
    rates = [1e-4, 0.1, 2 / (1 + 2 * decay)]
    start = [np.zeros((6, 2)), np.zeros(2)]
    twins = Twins(start, X, y, [3], -X[3:4], y[3:4], rates=rates, decays=[decay] * 3)
    for epoch in twins.epochs(10, batch_size=1, seed=0):
        share = twins.distances()[:, 0] / (4 * twins.reach[:, 0])
        assert (share <= 1).all()
        if epoch == 1 and not decay:
            assert share[0] > 0.34  # |p - e_y| = sqrt(1/2) at the start, and (x, 1) is orthogonal to (-x, 1)


def test_what_does_not_fit_is_refused(examples):
    X, y, X_new, y_new = examples
    start = uniform_weights([D, K], 0)

    def made(positions=(1, 2, 3), X_new=X_new, **changed):
        return Twins(start, X, y, positions, X_new, y_new, **{"rates": [0.1], **changed})

    with pytest.raises(TrueriskError, match="pass one row"):
        made(X_new=X_new[:2])
    with pytest.raises(TrueriskError, match="one of its own"):
        made((1, 1, 2))
    with pytest.raises(TrueriskError, match="between 0 and 22"):
        made((1, 2, 23))
    with pytest.raises(TrueriskError, match="rates must be positive"):
        made(rates=[0.0])
    with pytest.raises(TrueriskError, match="one of each"):
        made(decays=[0.1, 0.1])
    with pytest.raises(TrueriskError, match="batch_size is 0"):
        next(made().epochs(1, batch_size=0, seed=0))
    with pytest.raises(DivergedError, match="epoch 1"):
        list(
            Twins(uniform_weights([D, 9, K], 0), X, y, [1, 2, 3], X_new, y_new, rates=[1e200]).epochs(
                2, batch_size=5, seed=0
            )
        )
