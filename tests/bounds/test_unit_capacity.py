"""One hidden layer: the formula, its price, and the complexity of small classes."""

import itertools
import math

import numpy as np
import pytest

from truerisk.bounds import neyshabur_2019
from truerisk.errors import TrueriskError


def levels(values):
    """Each value rounded up to the largest times 1, 1/2, 1/4 or 1/8."""
    top = max(values)
    return [next(top * 2.0**-j for j in (3, 2, 1, 0) if top * 2.0**-j >= v) for v in values]


def slow_bound(margins, K, alphas, betas, responses, size, delta, constant=None):
    n, h = len(margins), len(alphas)
    outgoing = levels(alphas if constant is None else [*alphas, constant])
    k = -500
    while 2.0**k < max(betas):
        k += 1
    price = (len(outgoing) + h) * math.log(4) + math.log(1.5 * (abs(k) + 1) * (abs(k) + 2))
    incoming = [b / max(betas) * 2.0**k for b in levels(betas)]
    total = sum(a * (2 * b * size + g) for a, b, g in zip(outgoing, incoming, responses, strict=False))
    total += 0.0 if constant is None else outgoing[-1] * math.sqrt(n)
    top = max(outgoing)
    options = []
    for j in range(-40, 40):
        gamma = top / 2.0**j
        loss = sum(min(1.0, max(0.0, 1 - m / gamma)) for m in margins) / n
        paid = price + math.log(1.5 * (abs(j) + 1) * (abs(j) + 2))
        sure = 3 * math.sqrt((math.log(1 / delta) + paid) / (2 * n))
        options.append((loss + 2 * 2 * math.sqrt(K) * total / (gamma * n) + sure, loss))
    best = min(options)
    limit = (1 + sum(m <= 0 for m in margins) / n) / 2
    return best[0] if best[0] < 1 else min(value for value, loss in options if loss <= limit)


@pytest.mark.parametrize("constant", [None, 0.0, 0.9])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 50.0])
@pytest.mark.parametrize("delta", [0.05, 1e-7])
def test_against_its_twin(constant, scale, delta):
    rng = np.random.default_rng(0)
    margins = list(rng.normal(3.0, 2.0, size=300))
    alphas, betas, responses = (list(rng.exponential(size=7)) for _ in range(3))
    betas = [scale * b for b in betas]
    found = neyshabur_2019(margins, 3, alphas, betas, responses, 12.0, delta, constant)
    assert found.value == pytest.approx(
        slow_bound(margins, 3, alphas, betas, responses, 12.0, delta, constant), rel=1e-8
    )


def test_it_can_say_something():
    found = neyshabur_2019(np.full(10**6, 4.0), 2, [1.0, 1.0], [1.0, 0.5], [100.0, 100.0], 1000.0, 0.05)
    assert found.value < 0.1


def test_moves_the_right_way():
    margins = np.random.default_rng(1).normal(3.0, 2.0, size=300)

    def bound(K=3, alpha=1.0, beta=1.0, response=3.0, size=10.0, delta=0.05, values=margins):
        return neyshabur_2019(values, K, [alpha, 1.0], [beta, 1.0], [response, 3.0], size, delta).log

    base = bound()
    assert base < bound(K=9)
    assert base < bound(alpha=2.0)
    assert base < bound(beta=3.0)
    assert base < bound(response=30.0)
    assert base < bound(size=20.0)
    assert base < bound(delta=1e-9)
    assert base > bound(values=np.tile(margins, 9))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("beta", [0.05, 1.0])
def test_the_loss_of_one_unit_with_several_outputs(K, beta):
    """Complexity of the ramp loss over v, ||v|| <= alpha, and u within beta of u0: all signs, 30,000 weights."""
    rng = np.random.default_rng(K)
    n, gamma, alpha = 8, 0.3, 1.4
    X, y, u0 = rng.normal(size=(n, 2)), rng.integers(0, K, size=n), rng.normal(size=2)
    v, d = rng.normal(size=(30_000, K)), rng.normal(size=(30_000, 2))
    v *= alpha / np.linalg.norm(v, axis=1, keepdims=True)
    u = u0 + beta * d / np.linalg.norm(d, axis=1, keepdims=True)
    out = v[:, None, :] * np.maximum(u @ X.T, 0)[:, :, None]
    own = np.take_along_axis(out, y[None, :, None], axis=2)[..., 0]
    others = np.where(np.arange(K) == y[:, None], -np.inf, out).max(axis=2)
    losses = np.clip(1 - (own - others) / gamma, 0, 1)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    truth = (losses @ signs.T).max(axis=0).mean() / n
    response = np.linalg.norm(X @ u0)
    bound = 2 * math.sqrt(K) / (gamma * n) * alpha * (2 * beta * np.linalg.norm(X) + response)
    assert truth <= bound


def test_what_contraction_leaves():
    """E sup over ||d|| <= beta of ||sum_i s_i c_i(d.x_i)||, s_i in {-1, 1}^2: all 2^12 signs, a fine circle of d."""
    rng = np.random.default_rng(3)
    n, K, beta = 6, 2, 0.8
    X, u0 = rng.normal(size=(n, 2)), rng.normal(size=2)
    angles = np.linspace(0, 2 * np.pi, 360, endpoint=False)
    d = beta * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    c = np.maximum((u0 + d) @ X.T, 0) - np.maximum(u0 @ X.T, 0)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=n * K))).reshape(-1, n, K)
    truth = np.linalg.norm(np.einsum("di,sik->dsk", c, signs), axis=2).max(axis=0).mean()
    assert truth <= math.sqrt(K) * 2 * beta * np.linalg.norm(X)
    assert truth >= 0.2 * math.sqrt(K) * beta * np.linalg.norm(X)


def test_extremes():
    assert neyshabur_2019([1.0] * 20, 3, [1.0], [0.0], [1.0], 1.0, 0.05).value < math.inf
    far = neyshabur_2019([1e-300] * 20, 3, [1e300], [1.0], [1.0], 1.0, 0.05)
    assert far.value == math.inf
    assert far.log == pytest.approx(600 * math.log(10), abs=10)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([1.0], 3, [1.0, 2.0], [1.0], [1.0], 1.0, 0.05), "one number for each hidden unit"),
        (([1.0], 3, [-1.0], [1.0], [1.0], 1.0, 0.05), "never negative"),
        (([1.0], 3, [1.0], [1.0], [math.inf], 1.0, 0.05), "must be finite"),
    ],
)
def test_bad_arguments_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        neyshabur_2019(*args)
