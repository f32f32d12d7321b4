"""Original, tuned prior scale, rescaled, both, lifted: in the order that theory says, and each the best of its kind."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from truerisk import Gaussian, find_symmetry
from truerisk.errors import TrueriskError
from truerisk.pacbayes import kl_chain, kls, rescale_and_tune, tighten, tuned_scale

NET = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
SYMMETRY = find_symmetry(NET, torch.zeros(1, 5))
# Most weights are in the first layer, whose log-scales make up for almost any width: minimizing in turn is slow.
DEEP = nn.Sequential(
    nn.Linear(400, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)
)  # fmt: skip


def pair(seed, centred=True, net=NET):
    generator = torch.Generator().manual_seed(seed)

    def normal(scale):
        return {
            n: scale * torch.randn(p.shape, generator=generator, dtype=torch.float64) for n, p in net.named_parameters()
        }

    q = Gaussian(net, normal(1.0), {n: 0.2 * z.exp() for n, z in normal(0.5).items()})
    return q, Gaussian(net, normal(0.0 if centred else 0.5), {n: z.exp() for n, z in normal(0.5).items()})


def in_turn(q, p, symmetry, rounds=30):
    """The plain way: the best log-scales for a width, the best width for log-scales, and again."""
    best = symmetry.rescale(p, tighten(q, p, symmetry).log_scales)
    for _ in range(rounds):
        factor, _ = tuned_scale(q, best)
        wider = Gaussian(p.module, p.mean, {n: factor * s for n, s in p.std.items()})
        best = symmetry.rescale(p, tighten(q, wider, symmetry).log_scales)
    return tuned_scale(q, best)[1]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_the_chain(seed, centred):
    """The lifted KL is below the rescaled one up to 4 standard errors (false alarms: 16 times 3e-5)."""
    chain = kl_chain(*pair(seed, centred), SYMMETRY, draws=400, seed=seed)
    assert chain.rescaled <= chain.original
    assert chain.tuned_scale <= chain.original
    assert chain.both <= min(chain.rescaled, chain.tuned_scale)
    assert chain.lifted.value <= chain.rescaled + 4 * chain.lifted.standard_error


def test_both_is_the_joint_optimum():
    """Slow twin: Nelder-Mead polished by BFGS over log-scales and width together, through Gaussian.kl."""
    q, p = pair(1)

    def value(z):
        moved = SYMMETRY.rescale(p, torch.from_numpy(z[1:]))
        return q.kl(Gaussian(NET, moved.mean, {n: np.exp(z[0]) * s for n, s in moved.std.items()}))

    found = minimize(value, np.zeros(SYMMETRY.dim + 1), method="BFGS", options={"gtol": 1e-5, "maxiter": 500})
    assert kl_chain(q, p, SYMMETRY).both == pytest.approx(found.fun, rel=1e-6)


def test_both_meets_a_twin_of_its_own():
    """Prior around 0, one hidden layer: the KL written out in numpy, minimized over all u and s together.

    A weight into unit i has a prior of standard deviation exp(s + u_i) sigma, one out of it exp(s - u_i) sigma.
    """
    q, p = pair(2)
    names = ("0.weight", "0.bias", "2.weight", "2.bias")
    m, d, sigma = ([g[n].numpy() for n in names] for g in (q.mean, q.std, p.std))
    count = sum(x.size for x in m)

    def value(z):
        s, u = z[0], z[1:]
        exponents = (s + u[:, None], s + u, s - u[None, :], np.array(s))
        total, slope = -0.5 * count, np.zeros_like(z)
        for mean, std, width, x in zip(m, d, sigma, exponents, strict=True):
            squares = (mean**2 + std**2) / (width**2 * np.exp(2 * x))
            total += (np.log(width / std) + x + squares / 2).sum()
            excess = 1 - squares
            slope[0] += excess.sum()
            if x.size > 1:
                slope[1:] += excess.reshape(7, -1).sum(1) if x.shape[0] == 7 else -excess.sum(0)
        return total, slope

    assert value(np.zeros(8))[0] == pytest.approx(q.kl(p), rel=1e-12)
    found = minimize(value, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-8})
    assert kl_chain(q, p, SYMMETRY).both == pytest.approx(found.fun, rel=1e-9)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_both_in_a_deep_network_is_below_what_minimizing_in_turn_gives(seed, centred):
    symmetry = find_symmetry(DEEP, torch.zeros(1, 400))
    q, p = pair(seed, centred, DEEP)
    chain, slow = kl_chain(q, p, symmetry), in_turn(q, p, symmetry)
    assert chain.both <= min(chain.tuned_scale, chain.rescaled)
    assert chain.both < slow * (1 - 1e-6)  # its 30 rounds are not enough


def test_no_start_makes_it_worse():
    """The best of all that was seen is returned, the start included, whatever the search finds."""
    q, p = pair(3, centred=False)
    best = tighten(q, p, SYMMETRY).log_scales
    for start in (torch.zeros_like(best), best, best + 3.0):
        together = rescale_and_tune(q, p, SYMMETRY, start)
        _, tuned, _, both = kls(q, p, SYMMETRY, best, together)
        assert both <= min(tuned, tuned_scale(q, SYMMETRY.rescale(p, start))[1])


def test_a_prior_that_fits_is_left_alone():
    q = Gaussian.zero(NET, 0.5)
    assert kl_chain(q, q, SYMMETRY).both == q.kl(q)


def test_nothing_lifted_unless_asked():
    chain = kl_chain(*pair(0), SYMMETRY)
    assert chain.lifted is None
    assert chain.lifted_note == ""
    assert "lifted" not in str(chain)


@pytest.mark.parametrize("net", [NET, DEEP[:5]])
def test_the_words_are_in_the_order_of_the_chain(net):
    symmetry = find_symmetry(net, torch.zeros(1, net[0].in_features))
    chain = kl_chain(*pair(0, net=net), symmetry, draws=50)
    lines = str(chain).splitlines()
    assert [line.split("  ")[-1].partition(":")[0] for line in lines[1:4]] == [
        "original",
        "optimally rescaled",
        "lifted",
    ]
    numbers = [float(line.split()[0].replace(",", "")) for line in lines[1:4]]
    assert numbers == sorted(numbers, reverse=True)
    assert lines[4].startswith("with the prior scale tuned")
    assert lines[5].endswith("prior scale tuned")
    assert lines[6].endswith("prior scale tuned and optimally rescaled")
    assert len(lines) == 7
    assert "estimated from 50 draws (standard error " in lines[3]
    assert "between" in lines[3]
    for word in ("exact", "+-", "width"):
        assert word not in str(chain)
    assert "at most" in str(replace(chain, lifted=replace(chain.lifted, lower=None)))


def test_a_network_without_a_lifted_kl_keeps_the_rest_of_the_chain():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    symmetry = find_symmetry(net, torch.zeros(1, 1, 4, 4))
    plain, asked = (kl_chain(*pair(0, net=net), symmetry, draws=draws) for draws in (0, 10))
    assert asked.lifted is None
    assert "contains Conv2d" in asked.lifted_note
    assert replace(asked, lifted_note="") == plain
    assert f"no lifted KL: {asked.lifted_note}" in str(asked)


def test_bad_draws_are_no_note():
    with pytest.raises(TrueriskError, match="draws is 1"):
        kl_chain(*pair(0), SYMMETRY, draws=1)


def test_a_width_that_fits_gains_nothing():
    q = Gaussian.zero(NET, 0.5)
    assert tuned_scale(q, q) == (1.0, q.kl(q))
