"""Bounds by uniform stability: mpmath twins, the recursion of SGD step by step, simulations, and wrong variants."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import (
    expected_risk,
    needed_stability,
    regularized_stability,
    sgd_convex,
    sgd_distance,
    sgd_non_convex,
    sgd_strongly_convex,
    sgd_strongly_convex_decaying,
    uniform_stability,
    uniform_stability_left_out,
)
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=25)
LOSS, EPS = st.floats(0, 1), st.floats(0, 2)
SIZES, DELTAS = st.integers(1, 10**7), st.floats(1e-9, 0.5)


def spread(n, delta):
    return mpmath.sqrt(mpmath.log(1 / mpmath.mpf(delta)) / (2 * n))


@calm
@given(LOSS, EPS, SIZES, DELTAS, st.floats(1, 9))
def test_closed_forms_are_rounded_outward(loss, eps, n, delta, top):
    with mpmath.workdps(40):
        e, s = mpmath.mpf(eps), spread(n, delta)
        exact = loss + e + (2 * n * e + top) * s
        left_out = loss + e + (4 * n * e + top) * s
        for found, wanted in (
            (uniform_stability(loss, eps, n, delta, top), exact),
            (uniform_stability_left_out(loss, eps, n, delta, top), left_out),
            (expected_risk(loss, eps), loss + e),
            (regularized_stability(top, 1.5, 0.25, n), mpmath.mpf(top) ** 2 * 9 / n),
        ):
            assert wanted <= found <= wanted * (1 + mpmath.mpf(10) ** -13) + mpmath.mpf(10) ** -300


@calm
@given(LOSS, EPS, SIZES, DELTAS)
def test_directions(loss, eps, n, delta):
    bound = uniform_stability(loss, eps, n, delta)
    assert loss <= expected_risk(loss, eps) <= bound
    assert bound <= uniform_stability(loss, eps + 0.1, n, delta)
    assert bound <= uniform_stability(loss, eps, n, delta / 2)
    assert bound <= uniform_stability(loss, eps, n, delta, 2.0)
    assert uniform_stability(loss, eps / n, n, delta) >= uniform_stability(loss, eps / (4 * n), 4 * n, delta)
    # Theorem 12 in its own words: removal beta counts twice, except next to the leave-one-out estimate.
    assert uniform_stability_left_out(loss, eps, n, delta) <= uniform_stability(loss, 2 * eps, n, delta) * (1 + 1e-12)


@calm
@given(LOSS, SIZES, DELTAS, st.floats(0.05, 3))
def test_the_needed_stability_is_just_small_enough(loss, n, delta, below):
    found = needed_stability(loss, n, delta, below)
    if found is None:
        assert uniform_stability(loss, 0.0, n, delta) > below * (1 - 1e-12)
    else:
        assert uniform_stability(loss, found, n, delta) <= below
        assert uniform_stability(loss, found * (1 + 1e-9) + 1e-12, n, delta) > below


def test_needed_stability_falls_as_one_over_the_root_of_n():
    few, many = (needed_stability(0.0, n, 0.05) for n in (10**6, 10**8))
    assert few / many == pytest.approx(10, rel=0.01)


# ---- the theorem about learners ------------------------------------------------------------------------------------


def test_the_bound_holds_and_tempting_ones_do_not():
    """A learner that memorizes: 4,000 training sets of 40 examples; its stability is known.

    Unseen examples have losses uniform on [eps, 1]; the loss of an example that it has seen is lower by eps, and seeing
    it changes no other loss. So epsilon is exactly eps, and so is the expected gap.
    """
    rng, n, eps, delta, runs = np.random.default_rng(0), 40, 0.3, 0.1, 4000
    risk, trained = (1 + eps) / 2, rng.uniform(eps, 1, (runs, n)).mean(axis=1) - eps
    assert np.mean(risk - trained) == pytest.approx(eps, abs=0.003)  # six standard errors: the expected bound is tight
    assert expected_risk(np.mean(trained), eps) == pytest.approx(risk, abs=0.003)
    bounds = np.array([uniform_stability(loss, eps, n, delta) for loss in trained])
    assert np.mean(bounds < risk) <= delta
    # Tempting: treat training examples as if they were new (Hoeffding), which is the bound for a stability of 0.
    tempting = np.array([uniform_stability(loss, 0.0, n, delta) for loss in trained])
    assert np.mean(tempting < risk) > 0.9


def test_stability_of_removal_is_not_that_of_replacement():
    """The linear loss reaches Theorem 22: w = mean(y x) / (2 lambda); opposite examples move it twice as far."""
    n, strength, kappa = 7, 0.3, 2.0
    x = np.array([kappa, *[0.1] * (n - 1)])

    def fit(v):
        return v.sum() / n / (2 * strength)

    removed = abs(fit(x) - fit(np.r_[0.0, x[1:]])) * kappa
    replaced = abs(fit(x) - fit(np.r_[-kappa, x[1:]])) * kappa
    proven = regularized_stability(1.0, kappa, strength, n)
    assert replaced == pytest.approx(proven, rel=1e-12)
    assert removed == pytest.approx(proven / 2, rel=1e-12)


def test_regularized_logistic_regression_is_as_stable_as_proven():
    rng, n, strength = np.random.default_rng(1), 30, 0.05
    X = rng.normal(size=(n + 1, 3))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    y = rng.choice([-1.0, 1.0], n + 1)

    def fit(rows):
        w = np.zeros(3)
        for _ in range(600):
            pull = y[rows] / (1 + np.exp(y[rows] * (X[rows] @ w)))
            w -= 0.5 * (2 * strength * w - (X[rows] * pull[:, None]).mean(axis=0))
        return w

    loss = lambda w: np.log1p(np.exp(-y * (X @ w)))  # noqa: E731
    change = np.abs(loss(fit(np.arange(n))) - loss(fit(np.r_[np.arange(n - 1), n]))).max()
    assert 0 < change <= regularized_stability(1.0, 1.0, strength, n)


# ---- SGD -----------------------------------------------------------------------------------------------------------


ZERO = mpmath.mpf(0)


def recursion(rates, etas, slope, n, first=0, zero=ZERO):
    """Expected distance, by the two cases of the paper: a common example, or the replaced one with probability 1/n."""
    distance = zero
    for rate, eta in list(zip(rates, etas, strict=True))[first:]:
        common, replaced = eta * distance, eta * distance + 2 * (zero + rate) * slope
        distance = (n - 1) * common / n + replaced / n
    return distance


@calm
@given(st.lists(st.floats(0, 0.5), max_size=20), st.floats(0.1, 5), st.integers(1, 1000), st.integers(0, 20))
def test_the_recursion(rates, slope, n, first):
    with mpmath.workdps(30):
        etas = [1 + 0.3 * (i % 3) for i in range(len(rates))]
        wanted = recursion(rates, etas, slope, n, first)
        found = sgd_distance(rates, etas, slope, n, first)
        assert wanted <= found <= wanted * (1 + mpmath.mpf(10) ** -11)
        convex = slope * recursion(rates, [1.0] * len(rates), slope, n)
        assert sgd_convex(rates, slope, 4.0, n) == pytest.approx(float(convex), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("steps", [1, 30, 3000])
def test_strong_convexity_stops_the_recursion(steps):
    rate, slope, beta, gamma, n = 0.2, 3.0, 5.0, 0.1, 50
    reached = slope * recursion([rate] * steps, [1 - rate * gamma] * steps, slope, n, zero=0.0)
    proven = sgd_strongly_convex(rate, slope, beta, gamma, n)
    assert reached <= proven
    if steps == 3000:
        assert reached == pytest.approx(proven, rel=1e-6)  # tight after many steps


@pytest.mark.parametrize("steps", [60, 400])
def test_decaying_rates(steps):
    slope, beta, gamma, n, top = 2.0, 5.0, 0.2, 500, 1.5
    early = math.ceil(beta / gamma)  # steps before which rates are above 1 / beta
    rates = [1 / (gamma * t) for t in range(1, steps + 1)]
    etas = [1 - rate * gamma for rate in rates]
    reached = top * early / n + slope * recursion(rates, etas, slope, n, early, zero=0.0)
    proven = sgd_strongly_convex_decaying(slope, beta, gamma, top, n)
    assert reached <= proven
    assert reached > 0.7 * proven


@pytest.mark.parametrize("beta", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("scale", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("slope", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("steps", [1, 5, 200])
def test_the_non_convex_bound_is_above_the_best_start_of_the_recursion(beta, scale, slope, steps):
    n = 300
    rates = [scale / t for t in range(1, steps + 1)]

    def plain(first):  # floats are enough: the closed form is not tight
        distance = 0.0
        for rate in rates[first:]:
            distance = (1 - 1 / n) * (1 + rate * beta) * distance + (distance + 2 * rate * slope) / n
        return min(1.0, first / n) + slope * distance

    found = sgd_non_convex(steps, scale, slope, beta, n)
    assert min(plain(first) for first in range(steps + 1)) <= found
    assert found <= steps / n * (1 + 1e-12)


def test_the_non_convex_bound_in_its_published_form():
    steps, scale, slope, beta, n = 10**6, 0.1, 1.5, 2.0, 10**5
    bc = beta * scale
    published = (1 + 1 / bc) / (n - 1) * (2 * scale * slope**2) ** (1 / (bc + 1)) * steps ** (bc / (bc + 1))
    assert published * 0.999 < sgd_non_convex(steps, scale, slope, beta, n) < published + 1 / n


def test_a_constant_rate_makes_the_non_convex_bound_the_chance_of_being_seen():
    n, steps, rate = 500, 400, 0.1
    assert sgd_non_convex(steps, steps * rate, 10.0, 5.0, n) > 0.95 * steps / n


def test_sgd_on_the_worst_convex_loss_reaches_the_bound():
    """Linear losses +-L w: twins separate by 2 rate L whenever they see the replaced example; a mean over draws."""
    rng, n, steps, slope = np.random.default_rng(2), 20, 30, 1.5
    rates = np.linspace(0.1, 0.3, steps)
    draws = rng.integers(0, n, (40_000, steps))
    apart = (2 * slope * rates * (draws == 0)).sum(axis=1)
    mean, error = slope * apart.mean(), slope * apart.std() / math.sqrt(len(apart))
    proven = sgd_convex(list(rates), slope, 1.0, n)
    assert abs(mean - proven) < 4 * error  # false alarm: 6e-5
    # Tempting: forget that both gradients may be opposite (L^2 for 2 L^2). It is below the truth.
    assert proven / 2 < mean - 4 * error


def test_smoothness_matters():
    """Squares, rate above 2/beta: twins move apart without end, and the bound refuses the rate."""
    rate, beta, w, v = 2.5, 1.0, 1.0, 1.1
    for _ in range(20):
        w, v = w - rate * beta * w, v - rate * beta * v
    assert abs(w - v) > 100
    with pytest.raises(TrueriskError, match="at most 2 / smoothness"):
        sgd_convex([rate], 1.0, beta, 10)


def test_rates_that_fall_within_an_epoch_hold_on_average_only():
    """One epoch on the loss -y w: the replaced example moves w by 2 rate, whatever the other steps are."""
    rates = [1.0, 0.1]
    by_order = [2.0 * rate for rate in rates]  # the replaced example comes first, or last
    proven = sgd_convex(rates, 1.0, 1.0, 2)
    assert np.mean(by_order) <= proven < max(by_order)


def test_constants_that_no_float_can_square():
    assert sgd_non_convex(100, 1.0, 1.0, math.inf, 1000) == sgd_non_convex(100, math.inf, 1.0, 1.0, 1000)
    assert 0.1 <= sgd_non_convex(100, 1.0, 1.0, math.inf, 1000) < 0.1 + 1e-12  # the probability to be seen
    assert 0.1 <= sgd_non_convex(100, 1.0, 1e200, 1.0, 1000) < 0.1 + 1e-12
    assert 0.1 <= sgd_non_convex(100, 1e-200, 1.0, 1e-200, 1000) < 0.1 + 1e-12
    assert 0.001 <= sgd_non_convex(100, 1.0, 1e-200, 1.0, 1000) < 0.001 + 1e-12
    assert sgd_convex([0.1], 1e200, 1.0, 10) == math.inf
    assert sgd_strongly_convex(0.1, 1e200, 1.0, 1.0, 10) == math.inf
    assert sgd_strongly_convex_decaying(1e200, 1.0, 1.0, 1.0, 10) == math.inf
    assert regularized_stability(math.inf, 1.0, math.inf, 10) == math.inf
    assert sgd_convex([0.0], math.inf, 1.0, 10) == math.inf
    assert sgd_distance([0.1], [math.inf], 1.0, 10) == pytest.approx(0.02)
    assert sgd_distance([0.1, 0.1], [1.0, math.inf], 1.0, 10) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sgd_distance([0.1], [1.0, 1.0], 1.0, 10), "1 rates and 2 etas"),
        (lambda: uniform_stability(1.5, 0.1, 10, 0.05), "loss is 1.5, but must be at most largest"),
        (lambda: uniform_stability(0.5, -0.1, 10, 0.05), "stability must be at least 0"),
        (lambda: uniform_stability(0.5, 0.1, 0, 0.05), "n must be at least 1"),
        (lambda: uniform_stability(0.5, 0.1, 10, 1.0), "delta must lie"),
        (lambda: regularized_stability(1.0, 1.0, 0.0, 10), "strength must be above 0"),
        (lambda: sgd_strongly_convex(1.0, 1.0, 2.0, 0.1, 10), "at most 1 / smoothness"),
        (lambda: sgd_strongly_convex(0.1, 1.0, 2.0, 3.0, 10), "convexity is 3"),
        (lambda: sgd_non_convex(10, 1.0, 1.0, 1.0, 1), "n must be at least 2"),
        (lambda: sgd_distance([0.1], [-1.0], 1.0, 10), "eta must be at least 0"),
        (lambda: expected_risk(math.nan, 0.1), "loss is NaN"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(TrueriskError, match=message):
        call()
