"""Hold-out bounds against exact binomial sums, and their coverage where it is tight."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincc
from scipy.stats import binom, binomtest

from truerisk.bounds import clopper_pearson, clopper_pearson_unequal, hoeffding_holdout
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=100)

small = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
large = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
deltas = st.one_of(st.floats(1e-12, 0.99), st.sampled_from([1e-100, 0.05, 0.5]))


def exact_tail(k, n, p):
    """P(Binomial(n, p) <= k) in rational arithmetic: no rounding at all."""
    p = Fraction(p)
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def slow_tail(k, n, p):
    """The same sum at 60 digits, for larger n."""
    with mpmath.workdps(60):
        p = mpmath.mpf(p)
        term = total = (1 - p) ** n
        for i in range(k):
            term = term * (n - i) / (i + 1) * p / (1 - p)
            total += term
        return total


@calm
@given(small, deltas)
def test_clopper_pearson_in_rational_arithmetic(case, delta):
    k, n = case
    bound = clopper_pearson(k, n, delta)
    if k == n:
        assert bound == 1.0
        return
    # Valid: the tail is at most delta at the returned float. Tight: a hair lower it isn't. The 1e-9 of the tail held
    # in reserve are more of the bound where delta is near 1 and the bound near 0.
    assert exact_tail(k, n, bound) <= Fraction(delta) or bound == 1.0
    assert exact_tail(k, n, bound * (1 - 1e-8 / (1 - delta))) > Fraction(delta)


@pytest.mark.parametrize(("k", "n"), [(0, 60_000), (3, 60_000), (600, 60_000), (6000, 60_000), (117, 10_000)])
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_clopper_pearson_for_large_samples(k, n, delta):
    bound = clopper_pearson(k, n, delta)
    tail = slow_tail(k, n, bound)
    assert delta * (1 - 1e-8) <= tail <= delta
    # The function that the bisection relies on is far more accurate than the 1e-9 held in reserve.
    assert abs(betaincc(k + 1, n - k, bound) / tail - 1) < 1e-12


@calm
@given(large, deltas)
def test_clopper_pearson_never_leaves_more_than_delta(case, delta):
    k, n = case
    bound = clopper_pearson(k, n, delta)
    assert bound == 1.0 or binom.cdf(k, n, bound) <= delta


@pytest.mark.parametrize(("k", "n", "delta"), [(5, 100, 0.05), (40, 90, 0.01), (1, 12, 0.2)])
def test_clopper_pearson_matches_scipy(k, n, delta):
    interval = binomtest(k, n, alternative="less").proportion_ci(1 - delta, method="exact")
    assert clopper_pearson(k, n, delta) == pytest.approx(interval.high, rel=1e-8)


@calm
@given(large, deltas, deltas)
def test_bounds_are_monotone(case, delta1, delta2):
    k, n = case
    delta1, delta2 = sorted((delta1, delta2))
    for bound in (clopper_pearson, hoeffding_holdout):
        value = bound(k, n, delta2)
        assert value <= bound(k, n, delta1) + 1e-12
        if k < n:
            assert value <= bound(k + 1, n, delta2) + 1e-12
        # One more tested example without an error helps.
        assert bound(k, n + 1, delta2) <= value + 1e-12
    if delta2 <= 0.5:
        assert clopper_pearson(k, n, delta2) >= k / n
    assert hoeffding_holdout(k, n, delta2) >= k / n


@calm
@given(large, st.floats(1e-12, 0.25))
def test_hoeffding_is_never_tighter(case, delta):
    k, n = case
    assert clopper_pearson(k, n, delta) <= hoeffding_holdout(k, n, delta) + 1e-9
    exact = Fraction(k, n) + Fraction(float(mpmath.sqrt(mpmath.log(1 / mpmath.mpf(delta)) / (2 * n))))
    assert hoeffding_holdout(k, n, delta) == pytest.approx(min(1.0, float(exact)), rel=1e-13)


def test_coverage_is_delta_where_the_bound_is_tight():
    """Just above U(k0) the bound fails if at most k0 errors are seen, which has probability delta."""
    n, delta, runs = 200, 0.05, 200_000
    for k0 in (0, 4, 60):
        p = clopper_pearson(k0, n, delta) + 1e-9
        table = np.array([clopper_pearson(k, n, delta) for k in range(n + 1)])
        errors = np.random.default_rng(k0).binomial(n, p, size=runs)
        rate = np.mean(table[errors] < p)
        # Binomial(200000, .05): 4.5 standard deviations are .0022; false-alarm rate 4e-6 on each side.
        assert 0.5 * delta < rate <= delta + 4.5 * math.sqrt(delta * (1 - delta) / runs)
        assert abs(rate - delta) <= 4.5 * math.sqrt(delta * (1 - delta) / runs)


def test_coverage_test_catches_the_plug_in_normal_interval():
    """The textbook normal interval is too short at small error rates: the same count must exceed delta."""
    n, delta = 200, 0.05
    k = np.arange(n + 1)
    normal = k / n + 1.6448536 * np.sqrt(k / n * (1 - k / n) / n)
    p = 0.01
    assert binom.pmf(k, n, p)[normal < p].sum() > 2 * delta


def poisson_binomial(means):
    """Exact distribution of a sum of independent coins, one convolution at a time."""
    law = np.ones(1)
    for p in means:
        law = np.convolve(law, [1 - p, p])
    return law


@pytest.mark.parametrize("delta", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("seed", range(5))
def test_unequal_means_are_covered(seed, delta):
    """Failure probability by exact convolution, over many ways of spreading the means: never above delta."""
    rng = np.random.default_rng(seed)
    n = 30
    table = np.array([clopper_pearson_unequal(k, n, delta) for k in range(n + 1)])
    for _ in range(40):
        means = rng.beta(*rng.choice([0.1, 0.5, 1.0, 5.0], size=2), size=n)
        failing = table < means.mean()
        assert poisson_binomial(means)[failing].sum() <= delta + 1e-12


def test_without_the_condition_unequal_means_break_clopper_pearson():
    """With means 1 and 0 the count is never lucky, and U(k) < k/n for a large delta."""
    n, delta = 50, 0.9
    means = np.r_[np.ones(2), np.zeros(48)]
    assert clopper_pearson(2, n, delta) < means.mean()
    assert clopper_pearson_unequal(2, n, delta) == 1.0


@calm
@given(small, deltas)
def test_unequal_is_clopper_pearson_under_its_condition_and_one_elsewhere(case, delta):
    k, n = case
    equal = clopper_pearson(k, n, delta)
    expected = equal if Fraction(k + 1, n) <= Fraction(equal) else 1.0
    assert clopper_pearson_unequal(k, n, delta) == expected


@pytest.mark.parametrize("bound", [clopper_pearson, clopper_pearson_unequal, hoeffding_holdout])
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((-1, 10, 0.05), "errors must be at least 0"),
        ((11, 10, 0.05), "errors must not exceed n"),
        ((1.0, 10, 0.05), "errors must be an integer"),
        ((0, 0, 0.05), "n must be at least 1"),
        ((1, 10, 1.0), "delta must lie strictly"),
        ((1, 10, math.nan), "delta is NaN"),
    ],
)
def test_bad_arguments_are_refused(bound, args, message):
    with pytest.raises(TrueriskError, match=message):
        bound(*args)
