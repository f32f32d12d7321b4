"""Description length: exact tails, the Chernoff form, and a learner that picks among coded hypotheses."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import clopper_pearson, description_length, kl_inverse
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=50)
small = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n)))
deltas = st.one_of(st.floats(1e-9, 0.5), st.just(0.05))


def exact_tail(k, n, p):
    """P(Binomial(n, p) <= k) in rational arithmetic."""
    p = Fraction(p)
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def slow_log_tail(k, n, p):
    """The logarithm of the same sum at 60 digits."""
    with mpmath.workdps(60):
        p = mpmath.mpf(p)
        term = total = (1 - p) ** n
        for i in range(k):
            term = term * (n - i) / (i + 1) * p / (1 - p)
            total += term
        return mpmath.log(total)


@calm
@given(small, st.integers(0, 2500), deltas)
def test_in_rational_arithmetic_far_below_the_smallest_float(case, bits, delta):
    k, n = case
    bound = description_length(k, n, bits, delta)
    share = Fraction(delta) / 2**bits
    if bound < 1.0:
        assert exact_tail(k, n, bound) <= share
        # Tight: a hair lower the tail is too large, unless errors/n itself is.
        lower = bound - 1e-7 * min(bound, 1 - bound) - 2.0**-50
        assert exact_tail(k, n, lower) > share or lower < k / n
    else:
        assert exact_tail(k, n, 1 - 2.0**-50) > share


@pytest.mark.parametrize("k", [0, 60, 600, 6000])
@pytest.mark.parametrize("bits", [900, 5000, 20_000])
def test_thousands_of_bits_on_large_samples(k, bits):
    n, delta = 60_000, 0.05
    bound = description_length(k, n, bits, delta)
    price = bits * mpmath.log(2) + mpmath.log(20)
    assert slow_log_tail(k, n, bound) <= -price
    assert slow_log_tail(k, n, bound * (1 - 1e-8)) > -price
    assert bound <= kl_inverse(k / n * (1 + 1e-15), float(price) / n * (1 + 1e-13))


@calm
@given(
    st.integers(1, 60_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.floats(5, 900),
    st.floats(1e-9, 0.5),
)
def test_is_clopper_pearson_where_delta_does_not_underflow(case, bits, delta):
    k, n = case
    bound, twin = description_length(k, n, bits, delta), clopper_pearson(k, n, delta * 2.0**-bits)
    assert bound == pytest.approx(twin, rel=1e-9)
    # With no errors the Chernoff form, exact there, replaces the wider margin of the tail.
    assert bound >= twin * (1 - 1e-15) or k == 0


@calm
@given(small, st.floats(0, 1e4), st.floats(0, 1e3), deltas)
def test_moves_the_right_way(case, bits, more, delta):
    k, n = case
    base = description_length(k, n, bits, delta)
    assert k / n <= base <= 1.0
    assert base <= description_length(k, n, bits + more, delta)
    assert base <= description_length(k, n, bits, delta / 2)
    assert base <= description_length(k + 1, n, bits, delta)


def test_one_bit_is_one_halving_of_delta():
    for k, n, bits in [(0, 100, 3), (7, 200, 40), (50, 1000, 700)]:
        twice = description_length(k, n, bits, 0.1)
        assert description_length(k, n, bits + 1, 0.2) == pytest.approx(twice, rel=1e-12)


# A class of 46 hypotheses with codes of 3 to 10 bits, which fill Kraft's inequality.
COUNTS = {3: 3, 4: 3, 5: 6, 6: 12, 8: 14, 10: 8}


def smallest_bounds(price, n, runs, risk, delta):
    """The smallest bound in the class, as a learner would choose it, in each of many runs."""
    rng = np.random.default_rng(0)
    best = np.ones(runs)
    for bits, count in COUNTS.items():
        table = np.ones(n + 1)  # from n/2 errors on the bound can't fall below the risk of 1/2
        table[: n // 2] = [description_length(k, n, price(bits), delta) for k in range(n // 2)]
        # The bound grows with the errors, so among equal codes the fewest errors win.
        errors = rng.binomial(n, risk, size=(runs, count)).min(axis=1)
        best = np.minimum(best, table[errors])
    return best


def test_holds_for_a_learner_that_takes_the_smallest_bound():
    assert sum(count * 2.0**-bits for bits, count in COUNTS.items()) == 1.0
    n, delta, runs, risk = 40, 0.05, 20_000, 0.5
    # Binomial(20000, at most .05): 4 standard deviations are .0062; false-alarm rate 3e-5.
    tolerance = 4 * math.sqrt(delta * (1 - delta) / runs)
    assert np.mean(smallest_bounds(lambda bits: bits, n, runs, risk, delta) < risk) <= delta + tolerance
    # Teeth: a code that is not paid for, and lengths taken for nats, which breaks Kraft's inequality.
    assert np.mean(smallest_bounds(lambda _: 0, n, runs, risk, delta) < risk) > delta + tolerance
    assert np.mean(smallest_bounds(lambda bits: bits * math.log(2), n, runs, risk, delta) < risk) > delta + tolerance


def test_extremes():
    assert description_length(0, 10, math.inf, 0.05) == 1.0
    assert description_length(10, 10, 0, 0.05) == 1.0
    assert description_length(0, 100, 1e9, 0.05) == 1.0
    # Above one half delta allows less than errors/n; the bound stays there.
    assert description_length(30, 60, 0, 0.9) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 10, -1.0, 0.05), "bits must be at least 0"),
        ((1, 10, math.nan, 0.05), "bits is NaN"),
        ((11, 10, 5, 0.05), "errors must not exceed n"),
        ((1.0, 10, 5, 0.05), "errors must be an integer"),
        ((0, 0, 5, 0.05), "n must be at least 1"),
        ((1, 10, 5, 1.0), "delta must lie strictly"),
    ],
)
def test_bad_arguments_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        description_length(*args)
