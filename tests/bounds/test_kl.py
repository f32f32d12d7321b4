"""The binary divergence and its inverse against arithmetic with hundreds of digits."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from truerisk.bounds import kl_bernoulli, kl_inverse
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=200)

# Uniform risks, tiny risks and risks next to 1, each of which breaks naive formulas in its own way.
risks = st.one_of(
    st.floats(0, 1),
    st.floats(-18, 0).map(lambda e: 10.0**e),
    st.floats(-15, 0).map(lambda e: 1.0 - 10.0**e),
    st.sampled_from([0.0, 5e-324, 1e-310, 1e-300, 0.5, 1.0 - 2.0**-53, 1.0]),
)
limits = st.one_of(st.floats(-20, 3).map(lambda e: 10.0**e), st.sampled_from([0.0, 1e-300, 1e-12, 700.0]))


def slow_kl(q, p):
    """The textbook formula, with digits enough to survive its cancellation."""
    # q - p and 1 - p are exact with this many digits, and 100 more remain.
    smallest = min(min(x, 1 - x) or 1 for x in (q, p))
    with mpmath.workdps(120 - 2 * int(mpmath.log10(smallest))):
        q, p = mpmath.mpf(q), mpmath.mpf(p)
        if q == p:
            return mpmath.mpf(0)
        if p in (0, 1):
            return mpmath.inf
        value = mpmath.mpf(0)
        if q > 0:
            value += q * mpmath.log(q / p)
        if q < 1:
            value += (1 - q) * mpmath.log((1 - q) / (1 - p))
        return value


def slow_inverse(q, c):
    """Plain bisection at 50 digits, by its upper end."""
    with mpmath.workdps(50):
        low, high = mpmath.mpf(q), mpmath.mpf(1)
        for _ in range(170):
            middle = (low + high) / 2
            if slow_kl(q, middle) > c:
                high = middle
            else:
                low = middle
        return high


@calm
@given(risks, risks)
def test_divergence_matches_slow_twin(q, p):
    exact = slow_kl(q, p)
    value = kl_bernoulli(q, p)
    if exact == mpmath.inf:
        assert value == math.inf
    else:
        # 4 ulps: the inverse allows for 64. The absolute part is for results in the subnormal range.
        assert abs(value - exact) <= 4 * 2.0**-52 * exact + 1e-307


@calm
@given(risks, st.floats(-16, -1))
def test_divergence_has_no_cancellation_next_to_the_diagonal(q, exponent):
    p = q + (1.0 - q) * 10.0**exponent
    assume(q < p < 1.0)
    exact = slow_kl(q, p)
    assert abs(kl_bernoulli(q, p) - exact) <= 4 * 2.0**-52 * exact + 1e-307


def test_textbook_formula_would_fail_there():
    q, p = 0.3, 0.3 + 1e-9
    naive = q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    exact = slow_kl(q, p)
    assert abs(naive - exact) > 0.01 * exact
    assert abs(kl_bernoulli(q, p) - exact) < 1e-15 * exact


def test_divergence_at_the_corners():
    q = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 0.5, 0.0])
    p = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.5])
    np.testing.assert_allclose(
        kl_bernoulli(q, p), [0, math.inf, math.inf, 0, math.inf, math.inf, math.log(2)], rtol=1e-15
    )


@calm
@given(risks, limits)
@example(0.0, 1e-12)
@example(1.0, 1e-12)
@example(0.5, 1e-12)
@example(1e-9, 1e-12)
@example(0.02, 3e-4)
@example(0.5, 40.0)
def test_inverse_is_never_too_small_and_tight(q, c):
    p = kl_inverse(q, c)
    assert q <= p <= 1.0
    # Never too small: the exact divergence at the returned float has reached c.
    assert p == 1.0 or slow_kl(q, p) >= c
    assert p == 1.0 or kl_bernoulli(q, p) >= c
    # Tight: a little lower it has not.
    lower = mpmath.mpf(p) - mpmath.mpf(10) ** -12
    assert lower <= q or slow_kl(q, lower) <= c


@settings(calm, max_examples=60)
@given(risks, limits)
def test_inverse_matches_slow_twin(q, c):
    exact = slow_inverse(q, c)
    # The twin's own upper end is less than 1e-49 above the truth.
    assert exact - mpmath.mpf(10) ** -49 <= kl_inverse(q, c) <= exact + mpmath.mpf(10) ** -12


def test_inverse_is_tight_in_relative_terms_for_small_risks():
    for q, c in [(0.0, 1e-15), (1e-12, 1e-13), (1e-6, 1e-9), (1e-3, 1e-10), (0.01, 1e-4)]:
        exact = slow_inverse(q, c)
        assert kl_inverse(q, c) - exact <= 1e-13 * (exact - q) + 2.0**-51 * q


@calm
@given(st.floats(0, 1), st.floats(0, 1))
def test_inverse_really_inverts(q, p):
    q, p = min(q, p), max(q, p)
    assume(p < 1.0)
    # 64 ulps of reserve on kl move p by at most 64 ulps of p - q, besides rounding to a float.
    assert p - 1e-14 <= kl_inverse(q, kl_bernoulli(q, p)) <= p + 1e-13 or kl_bernoulli(q, p) < 1e-290


@settings(calm, max_examples=100)
@given(risks, risks, limits, limits)
def test_inverse_is_monotone(q1, q2, c1, c2):
    q1, q2 = sorted((q1, q2))
    c1, c2 = sorted((c1, c2))
    # Each value is at most about 1e-13 above the exact one, which is monotone.
    assert kl_inverse(q1, c1) <= kl_inverse(q2, c1) + 1e-12
    assert kl_inverse(q1, c1) <= kl_inverse(q1, c2) + 1e-12


def test_inverse_at_its_exact_points():
    for q in (0.0, 5e-324, 0.1, 0.5, 1.0 - 2.0**-53, 1.0):
        assert kl_inverse(q, 0.0) == q
        assert kl_inverse(q, math.inf) == 1.0
        assert kl_inverse(q, 1e308) == 1.0
    assert kl_inverse(1.0, 1e-12) == 1.0


@pytest.mark.parametrize("c", [5e-324, 1e-300, 1e-16, 1e-12, 1e-3, 0.5, 1.0, 20.0, 36.0, 38.0, 800.0])
def test_inverse_at_zero_is_the_closed_form_rounded_upward(c):
    with mpmath.workdps(400):
        exact = -mpmath.expm1(-mpmath.mpf(c))
        value = kl_inverse(0.0, c)
        assert value >= exact or value == 1.0
        assert value - exact <= 8 * 2.0**-52 * exact + 4 * 5e-324


def test_arrays_broadcast_and_equal_the_scalars():
    q = np.linspace(0.0, 1.0, 7)[:, None]
    c = np.array([0.0, 1e-12, 1e-3, 0.1, 5.0, math.inf])
    table = kl_inverse(q, c)
    assert table.shape == (7, 6)
    assert table.dtype == np.float64
    for i, j in np.ndindex(table.shape):
        assert table[i, j] == kl_inverse(float(q[i, 0]), float(c[j]))
    assert kl_bernoulli(q, np.full(3, 0.5)).shape == (7, 3)
    assert kl_inverse(np.zeros(0), 0.1).shape == (0,)


def test_scalars_give_python_floats():
    assert type(kl_bernoulli(0.2, 0.3)) is float
    assert type(kl_inverse(0.2, 0.3)) is float
    assert type(kl_inverse(np.float64(0.2), 1)) is float


@pytest.mark.parametrize("bad", [-1e-9, 1.0 + 1e-9, math.nan, np.array([0.1, math.nan])])
def test_what_is_no_probability_is_refused(bad):
    with pytest.raises(TrueriskError, match="q must lie in"):
        kl_bernoulli(bad, 0.5)
    with pytest.raises(TrueriskError, match="p must lie in"):
        kl_bernoulli(0.5, bad)
    with pytest.raises(TrueriskError, match="q must lie in"):
        kl_inverse(bad, 0.5)


@pytest.mark.parametrize("bad", [-1e-300, -math.inf, math.nan])
def test_what_is_no_divergence_is_refused(bad):
    with pytest.raises(TrueriskError, match="c must be at least 0"):
        kl_inverse(0.5, bad)
