"""Monte Carlo bounds: slow twins, equalities at their edges, coverage with dependent errors inside groups."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import chernoff_upper, grouped_upper
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=100)

means = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-6, 0.5, 1.0]))
counts = st.integers(1, 10**6)
deltas = st.one_of(st.floats(1e-12, 0.999), st.just(0.01))


def slow_chernoff(mean, trials, delta):
    with mpmath.workdps(60):
        q, limit = mpmath.mpf(mean), mpmath.log(1 / mpmath.mpf(delta)) / trials
        low, high = q, mpmath.mpf(1)
        for _ in range(120):
            p = (low + high) / 2
            value = q * mpmath.log(q / p) if q else 0
            value += (1 - q) * mpmath.log((1 - q) / (1 - p)) if q < 1 else 0
            low, high = (low, p) if value > limit else (p, high)
        return high


@settings(calm, max_examples=80)
@given(means, counts, deltas)
def test_chernoff_matches_slow_twin_from_above(mean, trials, delta):
    exact = slow_chernoff(mean, trials, delta)
    # The twin's upper end exceeds the truth by at most 2^-120.
    assert exact - mpmath.mpf(2) ** -119 <= chernoff_upper(mean, trials, delta) <= exact + mpmath.mpf("1e-12")


@calm
@given(st.tuples(means, means), st.tuples(counts, counts), st.tuples(deltas, deltas))
def test_chernoff_is_monotone_and_above_the_mean(ms, ts, ds):
    (m, m2), (t2, t), (d2, d) = sorted(ms), sorted(ts), sorted(ds)
    base = chernoff_upper(m, t, d)
    assert m <= base <= 1.0
    for args in [(m2, t, d), (m, t2, d), (m, t, d2)]:
        assert base <= chernoff_upper(*args) + 1e-12


def test_chernoff_is_exact_when_no_error_was_seen():
    """With mean 0 the bound is 1 - delta^(1/trials), at which no error has probability exactly delta."""
    for trials, delta in [(1, 0.3), (50, 0.05), (10_000, 1e-6)]:
        p = chernoff_upper(0.0, trials, delta)
        assert (1 - p) ** trials == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("shape", ["coins", "fractions", "constants"])
def test_chernoff_covers_unequal_trials(shape):
    trials, delta, runs = 60, 0.2, 4000
    rng = np.random.default_rng(3)
    p = rng.beta(0.5, 2.0, size=trials)
    if shape == "coins":
        draws = rng.random((runs, trials)) < p
    elif shape == "fractions":
        draws = rng.beta(2 * p + 1e-9, 2 * (1 - p) + 1e-9, size=(runs, trials))
    else:
        draws = np.broadcast_to(p, (runs, trials))
    sample = draws.mean(axis=1)
    # The bound grows with the mean, so it fails exactly below one threshold, found by bisection.
    threshold, above = 0.0, 1.0
    assert chernoff_upper(threshold, trials, delta) < p.mean()
    for _ in range(45):
        middle = (threshold + above) / 2
        if chernoff_upper(middle, trials, delta) < p.mean():
            threshold = middle
        else:
            above = middle
    # Binomial(4000, at most .2): 4.5 standard deviations are .028; false-alarm rate 4e-6.
    assert np.mean(sample <= threshold) <= delta + 4.5 * math.sqrt(delta * (1 - delta) / runs)
    # Teeth: the bare mean, which some public code puts into the kl inverse, is too small half of the time.
    if shape != "constants":
        assert np.mean(sample < p.mean()) > 0.4


def test_single_examples_are_the_plain_bound():
    for n, errors, delta in [(1, 0, 0.1), (7, 3, 0.05), (1000, 123, 0.01), (60_000, 1700, 0.025)]:
        assert grouped_upper(errors, n, 1, n, 1, delta) == chernoff_upper(errors / n, n, delta)
        assert grouped_upper(3 * errors, n, 1, n, 3, delta) == chernoff_upper(errors / n, 3 * n, delta)


@calm
@given(st.integers(1, 500), st.integers(1, 40), st.integers(0, 3), st.integers(1, 4), st.floats(0, 1), deltas)
def test_grouped_bound_by_its_definition(n, size, spare, passes, rate, delta):
    groups = -(-n // size) + spare
    total = rate * n * passes
    bound = grouped_upper(total, groups, size, n, passes, delta)
    slots = groups * size
    exact = slow_chernoff(total / (slots * passes), groups * passes, delta) * slots / n
    assert bound == pytest.approx(min(1.0, float(exact)), rel=1e-11)
    assert bound >= min(1.0, float(exact)) * (1 - 1e-15)
    assert bound >= total / (n * passes) * (1 - 1e-15)


def test_larger_groups_cost_more():
    values = [grouped_upper(50, 1000 // size, size, 1000, 1, 0.05) for size in (1, 2, 5, 20, 100)]
    assert values == sorted(values)
    assert values[0] < 0.07
    assert values[-1] > 0.2


def test_grouped_bound_covers_networks_that_fail_together():
    """A network errs on its whole group or nowhere, the worst dependence; the last group is half empty."""
    n, size, passes, delta, runs = 95, 10, 2, 0.1, 4000
    groups, risk = 10, 0.3
    filled = np.array([size] * 9 + [5])
    rng = np.random.default_rng(5)
    sums = ((rng.random((runs, passes, groups)) < risk) * filled).sum(axis=(1, 2))
    table = np.array([grouped_upper(s, groups, size, n, passes, delta) for s in range(n * passes + 1)])
    # Binomial(4000, at most .1): 4.5 standard deviations are .021; false-alarm rate 4e-6.
    tolerance = 4.5 * math.sqrt(delta * (1 - delta) / runs)
    assert np.mean(table[sums] < risk) <= delta + tolerance
    # Teeth: with every example counted as an independent trial, the bound fails too often.
    naive = np.array([chernoff_upper(s / (n * passes), n * passes, delta) for s in range(n * passes + 1)])
    assert np.mean(naive[sums] < risk) > delta + tolerance


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 3, 3, 10, 1, 0.05), "groups \\* size must be at least n"),
        ((11, 10, 1, 10, 1, 0.05), "error_sum must lie between"),
        ((-1, 10, 1, 10, 1, 0.05), "error_sum must lie between"),
        ((math.nan, 10, 1, 10, 1, 0.05), "error_sum is NaN"),
        ((1, 0, 1, 10, 1, 0.05), "groups must be at least 1"),
        ((1, 10, 1.0, 10, 1, 0.05), "size must be an integer"),
        ((1, 10, 1, 10, 0, 0.05), "passes must be at least 1"),
        ((1, 10, 1, 10, 1, 0.0), "delta must lie strictly"),
    ],
)
def test_bad_groups_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        grouped_upper(*args)


def test_bad_trials_are_refused():
    with pytest.raises(TrueriskError, match="mean must lie in"):
        chernoff_upper(1.1, 10, 0.05)
    with pytest.raises(TrueriskError, match="trials must be at least 1"):
        chernoff_upper(0.1, 0, 0.05)
    with pytest.raises(TrueriskError, match="delta must lie strictly"):
        chernoff_upper(0.1, 10, 2.0)
