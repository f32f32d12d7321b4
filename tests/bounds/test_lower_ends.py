"""Lower ends: exact enumeration where the bound is exact, a slow reference where it is numerical, and planted bugs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from truerisk.bounds import (
    chernoff_lower,
    clopper_pearson,
    clopper_pearson_lower,
    description_length,
    description_length_lower,
    disagreement_lower,
    grouped_lower,
    kl_bernoulli,
    kl_inverse,
    kl_inverse_lower,
    pac_bayes_kl,
    pac_bayes_kl_lower,
    progressive_lower,
    progressive_t,
    single_draw,
    single_draw_lower,
)
from truerisk.errors import TrueriskError

DELTA = 0.1
RISKS = np.linspace(0.001, 0.999, 997)


def missed(lower, n, risks=RISKS):
    """The largest probability, over true risks, that the lower end of a binomial count lies above the risk."""
    ends = np.array([lower(k) for k in range(n + 1)])
    return max(float(binom.pmf(np.arange(n + 1), n, p)[ends > p].sum()) for p in risks)


@pytest.mark.parametrize("n", [5, 40])
def test_clopper_pearson_fails_as_often_as_it_may_and_never_more(n):
    ends = [clopper_pearson_lower(k, n, DELTA) for k in range(n + 1)]
    assert missed(ends.__getitem__, n) <= DELTA
    # Just below an end, all counts from there on give a lower end above the risk: exactly delta.
    just_below = [end * (1 - 1e-9) for end in ends[1:]]
    assert missed(ends.__getitem__, n, just_below) == pytest.approx(DELTA, abs=1e-6)
    assert missed(lambda k: clopper_pearson_lower(k, n, 2 * DELTA), n) > DELTA, "delta spent twice"
    assert missed(lambda k: clopper_pearson_lower(min(n, k + 1), n, DELTA), n) > DELTA, "a tie counted as an error"


@pytest.mark.parametrize("n", [5, 40])
def test_both_ends_share_delta(n):
    both = [(clopper_pearson_lower(k, n, DELTA / 2), clopper_pearson(k, n, DELTA / 2)) for k in range(n + 1)]

    def outside(ends):
        lows, highs = np.array(ends).T
        return max(float(binom.pmf(np.arange(n + 1), n, p)[(lows > p) | (highs < p)].sum()) for p in RISKS)

    assert outside(both) <= DELTA
    whole = [(clopper_pearson_lower(k, n, DELTA), clopper_pearson(k, n, DELTA)) for k in range(n + 1)]
    assert outside(whole) > DELTA, "each end took all of delta"


@settings(deadline=None)
@given(st.integers(1, 10**6), st.floats(0, 1), st.floats(1e-9, 0.5))
def test_clopper_pearson_agrees_with_the_beta_quantile(n, share, delta):
    k = round(share * n)
    slow = float(beta.ppf(delta, k, n - k + 1)) if k else 0.0
    assert clopper_pearson_lower(k, n, delta) == pytest.approx(slow, rel=1e-6, abs=1e-12)
    assert clopper_pearson_lower(k, n, delta) <= k / n <= clopper_pearson(k, n, delta)


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 30))
def test_the_lower_inverse_is_on_the_safe_side_and_close(q, c):
    low = kl_inverse_lower(q, c)
    assert 0 <= low <= q
    if low > 0:
        assert kl_bernoulli(q, low) >= c * (1 - 1e-12) or kl_bernoulli(q, low) >= c - 1e-15
        higher = low + 1e-12 * (q - low) + 4 * math.ulp(1.0)
        assert higher >= q or kl_bernoulli(q, min(higher, q)) <= c * (1 + 1e-6) + 1e-12


def slow_lower_inverse(q, c):
    """Plain halving with the textbook formula in exact fractions of the arguments."""
    low, high = 0.0, q
    for _ in range(200):
        middle = (low + high) / 2
        kl = (q * math.log(q / middle) if middle else math.inf) + (
            (1 - q) * math.log((1 - q) / (1 - middle)) if q < 1 else 0.0
        )
        low, high = (middle, high) if kl > c else (low, middle)
    return high


@pytest.mark.parametrize("q", [0.01, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("c", [1e-4, 0.01, 0.2, 1.0])
def test_the_lower_inverse_agrees_with_plain_halving(q, c):
    assert kl_inverse_lower(q, c) == pytest.approx(slow_lower_inverse(q, c), rel=1e-9, abs=1e-12)
    assert kl_inverse_lower(q, c) == pytest.approx(1 - kl_inverse(1 - q, c), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("groups", "size", "n"), [(40, 1, 40), (14, 3, 40)])
def test_draws_bound_the_empirical_risk_from_below(groups, size, n):
    """Groups that err together or not at all are the widest: each is one coin. The last one may be short."""
    sizes = np.full(groups, size)
    sizes[-1] = n - size * (groups - 1)
    rng = np.random.default_rng(0)
    for risk in (0.1, 0.5, 0.9):
        sums = (rng.random((4000, groups)) < risk) @ sizes
        ends = {total: grouped_lower(int(total), groups, size, n, 1, DELTA) for total in np.unique(sums)}
        failed = sum(ends[total] > risk for total in sums)
        assert failed <= binom.isf(1e-6, 4000, DELTA)  # false alarms: 6e-6 for the six cases together
    assert grouped_lower(n, groups, size, n, 1, DELTA) < 1
    assert chernoff_lower(0.0, 10, DELTA) == 0


def test_progressive_fails_no_more_than_it_may():
    n, t = 40, progressive_t(1 - 0.3, 40, DELTA)
    ends = [progressive_lower(k, n, DELTA, t) for k in range(n + 1)]
    assert 0.2 * DELTA < missed(ends.__getitem__, n) <= DELTA
    assert missed(lambda k: progressive_lower(k, n, 4 * DELTA, t), n) > DELTA


def test_description_length_mirrors_its_upper_end():
    assert description_length_lower(90, 100, 8, DELTA) == pytest.approx(1 - description_length(10, 100, 8, DELTA))
    n, bits = 40, 2
    assert missed(lambda k: description_length_lower(k, n, bits, DELTA), n) <= DELTA / 2**bits
    assert missed(lambda k: description_length_lower(k, n, 0, DELTA), n) > DELTA / 2**bits, "the bits left out"


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(0, 50), st.floats(1e-6, 0.5))
def test_disagreement_subtracts_no_less_than_the_upper_end(below, differing, delta):
    low = disagreement_lower(below, differing, 50, delta)
    exact = max(Fraction(0), Fraction(below) - Fraction(clopper_pearson(differing, 50, delta)))
    assert 0 <= Fraction(low) <= exact
    assert float(exact) - low < 1e-14


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 50), st.integers(8, 10**6))
def test_one_event_gives_both_ends_of_pac_bayes(risk, kl, n):
    low, high = pac_bayes_kl_lower(risk, kl, n, DELTA), pac_bayes_kl(risk, kl, n, DELTA)
    assert 0 <= low <= risk <= high
    assert low == pytest.approx(1 - pac_bayes_kl(1 - risk, kl, n, DELTA), abs=1e-9)
    assert single_draw_lower(risk, kl, n, DELTA) == pytest.approx(low, abs=1e-9)
    assert single_draw_lower(risk, -1e9, n, DELTA) == pytest.approx(single_draw(risk, -1e9, n, DELTA), abs=1e-12)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_what_is_no_rate_is_refused(bad):
    for call in (
        lambda: kl_inverse_lower(bad, 0.1),
        lambda: chernoff_lower(bad, 10, 0.1),
        lambda: pac_bayes_kl_lower(bad, 0.0, 10, 0.1),
        lambda: single_draw_lower(bad, 0.0, 10, 0.1),
        lambda: disagreement_lower(bad, 0, 10, 0.1),
    ):
        with pytest.raises(TrueriskError):
            call()
