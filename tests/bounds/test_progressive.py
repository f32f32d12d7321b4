"""Progressive validation: slow twin, the best t, and learners that adapt to their own test errors."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import clopper_pearson, kl_inverse, progressive, progressive_t
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=100)
cases = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
deltas = st.one_of(st.floats(1e-12, 0.99), st.sampled_from([1e-100, 0.05]))
tilts = st.floats(-9, 2.5).map(lambda e: 10.0**e)

RUNS = 20_000


def slow_progressive(errors, n, delta, t):
    """The formula as it stands, at 60 digits."""
    with mpmath.workdps(60):
        t, rate = mpmath.mpf(t), mpmath.mpf(errors) / n
        return (1 - mpmath.mpf(delta) ** (mpmath.mpf(1) / n) * mpmath.exp(-t * rate)) / (1 - mpmath.exp(-t))


@calm
@given(cases, deltas, tilts)
def test_matches_slow_twin_from_above(case, delta, t):
    k, n = case
    exact = min(1, slow_progressive(k, n, delta, t))
    assert exact <= progressive(k, n, delta, t) <= exact * (1 + mpmath.mpf("1e-13"))


@pytest.mark.parametrize("n", [10, 1000, 60_000, 10**7])
@pytest.mark.parametrize("rate", [0.0, 0.001, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_the_best_t_gives_the_chernoff_form(n, rate, delta):
    """inf over t equals kl_inverse(rate, ln(1/delta)/n), and progressive_t attains it."""
    k = round(rate * n)
    chernoff = kl_inverse(k / n, math.log(1 / delta) / n)
    best = progressive(k, n, delta, progressive_t(k / n, n, delta))
    if 1 <= k < n:
        assert best == pytest.approx(chernoff, abs=1e-9)
    # No t is better, and progressive_t is the minimizer: its neighbours are worse.
    t = progressive_t(max(k, 1) / n, n, delta)
    around = [progressive(max(k, 1), n, delta, t * factor) for factor in (0.5, 0.9, 1.1, 2.0)]
    assert min(around) >= progressive(max(k, 1), n, delta, t) * (1 - 1e-12)
    assert all(progressive(k, n, delta, s) >= chernoff * (1 - 1e-12) for s in np.geomspace(1e-6, 30, 60))


def test_the_best_t_is_near_the_usual_rule_for_small_rates():
    for n, rate in [(10_000, 0.02), (60_000, 0.01), (10**6, 0.005)]:
        rule = math.sqrt(2 * math.log(20) / (n * rate))
        assert progressive_t(rate, n, 0.05) == pytest.approx(rule, rel=0.25)


@calm
@given(st.floats(0, 1), st.integers(1, 10**9), deltas)
def test_t_is_always_usable(rate, n, delta):
    t = progressive_t(rate, n, delta)
    assert 0 < t < math.inf
    assert progressive(0, n, delta, t) <= 1.0


@calm
@given(cases, deltas, deltas, tilts)
def test_moves_the_right_way(case, delta1, delta2, t):
    k, n = case
    low, high = sorted((delta1, delta2))
    base = progressive(k, n, high, t)
    assert k / n <= base <= progressive(k, n, low, t) * (1 + 1e-12)
    assert base <= progressive(min(k + 1, n), n, high, t) * (1 + 1e-12)


def until_lucky(table, start):
    """A learner with risk `start` until its record is lucky enough to break the bound, and 0 from then on."""

    def risk(_, past_risk, past_errors):
        return np.where(past_risk > table[past_errors] * (len(table) - 1), 0.0, start)

    return risk


def doubling(table, start):
    """Double the risk after every error-free test, fall back after an error, give up once lucky."""

    def risk(last, past_risk, past_errors):
        bold = np.where(last["error"], start, np.minimum(2 * last["risk"], 0.5))
        return np.where(past_risk > table[past_errors] * (len(table) - 1), 0.0, np.maximum(bold, start))

    return risk


def catching_up(table, start):
    """Aim at the risk that would break the bound by the end if no error came any more."""
    n = len(table) - 1

    def risk(last, past_risk, past_errors):
        need = (table[past_errors] * n - past_risk + 1e-9) / np.maximum(n - last["step"], 1)
        return np.where(need <= 0, 0.0, np.clip(need, start, 1.0))

    return risk


def violations(strategy, table, seed):
    """Play all repeats at once; return how often the mean risk ends above the bound."""
    n = len(table) - 1
    rng = np.random.default_rng(seed)
    past_risk, past_errors = np.zeros(RUNS), np.zeros(RUNS, dtype=int)
    last = {"error": np.zeros(RUNS, dtype=bool), "risk": np.zeros(RUNS), "step": 0}
    for step in range(n):
        last["step"] = step
        risk = strategy(last, past_risk, past_errors)
        error = rng.random(RUNS) < risk
        past_risk = past_risk + risk
        past_errors = past_errors + error
        last = {"error": error, "risk": risk, "step": step + 1}
    return np.mean(past_risk / n > table[past_errors])


STRATEGIES = {"until lucky": until_lucky, "doubling": doubling, "catching up": catching_up}
N, DELTA = 100, 0.05
# Binomial(20000, at most .05): 4 standard deviations are .0062; false-alarm rate 3e-5.
TOLERANCE = 4 * math.sqrt(DELTA * (1 - DELTA) / RUNS)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("start", [0.02, 0.1, 0.3])
def test_no_adaptive_learner_breaks_the_bound(name, start):
    t = progressive_t(start, N, DELTA)
    table = np.array([progressive(k, N, DELTA, t) for k in range(N + 1)])
    rate = violations(STRATEGIES[name](table, start), table, seed=1)
    assert rate <= DELTA + TOLERANCE


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_learners_break_clopper_pearson(name):
    """The same games against the hold-out bound, which needs independent trials: 8 to 15 % at delta 5 %."""
    table = np.array([clopper_pearson(k, N, DELTA) for k in range(N + 1)])
    assert violations(STRATEGIES[name](table, 0.1), table, seed=1) > DELTA + TOLERANCE


def test_the_simulation_breaks_a_bound_with_sixteen_times_the_examples():
    """The planted slip: 16 n in place of n, for a learner that does not even adapt."""
    t = progressive_t(0.3, N, DELTA)
    table = np.array([progressive(16 * k, 16 * N, DELTA, t) for k in range(N + 1)])
    assert violations(lambda *_: np.full(RUNS, 0.3), table, seed=2) > DELTA + TOLERANCE


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 10, 0.05, 0.0), "t must be positive"),
        ((1, 10, 0.05, -1.0), "t must be positive"),
        ((1, 10, 0.05, math.inf), "t must be positive"),
        ((1, 10, 0.05, math.nan), "t is NaN"),
        ((11, 10, 0.05, 1.0), "errors must not exceed n"),
        ((1.0, 10, 0.05, 1.0), "errors must be an integer"),
        ((0, 0, 0.05, 1.0), "n must be at least 1"),
        ((1, 10, 0.0, 1.0), "delta must lie strictly"),
    ],
)
def test_bad_arguments_are_refused(args, message):
    with pytest.raises(TrueriskError, match=message):
        progressive(*args)


def test_a_bad_guess_of_the_risk_is_refused():
    with pytest.raises(TrueriskError, match="expected_risk must lie in"):
        progressive_t(2.0, 10, 0.05)
    with pytest.raises(TrueriskError, match="delta must lie strictly"):
        progressive_t(0.1, 10, 1.0)
