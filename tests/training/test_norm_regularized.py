"""Two-layer networks with weight decay: against torch's Adam, and the balance of their units."""

import numpy as np
import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.nets.convex_network import objective, solve_convex
from truerisk.training.norm_regularized import RegularizedNetwork, train_regularized


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (10, 1))
    return x, np.sin(4 * x[:, 0])


def test_it_is_adam_of_torch(points):
    """The same start, objective, and cosine, with gradients by torch."""
    X, y = points
    rng = np.random.default_rng(5)
    hidden, outer = rng.standard_normal((6, 2)) / np.sqrt(2), rng.standard_normal(6) / np.sqrt(6)
    v, u = (torch.tensor(each, requires_grad=True) for each in (hidden, outer))
    rows, goal = torch.tensor(np.column_stack([X, np.ones(10)])), torch.tensor(y)
    adam = torch.optim.Adam([v, u], lr=1.0, eps=1e-12)
    for step in range(1, 201):
        adam.param_groups[0]["lr"] = 0.02 * (1 + np.cos(np.pi * step / 200)) / 2
        adam.zero_grad()
        loss = ((rows @ v.T).relu() @ u - goal).square().mean() / 2 + 0.005 * (v.square().sum() + u.square().sum())
        loss.backward()
        adam.step()
    found = train_regularized(X, y, 6, 0.01, seed=5, steps=200)
    assert np.allclose(found.hidden, v.detach().numpy(), atol=1e-8)
    assert np.allclose(found.outer, u.detach().numpy(), atol=1e-8)


def test_wide_networks_reach_the_convex_optimum_and_are_balanced(points):
    X, y = points
    convex = solve_convex(X, y, 3e-3)
    wide, narrow = (train_regularized(X, y, width, 3e-3, seed=1, steps=3000) for width in (64, 1))
    reached = objective(X, y, wide.hidden, wide.outer, 3e-3)
    assert convex.bound <= reached <= 1.01 * convex.bound
    assert objective(X, y, narrow.hidden, narrow.outer, 3e-3) > 1.2 * convex.bound
    assert wide.imbalance < 0.01
    assert wide.norm == pytest.approx(convex.norm, rel=0.02)


def test_norm_and_imbalance_by_hand():
    network = RegularizedNetwork(np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([-2.0, 1.0]))
    assert network.norm == 5 * 2 + 1
    assert network.imbalance == (25 - 4) / (25 + 4 + 1 + 1)
    assert network(np.array([[1.0]])).tolist() == [-2 * 7 + 1]
    assert RegularizedNetwork(np.zeros((1, 2)), np.zeros(1)).imbalance == 0


def test_the_same_seed_gives_the_same_network(points):
    one, two, other = (train_regularized(*points, 4, 0.01, seed, steps=20) for seed in (1, 1, 2))
    assert np.array_equal(one.hidden, two.hidden)
    assert not np.array_equal(one.hidden, other.hidden)


def test_slips(points):
    with pytest.raises(TrueriskError, match="numbers that are positive"):
        train_regularized(*points, 0, 0.01, seed=0)
