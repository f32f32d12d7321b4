"""Estimates of Rademacher complexities: against all signs, against closed forms, and where the truth is known."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from truerisk.measures import signs


def all_signs(n):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=n)))


def test_the_ball_against_all_signs():
    X = np.random.default_rng(0).standard_normal((10, 3))
    exact = sum(2.5 * math.sqrt(sum((s @ X) ** 2)) / 10 for s in all_signs(10)) / 1024
    estimate, error = signs.ball_complexity(X, 2.5, 4000, seed=1)
    assert abs(estimate - exact) < 4 * error  # false-alarm rate 6e-5, fixed seed
    assert error < 0.02 * exact
    upper = 2.5 * math.sqrt(sum(float(x @ x) for x in X)) / 10
    assert signs.ball_upper(X, 2.5) == pytest.approx(upper)
    assert upper / math.sqrt(2) <= exact <= upper


def test_the_constant_of_khintchine_is_reached_by_two_equal_points():
    X = np.ones((2, 1))  # |s1 + s2| is 0 or 2 with equal probability
    estimate, error = signs.ball_complexity(X, 1.0, 20_000, seed=0)
    assert abs(estimate - signs.ball_upper(X, 1.0) / math.sqrt(2)) < 4 * error


def test_affine_classifiers_against_all_affine_classifiers():
    # One input: the classifiers are thresholds in both directions, and the supremum is a maximum over all of them.
    x = np.random.default_rng(3).standard_normal(30)
    drawn = signs.draw_signs(30, 200, seed=2)
    order = np.argsort(x)
    steps = np.array([np.where(np.arange(30) < k, -1.0, 1.0) for k in range(31)])
    best = np.abs(drawn[:, order] @ steps.T).max(axis=1) / 30
    found = signs.linear_correlations(x[:, None], drawn)
    assert (found <= best + 1e-12).all()
    assert found.mean() > 0.5 * best.mean()
    assert best.mean() <= signs.linear_upper(30, 1)


@pytest.mark.parametrize(("n", "d"), [(50, 1), (100, 5), (2000, 40)])
def test_the_upper_bound_is_the_formula(n, d):
    labelings = 2 * sum(math.comb(n - 1, k) for k in range(d + 1))
    assert signs.linear_upper(n, d) == pytest.approx(min(1, math.sqrt(2 * math.log(labelings) / n)))


def test_separable_signs_have_correlation_one():
    X = np.random.default_rng(5).standard_normal((6, 5))
    assert (signs.linear_correlations(X, all_signs(6)) == 1).all()


def test_least_squares_agrees_with_its_gaussian_formula():
    # A sign is fitted by h s + (independent part of variance h - h^2), h = (d + 1)/n, so that it agrees with
    # probability Phi(sqrt(h / (1 - h))). Tolerance: 4 standard errors, and 0.004 for the normal approximation.
    n, d = 2000, 19
    X = np.random.default_rng(0).standard_normal((n, d))
    found = signs.linear_correlations(X, signs.draw_signs(n, 400, seed=1))
    h = (d + 1) / n
    expected = 2 * norm.cdf(math.sqrt(h / (1 - h))) - 1
    assert abs(found.mean() - expected) < 4 * found.std() / 20 + 0.004


def test_columns_that_repeat_each_other_change_nothing():
    X = np.random.default_rng(0).standard_normal((80, 3))
    drawn = signs.draw_signs(80, 20, seed=0)
    assert np.array_equal(signs.linear_correlations(X, drawn), signs.linear_correlations(X[:, [0, 1, 2, 2, 0]], drawn))


def test_the_proven_complexity_holds_where_the_truth_is_known():
    # One point more than affine classifiers on a line can label freely: R is computed from all signs.
    steps = np.array([np.where(np.arange(3) < k, -1.0, 1.0) for k in range(4)])
    suprema = np.abs(all_signs(3) @ steps.T).max(axis=1) / 3
    rng = np.random.default_rng(0)
    for delta in (0.05, 0.5):
        proven = [signs.proven_complexity(rng.choice(suprema, 50).tolist(), 3, delta) for _ in range(2000)]
        assert np.mean(np.array(proven) > suprema.mean()) <= delta
    assert signs.proven_complexity([1.0, 1.0], 500) == pytest.approx(1 - math.sqrt(2 * math.log(20) / 1000))
    assert signs.proven_complexity([0.0], 10) == 0


def test_signs_are_signs():
    drawn = signs.draw_signs(1000, 100, seed=0)
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert abs(drawn.mean()) < 5 / math.sqrt(drawn.size)  # false-alarm rate 6e-7
