"""Rademacher complexity: exact for small classes, and bounds on it from above."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import log_chained, massart, rademacher_bound
from truerisk.bounds.rademacher import confidence
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=50)


def exact(losses):
    """Rad of a finite class, a matrix (functions, examples), over all signs."""
    n = losses.shape[1]
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    return float((losses @ signs.T).max(axis=0).mean() / n)


@pytest.mark.parametrize("size", [1, 2, 10, 200])
def test_massart_is_above_the_exact_complexity(size):
    losses = np.random.default_rng(size).integers(0, 2, size=(size, 10)).astype(float)
    assert exact(losses) <= massart(math.log(size), 10) + 1e-15


def test_massart_is_nearly_reached_by_all_vectors():
    losses = np.array(list(itertools.product([0.0, 1.0], repeat=8)))
    assert exact(losses) == pytest.approx(0.5)  # each sign pattern has its own best loss vector
    assert massart(8 * math.log(2), 8) == pytest.approx(math.sqrt(math.log(2) / 2))
    # Without the 1/2 under the root, or without a root, it would be below.
    assert massart(8 * math.log(2), 8) / math.sqrt(2) < 0.5


def covering_number(losses, radius):
    """How many balls around members cover the class: a greedy choice, so not too few."""
    left = losses
    count = 0
    while len(left):
        far = np.sqrt(((left - left[0]) ** 2).mean(axis=1)) > radius
        left = left[far]
        count += 1
    return count


@pytest.mark.parametrize("kind", ["ramps", "spheres"])
def test_chaining_is_above_the_exact_complexity(kind):
    rng = np.random.default_rng(0)
    if kind == "ramps":
        x = np.linspace(-1, 1, 12)
        losses = np.clip(0.5 + rng.normal(size=(400, 1)) * x + rng.normal(size=(400, 1)), 0, 1)
    else:
        losses = np.clip(0.5 + 0.2 * rng.normal(size=(400, 12)), 0, 1)
    n = losses.shape[1]
    # The smallest q for which the hypothesis holds at the radii that the proof uses.
    radii = 2.0 ** -np.arange(2, 12)
    q = max(e * math.sqrt(math.log(covering_number(losses, e)) / n) for e in radii)
    truth = exact(losses)
    assert truth <= math.exp(log_chained(math.log(q)))


@calm
@given(st.floats(-40, 800))
def test_chaining_against_its_twin(log_q):
    with mpmath.workdps(40):
        q = mpmath.exp(log_q)
        link = 3 * mpmath.sqrt(mpmath.mpf(5) / 2)
        best = min(mpmath.mpf(2) ** (-m - 1) + link * m * q for m in range(1, 80))
        assert log_chained(log_q) == pytest.approx(float(mpmath.log(best)), rel=1e-9, abs=1e-9)


def test_symmetrization_and_mcdiarmid_on_a_finite_class():
    """20 coins on 50 examples: the bound with the exact complexity fails less often than delta, but not never."""
    rng = np.random.default_rng(1)
    n, size, delta, runs = 50, 20, 0.3, 4000
    losses = rng.integers(0, 2, size=(runs, size, n)).astype(float)  # each has risk 1/2
    signs = rng.choice([-1.0, 1.0], size=(n, 200))
    rad = (losses @ signs).max(axis=1).mean(axis=1) / n  # Monte Carlo with 200 signs
    best = losses.mean(axis=2).min(axis=1)
    bound = best + 2 * rad + confidence(n, delta)
    assert np.mean(bound < 0.5) <= delta
    # Symmetrization itself, without confidence: the mean gap is at most twice the mean complexity.
    assert np.mean(0.5 - best) <= 2 * np.mean(rad)
    # Teeth: a quarter of the complexity does not cover the mean gap.
    assert np.mean(0.5 - best) > 0.5 * np.mean(rad)


@calm
@given(st.floats(0, 1), st.floats(0, 10), st.integers(1, 10**6), st.floats(1e-9, 0.5), st.floats(0, 50))
def test_closed_forms_and_directions(loss, rad, n, delta, price):
    assert confidence(n, delta, price) == pytest.approx(
        3 * math.sqrt((math.log(1 / delta) + price) / (2 * n)), rel=1e-12
    )
    bound = rademacher_bound(loss, rad, n, delta)
    assert bound == pytest.approx(loss + 2 * rad + 3 * math.sqrt(math.log(1 / delta) / (2 * n)), rel=1e-12)
    assert bound <= rademacher_bound(loss, rad + 0.1, n, delta)
    assert bound <= rademacher_bound(loss, rad, n, delta / 2)
    assert bound >= rademacher_bound(loss, rad, 2 * n, delta)
    # A price of ln 2 is delta cut in half.
    assert confidence(n, delta / 2) == pytest.approx(confidence(n, delta, math.log(2)), rel=1e-12)


def test_bad_arguments_are_refused():
    for call, message in [
        (lambda: confidence(10, 0.05, -1.0), "price must be at least 0"),
        (lambda: rademacher_bound(0.1, -1.0, 10, 0.05), "complexity must be at least 0"),
        (lambda: rademacher_bound(1.1, 1.0, 10, 0.05), "loss must lie"),
        (lambda: massart(-1.0, 10), "log_size must be at least 0"),
        (lambda: massart(1.0, 0), "n must be at least 1"),
    ]:
        with pytest.raises(TrueriskError, match=message):
            call()
