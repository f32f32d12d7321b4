"""Many networks trained at once against ordinary modules trained one at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.seeds import derive
from truerisk.training import together
from truerisk.training.together import misclassification_rates
from truerisk.training.unrolled import initial_weights

HOW = {"runs": 4, "epochs": 2, "batch": 16, "lr": 0.1, "seed": 11}


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(5)  # the last batch is smaller: 70 = 4 * 16 + 6
    return torch.randn(70, 6, generator=generator), torch.randint(3, (70,), generator=generator)


def _one_by_one(X, y, classes, hidden, runs, epochs, batch, lr, seed):
    """Reference: each network is an ordinary module, trained by torch's SGD."""
    wrong = torch.zeros(len(X))
    for run in range(runs):
        own = derive(seed, "network", run)
        start = initial_weights([X.shape[1], *hidden, classes], derive(own, "weights"))
        layers = []
        for weight, bias in zip(start[::2], start[1::2], strict=True):
            layer = nn.Linear(*weight.shape)
            with torch.no_grad():
                layer.weight.copy_(weight.T)
                layer.bias.copy_(bias)
            layers += [layer, nn.ReLU()]
        module = nn.Sequential(*layers[:-1])
        optimizer = torch.optim.SGD(module.parameters(), lr=lr)
        generator = torch.Generator().manual_seed(derive(own, "order"))
        for _ in range(epochs):
            for rows in torch.randperm(len(X), generator=generator).split(batch):
                optimizer.zero_grad()
                nn.functional.cross_entropy(module(X[rows]), y[rows]).backward()
                optimizer.step()
        wrong += (module(X).argmax(1) != y).float()
    return (wrong / runs).numpy()


def test_networks_trained_together_equal_networks_trained_one_by_one(data):
    rates = misclassification_rates(*data, 3, [8, 8], **HOW)
    assert 0.1 < rates.mean() < 0.9
    assert len(set(rates.tolist())) > 2
    np.testing.assert_allclose(rates, _one_by_one(*data, 3, [8, 8], **HOW), atol=1e-6)


def test_how_many_are_trained_at_once_changes_nothing(data, monkeypatch):
    rates = misclassification_rates(*data, 3, [8, 8], **HOW)
    monkeypatch.setattr(together, "MOST_WEIGHTS", 3 * (6 * 8 + 8 * 8 + 8 * 3))  # three networks, then one
    monkeypatch.setattr(together, "AT_ONCE", 32)
    np.testing.assert_allclose(misclassification_rates(*data, 3, [8, 8], **HOW), rates, atol=1e-6)
    other = misclassification_rates(*data, 3, [8, 8], **{**HOW, "seed": 12})
    assert (other != rates).any()
