"""PAC-Bayes inequalities: slow twins, order among them, direction in every argument, and simulations."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from truerisk.bounds import (
    CATONI_GRID,
    catoni,
    catoni_grid,
    confidence_term,
    kl_inverse,
    lambda_form,
    mcallester,
    pac_bayes_kl,
    quadratic,
    thiemann,
)
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=100)

risks = st.one_of(st.floats(0, 1), st.floats(-7, 0).map(lambda e: 10.0**e), st.sampled_from([0.0, 0.5, 1.0]))
divergences = st.one_of(st.just(0.0), st.floats(-6, 6).map(lambda e: 10.0**e))
counts = st.integers(8, 10**7)
deltas = st.one_of(st.floats(1e-12, 0.999), st.sampled_from([1e-300, 0.05]))
lambdas = st.floats(0.01, 1.99)
betas = st.floats(0.01, 30.0)

KL_FAMILY = {"kl": pac_bayes_kl, "mcallester": mcallester, "quadratic": quadratic, "thiemann": thiemann}
ALL = {
    **KL_FAMILY,
    "lambda": lambda *args, **kw: lambda_form(*args, lam=0.7, **kw),
    "catoni": lambda *args, **kw: catoni(*args, beta=0.5, **kw),
    "catoni_grid": catoni_grid,
}


def slow_forms(r, kl, n, delta, lam, beta):
    """Every closed form as printed in its paper, at 60 digits, sharing no code with the package."""
    with mpmath.workdps(60):
        r, kl, n, delta, lam, beta = (mpmath.mpf(x) for x in (r, kl, n, delta, lam, beta))
        k = kl + mpmath.log(2 * mpmath.sqrt(n) / delta)
        best = 2 / (mpmath.sqrt(2 * n * r / k + 1) + 1)
        b = k / (2 * n)
        tilt = mpmath.exp(-beta * r - (kl + mpmath.log(1 / delta)) / n)
        return {
            "mcallester": r + mpmath.sqrt(k / (2 * n)),
            "quadratic": (mpmath.sqrt(r + b) + mpmath.sqrt(b)) ** 2,
            "lambda": r / (1 - lam / 2) + k / (n * lam * (1 - lam / 2)),
            "thiemann": r / (1 - best / 2) + k / (n * best * (1 - best / 2)),
            "catoni": (1 - tilt) / (1 - mpmath.exp(-beta)),
        }


def slow_kl_form(r, kl, n, delta):
    with mpmath.workdps(60):
        r, limit = mpmath.mpf(r), (mpmath.mpf(kl) + mpmath.log(2 * mpmath.sqrt(n) / mpmath.mpf(delta))) / n
        low, high = r, mpmath.mpf(1)
        for _ in range(120):
            p = (low + high) / 2
            value = r * mpmath.log(r / p) if r else 0
            value += (1 - r) * mpmath.log((1 - r) / (1 - p)) if r < 1 else 0
            low, high = (low, p) if value > limit else (p, high)
        return high


@calm
@given(risks, divergences, counts, deltas, lambdas, betas)
def test_closed_forms_match_slow_twins_from_above(r, kl, n, delta, lam, beta):
    slow = slow_forms(r, kl, n, delta, lam, beta)
    fast = {
        "mcallester": mcallester(r, kl, n, delta, clip=False),
        "quadratic": quadratic(r, kl, n, delta, clip=False),
        "lambda": lambda_form(r, kl, n, delta, lam, clip=False),
        "thiemann": thiemann(r, kl, n, delta, clip=False),
        "catoni": catoni(r, kl, n, delta, beta, clip=False),
    }
    for name, exact in slow.items():
        assert exact <= fast[name] <= exact * (1 + mpmath.mpf("1e-12")), name


@settings(calm, max_examples=60)
@given(risks, divergences, counts, deltas)
def test_kl_form_matches_slow_twin_from_above(r, kl, n, delta):
    exact = slow_kl_form(r, kl, n, delta)
    # The twin's upper end exceeds the truth by at most 2^-120.
    assert exact - mpmath.mpf(2) ** -119 <= pac_bayes_kl(r, kl, n, delta) <= exact + mpmath.mpf("1e-12")


@calm
@given(risks, divergences, counts, deltas, lambdas)
def test_kl_form_is_the_tightest_of_its_family(r, kl, n, delta, lam):
    tightest = pac_bayes_kl(r, kl, n, delta)
    # They are equal in places (all are 1 for risk 1), hence the allowance for roundings.
    for bound in (mcallester, quadratic, thiemann):
        assert tightest <= bound(r, kl, n, delta, clip=False) + 1e-12
    assert thiemann(r, kl, n, delta, clip=False) <= lambda_form(r, kl, n, delta, lam, clip=False) * (1 + 1e-12)


@calm
@given(risks, divergences, counts, deltas)
def test_optimal_lambda_gives_the_quadratic_bound(r, kl, n, delta):
    expected = pytest.approx(quadratic(r, kl, n, delta, clip=False), rel=1e-12)
    assert thiemann(r, kl, n, delta, clip=False) == expected


@pytest.mark.parametrize("name", ALL)
@settings(calm, max_examples=40)
@given(*(st.tuples(values, values) for values in (risks, divergences, counts, deltas)))
def test_bounds_move_the_right_way_in_every_argument(name, rs, kls, ns, ds):
    bound = ALL[name]
    (r, r2), (kl, kl2), (n2, n), (d2, d) = sorted(rs), sorted(kls), sorted(ns), sorted(ds)
    base = bound(r, kl, n, d, clip=False)
    assert base >= r
    # Larger risk, larger KL, fewer examples, smaller delta: never a smaller bound, up to 1e-12 of rounding.
    for args in [(r2, kl, n, d), (r, kl2, n, d), (r, kl, n2, d), (r, kl, n, d2)]:
        assert base <= bound(*args, clip=False) * (1 + 1e-12)
    assert bound(r, kl, n, d) == min(1.0, base)


@pytest.mark.parametrize("n", [8, 9, 20, 100, 1000])
@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_the_moment_behind_the_confidence_term(n, p):
    """E exp(n kl(mean, p)) lies between sqrt(n) and 2 sqrt(n) (Maurer 2004), summed over the binomial."""
    total = 0.0
    for k in range(n + 1):
        q = k / n
        exponent = q * math.log(q / p) if k else 0.0
        exponent += (1 - q) * math.log((1 - q) / (1 - p)) if k < n else 0.0
        total += math.exp(binom.logpmf(k, n, p) + n * exponent)
    assert total <= 2 * math.sqrt(n)
    # So ln(2 sqrt(n)) can be improved by ln 2 at most, and ln(1/delta) alone would not do.
    assert total >= math.sqrt(n)


def gibbs_runs(seed, runs, hypotheses, n, strength):
    """Simulate learning: hypotheses of known risk, a uniform prior, a posterior made from the sample."""
    rng = np.random.default_rng(seed)
    risk = np.linspace(0.45, 0.5, hypotheses)
    empirical = rng.binomial(n, risk, size=(runs, hypotheses)) / n
    weight = np.exp(-strength * n * (empirical - empirical.min(axis=1, keepdims=True)))
    posterior = weight / weight.sum(axis=1, keepdims=True)
    logs = np.log(np.maximum(posterior * hypotheses, 1e-300))
    kl = np.maximum((posterior * logs).sum(axis=1), 0.0)
    return (posterior * empirical).sum(axis=1), (posterior * risk).sum(axis=1), kl


@pytest.mark.parametrize("strength", [0.1, 0.5, 2.0, 50.0])
def test_kl_form_holds_for_posteriors_that_saw_the_data(strength):
    n, delta, runs = 40, 0.5, 4000
    empirical, true, kl = gibbs_runs(0, runs, hypotheses=200, n=n, strength=strength)
    bound = kl_inverse(empirical, (kl + confidence_term(n, delta)) / n)
    for i in range(20):
        assert pac_bayes_kl(empirical[i], kl[i], n, delta) == pytest.approx(bound[i], abs=1e-12)
    # Violations: Binomial(4000, at most .5). 4.5 standard deviations are .036; false-alarm rate 4e-6.
    assert np.mean(true > bound) <= delta + 4.5 * math.sqrt(delta * (1 - delta) / runs)


def test_the_simulation_catches_a_bound_that_forgets_the_kl():
    n, delta, runs = 40, 0.05, 4000
    empirical, true, kl = gibbs_runs(0, runs, hypotheses=200, n=n, strength=50.0)
    assert np.mean(true > kl_inverse(empirical, confidence_term(n, delta) / n)) > 2 * delta
    assert np.mean(true > kl_inverse(empirical, (kl + confidence_term(n, delta)) / n)) <= delta


def test_delta_stands_inside_the_logarithm():
    """Public code has ln(2 sqrt(n))/delta; the two agree for no delta below 1."""
    for n in (8, 1000, 60_000):
        for delta in (0.9, 0.05, 0.001):
            right, wrong = confidence_term(n, delta), math.log(2 * math.sqrt(n)) / delta
            assert right == pytest.approx(math.log(2 * math.sqrt(n) / delta), rel=1e-14)
            assert wrong > right * 1.01
            assert kl_inverse(0.1, wrong / n) > pac_bayes_kl(0.1, 0.0, n, delta)


@pytest.mark.parametrize(("r", "kl", "n"), [(0.02, 50.0, 30_000), (0.1, 1000.0, 60_000), (0.3, 2.0, 200)])
def test_optimised_catoni_without_a_grid_is_another_and_smaller_number(r, kl, n):
    delta = 0.05
    greedy = min(catoni(r, kl, n, delta, beta) for beta in np.geomspace(1e-3, 30, 4000))
    # The infimum over beta is the kl form without ln(2 sqrt(n)) (Germain et al. 2009): no theorem gives it.
    assert greedy == pytest.approx(kl_inverse(r, (kl + math.log(1 / delta)) / n), rel=1e-6)
    assert greedy < 0.9999 * pac_bayes_kl(r, kl, n, delta)
    assert greedy < 0.9999 * catoni_grid(r, kl, n, delta)


@calm
@given(risks, divergences, counts, deltas)
def test_catoni_grid_pays_for_its_choice(r, kl, n, delta):
    value = catoni_grid(r, kl, n, delta, clip=False)
    shares = [catoni(r, kl, n, delta / len(CATONI_GRID), beta, clip=False) for beta in CATONI_GRID]
    assert value == min(shares)
    # Never below the infimum over all beta, even one at the same share of delta.
    assert value >= kl_inverse(r, (kl + math.log(len(CATONI_GRID) / delta)) / n) * (1 - 1e-12)


def test_catoni_grid_is_geometric_and_spans_the_useful_range():
    steps = np.diff(np.log(CATONI_GRID))
    np.testing.assert_allclose(steps, math.log(1.5), rtol=1e-12)
    assert CATONI_GRID[0] <= 0.01
    assert CATONI_GRID[-1] >= 20
    # At the price of ln 20 instead of ln(2 sqrt(n)) the grid beats the kl form for large n.
    assert catoni_grid(0.02, 50.0, 60_000, 0.05) < pac_bayes_kl(0.02, 50.0, 60_000, 0.05)


def test_catoni_holds_for_a_fixed_beta():
    n, delta, runs, beta = 40, 0.5, 4000, 0.5
    # The Gibbs posterior with strength beta minimises Catoni's bound: its hardest case.
    empirical, true, kl = gibbs_runs(1, runs, hypotheses=200, n=n, strength=beta)
    bound = [catoni(r, k, n, delta, beta) for r, k in zip(empirical, kl, strict=True)]
    # As above: 4.5 standard deviations, false-alarm rate 4e-6.
    assert np.mean(true > np.array(bound)) <= delta + 4.5 * math.sqrt(delta * (1 - delta) / runs)


@pytest.mark.parametrize("name", ALL)
def test_extremes_give_vacuous_bounds_not_exceptions(name):
    bound = ALL[name]
    for kl in (math.inf, 1e308):
        assert bound(0.0, kl, 100, 0.05) == 1.0
        assert bound(1.0, kl, 100, 0.05, clip=False) >= 1.0
    assert bound(1.0, 0.0, 8, 1e-300) == 1.0
    assert type(bound(np.float64(0.1), np.float32(3.0), np.int64(100), 0.05)) is float


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1.5, 1.0, 100, 0.05), "empirical_risk must lie in"),
        ((math.nan, 1.0, 100, 0.05), "empirical_risk is NaN"),
        (("many", 1.0, 100, 0.05), "empirical_risk must be a single number"),
        ((0.1, -1e-9, 100, 0.05), "kl must be at least 0"),
        ((0.1, math.nan, 100, 0.05), "kl is NaN"),
        ((0.1, 1.0, 0, 0.05), "n must be at least"),
        ((0.1, 1.0, 100.0, 0.05), "n must be an integer"),
        ((0.1, 1.0, True, 0.05), "n must be an integer"),
        ((0.1, 1.0, 100, 0.0), "delta must lie strictly"),
        ((0.1, 1.0, 100, 1.0), "delta must lie strictly"),
    ],
)
def test_bad_arguments_are_refused(name, args, message):
    with pytest.raises(TrueriskError, match=message):
        ALL[name](*args)


def test_maurers_constant_needs_eight_examples():
    for bound in KL_FAMILY.values():
        with pytest.raises(TrueriskError, match="at least 8 for Maurer"):
            bound(0.1, 1.0, 7, 0.05)
    assert catoni(0.0, 0.0, 1, 0.05, beta=20.0) == pytest.approx(0.95, rel=1e-6)


@pytest.mark.parametrize("lam", [0.0, 2.0, -1.0, math.nan])
def test_lambda_outside_its_range_is_refused(lam):
    with pytest.raises(TrueriskError, match="lam "):
        lambda_form(0.1, 1.0, 100, 0.05, lam)


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan])
def test_beta_outside_its_range_is_refused(beta):
    with pytest.raises(TrueriskError, match="beta "):
        catoni(0.1, 1.0, 100, 0.05, beta)
    with pytest.raises(TrueriskError, match="grid is empty"):
        catoni_grid(0.1, 1.0, 100, 0.05, grid=[])
