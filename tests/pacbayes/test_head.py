"""Only the last layer random: the short way through features gives what the whole network gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes import Gaussian, draw_predictions, find_head, gibbs_risk, plan_draws, train_posterior
from truerisk.training import Plan


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).eval()


def only_last(module: nn.Module) -> nn.Module:
    module.requires_grad_(False)
    [m for m in module.modules() if isinstance(m, nn.Linear)][-1].requires_grad_(True)
    return module


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2, 3)).astype(np.float32)
    return X, (X.sum((1, 2)) > 0).astype(np.int64) + (X[:, 0, 0] > 1)


def test_features_are_what_enters_the_last_layer(data):
    net = only_last(network())
    head = find_head(Gaussian.around(net, 0.3))
    assert head is not None
    with torch.no_grad():
        x = torch.from_numpy(data[0]).flatten(1)
        plain = net[3](net[2](net[1](x)))
    assert np.allclose(head.features(data[0]), plain.numpy(), atol=1e-6)


def test_restricting_and_extending_lose_nothing():
    q = Gaussian.around(only_last(network()), 0.3)
    head = find_head(q)
    back = head.extend(head.restrict(q))
    assert back.kl(q) == pytest.approx(0, abs=1e-9)
    assert all(torch.equal(back.fixed[name], tensor) for name, tensor in q.fixed.items())


def test_the_gibbs_risk_is_that_of_whole_drawn_networks(data):
    """Twin: draw the last layer's weights one network at a time. 4,000 networks; tolerance 5 standard errors (6e-7)."""
    net, (X, y) = only_last(network()), data
    q = Gaussian.around(net, 0.3)
    mine = gibbs_risk(q, X, y, seed=1)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        features = net[3](net[2](net[1](torch.from_numpy(X).flatten(1)))).double()
        weight, bias = net[4].weight.double(), net[4].bias.double()
        rates = []
        for _ in range(4000):
            w = weight + 0.3 * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            b = bias + 0.3 * torch.randn(bias.shape, generator=generator, dtype=torch.float64)
            rates.append(float(((features @ w.T + b).argmax(1) != torch.from_numpy(y)).double().mean()))
    error = np.std(rates) / np.sqrt(len(rates)) + 0.5 / np.sqrt(mine.plan.n * mine.plan.passes)
    assert mine.risk == pytest.approx(np.mean(rates), abs=5 * error)


def test_the_plan_costs_a_linear_layer(data):
    plan = plan_draws(Gaussian.around(only_last(network()), 0.3), data[0])
    assert plan.layered
    assert plan.precision == "float64", "in float32, the square of a small standard deviation is 0"


def test_training_moves_the_last_layer_alone(data):
    prior = Gaussian.around(only_last(network()), 0.3)
    posterior, _ = train_posterior(prior, *data, Plan(epochs=30, batch_size=50, lr=0.05))
    assert posterior.kl(prior) > 1
    assert gibbs_risk(posterior, *data, seed=0).risk < gibbs_risk(prior, *data, seed=0).risk
    assert draw_predictions(posterior, data[0], seed=0).shape == (400,)


def test_whole_random_networks_have_no_head():
    assert find_head(Gaussian.around(network(), 0.1)) is None
    first = network().requires_grad_(False)
    first[1].requires_grad_(True)
    assert find_head(Gaussian.around(first, 0.1)) is None, "the random layer is not the last one"


def test_an_output_that_is_more_than_the_last_layer_is_refused(data):
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 6)
            self.linear = nn.Linear(6, 3)

        def forward(self, x):
            return 2 * self.linear(self.first(x.flatten(1)))

    head = find_head(Gaussian.around(only_last(Doubled()), 0.1))
    with pytest.raises(TrueriskError, match="random all"):
        head.features(data[0])
