"""Cover and Hart's inequality: twins at 30 digits, tight cases, random distributions, and a simulated limit."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import cover_hart, cover_hart_lower, nearest_neighbor_limit
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=100)
COUNTS = st.integers(2, 50)


@calm
@given(st.floats(0, 1), COUNTS)
def test_against_twins(share, classes):
    most = (classes - 1) / classes
    with mpmath.workdps(30):
        m = mpmath.mpf(classes - 1) / classes
        best = mpmath.mpf(share * most)
        upper = min(best * (2 - best / m), m)
        lower = m * (1 - mpmath.sqrt(1 - min(mpmath.mpf(1), mpmath.mpf(share * most) / m)))
    found = cover_hart(share * most, classes)
    assert found == pytest.approx(float(upper), rel=1e-12)
    assert found >= float(upper) * (1 - 1e-15)
    below = cover_hart_lower(share * most, classes)
    assert below == pytest.approx(float(lower), rel=1e-7, abs=1e-15)
    assert 0 <= below <= share * most


@calm
@given(st.floats(0, 1), COUNTS)
def test_each_end_undoes_the_other(share, classes):
    best = share * (classes - 1) / classes
    assert cover_hart_lower(cover_hart(best, classes), classes) == pytest.approx(best, abs=1e-6)


@calm
@given(st.integers(0, 10**6), COUNTS, st.floats(0.05, 5))
def test_every_distribution_lies_between_the_ends(seed, classes, spread):
    eta = np.random.default_rng(seed).dirichlet(np.full(classes, spread), size=20)
    best, limit = float(np.mean(1 - eta.max(axis=1))), nearest_neighbor_limit(eta)
    assert best - 1e-12 <= limit <= cover_hart(best, classes) + 1e-12
    assert cover_hart_lower(limit, classes) <= best + 1e-12


def test_both_ends_are_reached():
    even = np.array([[0.9, 0.05, 0.05]])  # the other classes are equally likely everywhere
    assert nearest_neighbor_limit(even) == pytest.approx(cover_hart(0.1, 3))
    sure = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])  # certain, or a coin
    assert nearest_neighbor_limit(sure) == pytest.approx(1 / 6)  # the Bayes risk itself


def test_twice_is_not_enough_of_a_promise_for_few_classes_and_monotone():
    risks = [cover_hart(best) for best in np.linspace(0, 0.5, 11)]
    assert risks == sorted(risks)
    assert all(cover_hart(best, 10) >= cover_hart(best) for best in (0.1, 0.3, 0.5))
    assert cover_hart(0.1) < 0.2


def test_the_limit_in_a_simulation():
    """Two labels for each of a million inputs: within 5 standard errors (a false alarm in 2 of a million)."""
    rng = np.random.default_rng(0)
    eta = rng.beta(0.7, 1.5, 10**6)
    first, second = rng.uniform(size=(2, len(eta))) < eta
    limit = nearest_neighbor_limit(np.column_stack([1 - eta, eta]))
    assert abs(np.mean(first != second) - limit) < 5 * 0.5 / 1000
    assert abs(np.mean(first != (eta > 0.5)) - limit) > 0.02  # the Bayes risk is not the limit


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cover_hart(0.6), "guessing among 2 classes"),
        (lambda: cover_hart(-0.1), "bayes_risk"),
        (lambda: cover_hart(0.1, 1), "classes"),
        (lambda: cover_hart_lower(float("nan")), "neighbor_risk"),
        (lambda: nearest_neighbor_limit(np.array([0.2, 0.8])), "add up to 1"),
        (lambda: nearest_neighbor_limit(np.array([[0.2, 0.7]])), "add up to 1"),
        (lambda: nearest_neighbor_limit(np.array([[-0.2, 1.2]])), "add up to 1"),
        (lambda: nearest_neighbor_limit(np.array([[np.nan, 1.0]])), "add up to 1"),
    ],
)
def test_refused(call, says):
    with pytest.raises(TrueriskError, match=says):
        call()
