"""The closed form of the best prior scale. Its slow twin is scipy's bounded scalar minimization."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes import Gaussian, fan_in_std
from truerisk.pacbayes.scale import tuned_scale


def random_gaussian(module, generator, mean_scale, log_std):
    def tensors(draw):
        return {n: draw(torch.randn(p.shape, generator=generator).double()) for n, p in module.named_parameters()}

    return Gaussian(module, tensors(lambda z: mean_scale * z), tensors(lambda z: torch.exp(log_std + z / 2)))


def scaled(prior, factor):
    return Gaussian(prior.module, prior.mean, {n: s * factor for n, s in prior.std.items()})


@pytest.mark.parametrize("seed", range(10))
def test_the_closed_form_is_the_minimum_that_a_search_finds(seed):
    generator = torch.Generator().manual_seed(seed)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    p = random_gaussian(module, generator, 0.5 * (seed % 3), -1.0)
    q = random_gaussian(module, generator, 0.3 * seed, -2.0)
    factor, kl = tuned_scale(q, p)
    twin = minimize_scalar(lambda t: q.kl(scaled(p, math.exp(t))), bounds=(-8, 8), method="bounded")
    assert math.log(factor) == pytest.approx(twin.x, abs=1e-4)
    assert twin.fun * (1 - 1e-6) <= kl <= twin.fun * (1 + 1e-12)
    assert kl == q.kl(scaled(p, factor))  # the number is that of a prior one can write down
    assert kl <= q.kl(p)


def test_the_best_scale_stays():
    module = nn.Linear(7, 3)
    p = Gaussian.around(module, fan_in_std(module))
    factor, kl = tuned_scale(p, p)
    assert factor == pytest.approx(1, rel=1e-15)
    assert kl <= p.kl(p)


def test_only_the_mean_differs():
    """Q = N(m, s^2), P = N(0, s^2) in one dimension: e^(2t) = 1 + m^2/s^2 and KL = t."""
    module = nn.Linear(1, 1, bias=False)
    q, p = Gaussian.zero(module, 0.5), Gaussian.zero(module, 0.5)
    q.mean["weight"][:] = 3.0
    factor, kl = tuned_scale(q, p)
    assert factor**2 == pytest.approx(37, rel=1e-12)
    assert kl == pytest.approx(math.log(37) / 2, rel=1e-12)


def test_other_networks_are_refused():
    with pytest.raises(TrueriskError, match="different networks"):
        tuned_scale(Gaussian.zero(nn.Linear(2, 1), 1.0), Gaussian.zero(nn.Linear(3, 1), 1.0))
