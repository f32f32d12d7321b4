"""Disagreement: the sum, its edges, and a target whose risk is as large as the inequality allows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from truerisk.bounds import clopper_pearson, disagreement
from truerisk.errors import TrueriskError


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.floats(0, 1),
    st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.floats(1e-6, 0.5),
)
def test_is_the_sum_of_both_bounds(surrogate, case, delta):
    k, n = case
    interval = binomtest(k, n, alternative="less").proportion_ci(1 - delta, method="exact")
    result = disagreement(surrogate, k, n, delta)
    assert result == pytest.approx(min(1.0, surrogate + interval.high), rel=1e-7)
    assert result >= min(1.0, surrogate + clopper_pearson(k, n, delta))


def test_holds_where_every_disagreement_is_an_error():
    """risk(target) = risk(surrogate) + P(disagree), the worst case; the surrogate's bound is exact here."""
    n, delta, runs = 200, 0.05, 20_000
    surrogate, differ = 0.1, 0.03
    table = np.array([disagreement(surrogate, k, n, delta) for k in range(n + 1)])
    counts = np.random.default_rng(0).binomial(n, differ, size=runs)
    # Binomial(20000, at most .05): 4 standard deviations are .0062; false-alarm rate 3e-5.
    tolerance = 4 * math.sqrt(delta * (1 - delta) / runs)
    assert np.mean(table[counts] < surrogate + differ) <= delta + tolerance
    # Teeth: the rate of disagreement itself, without its confidence.
    assert np.mean(surrogate + counts / n < surrogate + differ) > delta + tolerance


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1.5, 1, 10, 0.05), "surrogate_bound must lie in"),
        ((math.nan, 1, 10, 0.05), "surrogate_bound is NaN"),
        ((0.1, 11, 10, 0.05), "disagreements must not exceed n"),
        ((0.1, -1, 10, 0.05), "disagreements must be at least 0"),
        ((0.1, 1.0, 10, 0.05), "disagreements must be an integer"),
        ((0.1, 0, 0, 0.05), "n must be at least 1"),
        ((0.1, 1, 10, 0.0), "delta must lie strictly"),
    ],
)
def test_bad_arguments_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        disagreement(*args)
