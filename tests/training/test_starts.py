"""Many starts at once against one torch network after another."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.seeds import derive
from truerisk.training.starts import Ends, train_starts
from truerisk.training.unrolled import initial_weights

X = torch.from_numpy(np.random.default_rng(0).normal(size=(23, 4)).astype(np.float32))
Y = torch.from_numpy(np.random.default_rng(1).integers(3, size=23))
HOW = {"epochs": 4, "batch": 7, "lr": 0.05, "seed": 5}


def alone(k, epochs=4):
    """Start k, with torch's own layers and optimizer."""
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    with torch.no_grad():
        for own, part in zip(
            net.parameters(), initial_weights([4, 6, 3], derive(5, "start", k, "weights")), strict=True
        ):
            own.copy_(part.T if part.ndim == 2 else part)
    order = torch.Generator().manual_seed(derive(5, "start", k, "order"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        for rows in torch.randperm(23, generator=order).split(7):
            optimizer.zero_grad()
            F.cross_entropy(net(X[rows]), Y[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        return float(F.cross_entropy(net(X), Y)), float((net(X).argmax(1) != Y).double().mean())


def test_each_start_is_a_network_of_its_own():
    ends = train_starts(X, Y, 3, [6], starts=3, **HOW)
    for k in range(3):
        loss, error = alone(k)
        assert ends.losses[k] == pytest.approx(loss, rel=1e-4)
        assert ends.errors[k] == pytest.approx(error)
        assert ends.first_losses[k] == pytest.approx(alone(k, 0)[0], rel=1e-5)
    assert len(set(ends.losses)) == 3
    more = train_starts(X, Y, 3, [6], starts=5, **HOW)
    assert more.losses[:3] == pytest.approx(ends.losses, rel=1e-5)


def test_spread_and_fitted_by_hand():
    ends = Ends(np.array([2.0, 2.2]), np.array([0.1, 0.3]), np.array([0.0, 0.25]))
    assert ends.spread == pytest.approx(np.sqrt(2 * 0.1**2) / 1.9)
    assert ends.fitted == 0.5


def test_divergence_is_infinite_and_errs_everywhere():
    ends = train_starts(X * 1e20, Y, 3, [6], starts=2, **{**HOW, "lr": 1e10})
    assert np.isinf(ends.losses).all()
    assert (ends.errors == 1).all()


def test_refusals():
    with pytest.raises(TrueriskError, match="at least 2 starts"):
        train_starts(X, Y, 3, [6], starts=1, **HOW)
    with pytest.raises(TrueriskError, match="one row for each label"):
        train_starts(X[:5], Y, 3, [6], starts=2, **HOW)
