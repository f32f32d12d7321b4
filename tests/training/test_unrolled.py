"""Derivatives through training against differences of whole trainings; the Gini coefficient against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from truerisk.training.unrolled import forward, gini, influence, initial_weights

STEPS, LR = 12, 0.3


def _trained_losses(X, train_X, y, weights, batches, lr):
    """Reference: numpy, gradients by hand; the loss of every example of X after SGD on train_X."""
    W = [w.detach().numpy().copy() for w in weights]

    def passes(inputs):
        zs, hs = [], [inputs]
        for i in range(0, len(W), 2):
            zs.append(hs[-1] @ W[i] + W[i + 1])
            hs.append(np.maximum(zs[-1], 0))
        logits = zs[-1] - zs[-1].max(1, keepdims=True)
        p = np.exp(logits)
        return zs, hs, p / p.sum(1, keepdims=True)

    for rows in batches:
        zs, hs, p = passes(train_X[rows])
        delta = p.copy()
        delta[np.arange(len(rows)), y[rows]] -= 1
        delta /= len(rows)
        updates = []
        for i in reversed(range(0, len(W), 2)):
            updates.append((i, hs[i // 2].T @ delta, delta.sum(0)))
            if i:
                delta = (delta @ W[i].T) * (zs[i // 2 - 1] > 0)
        for i, dW, db in updates:
            W[i] -= lr * dW
            W[i + 1] -= lr * db
    _, _, p = passes(X)
    return -np.log(p[np.arange(len(y)), y])


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(20, 5, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (20,), generator=generator)
    batches = [torch.randperm(20, generator=generator)[:7] for _ in range(STEPS)]
    return X, y, initial_weights([5, 6, 6, 3], 4, torch.float64), batches


def test_the_influence_is_the_derivative_of_the_trained_loss(problem):
    X, y, weights, batches = problem
    marks = [5, STEPS]
    found = influence(X, y, weights, batches, LR, marks, groups=y)
    assert found.shape == (2, 3, 20, 5)
    rows = [batch.numpy() for batch in batches]
    h = 1e-6
    for example, pixel in [(int(rows[0][0]), 0), (int(rows[1][2]), 3), (int(rows[4][5]), 1)]:
        for mark, step in enumerate(marks):
            shifted = []
            for sign in (1, -1):
                moved = X.numpy().copy()
                moved[example, pixel] += sign * h
                shifted.append(_trained_losses(X.numpy(), moved, y.numpy(), weights, rows[:step], LR))
            slope = (shifted[0] - shifted[1]) / (2 * h)
            for group in range(3):
                slow = slope[y.numpy() == group].mean()
                assert found[mark, group, example, pixel].item() == pytest.approx(slow, rel=1e-5, abs=1e-9)
    assert found.abs().max() > 1e-3  # the comparison was not one of zeros


def test_without_groups_it_is_the_mean_over_groups(problem):
    X, y, weights, batches = problem
    (whole,) = influence(X, y, weights, batches, LR, [STEPS])
    (parts,) = influence(X, y, weights, batches, LR, [STEPS], groups=y)
    shares = torch.bincount(y).double() / len(y)
    torch.testing.assert_close(whole[0], torch.einsum("g,gnd->nd", shares, parts))


def test_an_example_that_no_step_used_has_no_influence(problem):
    X, y, weights, batches = problem
    (found,) = influence(X, y, weights, [batch[batch != 0] for batch in batches], LR, [STEPS])
    assert (found[0, 0] == 0).all()
    assert (found[0, 1:].abs().sum(1) > 0).any()


def test_the_forward_pass_is_that_of_a_relu_network():
    weights = [torch.tensor(w) for w in ([[1.0, -1.0]], [0.0, 1.0], [[2.0], [3.0]], [0.5])]
    # relu(2) = 2 and relu(-2 + 1) = 0: 2 * 2 + 3 * 0 + 0.5
    assert forward(weights, torch.tensor([[2.0]])).item() == 4.5


def test_initial_weights_lie_within_one_over_the_root_of_the_fan_in():
    weights = initial_weights([400, 50, 2], 1)
    assert [tuple(w.shape) for w in weights] == [(400, 50), (50,), (50, 2), (2,)]
    assert 0.049 < weights[0].abs().max() <= 0.05  # 20,000 uniform numbers on +-1/20 come near its ends
    assert all(torch.equal(a, b) for a, b in zip(weights, initial_weights([400, 50, 2], 1), strict=True))


def test_gini_closed_forms():
    assert gini(np.full(7, 2.5)) == pytest.approx(0, abs=1e-15)
    assert gini(np.eye(8)[3]) == pytest.approx(1 - 1 / 8)
    assert gini(np.arange(1, 101)) == pytest.approx(99 / 300)  # of 1, ..., n: (n - 1)/(3n)
    assert gini(np.zeros(3)) == 0


def test_gini_is_half_the_relative_mean_difference():
    values = np.random.default_rng(0).gamma(0.7, size=60)
    slow = sum(abs(a - b) for a in values for b in values) / (2 * len(values) ** 2 * values.mean())
    assert gini(values) == pytest.approx(slow)
    assert gini(1e6 * values[::-1]) == pytest.approx(slow)
