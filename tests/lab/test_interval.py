"""The statistics of verdicts: how often they are wrong at the threshold, and how often they find what is there.

Simulated with fixed seeds over 20,000 repetitions: a rate of 2.5% has a standard error of 0.11 points, so that the
tolerance of 0.45 points below has a false-alarm rate of 1 in 20,000.
"""

import math

import numpy as np
import pytest
from scipy import stats

from truerisk.lab.effect import Above
from truerisk.lab.interval import LEVEL, doubt, inside, interval, refuted, seeds_needed
from truerisk.lab.units import PERCENT, PLAIN, POINTS, TIMES, Region, at_least, at_most, between

TIMES_TRIED = 20_000
ROOM = 0.0045


def fractions(values: np.ndarray, low: float) -> tuple[float, float]:
    """Shares of (inside, outside) verdicts for the region "at least ``low``"; a vectorized twin of the module."""
    n = values.shape[1]
    mean, error = values.mean(1), values.std(1, ddof=1) / math.sqrt(n)
    half = stats.t.ppf(1 - LEVEL, n - 1) * error
    return float((mean - half >= low).mean()), float((mean + half < low).mean())


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_the_simulated_rule_is_that_of_the_module(n):
    values = np.random.default_rng(n).normal(0.3, 1, (200, n))
    region = Region(0.0, math.inf, PLAIN)
    found = [interval(row.tolist(), PLAIN) for row in values]
    mine = (np.mean([inside(i, region) for i in found]), np.mean([refuted([doubt(i, region)]) for i in found]))
    assert mine == pytest.approx(fractions(values, 0.0))


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_wrong_at_the_threshold_in_one_of_forty(n):
    values = np.random.default_rng(n).normal(0, 1, (TIMES_TRIED, n))
    for share in fractions(values, 0.0):
        assert share == pytest.approx(LEVEL, abs=ROOM)


@pytest.mark.parametrize(("n", "distance", "power"), [(3, 2, 0.48), (5, 2, 0.91), (3, 5, 0.98), (5, 5, 1.0)])
def test_power(n, distance, power):
    """At 2 and 5 standard deviations from the threshold, as docs/lab.rst states it."""
    values = np.random.default_rng(7).normal(distance, 1, (TIMES_TRIED, n))
    assert fractions(values, 0.0)[0] == pytest.approx(power, abs=0.015)


def test_the_old_rule_was_wrong_in_a_fifth():
    """One standard error, as claims were judged before: what the interval replaces."""
    values = np.random.default_rng(0).normal(0, 1, (TIMES_TRIED, 3))
    wrong = (values.mean(1) > values.std(1, ddof=1) / math.sqrt(3)).mean()
    assert wrong == pytest.approx(0.21, abs=0.015)


def test_pooling_networks_that_share_seeds_is_wrong_in_a_third():
    """Five networks with correlation .7 within a seed, pooled as 15 independent numbers, against averaged by seed."""
    drawn = np.random.default_rng(1)
    shared = drawn.normal(0, 1, (TIMES_TRIED, 3, 1)) * math.sqrt(0.7)
    values = shared + drawn.normal(0, 1, (TIMES_TRIED, 3, 5)) * math.sqrt(0.3)
    pooled, by_seed = (sum(fractions(some, 0.0)) for some in (values.reshape(TIMES_TRIED, 15), values.mean(2)))
    assert pooled > 0.35
    assert by_seed == pytest.approx(2 * LEVEL, abs=2 * ROOM)


def test_stopping_when_it_suits_is_wrong_more_often():
    values = np.random.default_rng(2).normal(0, 1, (TIMES_TRIED, 10))
    looked = np.zeros(TIMES_TRIED, dtype=bool)
    for n in range(3, 11):
        some = values[:, :n]
        half = stats.t.ppf(1 - LEVEL, n - 1) * some.std(1, ddof=1) / math.sqrt(n)
        looked |= np.abs(some.mean(1)) > half
    assert looked.mean() > 3 * 2 * LEVEL


@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("m", [2, 5, 20])
def test_refuting_over_cells_keeps_its_level(m, correlation):
    """All cells at the threshold: Simes' test refutes in at most 2.5%, with shared seeds as well."""
    drawn = np.random.default_rng(3)
    shared = drawn.normal(0, 1, (TIMES_TRIED, 3, 1)) * math.sqrt(correlation)
    values = shared + drawn.normal(0, 1, (TIMES_TRIED, 3, m)) * math.sqrt(1 - correlation)
    t = values.mean(1) / (values.std(1, ddof=1) / math.sqrt(3))
    doubts = np.sort(np.where(t < 0, stats.t.sf(-t, 2), 1.0), axis=1)
    wrong = (doubts <= LEVEL * np.arange(1, m + 1) / m).any(1)
    assert wrong.mean() < LEVEL + ROOM
    sample = values[:50]
    for some, expected in zip(sample, wrong[:50], strict=True):
        found = [interval(some[:, i].tolist(), PLAIN) for i in range(m)]
        assert refuted([doubt(each, at_least(0, PLAIN)) for each in found]) == expected
    # The rule without a correction would be wrong far more often.
    assert (doubts[:, 0] <= LEVEL).mean() > (1.5 if m > 2 else 1.2) * LEVEL


def test_refuting_keeps_its_level_where_cells_are_negatively_dependent():
    """Steps between neighboring levels share a level, so that one falls where the next one rises."""
    levels = np.random.default_rng(6).normal(0, 1, (TIMES_TRIED, 5, 5))
    steps = np.diff(levels, axis=2)
    t = steps.mean(1) / (steps.std(1, ddof=1) / math.sqrt(5))
    doubts = np.sort(np.where(t < 0, stats.t.sf(-t, 4), 1.0), axis=1)
    assert (doubts <= LEVEL * np.arange(1, 5) / 4).any(1).mean() < LEVEL + ROOM


def test_rare_errors_need_the_floor():
    """Three seeds that all count 0 of 500 errors do not prove a rate of 0; the floor is one example."""
    counts = np.random.default_rng(4).binomial(500, 0.002, (TIMES_TRIED // 4, 3)) / 500
    region = at_most(0.2, PERCENT)  # exactly the truth
    wrong = {
        step: np.mean([inside(interval(row.tolist(), PERCENT, step), region) for row in counts])
        for step in (0, 1 / 500)
    }
    assert wrong[0] > 0.04
    assert wrong[1 / 500] < LEVEL


def test_skewed_ratios_are_read_on_a_log_scale():
    values = np.exp(np.random.default_rng(5).normal(0, 0.75, (TIMES_TRIED // 4, 5)))
    region = at_most(1, TIMES)  # the median, and the mean of logarithms
    found = [interval(row.tolist(), TIMES) for row in values]
    assert np.mean([inside(each, region) for each in found]) == pytest.approx(LEVEL, abs=2 * ROOM)
    assert found[0].mean == pytest.approx(float(np.exp(np.log(values[0]).mean())))


def test_a_limit_gives_a_lower_end_only():
    found = interval([5.0, 5.5, Above(5.2)], TIMES)
    assert found.high == math.inf
    plain = interval([5.0, 5.5, 5.2], TIMES)
    assert found.low == plain.low
    assert inside(found, at_least(4, TIMES))
    assert not inside(found, at_most(50, TIMES))
    assert refuted([doubt(found, at_most(4, TIMES))])
    assert doubt(found, at_least(50, TIMES)) == 1.0  # it may well be 50
    assert inside(interval([Above(6.0)] * 3, TIMES), at_least(4, TIMES))


def test_one_seed_has_no_interval():
    assert interval([0.3], POINTS) is None


def test_equal_seeds():
    assert interval([0.3, 0.3, 0.3], PLAIN).low == pytest.approx(0.3)
    exactly = interval([0.5, 0.5, 0.5], PLAIN)
    assert inside(exactly, at_least(0.49, PLAIN))
    assert not inside(exactly, at_least(0.5, PLAIN))  # "more than": a tie in all seeds does not show it
    assert doubt(exactly, at_least(0.6, PLAIN)) == 0.0
    floored = interval([1.0, 1.0, 1.0], PERCENT, step=0.01)
    assert floored.high == 1.0  # an accuracy above 1 does not exist
    assert floored.low < 1.0


def test_an_interval_inside_a_range():
    near, far = interval([0.01, 0.0, -0.01], POINTS), interval([0.05, 0.06, 0.055], POINTS)
    region = between(-3, 3, POINTS)
    assert inside(near, region)
    assert refuted([doubt(far, region)])
    assert doubt(near, region) == 1.0


def test_seeds_that_would_settle_it():
    found = interval([0.9, 1.3, 1.4], PLAIN)
    region = at_least(1, PLAIN)
    needed = seeds_needed(found, region)
    spread = found.error * math.sqrt(3)

    def half(n):
        return stats.t.ppf(1 - LEVEL, n - 1) * spread / math.sqrt(n)

    assert half(needed) < found.mean - 1 <= half(needed - 1)
    assert seeds_needed(interval([0.99, 1.0, 1.01], PLAIN), region) is None  # on the threshold itself
