"""Binomial tails in logarithms against 60 digits, and their inversion from above."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import clopper_pearson, kl_inverse
from truerisk.bounds._tails import _log_lower_tail, log_choose, log_margin, log_pmf, tail_inverse

calm = settings(deadline=None, derandomize=True, max_examples=80)
cases = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))


def slow_log_pmf(k, n, p):
    p = mpmath.mpf(p)
    return mpmath.log(mpmath.binomial(n, k)) + k * mpmath.log(p) + (n - k) * mpmath.log(1 - p)


def slow_log_tail(k, n, p):
    """ln P(Binomial(n, p) <= k), summed term by term; call it with 60 digits."""
    p = mpmath.mpf(p)
    term = total = (1 - p) ** n
    for i in range(k):
        term = term * (n - i) / (i + 1) * p / (1 - p)
        total += term
    return mpmath.log(total)


def fast_log_tail(k, n, p):
    j = np.arange(k, 0, -1, dtype=np.float64)
    return _log_lower_tail(k, n, p, j / (n - j + 1))


@calm
@given(cases, st.floats(1e-6, 1 - 1e-9), st.booleans())
def test_pmf_at_sixty_digits(case, p, near):
    k, n = case
    p = min(1 - 1e-12, max(1e-9, k / n * (1 + 1e-6))) if near else p
    with mpmath.workdps(60):
        for j in (k, n):
            exact = slow_log_pmf(j, n, p)
            assert abs(log_pmf(j, n, p) - exact) <= log_margin(n, -float(exact)) / 10


@pytest.mark.parametrize(("k", "n"), [(1, 60_000), (600, 60_000), (30_000, 60_000), (59_999, 60_000), (7, 10**9)])
def test_pmf_of_large_samples(k, n):
    with mpmath.workdps(60):
        for p in (k / n, k / n * 1.01 + 1e-6, (k / n + 1) / 2):
            if p < 1:
                exact = slow_log_pmf(k, n, p)
                assert abs(log_pmf(k, n, p) - exact) <= log_margin(n, -float(exact)) / 10


@calm
@given(cases, st.floats(1e-9, 1.0))
def test_lower_tail_at_sixty_digits(case, share):
    k, n = case
    p = k / n + share * (1 - k / n) * (1 - 1e-9)
    with mpmath.workdps(60):
        exact = slow_log_tail(k, n, p)
        assert abs(fast_log_tail(k, n, p) - exact) <= log_margin(n, -float(exact)) / 10


@pytest.mark.parametrize(("k", "n"), [(0, 60_000), (300, 60_000), (6000, 60_000), (2000, 2001)])
@pytest.mark.parametrize("price", [1.0, 3.0, 700.0, 14_000.0, 1e6])
def test_inverse_is_valid_and_tight(k, n, price):
    bound = tail_inverse(k, n, price)
    with mpmath.workdps(60):
        if bound == 1.0:
            assert slow_log_tail(k, n, 1 - 2.0**-50) > -price  # even the largest usable p is not enough
            return
        # Valid at the returned float; a little lower, by more than the margin, it is not.
        assert slow_log_tail(k, n, bound) <= -price
        assert slow_log_tail(k, n, bound - 1e-7 * min(bound, 1 - bound)) > -price


@calm
@given(cases, st.floats(0.7, 600.0))
def test_inverse_is_clopper_pearson_where_that_fits_into_floats(case, price):
    k, n = case
    bound, twin = tail_inverse(k, n, price), clopper_pearson(k, n, math.exp(-price))
    # The margins of both, 1e-9 and more in the tail's logarithm, weigh more where p itself is small.
    assert bound == pytest.approx(twin, rel=1e-9 if price > 3 else 1e-8)
    # Both are rounded upward, this one by a wider margin; with no errors the Chernoff form is exact and replaces it.
    assert bound >= twin * (1 - 1e-15) or k == 0


@calm
@given(cases, st.floats(1e-3, 1e5))
def test_inverse_lies_between_the_rate_and_the_chernoff_form(case, price):
    k, n = case
    bound = tail_inverse(k, n, price)
    assert k / n <= bound <= kl_inverse(k / n * (1 + 1e-15), price / n * (1 + 1e-13))
    assert tail_inverse(k, n, price * 1.1) >= bound
    assert tail_inverse(k + 1, n, price) >= bound


def test_inverse_at_its_ends():
    assert tail_inverse(5, 5, 0.1) == 1.0
    assert tail_inverse(0, 5, math.inf) == 1.0
    assert tail_inverse(3, 5, math.inf) == 1.0


@calm
@given(st.integers(0, 4000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_choose_is_rounded_upward(case):
    k, n = case
    with mpmath.workdps(60):
        exact = mpmath.log(math.comb(n, k))
        assert exact <= log_choose(n, k) <= exact + mpmath.mpf("1e-9")
