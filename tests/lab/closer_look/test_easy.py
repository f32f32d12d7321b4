"""Many networks at once against one at a time, and the spread against binomial draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.lab.closer_look.easy import misclassification_rates, spread
from truerisk.seeds import derive


def _one_by_one(X, y, classes, hidden, runs, epochs, batch, lr, seed):
    """Slow twin: each network is an ordinary module, trained by torch's SGD."""
    wrong = torch.zeros(len(X))
    for run in range(runs):
        generator = torch.Generator().manual_seed(derive(seed, "network", run))
        widths = [X.shape[1], *hidden, classes]
        layers = []
        for i in range(len(widths) - 1):
            layer = nn.Linear(widths[i], widths[i + 1])
            with torch.no_grad():
                bound = 1 / math.sqrt(widths[i])
                layer.weight.copy_((bound * (2 * torch.rand(widths[i], widths[i + 1], generator=generator) - 1)).T)
                layer.bias.copy_(bound * (2 * torch.rand(1, widths[i + 1], generator=generator)[0] - 1))
            layers += [layer, nn.ReLU()]
        module = nn.Sequential(*layers[:-1])
        optimizer = torch.optim.SGD(module.parameters(), lr=lr)
        for _ in range(epochs):
            for rows in torch.randperm(len(X), generator=generator).split(batch):
                optimizer.zero_grad()
                nn.functional.cross_entropy(module(X[rows]), y[rows]).backward()
                optimizer.step()
        wrong += (module(X).argmax(1) != y).float()
    return (wrong / runs).numpy()


def test_networks_trained_together_equal_networks_trained_one_by_one():
    generator = torch.Generator().manual_seed(5)
    X, y = torch.randn(70, 6, generator=generator), torch.randint(3, (70,), generator=generator)
    arguments = (X, y, 3, [8, 8], 4, 2, 16, 0.1, 11)  # the last batch is smaller: 70 = 4 * 16 + 6
    rates = misclassification_rates(*arguments)
    assert 0.1 < rates.mean() < 0.9
    assert len(set(rates.tolist())) > 2
    np.testing.assert_allclose(rates, _one_by_one(*arguments), atol=1e-6)


def test_a_binomial_has_spread_one():
    generator = np.random.default_rng(1)
    rates = generator.binomial(100, 0.3, size=5000) / 100
    # the variance of 5000 draws has a relative deviation of sqrt(2/5000) = 0.02; 4 sigma, false alarms under 1e-4
    assert spread(rates, 100) == pytest.approx(1, abs=0.08)


def test_the_spread_of_a_mixture_is_known():
    """Rates drawn from p_i with variance v: Var = E p(1-p)/k + v, so spread = (m(1-m) - v + k v)/(m(1-m))."""
    generator = np.random.default_rng(2)
    p = generator.choice([0.2, 0.6], size=20000)
    rates = generator.binomial(50, p) / 50
    expected = (0.4 * 0.6 - 0.04 + 50 * 0.04) / (0.4 * 0.6)
    assert spread(rates, 50) == pytest.approx(expected, rel=0.05)


def test_rates_that_are_all_zero_have_no_spread_to_speak_of():
    assert spread(np.zeros(10), 5) == 1.0
