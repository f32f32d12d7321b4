"""Networks with layers of noise, and the plan that halves its rate."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.lab.networks import GaussianNoise, build, halving_sgd


@pytest.mark.parametrize("noise", [nn.Dropout(0.5), GaussianNoise(0.5)])
@pytest.mark.parametrize(("place", "layers"), [("at_input", [0]), ("after_relu", [3, 6])])
def test_noise_disturbs_training_and_not_evaluation(noise, place, layers):
    plain = build("mlp", (1, 4, 4), 3, [8, 8], seed=1)
    noisy = build("mlp", (1, 4, 4), 3, [8, 8], seed=1, **{place: noise})
    X = torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(noisy.eval()(X), plain.eval()(X))
    noisy.train()
    assert not torch.allclose(noisy(X), noisy(X))
    assert [i for i, layer in enumerate(noisy) if isinstance(layer, nn.Dropout | GaussianNoise)] == layers


def test_gaussian_noise_has_its_deviation():
    torch.manual_seed(0)
    noise = GaussianNoise(0.3)(torch.ones(100_000)) - 1
    # deviations of mean and standard deviation: 0.3/sqrt(n) = 0.001 and 0.0007; 5 sigma
    assert abs(noise.mean().item()) < 0.005
    assert abs(noise.std().item() - 0.3) < 0.0035


def test_the_published_network_takes_cropped_cifar():
    module = build("cnn", (3, 28, 28), 10, [], seed=0, after_relu=nn.Dropout(0.5)).eval()
    assert module(torch.zeros(2, 3, 28, 28)).shape == (2, 10)
    # conv 5*5*3*200 + 200, conv 5*5*200*200 + 200, dense 200*384 + 384, 384*192 + 192, 192*10 + 10; batch norm 2 each
    counted = 15_200 + 1_000_200 + 77_184 + 73_920 + 1_930 + 2 * (200 + 200 + 384 + 192)
    assert sum(p.numel() for p in module.parameters()) == counted


def test_other_networks_are_refused():
    with pytest.raises(TrueriskError, match="choose mlp or cnn"):
        build("rnn", (1, 4, 4), 3, [], seed=0)
    with pytest.raises(TrueriskError, match="too small for the cnn"):
        build("cnn", (1, 8, 8), 10, [], seed=0)


def test_the_rate_is_halved_every_so_many_epochs():
    plan = halving_sgd({"epochs": 60, "batch": 10, "lr": 0.1, "halve_every": 15, "seed": 0})
    assert [plan.rate(epoch / 60) for epoch in (0, 14, 15, 30, 59)] == [1, 1, 0.5, 0.25, 0.125]
    assert halving_sgd({"epochs": 60, "batch": 10, "lr": 0.1, "halve_every": None, "seed": 0}).rate(0.9) == 1
