"""Counting predictions: exact counts stay below, and learners that overfit stay below their bound."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import Questions, description_length, finite_class, log_answers, vc_bound, vc_dimension
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=50)
steps = st.builds(Questions, st.integers(0, 500), st.integers(0, 5000), st.integers(1, 30))


def slow_answers(n, questions):
    """The logarithm of the same product at 30 digits."""
    with mpmath.workdps(30):
        total = mpmath.mpf(0)
        for q in questions:
            asked = n * q.tests
            if asked and q.weights:
                trivial = asked * mpmath.log(2)
                warren = mpmath.log(2) + q.weights * mpmath.log(2 * mpmath.e * asked * q.degree / q.weights)
                total += trivial if asked < q.weights else min(trivial, warren)
        return float(total)


@calm
@given(st.integers(1, 10**6), st.lists(steps, max_size=6))
def test_against_its_twin(n, questions):
    assert log_answers(n, questions) == pytest.approx(slow_answers(n, questions), rel=1e-12)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 7, 50, 1000])
def test_half_spaces_are_counted_exactly_by_cover(n, d):
    """n points in general position in R^d are cut by half-spaces in 2 sum_(k<=d) C(n-1, k) ways (Cover 1965)."""
    truth = 2 * sum(math.comb(n - 1, k) for k in range(d + 1))
    assert math.log(truth) <= log_answers(n, [Questions(1, d + 1, 1)]) + 1e-12


def test_predictions_of_small_networks_are_counted():
    """All predictions that 50,000 random networks 1-2-1 make on 6 points."""
    rng = np.random.default_rng(0)
    x = np.linspace(-1, 1, 6)
    a, b, c, d = rng.normal(size=(4, 50_000, 2, 1))
    output = (c * np.maximum(a * x + b, 0.0)).sum(axis=1) + d[:, 0]
    seen = len(np.unique(output > 0, axis=0))
    assert seen > 20
    assert math.log(seen) <= log_answers(6, [Questions(2, 4, 1), Questions(1, 7, 2)])


@pytest.mark.parametrize("units", [1, 2, 10])
@pytest.mark.parametrize("n", [2, 10, 10_000])
def test_patterns_of_hidden_units_are_counted(n, units):
    """Each unit on a line cuts n points in 2n ways, independently of the others."""
    truth = units * math.log(2 * n)
    assert truth <= log_answers(n, [Questions(units, 2 * units, 1)])
    if n > 1000:  # teeth: with half the weights there would be too few
        assert truth > log_answers(n, [Questions(units, max(1, units // 2), 1)]) or units == 1


def largest_shattered(weights, units, breakpoints):
    """The largest m with 2^m <= product, searched, without the arithmetic and geometric means of the closed form."""

    def spare(m):
        with mpmath.workdps(30):
            terms = [
                1 + w * mpmath.log(2 * mpmath.e * breakpoints * i * k * m / mpmath.mpf(w), 2)
                for i, (w, k) in enumerate(zip(weights, units, strict=True), start=1)
            ]
            return sum(terms) - m

    low, high = max(weights), max(weights)
    while spare(high) > 0:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spare(middle) > 0 else (low, middle)
    return low


@pytest.mark.parametrize(
    ("weights", "units"), [([3], [1]), ([3, 5], [1, 1]), ([650, 760], [10, 1]), ([80, 500, 900], [20, 20, 1])]
)
@pytest.mark.parametrize("breakpoints", [1, 3])
def test_the_dimension_is_above_what_can_be_shattered(weights, units, breakpoints):
    searched = largest_shattered(weights, units, breakpoints)
    found = vc_dimension(weights, units, breakpoints)
    assert searched <= found <= 4 * searched


def test_the_dimension_by_hand():
    # L = 2, S = 13, R = 1*4 + 2*1 = 6: 2 + 13 log2(4 e 6 log2(2 e 6))
    assert vc_dimension([4, 9], [4, 1]) == pytest.approx(2 + 13 * math.log2(24 * math.e * math.log2(12 * math.e)))
    # R = 1 is too small for the lemma: 2 e is rounded up to 16.
    assert vc_dimension([3], [1]) == pytest.approx(1 + 3 * math.log2(32 * math.log2(16)))
    assert vc_dimension([4, 9], [4, 1], breakpoints=2) > vc_dimension([4, 9], [4, 1])


@calm
@given(st.integers(1, 10**5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.lists(steps, max_size=4))
def test_closed_form_and_directions(case, questions):
    errors, n = case
    bound = vc_bound(errors, n, questions, 0.05)
    twin = errors / n + math.sqrt(2 * slow_answers(n, questions) / n) + math.sqrt(math.log(20) / (2 * n))
    assert bound == pytest.approx(twin, rel=1e-10)
    assert bound <= vc_bound(errors, n, questions, 0.01)
    assert bound <= vc_bound(errors, n, [*questions, Questions(1, 3, 1)], 0.05)
    if errors:
        assert bound >= vc_bound(errors - 1, n, questions, 0.05)


def best_threshold(x, y):
    """Errors and (cut, sign) of the best of all classifiers sign(s (x - cut)): it overfits as much as it can."""
    order = np.argsort(x)
    labels = np.where(y[order], 1, -1)
    # Errors of "1 above the cut" for a cut below the k-th point: ones below, zeros above.
    below = np.concatenate([[0], np.cumsum(labels > 0)])
    above = np.concatenate([np.cumsum((labels < 0)[::-1])[::-1], [0]])
    errors = below + above
    flipped = len(x) - errors
    k = int(np.argmin(np.minimum(errors, flipped)))
    cuts = np.concatenate([[-np.inf], np.sort(x)])
    return int(min(errors[k], flipped[k])), cuts[k], 1 if errors[k] <= flipped[k] else -1


def test_a_threshold_that_overfits_random_labels_stays_below_its_bound():
    """Coin-flip labels: the true risk is 1/2 for any threshold, however well it fits. Fixed seed, 300 runs.

    The best threshold gains about one standard deviation of the training error (.011); the bound adds about .12, so
    that not one run fails. It is not vacuous.
    """
    rng = np.random.default_rng(0)
    n = 2000
    bounds, fits = [], []
    for _ in range(300):
        errors, _, _ = best_threshold(rng.uniform(size=n), rng.integers(0, 2, size=n))
        bounds.append(vc_bound(errors, n, [Questions(1, 2, 1)], 0.05))
        fits.append(errors / n)
    assert min(bounds) >= 0.5
    assert max(bounds) < 1
    # Teeth: the training error is well below 1/2, so a bound without the class fails.
    assert np.mean(np.array(fits) + math.sqrt(math.log(20) / (2 * n)) < 0.5) > 0.05


def test_finite_classes():
    assert finite_class(3, 60, 0.0, 0.05) == pytest.approx(0.05 + math.sqrt(math.log(20) / 120))
    for bits in (10, 100, 1000):
        hoeffding = finite_class(3, 600, bits * math.log(2), 0.05)
        assert hoeffding == pytest.approx(3 / 600 + math.sqrt((bits * math.log(2) + math.log(20)) / 1200))
        assert description_length(3, 600, bits, 0.05) <= hoeffding  # the same union bound with exact tails
        assert finite_class(3, 600, bits * math.log(2), 0.01) > hoeffding
        assert finite_class(4, 600, bits * math.log(2), 0.05) > hoeffding
        assert finite_class(3, 601, bits * math.log(2), 0.05) < hoeffding


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_answers(0, []), "n must be at least 1"),
        (lambda: log_answers(5, [Questions(1, 3, 0)]), "degree must be at least 1"),
        (lambda: log_answers(5, [Questions(-1, 3, 1)]), "tests must be at least 0"),
        (lambda: vc_dimension([], []), "same layers"),
        (lambda: vc_dimension([3, 4], [1]), "same layers"),
        (lambda: vc_bound(6, 5, [], 0.05), "errors must not exceed n"),
        (lambda: finite_class(1, 5, -1.0, 0.05), "log_size must be at least 0"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(TrueriskError, match=message):
        call()
