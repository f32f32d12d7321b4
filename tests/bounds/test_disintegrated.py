"""The bound for a single draw: slow twin, negative ratios, and a learner that draws from what it saw."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from truerisk.bounds import confidence_term, kl_inverse, pac_bayes_kl, single_draw
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=100)
risks = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-6, 0.5, 1.0]))
counts = st.integers(8, 10**7)
deltas = st.one_of(st.floats(1e-12, 0.999), st.just(0.05))


def slow_single_draw(r, ratio, n, delta):
    with mpmath.workdps(60):
        r = mpmath.mpf(r)
        limit = max(mpmath.mpf(0), mpmath.mpf(ratio) + mpmath.log(2 * mpmath.sqrt(n) / mpmath.mpf(delta))) / n
        low, high = r, mpmath.mpf(1)
        for _ in range(140):
            p = (low + high) / 2
            value = r * mpmath.log(r / p) if r else 0
            value += (1 - r) * mpmath.log((1 - r) / (1 - p)) if r < 1 else 0
            low, high = (low, p) if value > limit else (p, high)
        return high


@calm
@given(risks, st.floats(-50, 1e4), counts, deltas)
def test_matches_slow_twin_from_above(r, ratio, n, delta):
    exact = slow_single_draw(r, ratio, n, delta)
    # Where the two terms cancel the limit is inexact by 1e-14 relative to their sizes: 1e-9 in the result.
    assert exact - mpmath.mpf(2) ** -130 <= single_draw(r, ratio, n, delta) <= exact + mpmath.mpf("1e-9")


@calm
@given(st.floats(0.01, 0.99), st.floats(-14, -8), counts, deltas)
def test_stays_above_the_twin_where_the_terms_nearly_cancel(r, exponent, n, delta):
    ratio = 10.0**exponent - confidence_term(n, delta)
    assert single_draw(r, ratio, n, delta) >= slow_single_draw(r, ratio, n, delta) - mpmath.mpf(2) ** -130


@calm
@given(risks, st.floats(0, 1e5), counts, deltas)
def test_a_ratio_is_priced_like_a_divergence(r, ratio, n, delta):
    assert single_draw(r, ratio, n, delta) == pytest.approx(pac_bayes_kl(r, ratio, n, delta), abs=1e-12)


@calm
@given(risks, counts, deltas)
def test_where_the_right_side_is_negative_the_empirical_risk_remains(r, n, delta):
    confidence = confidence_term(n, delta)
    assert single_draw(r, -2 * confidence, n, delta) == r
    # Just above zero the bound leaves the empirical risk, and it never falls below.
    assert single_draw(r, -confidence + 1.0, n, delta) >= r
    assert single_draw(0.25, -confidence + 1.0, n, delta) > 0.25


def gibbs_draws(seed, runs, hypotheses, n, strength):
    """Empirical risk and ln dQ/dP of one draw from a Gibbs posterior over independent hypotheses of risk 1/2."""
    rng = np.random.default_rng(seed)
    k = np.arange(n + 1)
    # How many hypotheses make k errors on the sample; those with equal k share one posterior weight.
    counts = rng.multinomial(hypotheses, binom.pmf(k, n, 0.5), size=runs)
    each = np.exp(-strength * k) / (counts * np.exp(-strength * k)).sum(axis=1, keepdims=True)
    drawn = ((counts * each).cumsum(axis=1) < rng.random((runs, 1))).sum(axis=1).clip(max=n)
    return drawn / n, np.log(each[np.arange(runs), drawn] * hypotheses)


N, DELTA, RUNS = 40, 0.05, 20_000
# Binomial(20000, at most .05): 4 standard deviations are .0062; false-alarm rate 3e-5.
TOLERANCE = 4 * math.sqrt(DELTA * (1 - DELTA) / RUNS)


@pytest.mark.parametrize("strength", [0.2, 1.0, 50.0])
def test_holds_for_a_draw_from_a_posterior_that_saw_the_data(strength):
    empirical, ratio = gibbs_draws(0, RUNS, hypotheses=2000, n=N, strength=strength)
    bound = kl_inverse(empirical, np.maximum(ratio + confidence_term(N, DELTA), 0.0) / N)
    for i in range(20):
        assert single_draw(empirical[i], ratio[i], N, DELTA) == pytest.approx(bound[i], abs=1e-12)
    assert np.mean(bound < 0.5) <= DELTA + TOLERANCE


@pytest.mark.parametrize("strength", [1.0, 50.0])
def test_without_the_ratio_the_bound_is_broken(strength):
    empirical, _ = gibbs_draws(0, RUNS, hypotheses=2000, n=N, strength=strength)
    assert np.mean(kl_inverse(empirical, confidence_term(N, DELTA) / N) < 0.5) > DELTA + TOLERANCE


def test_the_negative_side_is_met_and_covered():
    """A posterior that avoids good hypotheses has draws with negative ratios; the bound must hold for them too."""
    rng = np.random.default_rng(4)
    hypotheses, delta = 50, 0.5
    empirical = rng.binomial(N, 0.5, size=(RUNS, hypotheses)) / N
    # Almost all of Q on one fixed hypothesis, the rest spread thin: the thin ones have ratios near -9.
    posterior = np.full(hypotheses, 2e-6)
    posterior[0] = 1 - posterior[1:].sum()
    drawn = rng.choice(hypotheses, size=RUNS, p=posterior)
    ratio = np.log(posterior[drawn] * hypotheses)
    total = ratio + confidence_term(N, delta)
    drawn_risk = empirical[np.arange(RUNS), drawn]
    bound = kl_inverse(drawn_risk, np.maximum(total, 0.0) / N)
    for i in np.flatnonzero(total < 0)[:20]:
        assert single_draw(drawn_risk[i], ratio[i], N, delta) == bound[i] == drawn_risk[i]
    assert (total < 0).any()
    assert np.mean(bound < 0.5) <= delta + 4 * math.sqrt(delta * (1 - delta) / RUNS)


def test_extremes():
    assert single_draw(0.3, math.inf, 100, 0.05) == 1.0
    assert single_draw(1.0, 3.0, 100, 0.05) == 1.0
    assert type(single_draw(np.float64(0.1), np.float32(3.0), np.int64(100), 0.05)) is float


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1.5, 1.0, 100, 0.05), "empirical_risk must lie in"),
        ((0.1, math.nan, 100, 0.05), "log_ratio is NaN"),
        ((0.1, -math.inf, 100, 0.05), "log_ratio must not be -inf"),
        ((0.1, 1.0, 7, 0.05), "at least 8 for Maurer"),
        ((0.1, 1.0, 100.0, 0.05), "n must be an integer"),
        ((0.1, 1.0, 100, 0.0), "delta must lie strictly"),
    ],
)
def test_bad_arguments_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        single_draw(*args)
