"""Split-kl and the recursive step: slow twins, edges, and a simulation with a loss of four values."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import confidence_term, kl_inverse, pac_bayes_kl, recursive_step, split_kl
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=60)
levels = st.lists(st.floats(-10, 10).map(lambda v: round(v, 3)), min_size=2, max_size=6, unique=True).map(sorted)
divergences = st.one_of(st.just(0.0), st.floats(-6, 5).map(lambda e: 10.0**e))
counts = st.integers(8, 10**6)
deltas = st.one_of(st.floats(1e-9, 0.99), st.just(0.05))


def slow_inverse(q, limit):
    q = mpmath.mpf(q)
    low, high = q, mpmath.mpf(1)
    for _ in range(120):
        p = (low + high) / 2
        value = q * mpmath.log(q / p) if q else 0
        value += (1 - q) * mpmath.log((1 - q) / (1 - p)) if q < 1 else 0
        low, high = (low, p) if value > limit else (p, high)
    return high


def slow_split_kl(uppers, values, kl, n, delta):
    with mpmath.workdps(60):
        limit = (mpmath.mpf(kl) + mpmath.log(2 * len(uppers) * mpmath.sqrt(n) / mpmath.mpf(delta))) / n
        total = mpmath.mpf(values[0])
        for j, upper in enumerate(uppers):
            total += (mpmath.mpf(values[j + 1]) - mpmath.mpf(values[j])) * slow_inverse(upper, limit)
        return total


@calm
@given(levels, st.randoms(use_true_random=False), divergences, counts, deltas)
def test_matches_slow_twin_from_above(values, random, kl, n, delta):
    uppers = [random.random() ** 3 for _ in values[1:]]
    exact = slow_split_kl(uppers, values, kl, n, delta)
    # The twin's upper ends exceed the truth by at most 2^-120 each.
    slack = mpmath.mpf(2) ** -110
    assert exact - slack <= split_kl(uppers, values, kl, n, delta) <= exact + mpmath.mpf("1e-11")


@calm
@given(st.floats(0, 1), divergences, counts, deltas)
def test_a_loss_with_two_values_is_the_kl_form(r, kl, n, delta):
    form = pac_bayes_kl(r, kl, n, delta)
    assert split_kl([r], [0.0, 1.0], kl, n, delta) == pytest.approx(form, abs=1e-13)
    # Shifted and stretched, the bound follows.
    assert split_kl([r], [-2.0, 1.0], kl, n, delta) == pytest.approx(-2 + 3 * form, abs=1e-12)


def test_excess_losses_near_zero_gain_over_the_interval():
    """h and h' rarely differ: three steps cost little, where a loss in [-gamma, 1] pays for its whole range."""
    n, gamma, delta = 10_000, 0.5, 0.05
    means = {"h and h' right": 0.9, "both wrong": 0.08, "only h wrong": 0.01, "only h' wrong": 0.01}
    values = [-gamma, 0.0, 1 - gamma, 1.0]
    uppers = [1 - means["only h' wrong"], means["both wrong"] + means["only h wrong"], means["only h wrong"]]
    mean = -gamma + gamma * uppers[0] + (1 - gamma) * uppers[1] + gamma * uppers[2]
    interval = -gamma + (1 + gamma) * pac_bayes_kl((mean + gamma) / (1 + gamma), 5.0, n, delta)
    assert mean < split_kl(uppers, values, 5.0, n, delta) < interval


def test_is_cut_at_the_largest_value():
    assert split_kl([1.0, 1.0], [-1.0, 0.0, 0.5], 0.0, 100, 0.05) == 0.5
    assert split_kl([0.0, 0.0], [-1.0, 0.0, 0.5], math.inf, 100, 0.05) == 0.5


def sorted_posteriors(seed, runs, hypotheses, n, strength):
    """Losses in {-g, 0, 1-g, 1} of known mean, and Gibbs posteriors that saw the sample."""
    rng = np.random.default_rng(seed)
    values = np.array([-0.5, 0.0, 0.5, 1.0])
    law = np.array([0.1, 0.5, 0.3, 0.1])
    counts = rng.multinomial(n, law, size=(runs, hypotheses))
    empirical = counts @ values / n
    weight = np.exp(-strength * n * (empirical - empirical.min(axis=1, keepdims=True)))
    posterior = weight / weight.sum(axis=1, keepdims=True)
    reached = counts[:, :, ::-1].cumsum(axis=2)[:, :, ::-1][:, :, 1:] / n
    uppers = np.einsum("rh,rhj->rj", posterior, reached)
    kl = np.maximum((posterior * np.log(np.maximum(posterior * hypotheses, 1e-300))).sum(axis=1), 0.0)
    return values, float(law @ values), uppers, kl


@pytest.mark.parametrize("strength", [0.5, 50.0])
def test_holds_for_posteriors_that_saw_the_data(strength):
    n, delta, runs = 40, 0.1, 5000
    values, mean, uppers, kl = sorted_posteriors(0, runs, 100, n, strength)
    # Binomial(5000, at most .1): 4 standard deviations are .017; false-alarm rate 3e-5.
    tolerance = 4 * math.sqrt(delta * (1 - delta) / runs)

    def bounds(count):
        limit = (kl + confidence_term(count, delta / 3)) / count
        return values[0] + kl_inverse(np.minimum(uppers, 1.0), limit[:, None]) @ np.diff(values)

    bound = bounds(n)
    for i in range(20):
        assert split_kl(uppers[i].clip(max=1.0), values, kl[i], n, delta) == pytest.approx(bound[i], abs=1e-12)
    assert np.mean(mean > bound) <= delta + tolerance
    # Teeth: the planted slip of 16 n in place of n.
    assert np.mean(mean > bounds(16 * n)) > delta + tolerance


@calm
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_recursive_step_from_above(share, gamma, previous):
    excess = -gamma + share * (1 + gamma)
    excess = min(1.0, max(-gamma, excess))
    exact = mpmath.mpf(excess) + mpmath.mpf(gamma) * mpmath.mpf(previous)
    result = recursive_step(excess, gamma, previous)
    # Products below the smallest float are allowed to vanish.
    assert min(1, max(0, exact)) - mpmath.mpf("1e-300") <= result <= min(1, max(0, exact) + mpmath.mpf("1e-13"))


def test_recursion_of_constant_parts_is_a_geometric_series():
    bound = 0.5
    for _ in range(60):
        bound = recursive_step(0.02, 0.5, bound)
    assert bound == pytest.approx(0.04, rel=1e-12)
    assert recursive_step(0.3, 0.0, 1.0) == pytest.approx(0.3, rel=1e-13)
    assert recursive_step(0.9, 1.0, 0.9) == 1.0
    assert recursive_step(-0.5, 0.5, 0.2) == 0.0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([0.1], [0.0, 0.5, 1.0], 1.0, 100, 0.05), "one number more than uppers"),
        (([], [0.0], 1.0, 100, 0.05), "one number more than uppers"),
        (([0.1, 0.1], [0.0, 0.0, 1.0], 1.0, 100, 0.05), "strictly increasing"),
        (([0.1, 0.1], [0.0, 1.0, 0.5], 1.0, 100, 0.05), "strictly increasing"),
        (([0.1], [-math.inf, 1.0], 1.0, 100, 0.05), "finite and strictly increasing"),
        (([0.1], [0.0, math.nan], 1.0, 100, 0.05), "values is NaN"),
        (([1.1], [0.0, 1.0], 1.0, 100, 0.05), "uppers must lie in"),
        (([0.1], [0.0, 1.0], -1.0, 100, 0.05), "kl must be at least 0"),
        (([0.1], [0.0, 1.0], 1.0, 7, 0.05), "at least 8 for Maurer"),
        (([0.1], [0.0, 1.0], 1.0, 100, 1.0), "delta must lie strictly"),
    ],
)
def test_bad_arguments_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        split_kl(*args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((0.1, 1.5, 0.1), "gamma must lie in"),
        ((-0.6, 0.5, 0.1), "excess must lie in"),
        ((1.1, 0.5, 0.1), "excess must lie in"),
        ((0.1, 0.5, -0.1), "previous must lie in"),
        ((math.nan, 0.5, 0.1), "excess is NaN"),
    ],
)
def test_bad_steps_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        recursive_step(*args)
