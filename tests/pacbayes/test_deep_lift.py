"""The lifted KL of several hidden layers against integrals and densities that are written down in other ways.

Tests of Monte Carlo numbers allow 4 standard errors: each fails by chance with probability 6e-5 (two-sided)
or 3e-5 (one-sided), for a new seed; with the seeds written here they always give the same answer.
"""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from scipy.signal import fftconvolve
from scipy.special import logsumexp
from scipy.stats import norm
from torch import nn

from truerisk import find_symmetry
from truerisk.errors import TrueriskError
from truerisk.pacbayes import Gaussian, deep_lift, fan_in_std, lifted_kl, tighten
from truerisk.pacbayes.couplings import Couplings, mode
from truerisk.pacbayes.deep_lift import lift_terms, log_ceiling
from truerisk.pacbayes.dense import NoLift, dense_layers
from truerisk.pacbayes.lifted import _dense
from truerisk.pacbayes.orbits import Units, log_integral, orbits


def mlp(*widths, biases=True, activation=nn.ReLU):
    torch.manual_seed(0)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b, bias=biases), activation())]
    return nn.Sequential(*layers[:-1])


def random_gaussian(net, rng, mean_scale, spread):
    def tensors(draw):
        return {n: torch.from_numpy(draw(rng.standard_normal(tuple(p.shape)))) for n, p in net.named_parameters()}

    return Gaussian(net, tensors(lambda z: mean_scale * z), tensors(lambda z: np.exp(spread * z)))


def laws(gaussian):
    return _dense(gaussian, dense_layers(gaussian))


def rescaled(gaussian, rng, spread):
    """Each hidden unit's incoming weights times a random factor, its outgoing ones divided by it."""
    mean, std = dict(gaussian.mean), dict(gaussian.std)
    linear = [name for name, m in gaussian.module.named_modules() if isinstance(m, nn.Linear)]
    for one, two in pairwise(linear):
        f = torch.from_numpy(np.exp(spread * rng.standard_normal(len(mean[f"{one}.weight"]))))
        for moments in (mean, std):
            moments[f"{one}.weight"] = moments[f"{one}.weight"] * f[:, None]
            moments[f"{two}.weight"] = moments[f"{two}.weight"] / f
            if f"{one}.bias" in moments:
                moments[f"{one}.bias"] = moments[f"{one}.bias"] * f
    return Gaussian(gaussian.module, mean, std)


# The integral over all log factors, on a grid. The twin multiplies weights by exponentials; it has no A, B, or G.

GRID, STEP = np.linspace(-12, 12, 121, retstep=True)  # peaks are wider than a step, tails below e^-12 at the ends


def log_normal(x, mean, std):
    return -np.square((x - mean) / std) / 2 - np.log(std * math.sqrt(2 * math.pi))


def grid_log_integral(law, weights, jacobian=1.0):
    """log I_f of a network with two hidden layers, two units at most in the second.

    Given log factors v of the second layer, the units of the first are independent: nested trapezoidal rules. Every
    weight gives a factor e^t to the volume, t its log factor. ``jacobian=-1`` is wrong.
    """
    first, second, third = zip(law, weights, strict=True)
    k = len(second[1])
    v = np.stack(np.meshgrid(*[GRID] * k, indexing="ij"), -1).reshape(-1, k)

    def weight(layer, i, j, t):
        (mean, std, _), w = layer
        return log_normal(w[i, j] * np.exp(t), mean[i, j], std[i, j]) + jacobian * t

    total = sum(weight(third, o, i, -v[:, i]) for o in range(len(third[1])) for i in range(k))
    hidden = len(first[1])
    if second[0].biased:
        total = total + sum(weight(second, i, hidden, v[:, i]) for i in range(k))
    for j in range(hidden):
        lone = sum(weight(first, j, c, GRID) for c in range(first[1].shape[1]))
        pairs = [weight(second, i, j, v[:, i, None] - GRID) for i in range(k)]
        total = total + logsumexp(lone + sum(pairs), axis=1) + math.log(STEP)
    return logsumexp(total) + k * math.log(STEP)


def log_density(law, weights):
    return sum(log_normal(w, mean, std).sum() for w, (mean, std, _) in zip(weights, law, strict=True))


def compared(widths, biases, scale, jacobian=1.0, of="value"):
    """Estimates of log I_f for drawn weights less those of the twin, and their standard errors."""
    rng = np.random.default_rng(5)
    law = laws(random_gaussian(mlp(*widths, biases=biases), rng, 1.0 / scale, 0.3))
    [(weights, points)] = deep_lift._draw(law, 3, seed=1)
    sampled = deep_lift._sampled(law, weights, points)
    slow, density = [], []
    for k in range(3):
        drawn = [w[k] for w in weights]
        density.append(log_density(law, drawn))
        slow.append(grid_log_integral(law, drawn, jacobian))
    return getattr(sampled, of) + density - slow, np.sqrt(1 / sampled.effective)


CASES = [((1, 1, 1, 1), True), ((1, 1, 1, 1), False), ((3, 2, 1, 2), True), ((2, 2, 2, 1), True), ((2, 3, 2, 2), False)]


@pytest.mark.parametrize(("widths", "biases"), CASES)
@pytest.mark.parametrize("scale", [0.4, 1.5])  # of the standard deviations, beside the means
def test_integral_over_all_log_factors_against_a_grid(widths, biases, scale, monkeypatch):
    monkeypatch.setattr(deep_lift, "POINTS", 4000)
    difference, error = compared(widths, biases, scale)
    assert (np.abs(difference) < 4 * error).all()
    assert error.max() < 0.15


@pytest.mark.parametrize(("widths", "biases"), [CASES[0], *CASES[2:]])  # the other one has n = 0 for all units
def test_a_wrong_jacobian_is_seen(widths, biases, monkeypatch):
    """The twin with the wrong sign is far outside the tolerance of the test above."""
    monkeypatch.setattr(deep_lift, "POINTS", 4000)
    difference, error = compared(widths, biases, 1.5, jacobian=-1.0)
    assert (np.abs(difference) > 8 * error).any()


def ratios_under_p(draws):
    """lift Q : lift P at weights drawn from P, for two laws that are near, up to a rescaling."""
    rng = np.random.default_rng(4)
    net = mlp(6, 4, 5, 2, 3)
    p = random_gaussian(net, rng, 1.0, 0.2)
    near = {n: m + 0.12 * torch.from_numpy(rng.standard_normal(tuple(m.shape))) for n, m in p.mean.items()}
    q = rescaled(Gaussian(net, near, {n: 0.93 * s for n, s in p.std.items()}), rng, 0.3)
    mine, theirs = laws(q), laws(p)
    logs = []
    for weights, points in deep_lift._draw(theirs, draws, seed=0):
        one, two = (deep_lift._sampled(law, weights, points) for law in (mine, theirs))
        densities = [
            sum(log_normal(w, m, s).sum((1, 2)) for w, (m, s, _) in zip(weights, law, strict=True))
            for law in (mine, theirs)
        ]
        logs.append(one.value + densities[0] - two.value - densities[1])
    return np.exp(np.concatenate(logs))


@pytest.mark.parametrize("wrong", [False, True])
def test_densities_of_orbits_integrate_to_one(wrong, monkeypatch):
    """The mean of (lift Q : lift P) under P is 1, in a network too large for any grid.

    Right: within 4 standard errors. With the sign of the Jacobian's exponent turned round it is not.
    """
    if wrong:
        right = Couplings.of.__func__

        def turned(cls, *args):
            couplings = right(cls, *args)
            return replace(couplings, excess=-couplings.excess)

        monkeypatch.setattr(Couplings, "of", classmethod(turned))
    ratios = ratios_under_p(1500)
    error = ratios.std() / math.sqrt(len(ratios))
    assert wrong or error < 0.2
    assert (abs(ratios.mean() - 1) > 4 * error) == wrong


# Units in a row: the lift is the product of all weights, with the signs of each.


def row(means, stds):
    net = mlp(*[1] * (len(means) + 1), biases=False)
    names = [name for name, _ in net.named_parameters()]
    return Gaussian(
        net, *({n: torch.tensor([[float(x)]]) for n, x in zip(names, v, strict=True)} for v in (means, stds))
    )


def product_kl(q, p, step=0.01):
    """The slow twin: for all signs, the density of the log of the product's size is a convolution of densities."""
    r = np.arange(-25, 5, step)

    def density(law, signs):
        parts = [norm.pdf(s * np.exp(r), m, d) * np.exp(r) for s, m, d in zip(signs, *law, strict=True)]
        whole = parts[0]
        for part in parts[1:]:
            whole = step * fftconvolve(whole, part)
        return np.maximum(whole, 0.0)

    total = mass = 0.0
    for signs in product((1, -1), repeat=len(q[0])):
        mine, theirs = density(q, signs), density(p, signs)
        seen = (mine > 1e-11) & (theirs > 1e-11)
        mass += step * mine[seen].sum()
        total += step * (mine[seen] * np.log(mine[seen] / theirs[seen])).sum()
    assert mass == pytest.approx(1, abs=1e-5)
    return total


ROWS = {
    "centered": (((0, 0, 0), (1, 0.5, 2)), ((0, 0, 0), (2, 1, 1))),
    "centered prior": (((1.5, -1.0, 0.7), (0.3, 0.4, 0.3)), ((0, 0, 0), (1, 1, 1))),
    "two modes": (((2.0, 0.3, 1.2), (0.5, 0.2, 0.4)), ((0.5, 1.5, 0.8), (0.3, 0.4, 0.5))),
    "five layers": (((1.5, -1.0, 0.7, 1.1, 0.3), (0.3, 0.4, 0.3, 0.9, 0.5)), ((0,) * 5, (1, 1, 1, 2, 1))),
    "wide posterior": (((0.5, -0.1, 0.3), (5, 2, 0.1)), ((0, 0, 0), (1, 1, 1))),
    "signs differ": (((0.7, 0.3, 0.5), (0.5, 0.6, 0.5)), ((-0.6, 0.4, 0.2), (0.8, 0.7, 1.0))),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_units_against_the_density_of_a_product(name):
    q, p = ROWS[name]
    exact = product_kl(q, p)
    estimate = lifted_kl(row(*q), row(*p), draws=3000)
    assert abs(estimate.value - exact) < 4 * estimate.standard_error
    assert 0 < estimate.standard_error < 0.05
    assert exact < estimate.upper + estimate.standard_error  # already 3 standard errors above its mean
    assert estimate.upper < exact + 0.3
    if estimate.lower is not None:
        assert exact - 1.5 < estimate.lower < exact + estimate.standard_error
    assert (estimate.lower is None) == any(p[0])


def test_w_itself_makes_the_estimate_of_log_i_q_err_high():
    """With few points the error shows: without w below, with w above. A narrow posterior, so that points fit badly."""
    q, p = ROWS["two modes"]
    law = laws(row(*q))
    terms, exact = [], product_kl(q, p)
    mine = laws(row(*p))
    for points in (4, 64):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(deep_lift, "POINTS", points)
            terms.append(lift_terms(law, mine, 6000, seed=0))
    rest = exact - row(*q).kl(row(*p))
    for few in terms:
        assert few.upper.mean() > rest - 4 * few.upper.std() / math.sqrt(6000)
    assert terms[0].upper.mean() > rest + 0.1
    assert terms[0].upper.mean() > terms[1].upper.mean()
    assert abs(terms[1].value.mean() - rest) < 4 * terms[1].value.std() / math.sqrt(6000)


# Orbits by quadrature, where that is possible.


def test_one_hidden_layer_against_quadrature():
    """The code for several layers, on one: log I_f/f(w) of all units together."""
    rng = np.random.default_rng(0)
    net = mlp(7, 5, 4)
    for mean_scale in (0.0, 2.0):
        law = laws(random_gaussian(net, rng, mean_scale, 0.3))
        [(weights, points)] = deep_lift._draw(law, 20, seed=0)
        sampled = deep_lift._sampled(law, weights, points)
        first, last = law
        units = Units(np.hstack([first.mean, last.mean.T]), np.hstack([first.std, last.std.T]), first.mean.shape[1])
        orbit = orbits(units, np.concatenate([weights[0], np.swapaxes(weights[1], -1, -2)], axis=-1))
        exact = (log_integral(orbit) - orbit[-1]).sum(axis=-1)
        assert (np.abs(sampled.value - exact) < 5 * np.sqrt(1 / sampled.effective)).all()
        if not mean_scale:  # nothing is linear then, so the bound from above is the integral itself
            assert log_ceiling(Couplings.of(law, weights), sampled.mean) == pytest.approx(exact, abs=1e-8)


def by_every_second_layer(q, p, first, draws, seed):
    """Terms of the KL of a coarser lift: by the units of every second hidden layer, the other weights as they are."""
    rng = np.random.default_rng(seed)
    weights = [m.mean + m.std * rng.standard_normal((draws, *m.mean.shape)) for m in q]
    total = np.zeros(draws)
    for layer in range(first, len(q) - 1, 2):
        inputs = q[layer + 1].mean.shape[1] - q[layer + 1].biased

        def rows(one, two, inputs=inputs):
            return np.concatenate([one, np.swapaxes(two, -1, -2)[..., :inputs, :]], axis=-1)

        drawn = rows(weights[layer], weights[layer + 1])
        for sign, law in ((1, q), (-1, p)):
            one, two = law[layer], law[layer + 1]
            orbit = orbits(Units(rows(one.mean, two.mean), rows(one.std, two.std), one.mean.shape[1]), drawn)
            total += sign * (log_integral(orbit) - orbit[-1]).sum(axis=-1)
    return total


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("centered", [True, False])
def test_between_its_ends_and_below_coarser_lifts(seed, centered):
    """lower <= value <= lift by every second layer <= rescaled, each up to 4 standard errors."""
    rng = np.random.default_rng(seed)
    net = mlp(*rng.integers(1, 9, 4 + seed % 3).tolist(), biases=bool(seed % 2))
    q = random_gaussian(net, rng, rng.choice([0.3, 2.0]), 0.5)
    p = random_gaussian(net, rng, 0.0 if centered else 0.7, 0.5)
    estimate = lifted_kl(q, p, draws=300, seed=seed)
    slack = 4 * estimate.standard_error
    assert -slack < estimate.value < estimate.rescaled + slack
    assert estimate.value < estimate.upper <= estimate.rescaled <= q.kl(p)
    assert (estimate.lower is not None) == centered
    if centered:
        assert 0 <= estimate.lower < max(estimate.value, slack)
        symmetry = find_symmetry(net, torch.zeros(1, net[0].in_features))
        best = tighten(q, p, symmetry)
        assert estimate.rescaled == pytest.approx(best.kl_after, rel=1e-8)
    for first in (0, 1):
        terms = by_every_second_layer(laws(q), laws(p), first, 300, seed)
        coarser, error = q.kl(p) + terms.mean(), terms.std() / math.sqrt(300)
        assert estimate.value < coarser + 4 * math.hypot(error, estimate.standard_error)


def test_a_clear_gain_over_coarser_lifts():
    """Both halves of the layers count: ten units each; 4 standard errors as above."""
    net = mlp(1, 10, 10, 1, biases=False)
    q, p = Gaussian.zero(net, 0.1), Gaussian.around(net, 1.0)
    estimate = lifted_kl(q, p, draws=300)
    for first in (0, 1):
        terms = by_every_second_layer(laws(q), laws(p), first, 300, 0)
        error = 4 * math.hypot(terms.std() / math.sqrt(300), estimate.standard_error)
        assert estimate.upper < q.kl(p) + terms.mean() - error


@pytest.mark.parametrize(("widths", "biases"), CASES)
def test_the_bound_from_above_lies_above(widths, biases):
    """log_ceiling is a bound for every w, near the prior or far from it, and for every place of the tangents."""
    rng = np.random.default_rng(0)
    net = mlp(*widths, biases=biases)
    law = laws(random_gaussian(net, rng, 0.0, 0.5))
    gaps = []
    for _ in range(3):
        weights = [m.std * rng.standard_normal(m.mean.shape) * 10 ** rng.uniform(-1, 1) for m in law]
        exact = grid_log_integral(law, weights) - log_density(law, weights)
        here = Couplings.of(law, weights)
        best = mode(here)
        gaps += [
            float(log_ceiling(here, tangent)) - exact
            for tangent in (best, best + 0.3 * rng.standard_normal(best.shape))
        ]
    assert min(gaps) > -1e-6
    assert min(gaps) < 0.3 * sum(widths[1:-1])


# The parts.


def plain_rise(law, weights, u):
    """F(u) - F(0) from the log-density of moved weights."""
    parts = np.split(u, np.cumsum([len(m.mean) for m in law[:-2]]))
    parts = [np.zeros(law[0].mean.shape[1] - law[0].biased), *parts, np.zeros(len(law[-1].mean))]
    moved, volume = [], 0.0
    for w, m, below, v in zip(weights, law, parts, parts[1:], strict=False):
        t = v[:, None] - np.concatenate([below, np.zeros(int(m.biased))])
        moved.append(w * np.exp(t))
        volume += t.sum()
    return log_density(law, weights) - log_density(law, moved) - volume


@pytest.mark.parametrize("size", [1e-3, 0.3, 0.6, 3.0])
def test_rise_is_that_of_moved_weights(size):
    rng = np.random.default_rng(0)
    law = laws(random_gaussian(mlp(4, 3, 5, 2, 3), rng, 1.0, 0.3))
    weights = [m.mean + m.std * rng.standard_normal(m.mean.shape) for m in law]
    here = Couplings.of(law, weights)
    u = size * rng.standard_normal((7, 10))
    slow = [plain_rise(law, weights, v) for v in u]
    assert here.rise(u) == pytest.approx(slow, rel=1e-9, abs=1e-11)
    step = rng.standard_normal(10)
    assert here.moved(step).rise(u) == pytest.approx(here.rise(u + step) - here.rise(step[None]), rel=1e-9, abs=1e-9)
    assert here.rise(np.full((1, 10), 400.0))[0] == np.inf


def test_slopes_are_derivatives():
    rng = np.random.default_rng(1)
    law = laws(random_gaussian(mlp(4, 3, 5, 2), rng, 1.0, 0.3))
    weights = [m.mean + m.std * rng.standard_normal(m.mean.shape) for m in law]
    here = Couplings.of(law, weights)
    gradient, hessian, safe = here.slopes()
    h, eye = 1e-4, np.eye(8)
    up, down = here.rise(h * eye), here.rise(-h * eye)
    assert gradient == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)
    pairs = np.array([[here.rise(h * (a + b)[None])[0] for a in eye] for b in eye])
    assert hessian == pytest.approx((pairs - up[:, None] - up[None]) / h**2, rel=1e-2, abs=1e-2)
    assert np.linalg.eigvalsh(safe - hessian)[0] > -1e-9
    assert np.linalg.eigvalsh(safe)[0] > 0


def test_the_mode_is_found_from_afar():
    rng = np.random.default_rng(2)
    for mean_scale in (0.0, 1.0):
        law = laws(random_gaussian(mlp(4, 3, 5, 2), rng, mean_scale, 0.3))
        weights = [m.mean + m.std * rng.standard_normal(m.mean.shape) for m in law]
        here = Couplings.of(law, weights)
        there = here.moved(mode(here))
        gradient, hessian, _ = there.slopes()
        assert np.abs(gradient).max() < 1e-6
        assert np.linalg.eigvalsh(hessian)[0] > 0
        if not mean_scale:
            away = 6 * rng.standard_normal(8)
            assert mode(here.moved(away)) + away == pytest.approx(mode(here), abs=1e-7)


# What the number must satisfy.


@pytest.mark.parametrize("centered", [True, False])
def test_rescaling_either_law_changes_nothing(centered):
    """The draws of rescaled laws are rescaled draws, so only rounding differs."""
    rng = np.random.default_rng(0)
    net = mlp(6, 4, 5, 3, 2, activation=nn.LeakyReLU)
    q, p = random_gaussian(net, rng, 1.0, 0.4), random_gaussian(net, rng, 0.0 if centered else 0.3, 0.4)
    plain = lifted_kl(q, p, draws=50, seed=3)
    for mine, theirs in (
        (rescaled(q, rng, 2.0), p),
        (q, rescaled(p, rng, 2.0)),
        (rescaled(q, rng, 2.0), rescaled(p, rng, 2.0)),
    ):
        moved = lifted_kl(mine, theirs, draws=50, seed=3)
        for name in ("value", "upper", "lower", "standard_error", "rescaled"):
            if getattr(plain, name) is not None:
                assert getattr(moved, name) == pytest.approx(getattr(plain, name), rel=1e-8)
        assert (moved.lower is None) == (not centered)
        assert moved.how == plain.how
    assert rescaled(q, rng, 2.0).kl(p) > 10 * plain.rescaled


def test_nothing_between_equal_lifts():
    rng = np.random.default_rng(0)
    for mean_scale in (0.0, 1.0):
        p = random_gaussian(mlp(6, 4, 5, 3), rng, mean_scale, 0.4)
        for q in (p, rescaled(p, rng, 1.5)):
            estimate = lifted_kl(q, p, draws=50)
            assert abs(estimate.value) < 1e-8
            assert estimate.standard_error < 1e-8
            assert estimate.upper <= estimate.rescaled < 1e-8
        assert rescaled(p, rng, 1.5).kl(p) > 100


def test_tiny_standard_deviations_lose_no_digits():
    """As for one hidden layer: all but K of N directions count, up to the curvature of orbits, (s/m)^2."""
    net = mlp(9, 6, 5, 2)
    q, p = Gaussian.around(net, 1e-8), Gaussian.around(net, 2e-8)
    one = 1 / 8 - 1 / 2 + math.log(2)
    estimate = lifted_kl(q, p, draws=500)
    assert estimate.rescaled == pytest.approx(q.size * one, rel=1e-6)
    assert abs(estimate.value - (q.size - 11) * one) < 4 * estimate.standard_error
    assert estimate.standard_error < 0.1
    assert estimate.upper == pytest.approx(estimate.value + 3 * estimate.standard_error, abs=0.02)


def test_same_seed_same_answer_and_chunks_do_not_matter(monkeypatch):
    net = mlp(5, 3, 4, 2)
    q, p = Gaussian.around(net, 0.1), Gaussian.zero(net, fan_in_std(net))
    one, two, three = (lifted_kl(q, p, draws=8, seed=seed) for seed in (1, 1, 2))
    assert one == two
    assert one.value != three.value
    monkeypatch.setattr(deep_lift, "CHUNK_NUMBERS", 1)
    assert lifted_kl(q, p, draws=8, seed=1).value == pytest.approx(one.value, rel=1e-12)


def test_an_mnist_sized_network():
    """The drawn rest must stay of the order of a nat for a unit, and the ends close."""
    net = nn.Sequential(nn.Flatten(), *mlp(784, 64, 32, 10))
    q, p = Gaussian.around(net, fan_in_std(net, 0.1)), Gaussian.zero(net, fan_in_std(net))
    estimate = lifted_kl(q, p, draws=30)
    assert estimate.standard_error < 2 * math.sqrt(96 / 30)
    assert 0.1 * 96 < estimate.rescaled - estimate.value < 5 * 96
    assert estimate.rescaled - estimate.upper > 50
    assert estimate.value - estimate.lower < 4 * estimate.standard_error + 3
    assert "all 96 units" in estimate.how


def test_deep_and_narrow():
    """Points fit worst here. Eight times as many must not change what 256 say by more than a fifth of a nat."""
    net = mlp(8, 64, 32, 16, 8, 4, 2)
    q, p = Gaussian.around(net, fan_in_std(net, 0.3)), Gaussian.zero(net, fan_in_std(net))
    few = lift_terms(laws(q), laws(p), 8, seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deep_lift, "POINTS", 2048)
        many = lift_terms(laws(q), laws(p), 8, seed=0)
    noise = np.sqrt(2 / few.effective) + np.sqrt(2 / many.effective)
    assert (np.abs(few.value - many.value) < 4 * noise).all()
    assert abs((few.value - many.value).mean()) < 0.2
    assert np.median(few.effective) > 15
    assert (many.lower < many.value).all()


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0, -1.0])
def test_wrapping_and_negative_slope_do_not_matter(slope):
    """A positive factor passes through any of these: the same weights, the same number."""
    rng = np.random.default_rng(0)
    plain = mlp(4, 3, 5, 2)
    q, p = (random_gaussian(plain, rng, m, 0.3) for m in (1.0, 0.0))
    body = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.2), nn.LeakyReLU(slope), nn.Linear(3, 5))
    wrapped = nn.Sequential(nn.Flatten(), body, nn.ReLU(), nn.Identity(), nn.Linear(5, 2))
    names = dict(zip([n for n, _ in plain.named_parameters()], [n for n, _ in wrapped.named_parameters()], strict=True))
    other = [Gaussian(wrapped, *({names[n]: t for n, t in m.items()} for m in (law.mean, law.std))) for law in (q, p)]
    assert lifted_kl(*other, draws=20) == lifted_kl(q, p, draws=20)


def test_dead_units():
    """Units that are off, that nothing leaves, or that are as in the prior: finite, between the ends.

    A unit as in the prior, beside others: its weights add nothing to the KL, and next to nothing to the lifted one.
    """
    net = mlp(6, 5, 5, 2)
    q, p = Gaussian.around(net, 0.1), Gaussian.zero(net, 0.3)
    mean = {name: m.clone() for name, m in q.mean.items()}
    mean["0.weight"][:2], mean["0.bias"][:2] = 0.0, -100.0
    mean["2.weight"][:, 3] = 0.0
    mean["4.weight"][:, 2] = 0.0
    estimate = lifted_kl(Gaussian(net, mean, q.std), p, draws=200)
    assert (
        0
        < estimate.lower
        < estimate.value
        < estimate.upper
        < estimate.rescaled
        < 0.01 * Gaussian(net, mean, q.std).kl(p)
    )


def test_an_output_bias_counts_in_full_and_may_be_frozen():
    net = mlp(3, 2, 2, 2)
    q, p = Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0)
    moved = {n: m + 3.0 * (n == "4.bias") for n, m in q.mean.items()}
    far = Gaussian(net, moved, q.std)
    assert lifted_kl(far, p, draws=10).value - lifted_kl(q, p, draws=10).value == pytest.approx(far.kl(p) - q.kl(p))
    net[4].bias.requires_grad_(False)
    still = Gaussian.around(net, 0.1)
    assert abs(lifted_kl(still, still, draws=2).value) < 1e-9


def test_weights_that_would_have_to_move_are_refused():
    frozen, tied = mlp(3, 3, 3, 3), mlp(3, 3, 3, 3)
    frozen[2].bias.requires_grad_(False)
    tied[4].weight = tied[2].weight
    for net in (frozen, tied):
        q = Gaussian.around(net, 0.1)
        with pytest.raises(NoLift, match="would move"):
            lifted_kl(q, q)


@pytest.mark.parametrize("widths", [(3, 3, 3, 3), (3, 3, 3)])
@pytest.mark.parametrize("std", [1e-160, 1e160])
def test_numbers_beyond_floats_are_refused(widths, std):
    net = mlp(*widths)
    with pytest.raises(TrueriskError, match=r"float|finite"):
        lifted_kl(Gaussian.zero(net, std), Gaussian.zero(net, 1.0), draws=4)


def test_a_prior_around_something_has_no_lower_end_and_says_so():
    net = mlp(3, 3, 3, 3)
    estimate = lifted_kl(Gaussian.around(net, 0.1), Gaussian.around(net, 0.2), draws=4)
    assert estimate.lower is None
    assert "no lower end, because the prior is not centered at 0" in estimate.how
    assert estimate.per_unit is None
