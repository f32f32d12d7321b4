"""Sample compression: rational twins, preferent schemes of known risk, and what breaks without the price."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from truerisk.bounds import clopper_pearson, compression_with_errors, kl_inverse, pick_to_learn
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=60)
small = st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))
large = st.integers(1, 60_000).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))
deltas = st.one_of(st.floats(1e-9, 0.99), st.just(0.05))

RUNS = 20_000


def exact_sum(k, n, delta, eps):
    """The left side of the defining equation, in rational arithmetic."""
    keep = 1 - Fraction(eps)
    total = sum(Fraction(math.comb(m, k), math.comb(n, k)) / keep ** (n - m) for m in range(k, n))
    return Fraction(delta) / n * total


def log_sum(k, n, delta, eps):
    """Its logarithm, for large n."""
    m = np.arange(k, n)
    weights = gammaln(m + 1) - gammaln(m - k + 1) - gammaln(n + 1) + gammaln(n - k + 1)
    return math.log(delta / n) + logsumexp(weights - (n - m) * math.log1p(-eps))


@calm
@given(small, deltas)
def test_solves_its_equation_from_above(case, delta):
    k, n = case
    eps = pick_to_learn(k, n, delta)
    assert eps > k / n
    if eps < 1.0:
        assert exact_sum(k, n, delta, eps) >= 1
    assert exact_sum(k, n, delta, eps - 1e-7 * min(eps, 1 - eps) - 2.0**-50) < 1


@pytest.mark.parametrize("n", [1000, 60_000])
@pytest.mark.parametrize("share", [0.0, 0.005, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_solves_its_equation_for_large_samples(n, share, delta):
    k = int(share * n)
    eps = pick_to_learn(k, n, delta)
    # The twin adds up to 60,000 logarithms of factorials, with errors of 1e-9.
    assert -1e-8 <= log_sum(k, n, delta, eps) <= 1e-7


@calm
@given(large, deltas)
def test_never_below_the_hold_out_and_moves_the_right_way(case, delta):
    k, n = case
    eps = pick_to_learn(k, n, delta)
    # Errors of a fixed predictor are a preferent scheme too, so it can't beat the exact bound for those.
    assert eps >= clopper_pearson(k, n, delta) * (1 - 1e-12)
    assert eps <= pick_to_learn(k + 1, n, delta) + 1e-12
    assert eps <= pick_to_learn(k, n, delta / 2) + 1e-12
    assert pick_to_learn(k, n + 1, delta) <= eps + 1e-12


def test_ends():
    assert pick_to_learn(7, 7, 0.05) == 1.0
    assert pick_to_learn(0, 1, 0.05) == pytest.approx(0.95, rel=1e-8)
    # k = n-1: (delta/n) (1/n) / (1 - eps) = 1.
    assert 1 - pick_to_learn(9, 10, 0.05) == pytest.approx(0.05 / 100, rel=1e-6)


def tolerance(delta):
    """Four standard deviations of Binomial(20000, delta)/20000: a false alarm in 3e-5 of all cases."""
    return 4 * math.sqrt(delta * (1 - delta) / RUNS)


@pytest.mark.parametrize(("k", "n"), [(1, 20), (5, 50), (20, 100)])
def test_holds_for_the_k_largest(k, n):
    """c(S) = the k largest of n uniform numbers; a new one changes it where it exceeds the smallest of them."""
    delta = 0.1
    sample = np.random.default_rng(k).random((RUNS, n))
    phi = 1 - np.partition(sample, n - k, axis=1)[:, n - k]
    eps = pick_to_learn(k, n, delta)
    assert np.mean(phi > eps) <= delta + tolerance(delta)
    # The exact failure probability: fewer than k numbers fall into the top eps.
    assert binom.cdf(k - 1, n, eps) <= delta


def test_holds_for_the_smallest_enclosing_interval():
    n, delta = 30, 0.2
    sample = np.random.default_rng(0).random((RUNS, n))
    phi = sample.min(axis=1) + 1 - sample.max(axis=1)
    assert np.mean(phi > pick_to_learn(2, n, delta)) <= delta + tolerance(delta)


def first_lucky(eps, n, seed):
    """How often c(S) = the top k fails, with k the first size at which the bound is broken (if any).

    Preferent: whether a size is lucky depends on the top k alone. It is the worst scheme of its kind, for it
    stops exactly where the bound is wrong.
    """
    phi = np.sort(np.random.default_rng(seed).random((RUNS, n)), axis=1)[:, : n - 1]
    return np.mean((phi > eps[1:n]).any(axis=1))


def test_holds_for_a_scheme_that_stops_where_it_is_lucky():
    n, delta = 100, 0.1
    eps = np.array([pick_to_learn(k, n, delta) for k in range(n + 1)])
    rate = first_lucky(eps, n, seed=1)
    assert rate <= delta + tolerance(delta)
    assert rate > delta / 10  # the test is a hard one
    # Teeth: n counted twice, and the bound for one fixed size.
    doubled = np.array([pick_to_learn(k, 2 * n, delta) for k in range(n + 1)])
    assert first_lucky(doubled, n, seed=1) > delta + tolerance(delta)
    fixed = np.array([clopper_pearson(k, n, delta) for k in range(n + 1)])
    assert first_lucky(fixed, n, seed=1) > delta + tolerance(delta)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_holds_for_picks_and_errors_after_early_stopping(noise):
    """One round: pick the smallest x labelled 1, predict 1 from there on; the errors join the compression.

    Labels are 1[x > 1/2], flipped with probability `noise`, so the true risk is known in closed form.
    """
    n, delta = 100, 0.1
    rng = np.random.default_rng(7)
    x = rng.random((RUNS, n))
    y = (x > 0.5) ^ (rng.random((RUNS, n)) < noise)
    cut = np.where(y, x, 1.0).min(axis=1)
    size = y.any(axis=1) + (~y & (x >= cut[:, None])).sum(axis=1)
    wrong_side = np.abs(cut - 0.5)
    risk = noise + (1 - 2 * noise) * wrong_side
    eps = np.array([pick_to_learn(k, n, delta) for k in range(n + 1)])
    assert np.mean(risk > eps[size]) <= delta + tolerance(delta)
    # Teeth: the picks alone, without the errors.
    if noise:
        assert np.mean(risk > eps[1]) > delta + tolerance(delta)


def slow_with_errors(errors, k, n, delta, ordered):
    """Clopper-Pearson at delta / (n C(n,k) [k!]) by bisection on a sum at 60 digits."""
    with mpmath.workdps(60):
        share = mpmath.mpf(delta) / (n * math.comb(n, k) * (math.factorial(k) if ordered else 1))
        low, high = mpmath.mpf(errors) / (n - k), mpmath.mpf(1)
        for _ in range(80):
            p = (low + high) / 2
            term = total = (1 - p) ** (n - k)
            for i in range(errors):
                term = term * (n - k - i) / (i + 1) * p / (1 - p)
                total += term
            low, high = (low, p) if total <= share else (p, high)
        return high


@settings(calm, max_examples=40)
@given(st.integers(2, 300), st.floats(0, 0.999), st.floats(0, 0.5), st.floats(1e-6, 0.5), st.booleans())
def test_with_errors_matches_slow_twin_from_above(n, share, rate, delta, ordered):
    k = int(share * n)
    errors = int(rate * (n - k))
    exact = slow_with_errors(errors, k, n, delta, ordered)
    bound = compression_with_errors(errors, k, n, delta, ordered=ordered)
    assert exact - mpmath.mpf(2) ** -75 <= bound <= exact * (1 + mpmath.mpf("1e-8"))


def test_with_errors_stays_below_the_chernoff_form_for_large_samples():
    n, delta = 60_000, 0.05
    for errors, k in [(0, 100), (300, 1000), (5000, 3000)]:
        price = math.log(n) + math.log(math.comb(n, k)) + math.log(1 / delta)
        bound = compression_with_errors(errors, k, n, delta)
        chernoff = kl_inverse(errors / (n - k), price / (n - k))
        assert 0.95 * chernoff < bound <= chernoff * (1 + 1e-9)
        assert compression_with_errors(errors, k, n, delta, ordered=True) > bound


def test_with_errors_holds_for_the_luckiest_example():
    """Thresholds at an example, labels pure noise: the learner takes the one with the fewest errors."""
    n, delta = 40, 0.1
    rng = np.random.default_rng(3)
    # Sorted by x, only the labels are random. Threshold at example i: 0 below, 1 above.
    y = rng.random((RUNS, n)) < 0.5
    ones_below = np.cumsum(y, axis=1) - y
    zeros_above = (~y).sum(axis=1, keepdims=True) - np.cumsum(~y, axis=1)
    errors = (ones_below + zeros_above).min(axis=1)
    paid = np.array([compression_with_errors(e, 1, n, delta) for e in range(n)])
    assert np.mean(paid[errors] < 0.5) <= delta + tolerance(delta)
    # Teeth: no payment for the choice of the example.
    free = np.array([clopper_pearson(e, n - 1, delta) for e in range(n)])
    assert np.mean(free[errors] < 0.5) > delta + tolerance(delta)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((-1, 10, 0.05), "k must be at least 0"),
        ((11, 10, 0.05), "k must not exceed n"),
        ((1.0, 10, 0.05), "k must be an integer"),
        ((0, 0, 0.05), "n must be at least 1"),
        ((1, 10, 0.0), "delta must lie strictly"),
    ],
)
def test_bad_arguments_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        pick_to_learn(*args)
    with pytest.raises(TrueriskError, match=message):
        compression_with_errors(0, *args)


def test_impossible_errors_are_refused():
    assert compression_with_errors(0, 10, 10, 0.05) == 1.0
    with pytest.raises(TrueriskError, match="no example is left"):
        compression_with_errors(1, 10, 10, 0.05)
    with pytest.raises(TrueriskError, match="errors must not exceed n, got 8 errors among 7"):
        compression_with_errors(8, 3, 10, 0.05)
