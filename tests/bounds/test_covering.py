"""Spectral norms by covering: the formula, and each step of its proof on matrices."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from truerisk.bounds import SpectralLayer, bartlett_2017
from truerisk.errors import TrueriskError


def grid_above(value, ratio):
    """(radius, price) in plain arithmetic."""
    k = -2000
    while ratio**k < value * (1 - 1e-15):
        k += 1
    return ratio**k, math.log(1.5 * (abs(k) + 1) * (abs(k) + 2))


def slow_bound(margins, size, layers, width, delta):
    """The whole bound in plain loops; layers as (s, b, rho)."""
    n, count = len(margins), len(layers)
    ratio = 2 ** (1 / count)
    price, product, total = 0.0, 1.0, 0.0
    for s, b, rho in layers:
        radius_s, price_s = grid_above(s, ratio)
        radius_b, price_b = grid_above(b, ratio)
        price += price_s + price_b
        product *= radius_s * rho
        total += (radius_b / radius_s) ** (2 / 3)
    big = size * product * total**1.5
    options = []
    for k in range(-20, 25):
        gamma = 2.0**k
        q = 4 * math.sqrt(math.log(2 * width**2)) * big / (gamma * n)
        rad = min(2.0 ** (-m - 1) + 3 * math.sqrt(2.5) * m * q for m in range(1, 60))
        loss = sum(min(1.0, max(0.0, 1 - m / gamma)) for m in margins) / n
        paid = math.log(1.5 * (abs(k) + 1) * (abs(k) + 2))
        sure = 3 * math.sqrt((math.log(1 / delta) + price + paid) / (2 * n))
        options.append((loss + 2 * rad + sure, loss))
    best = min(options)
    limit = (1 + sum(m <= 0 for m in margins) / n) / 2
    return best[0] if best[0] < 1 else min(value for value, loss in options if loss <= limit)


CASES = {
    "one layer": (1.0, [(1.0, 1.5, 1.0)]),
    "three layers": (30.0, [(2.3, 11.0, 1.0), (0.7, 5.0, 2.0), (1.9, 3.0, 1.0)]),
    "tiny": (1e-6, [(1.0, 0.3, 1.0), (3.0, 0.2, 0.5)]),
}


@pytest.mark.parametrize(("size", "layers"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_against_its_twin(size, layers, delta):
    margins = np.random.default_rng(0).normal(3.0, 2.0, size=400)
    found = bartlett_2017(margins, size, [SpectralLayer(*layer) for layer in layers], 64, delta)
    assert found.value == pytest.approx(slow_bound(margins, size, layers, 64, delta), rel=1e-8)


def test_it_can_say_something():
    layers = [SpectralLayer(1.0, 1e-3)]
    found = bartlett_2017(np.full(100_000, 1.0), math.sqrt(100_000), layers, 10, 0.05)
    assert found.value < 0.3


def test_moves_the_right_way():
    margins = np.random.default_rng(1).normal(3.0, 2.0, size=300)

    def bound(size=10.0, s=2.0, b=5.0, rho=1.0, width=30, delta=0.05, values=margins):
        layers = [SpectralLayer(s, b, rho), SpectralLayer(1.0, 3.0)]
        return bartlett_2017(values, size, layers, width, delta).log

    base = bound()
    assert base < bound(size=20.0)
    assert base < bound(b=11.0)
    assert base < bound(rho=2.0)
    assert base < bound(width=300)
    assert base < bound(delta=1e-9)
    assert base > bound(values=np.tile(margins, 9))
    assert bound(s=8.0) > bound(s=4.0) > base
    # Rounded radii: what is between two grid points costs the same.
    assert bound(b=5.0) == bound(b=5.1) != bound(b=8.1)


def test_zero_distance_and_overflow():
    margins = np.full(50, 1.0)
    assert bartlett_2017(margins, 1.0, [SpectralLayer(1.0, 0.0)], 5, 0.05).value < math.inf
    deep = bartlett_2017(margins, 1.0, [SpectralLayer(1e10, 1e10)] * 100, 5, 0.05)
    assert deep.value == math.inf
    # ln of (1e10)^100, with sum (b/s)^(2/3) = 100 and rounding up by at most 2.
    assert deep.log == pytest.approx(1000 * math.log(10) + 1.5 * math.log(100), abs=6)


def test_maurey_sampling():
    """Z A^T as a mean of k signed columns: the mean squared error is at most b^2 z^2 / k, b the sum of row norms."""
    rng = np.random.default_rng(2)
    Z, A = rng.normal(size=(7, 5)), rng.normal(size=(4, 5)) * rng.uniform(size=(4, 1)) ** 3
    z, b = np.linalg.norm(Z), np.linalg.norm(A, axis=1).sum()
    columns = np.linalg.norm(Z, axis=0)
    weights = np.abs(A) * columns  # coefficients of the matrices +-Z_j e_k / ||Z_j||
    assert weights.sum() <= b * z  # Cauchy and Schwarz
    k, runs = 10, 4000
    picks = rng.choice(A.size, p=(weights / weights.sum()).flatten(), size=(runs, k))
    sampled = np.zeros((runs, *A.shape))
    entries = (weights.sum() * np.sign(A) / columns).flatten() / k  # what one pick adds to A
    np.add.at(sampled.reshape(runs, -1), (np.arange(runs)[:, None], picks), entries[picks])
    errors = ((Z @ (sampled - A).transpose(0, 2, 1)) ** 2).sum(axis=(1, 2))
    assert errors.mean() <= b**2 * z**2 / k  # 4000 runs; the true mean is below by a factor, not by chance
    assert errors.mean() >= 0.2 * b**2 * z**2 / k


def test_deviations_arrive_as_the_proof_says():
    """Weights within e_i of each other at each layer, inputs of norm 1: outputs differ by the sum of e_i rho prod s."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        sizes = [5, 6, 4, 3]
        A = [rng.normal(size=(m, k)) for k, m in itertools.pairwise(sizes)]
        B = [a + 0.1 * rng.normal(size=a.shape) for a in A]
        s = [max(np.linalg.norm(a, 2), np.linalg.norm(b, 2)) for a, b in zip(A, B, strict=True)]
        x = rng.normal(size=(5, 20))
        f, g = x, x
        arrived = 0.0
        for i, (a, b) in enumerate(zip(A, B, strict=True)):
            step = np.linalg.norm((a - b) @ g)  # the deviation that the cover allows at this layer
            arrived += step * math.prod(s[i + 1 :])
            f, g = np.maximum(a @ f, 0), np.maximum(b @ g, 0)
        assert np.linalg.norm(f - g) <= arrived * (1 + 1e-12)


def test_the_shares_of_the_layers_are_best():
    """sum (c_i / a_i)^2 under sum a_i = 1 is smallest at a_i ~ c_i^(2/3), where it is (sum c_i^(2/3))^3."""
    rng = np.random.default_rng(4)
    c = rng.uniform(0.1, 5, size=6)
    best = (c ** (2 / 3)).sum() ** 3
    shares = rng.dirichlet(np.ones(6), size=20_000)
    assert ((c / shares) ** 2).sum(axis=1).min() >= best
    a = c ** (2 / 3) / (c ** (2 / 3)).sum()
    assert ((c / a) ** 2).sum() == pytest.approx(best)


def test_the_loss_of_linear_classifiers():
    """The complexity of the ramp loss over 20,000 matrices with spectral norm and row norms at most 1, all signs."""
    rng = np.random.default_rng(5)
    n, gamma = 8, 0.5
    X, y = rng.normal(size=(n, 2)), rng.integers(0, 3, size=n)
    W = rng.normal(size=(20_000, 3, 2))
    W /= np.linalg.norm(W, axis=2).sum(axis=1)[:, None, None]
    out = np.einsum("wkj,ij->wik", W, X)
    own = np.take_along_axis(out, y[None, :, None], axis=2)[..., 0]
    others = np.where(np.arange(3) == y[:, None], -np.inf, out).max(axis=2)
    losses = np.clip(1 - (own - others) / gamma, 0, 1)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * n)).reshape(n, -1)
    truth = (losses @ signs).max(axis=0).mean() / n
    with mpmath.workdps(20):
        q = 4 * mpmath.sqrt(mpmath.log(2 * 9)) * np.linalg.norm(X) / (gamma * n)
        assert truth <= min(mpmath.mpf(2) ** (-m - 1) + 3 * mpmath.sqrt(2.5) * m * q for m in range(1, 30))


@pytest.mark.parametrize(
    ("layers", "message"),
    [([], "layers is empty"), ([SpectralLayer(-1.0, 1.0)], "spectral must be at least 0")],
)
def test_bad_arguments_are_refused(layers, message):
    with pytest.raises(TrueriskError, match=message):
        bartlett_2017([1.0], 1.0, layers, 3, 0.05)
