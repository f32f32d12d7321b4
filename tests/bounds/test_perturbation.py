"""Spectral norms by PAC-Bayes: the formula, and each step of its proof by drawing."""

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from truerisk.bounds import neyshabur_2018
from truerisk.bounds.perturbation import SURE, _log_kl
from truerisk.errors import TrueriskError


def noise(t, shapes):
    """(allowed norm e of the noise, its standard deviation v)."""
    d = len(shapes)
    e = (1 + t / math.sqrt(8)) ** (1 / d) - 1
    wide = max(math.sqrt(r) + math.sqrt(c) for r, c in shapes) + math.sqrt(2 * math.log(d / 0.05))
    return e, e / wide


def slow_kl(t, rank, shapes):
    with mpmath.workdps(450):
        t, d = mpmath.mpf(t), len(shapes)
        e = (1 + t / mpmath.sqrt(8)) ** (mpmath.mpf(1) / d) - 1
        wide = max(mpmath.sqrt(r) + mpmath.sqrt(c) for r, c in shapes) + mpmath.sqrt(
            2 * mpmath.log(d / mpmath.mpf("0.05"))
        )
        entropy = -mpmath.mpf("0.95") * mpmath.log(mpmath.mpf("0.95")) - mpmath.mpf("0.05") * mpmath.log(
            mpmath.mpf("0.05")
        )
        return (rank * wide**2 / (2 * e**2) + entropy) / mpmath.mpf("0.95")


SHAPES = [(12, 65), (9, 12), (3, 9)]


@pytest.mark.parametrize("t", [1e-200, 1e-14, 1e-3, 1.0, 1e5, 1e200])
@pytest.mark.parametrize("rank", [1.0, 47.5])
def test_the_divergence_against_its_twin(t, rank):
    log_t = math.log(t)
    twin = float(mpmath.log(slow_kl(t, rank, SHAPES)))
    assert _log_kl(log_t, rank, SHAPES) == pytest.approx(twin, rel=1e-9)


def slow_bound(margins, norms, product, rank, shapes, delta):
    n = len(margins)
    a = [m / (x * product) for m, x in zip(margins, norms, strict=True)]
    options = []
    for k in range(-30, 60):
        t = 2.0**-k
        loss = sum(value <= t for value in a) / n
        price = math.log(1.5 * (abs(k) + 1) * (abs(k) + 2))
        total = float(slow_kl(t, rank, shapes)) + math.log(2 * math.sqrt(n) / delta) + price
        options.append((loss + math.sqrt(total / (2 * n)), loss))
    best = min(options)
    limit = (1 + sum(m <= 0 for m in margins) / n) / 2
    return best[0] if best[0] < 1 else min(value for value, loss in options if loss <= limit)


@pytest.mark.parametrize("product", [0.02, 1.0, 37.0])
@pytest.mark.parametrize("delta", [0.05, 1e-8])
def test_the_bound_against_its_twin(product, delta):
    rng = np.random.default_rng(0)
    margins, norms = rng.normal(3.0, 2.0, size=300), rng.uniform(0.5, 2.0, size=300)
    found = neyshabur_2018(margins, norms, math.log(product), [10.0, 5.0, 2.0], SHAPES, delta)
    assert found.value == pytest.approx(slow_bound(margins, norms, product, 17.0, SHAPES, delta), rel=1e-8)


def test_the_noise_is_as_small_as_needed():
    """At least 95 % of the draws keep all spectral norms within e; 4000 draws, 3 standard deviations are 1 %."""
    rng = np.random.default_rng(1)
    e, v = noise(0.7, SHAPES)
    norms = [np.linalg.norm(v * rng.normal(size=(4000, *shape)), ord=2, axis=(1, 2)) for shape in SHAPES]
    inside = np.mean(np.max(norms, axis=0) <= e)
    assert inside >= 0.95 - 0.0104
    # Teeth: noise twice as large is not.
    assert np.mean(np.max(norms, axis=0) <= e / 2) < 0.95


def test_margins_survive_the_noise():
    """Spectral norms 1, noise of norm e in each layer: no margin moves by more than t ||x|| / 2."""
    rng = np.random.default_rng(2)
    t = 0.9
    e, _ = noise(t, SHAPES)
    worst = 0.0
    for _ in range(300):
        x = rng.normal(size=65)
        f, g = x, x
        for i, shape in enumerate(SHAPES):
            w, u = rng.normal(size=shape), rng.normal(size=shape)
            w, u = w / np.linalg.norm(w, 2), e * u / np.linalg.norm(u, 2)
            f, g = w @ f, (w + u) @ g
            if i < 2:
                f, g = np.maximum(f, 0), np.maximum(g, 0)
        for y in range(3):
            before, after = f[y] - np.delete(f, y).max(), g[y] - np.delete(g, y).max()
            worst = max(worst, abs(before - after) / np.linalg.norm(x))
    assert worst <= t / 2
    # One direction through all layers, then one output against another: all of it is used.
    first, last = np.array([[1.0]]), np.array([[1.0], [-1.0]]) / math.sqrt(2)
    calm = last @ first @ first
    shaken = (last * (1 + e)) @ (first * (1 + e)) @ (first * (1 + e))
    assert (shaken[0, 0] - shaken[1, 0]) - (calm[0, 0] - calm[1, 0]) == pytest.approx(t / 2)


@pytest.mark.parametrize(("mean", "half"), [(0.3, 1.96), (2.0, 2.5), (0.0, 2.2)])
def test_conditioning_costs_what_the_proof_says(mean, half):
    """KL(N(w, 1) given |u| <= half, N(0, 1)) against (KL(N(w, 1), N(0, 1)) + h(p)) / p, by quadrature."""
    p = stats.norm.cdf(half) - stats.norm.cdf(-half)
    given, _ = integrate.quad(
        lambda u: stats.norm.pdf(u) / p * (stats.norm.logpdf(u) - math.log(p) - stats.norm.logpdf(mean + u)),
        -half,
        half,
    )
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert given <= (mean**2 / 2 + entropy) / p
    # A larger probability makes it cheaper, so that the formula at SURE is safe for any p above it.
    if p >= SURE:
        assert (mean**2 / 2 + entropy) / p <= (mean**2 / 2 - SURE * math.log(SURE) - 0.05 * math.log(0.05)) / SURE


def test_moves_the_right_way():
    rng = np.random.default_rng(3)
    margins, norms = rng.normal(3.0, 2.0, size=300), rng.uniform(0.5, 2.0, size=300)

    def bound(ranks=(10.0, 5.0), shapes=((9, 9), (9, 3)), delta=0.05, scale=1.0, copies=1, product=0.0):
        values, sizes = np.tile(margins, copies) * scale, np.tile(norms, copies)
        return neyshabur_2018(values, sizes, product, list(ranks), list(shapes), delta).log

    base = bound()
    assert base < bound(ranks=(20.0, 5.0))
    assert base < bound(shapes=((90, 9), (9, 3)))
    assert base < bound(delta=1e-9)
    assert base > bound(copies=9)
    assert base > bound(scale=10.0)
    # Larger norms with larger margins are the same network.
    assert bound(scale=10.0, product=math.log(10.0)) == pytest.approx(base, rel=1e-9)


def test_overflow():
    found = neyshabur_2018(np.full(50, 1.0), np.full(50, 1.0), 2000.0, [5.0] * 4, [(9, 9)] * 4, 0.05)
    assert found.value == math.inf
    assert found.log == pytest.approx(2000.0, abs=12)


@pytest.mark.parametrize(
    ("norms", "ranks", "message"),
    [
        ([1.0, 0.0], [1.0], "one positive number"),
        ([1.0], [1.0], "one positive number"),
        ([1.0, 1.0], [], "same layers"),
    ],
)
def test_bad_arguments_are_refused(norms, ranks, message):
    with pytest.raises(TrueriskError, match=message):
        neyshabur_2018([1.0, 2.0], norms, 0.0, ranks, [(2, 2)] * len(ranks), 0.05)
