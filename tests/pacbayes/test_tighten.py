"""The smallest KL on the orbit: against L-BFGS, along orbits, at the design's counter-example."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn

from truerisk import Gaussian, find_symmetry, tighten
from truerisk.errors import TrueriskError
from truerisk.pacbayes import tightening
from truerisk.symmetry import Held

SHAPES = {}  # architecture -> (module, symmetry): found once


def architecture(kind):
    """Small networks of several kinds, each with its symmetry."""
    if kind not in SHAPES:
        torch.manual_seed(0)
        net, shape = NETWORKS[kind]()
        SHAPES[kind] = net, find_symmetry(net, torch.zeros(1, *shape))
    return SHAPES[kind]


def mlp(bias):
    layers = [nn.Linear(4, 5, bias), nn.ReLU(), nn.Linear(5, 6, bias), nn.ReLU(), nn.Linear(6, 3, bias)]
    return nn.Sequential(*layers), (4,)


def conv():
    layers = [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 2, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)]
    return nn.Sequential(*layers), (2, 6, 6)


class Residual(nn.Module):
    """A stream that a layer maps to itself, and a hidden layer beside it."""

    def __init__(self):
        super().__init__()
        self.stem, self.same = nn.Linear(4, 5), nn.Linear(5, 5)
        self.up, self.down, self.head = nn.Linear(5, 7), nn.Linear(7, 5), nn.Linear(5, 2)

    def forward(self, x):
        x = self.stem(x).relu()
        x = x + self.same(x)
        return self.head(x + self.down(self.up(x).relu()))


class Gated(nn.Module):
    """Two log-scales add up; queries and keys have opposite ones."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 4)
        self.q, self.k, self.v, self.head = (nn.Linear(4, 4, bias=False) for _ in range(4))

    def forward(self, x):
        x = self.down(self.gate(x).relu() * self.up(x))[:, None]
        return self.head((self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)).square()[:, 0]


NETWORKS = {
    "mlp": lambda: mlp(True),
    "no bias": lambda: mlp(False),
    "conv": conv,
    "residual": lambda: (Residual(), (4,)),
    "gated": lambda: (Gated(), (4,)),
}
KINDS = tuple(NETWORKS)


def pair(kind, seed, centred=True):
    """Random Q and P with a standard deviation of its own for each weight."""
    net, symmetry = architecture(kind)
    generator = torch.Generator().manual_seed(seed)

    def normal(scale):
        return {
            n: scale * torch.randn(p.shape, generator=generator, dtype=torch.float64) for n, p in net.named_parameters()
        }

    def positive(scale, spread):
        return {name: scale * (spread * z).exp() for name, z in normal(1.0).items()}

    q = Gaussian(net, normal(1.0), positive(0.3, 0.7))
    return q, Gaussian(net, normal(0.0 if centred else 0.7), positive(0.8, 0.5)), symmetry


def reference(q, p, symmetry):
    """The slow twin: L-BFGS on the KL as autograd sees it; nothing but the factors of each weight goes in."""
    columns = [symmetry.factors(e) for e in torch.eye(symmetry.dim, dtype=torch.float64)]
    maps = {name: torch.stack([c[name].log() for c in columns], -1) for name in columns[0]}

    def value(t):
        t = torch.tensor(t, requires_grad=True)
        total = torch.zeros((), dtype=torch.float64)
        for name, m in q.mean.items():
            tau = maps[name] @ t if name in maps else torch.zeros_like(m)
            ratio = (q.std[name] / p.std[name]).square() * (-2 * tau).exp()
            shift = ((m - p.mean[name] * tau.exp()) / (p.std[name] * tau.exp())).square()
            total = total + (shift + ratio - 1 - ratio.log()).sum() / 2
        total.backward()
        return float(total.detach()), t.grad.numpy()

    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 50}
    return minimize(value, np.zeros(symmetry.dim), jac=True, method="L-BFGS-B", options=options).fun


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_lbfgs_finds_the_same(kind, seed):
    q, p, symmetry = pair(kind, seed)
    best, optimum = tighten(q, p, symmetry), reference(q, p, symmetry)
    assert best.kl_after == pytest.approx(optimum, rel=1e-8)
    assert best.kl_after - best.gap <= optimum * (1 + 1e-12)
    assert best.gap <= 1e-9 * best.kl_before
    assert best.kl_before == q.kl(p)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_belongs_to_the_orbit(kind):
    """Wherever on the orbit the posterior starts, the smallest KL is the same."""
    q, p, symmetry = pair(kind, 7)
    smallest = tighten(q, p, symmetry).kl_after
    for seed in range(3):
        moved = symmetry.rescale(q, symmetry.random(1.0, seed))
        assert tighten(moved, p, symmetry).kl_after == pytest.approx(smallest, rel=1e-9)


@pytest.mark.parametrize("centred", [True, False])
def test_the_log_scales_move_the_prior(centred):
    q, p, symmetry = pair("mlp", 3, centred)
    best = tighten(q, p, symmetry)
    assert best.log_scales.shape == (symmetry.dim,)
    assert q.kl(symmetry.rescale(p, best.log_scales)) == best.kl_after
    assert best.sweeps > 0
    assert q.kl(best.prior) == best.kl_after
    # moving the posterior the other way is the same thing
    assert best.posterior.kl(p) == pytest.approx(best.kl_after, rel=1e-12)
    # what enters a hidden unit is multiplied, what leaves it divided
    factor = best.log_scales[:5].exp()
    assert torch.allclose(best.prior.std["0.weight"], p.std["0.weight"] * factor[:, None], rtol=1e-14)
    assert not factor.allclose(torch.ones(5, dtype=torch.float64), rtol=0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centred", [True, False])
def test_the_kl_after_each_sweep(kind, centred):
    q, p, symmetry = pair(kind, 5, centred)
    best = tighten(q, p, symmetry)
    assert (best.kls[0], best.kls[-1]) == (best.kl_before, best.kl_after)
    assert len(best.kls) == best.sweeps + 1
    assert all(later <= earlier for earlier, later in pairwise(best.kls))


@pytest.mark.parametrize("sweeps", [1, 2, 3])
def test_the_kl_after_some_sweeps_is_that_of_their_log_scales(sweeps, monkeypatch):
    """Stopping the search early is the reference: the KL at its point, from the definition."""
    q, p, symmetry = pair("residual", 5)
    whole = tighten(q, p, symmetry)
    monkeypatch.setattr(tightening, "minimize", partial(tightening.minimize, max_sweeps=sweeps))
    stopped = tighten(q, p, symmetry)
    assert stopped.sweeps == sweeps < whole.sweeps
    assert whole.kls[sweeps] == pytest.approx(stopped.kl_after, rel=1e-12)
    assert stopped.kl_after > whole.kl_after


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.booleans(), st.floats(0.0, 3.0))
def test_never_worse_than_before(kind, seed, centred, spread):
    q, p, symmetry = pair(kind, seed, centred)
    q = symmetry.rescale(q, symmetry.random(spread, seed))
    best = tighten(q, p, symmetry)
    assert best.kl_after <= best.kl_before
    assert (best.gap is None) == (not centred)


@pytest.mark.parametrize("seed", range(10))
def test_a_prior_around_the_posterior_is_found_again(seed):
    """Q = P moved along the orbit: the lifts agree, so the KL can go down to 0, with any prior mean."""
    _, p, symmetry = pair("mlp", seed, centred=False)
    q = symmetry.rescale(p, symmetry.random(0.3, seed))
    best = tighten(q, p, symmetry)
    assert best.kl_before > 1
    assert best.kl_after < 1e-6


class Offset(nn.Module):
    """g (w x - 1), the 1 being the running mean of a batch norm: a number that no distribution draws."""

    def __init__(self, mean):
        super().__init__()
        self.w, self.bn = nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1, eps=0.0)
        self.bn.bias = None
        self.bn.running_mean.fill_(mean)

    def forward(self, x):
        return self.bn(self.w(x))


def offset(mean):
    net = Offset(mean).eval()
    means = {"w.weight": torch.tensor([[8.0]]), "bn.weight": torch.tensor([0.1])}
    stds = {"w.weight": torch.tensor([[0.1]]), "bn.weight": torch.tensor([0.01])}
    return Gaussian(net, means, stds), Gaussian.zero(net, 1.0), find_symmetry(net, torch.zeros(1, 1))


def test_the_counter_example():
    """Rule 6: the lifted KL is 37.9. Moving the running mean along would say 6.7, which is not true of any bound."""
    q, p, symmetry = offset(1.0)
    assert symmetry.dim == 1  # a module can be rescaled all the same
    best = tighten(q, p, symmetry)
    assert best.kl_after == best.kl_before == pytest.approx(37.9, abs=0.05)
    assert best.gap == 0
    why = "rescaling it would move bn.running_mean, which is not drawn"
    assert (best.held, best.free) == ((Held("w (linear)", 1, why),), 0)
    assert best.kls == (best.kl_before,)
    assert best.statistics == ("bn.running_mean",)
    assert "1 of 1 channels are held" in str(best)
    assert symmetry.pinned == [("w (linear)", f"held in tighten: 1 channel, because {why}")]
    q, p, symmetry = offset(0.0)  # 0 stays 0 when it is multiplied: nothing is held
    best = tighten(q, p, symmetry)
    assert best.kl_after == pytest.approx(6.7, abs=0.05)
    assert (best.held, best.free, best.statistics, symmetry.pinned) == ((), 1, (), [])


def test_a_moved_buffer_has_no_kl():
    """Log-scales that move a running mean can't be slipped into a KL."""
    q, p, symmetry = offset(1.0)
    with pytest.raises(TrueriskError, match=r"fix bn.running_mean at different values"):
        q.kl(symmetry.rescale(p, torch.tensor([0.3])))


def test_frozen_parameters_hold():
    """Layer 0 frozen: its rows can't move, so the only freedom left is that of the second hidden layer."""
    net, symmetry = architecture("mlp")
    net = nn.Sequential(*(layer for layer in net))
    for p in net[0].parameters():
        p.requires_grad_(False)
    try:
        q, p = Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0)
        best = tighten(q, p, symmetry)
        assert best.kl_after < best.kl_before
        moved = symmetry.factors(best.log_scales)
        assert all((moved[name] == 1).all() for name in ("0.weight", "0.bias"))
        assert (moved["2.weight"] != 1).any()
        why = "rescaling them would move 0.weight, 0.bias, which are not drawn"
        assert (best.held, best.free) == ((Held("0 (linear)", 5, why),), 6)
        assert best.held == find_symmetry(net, torch.zeros(1, 4)).held_in_tighten
        assert symmetry.held_in_tighten == ()  # it was found when nothing was frozen
    finally:
        for p in net[0].parameters():
            p.requires_grad_(True)


def test_a_frozen_matrix_between_two_hidden_layers_ties_them():
    """Each of the 30 weights ties a channel to another: of 11 log-scales one is left, which moves all of them."""
    net, symmetry = nn.Sequential(*mlp(True)[0]), architecture("mlp")[1]
    net[2].weight.requires_grad_(False)
    q, p = Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0)
    best = tighten(q, p, symmetry)
    assert best.free == 1
    assert sum(held.count for held in best.held) == 10
    assert all("would move 2.weight, which is not drawn" in held.why for held in best.held)
    assert best.log_scales.max() - best.log_scales.min() < 1e-12
    assert best.log_scales[0] != 0


def test_counts_by_layer_and_tensor():
    """Two batch norms; the running mean of the second is 0 in three of five channels."""
    layers = [nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(5, 2)).eval()
    net[1].running_mean.fill_(0.5)
    net[4].running_mean[:2] = -1.0
    best = tighten(Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0), find_symmetry(net, torch.zeros(1, 3)))
    assert [(held.where, held.count) for held in best.held] == [("0 (linear)", 4), ("3 (linear)", 2)]
    assert best.free == 18 - 6
    assert best.statistics == ("1.running_mean", "4.running_mean")
    text = str(best).splitlines()
    assert text[1].startswith("6 of 18 channels are held: 0 (linear): 4 channels, because rescaling them would move 1.")
    assert "share 1.running_mean, 4.running_mean" in text[2]
    assert "multiplied by exp(t)" in text[3]


def test_another_networks_symmetry_is_refused():
    q, p, _ = pair("mlp", 0)
    with pytest.raises(TrueriskError, match="another network"):
        tighten(q, p, architecture("conv")[1])


def test_it_says_what_it_did():
    q, p, symmetry = pair("mlp", 0)
    assert "above the smallest on the orbit" in str(tighten(q, p, symmetry))
    q, p, symmetry = pair("mlp", 0, centred=False)
    assert "local optimum" in str(tighten(q, p, symmetry))


@pytest.mark.parametrize("seed", range(3))
def test_the_gap_is_relative_to_the_kl_that_is_found(seed):
    """Twins with random factors of about 1000: a gap relative to the KL at the start would be as large as the KL."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    sym = find_symmetry(net, torch.zeros(1, 20, dtype=torch.float64))
    q, p = Gaussian.around(net, 0.02), Gaussian.zero(net, 1.0)
    best = tighten(q, p, sym)
    twin = tighten(sym.rescale(q, sym.random(math.log(1000), seed=seed)), p, sym)
    assert twin.kl_before > 1e9 * best.kl_before
    assert twin.kl_after == pytest.approx(best.kl_after, rel=1e-9)
    assert twin.gap <= 2e-10 * twin.kl_after


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("seed", range(3))
def test_no_start_is_too_far_away(seed, scale):
    """At factors of about e^20 the KL at the start has no digits that matter at the optimum."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3), nn.LeakyReLU(), nn.Linear(3, 2)).double()
    sym = find_symmetry(net, torch.zeros(1, 3))
    q, p = Gaussian.around(net, 0.3), Gaussian.zero(net, scale)
    twin = tighten(sym.rescale(q, sym.random(20.0, seed=seed)), p, sym)
    assert twin.kl_before > 1e16 * twin.kl_after
    assert twin.kl_after == pytest.approx(tighten(q, p, sym).kl_after, rel=1e-9)
    assert twin.gap <= 1e-9 * max(1.0, twin.kl_after)


@pytest.mark.parametrize("std", [0.0, 1.0, 5.0])
def test_the_gap_covers_rounding_where_the_smallest_kl_is_0(std):
    """The posterior is a twin of the prior: the KL that is found is nothing but slack, and so is the gap."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    sym = find_symmetry(net, torch.zeros(1, 3))
    p = Gaussian.zero(net, 0.7)
    best = tighten(sym.rescale(p, sym.random(std, seed=0)), p, sym)
    assert 0 < best.kl_after <= best.gap < 1e-10
