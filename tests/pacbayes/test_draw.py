"""One draw from a posterior and its log density ratio."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes import Gaussian, draw, draw_noise, drawn_network, log_ratio


def gaussians() -> tuple[Gaussian, Gaussian]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2))
    std = {name: 0.05 + 0.2 * torch.rand_like(p) for name, p in net.named_parameters()}
    return Gaussian.around(net, std), Gaussian.zero(net, 0.7)


def test_log_ratio_is_the_difference_of_log_densities():
    """Twin: scipy's normal density, weight by weight; rounded up, by less than 1e-10."""
    q, p = gaussians()
    weights = draw(q, seed=3)
    slow = sum(
        norm.logpdf(weights[n], q.mean[n], q.std[n]).sum() - norm.logpdf(weights[n], p.mean[n], p.std[n]).sum()
        for n in weights
    )
    mine = log_ratio(q, p, draw_noise(q, seed=3))
    assert slow <= mine + 1e-12
    assert mine == pytest.approx(slow, abs=1e-10)


def test_its_mean_is_the_kl():
    """2,000 draws, tolerance 4 standard errors: a false alarm in 6e-5 of seeds."""
    q, p = gaussians()
    values = np.array([log_ratio(q, p, draw_noise(q, seed)) for seed in range(2000)])
    assert values.mean() == pytest.approx(q.kl(p), abs=4 * values.std() / np.sqrt(len(values)))


def test_draws_have_the_right_moments_and_depend_on_the_seed_alone():
    net = nn.Linear(200, 100)
    q = Gaussian.around(net, 0.5)
    one, again, other = draw(q, 1), draw(q, 1), draw(q, 2)
    assert torch.equal(one["weight"], again["weight"])
    assert not torch.equal(one["weight"], other["weight"])
    z = (one["weight"] - q.mean["weight"]) / q.std["weight"]
    assert float(z.mean()) == pytest.approx(0, abs=4 / np.sqrt(20_000))
    assert float(z.var()) == pytest.approx(1, abs=4 * np.sqrt(2 / 20_000))


def test_the_drawn_network_has_exactly_these_weights():
    q, _ = gaussians()
    weights = draw(q, 1)
    network = drawn_network(q, weights)
    assert all(torch.equal(p, weights[name]) for name, p in network.named_parameters())
    assert not network.training


def test_distributions_that_fix_other_numbers_have_no_ratio():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    q = Gaussian.around(net, 0.1)
    net[1].running_mean += 1
    with pytest.raises(TrueriskError, match="different values"):
        log_ratio(q, Gaussian.around(net, 0.1), draw_noise(q, 0))
