"""Margins: the ramp loss, and the price of choosing a margin after the data was seen."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import MarginBound, gridded_bound, homogeneous_bound, ramp_loss
from truerisk.bounds.margin import best_margin
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=60)
margins = st.lists(st.floats(-5, 20), min_size=1, max_size=40)


def slow_ramp(values, gamma):
    return sum(1.0 if m <= 0 else 0.0 if m >= gamma else 1 - m / gamma for m in values) / len(values)


def slow_price(k):
    return math.log(1.5 * (abs(k) + 1) * (abs(k) + 2))


def slow_options(values, norm, unit, delta, price):
    """(value, loss) for every ratio 2^k that could matter."""
    n = len(values)
    for k in range(-60, 80):
        loss = slow_ramp(values, norm / 2.0**k)
        sure = 3 * math.sqrt((math.log(1 / delta) + slow_price(k) + price) / (2 * n))
        yield loss + 2 * unit * 2.0**k + sure, loss


def slow_best(values, norm, unit, delta, price=0.0):
    options = sorted(slow_options(values, norm, unit, delta, price))
    limit = (1 + sum(m <= 0 for m in values) / len(values)) / 2
    return options[0][0] if options[0][0] < 1 else min(value for value, loss in options if loss <= limit)


@calm
@given(margins, st.floats(1e-3, 1e3))
def test_the_ramp_loss_is_between_the_losses_it_connects(values, gamma):
    loss = ramp_loss(values, gamma)
    assert loss == pytest.approx(slow_ramp(values, gamma), abs=1e-12)
    assert np.mean(np.array(values) <= 0) - 1e-12 <= loss <= np.mean(np.array(values) < gamma) + 1e-12
    assert loss <= ramp_loss(values, 2 * gamma) + 1e-12


@pytest.mark.parametrize("unit", [1e-4, 0.003, 0.05, 3.0])
@pytest.mark.parametrize("price", [0.0, 7.0])
def test_the_best_margin_against_its_twin(unit, price):
    rng = np.random.default_rng(0)
    values = list(rng.normal(2.0, 1.0, size=2000))
    found = homogeneous_bound(values, math.log(1.7), math.log(unit), 0.05, price)
    assert found.value == pytest.approx(slow_best(values, 1.7, unit, 0.05, price), rel=1e-8)
    assert found.value >= slow_best(values, 1.7, unit, 0.05, price)  # the lift against rounding


def test_only_norm_over_margin_matters():
    values = np.random.default_rng(1).normal(1.0, 1.0, size=500)
    base = homogeneous_bound(values, 0.3, -5.0, 0.05)
    for scale in (1e-30, 0.01, 40.0, 1e100):
        other = homogeneous_bound(values * scale, 0.3 + math.log(scale), -5.0, 0.05)
        assert other.value == pytest.approx(base.value, rel=1e-9)
        assert other.margin == pytest.approx(base.margin * scale, rel=1e-9)


@calm
@given(st.floats(-3, 6), st.floats(-9, 2), st.floats(1e-6, 0.5))
def test_moves_the_right_way(log_norm, log_unit, delta):
    values = np.random.default_rng(2).normal(1.0, 1.0, size=300)
    base = homogeneous_bound(values, log_norm, log_unit, delta)
    assert base.value > np.mean(values <= 0)
    harder = [
        homogeneous_bound(values, log_norm, log_unit + math.log(2), delta),
        homogeneous_bound(values, log_norm, log_unit, delta / 10),
        homogeneous_bound(values, log_norm, log_unit, delta, price=1.0),
        homogeneous_bound(values - 0.1, log_norm, log_unit, delta),
    ]
    if base.value < 1:  # above 1 the choice of the margin follows the loss
        assert all(base.log <= other.log for other in harder)
        assert homogeneous_bound(np.tile(values, 4), log_norm, log_unit, delta).log < base.log
    else:
        assert all(base.log <= other.log + 1e-9 for other in harder[:3])


def test_a_fixed_grid_is_paid_for_at_every_margin():
    values = np.full(400, 3.0)
    found = gridded_bound(values, lambda log_gamma: math.log(0.05) - log_gamma, 0.05, price=2.0)
    best = min(
        slow_ramp(values, 2.0**k) + 2 * 0.05 / 2.0**k + 3 * math.sqrt((math.log(20) + slow_price(k) + 2.0) / 800)
        for k in range(-20, 30)
    )
    assert found.value == pytest.approx(best, rel=1e-8)
    assert math.log2(found.margin) == round(math.log2(found.margin))


def test_useless_bounds_tell_how_useless():
    values = np.full(100, 1.0)
    found = homogeneous_bound(values, 0.0, math.log(1e6), 0.05)
    assert found.loss <= 0.5
    assert found.value > 1e6
    far = homogeneous_bound(values, 5000.0, 0.0, 0.05)
    assert far.value == math.inf
    assert far.log == pytest.approx(5000.0, abs=2)  # 2 * norm / margin, and the margin is near 1
    assert homogeneous_bound(values, -5000.0, 0.0, 0.05).value < 1


def test_a_network_that_is_always_wrong_gets_at_least_one():
    for values in ([-1.0] * 50, [0.0] * 50):
        assert homogeneous_bound(values, 0.0, -20.0, 0.05).value > 1


def test_parts_add_up():
    found = homogeneous_bound(np.full(1000, 1.0), 0.0, math.log(0.01), 0.05)
    parts = found.parts
    assert found.value == pytest.approx(parts["loss"] + parts["capacity"] + parts["confidence"], rel=1e-8)
    assert MarginBound(1.0, 0.0, -1.0, 0.0).value == pytest.approx(math.exp(-1.0))


def test_the_choice_is_among_the_options():
    low, high = MarginBound(1.0, 0.9, math.log(2.0), 0.1), MarginBound(0.5, 0.2, math.log(9.0), 0.1)
    assert best_margin([low, high], 0.0) is high  # both useless: the loss may be at most 1/2
    assert best_margin([low, high], 0.9) is low
    good = MarginBound(1.0, 0.7, math.log(0.1), 0.1)
    assert best_margin([good, high], 0.0) is good


def test_a_margin_chosen_for_free_would_fail():
    """Teeth for the price: among many classes of one function each, the best one by luck beats its unpaid bound."""
    rng = np.random.default_rng(3)
    n, runs, delta, choices = 20, 3000, 0.2, 40
    wrong = rng.binomial(n, 0.5, size=(runs, choices)).min(axis=1) / n  # a choice for each k on the grid
    free = math.sqrt(math.log(1 / delta) / (2 * n))
    paid = math.sqrt((math.log(1 / delta) + slow_price(choices)) / (2 * n))
    assert np.mean(wrong + free < 0.5) > delta
    assert np.mean(wrong + paid < 0.5) <= delta


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ramp_loss([1.0], 0.0), "gamma must be positive"),
        (lambda: ramp_loss([], 1.0), "vector of finite numbers"),
        (lambda: ramp_loss([math.nan], 1.0), "vector of finite numbers"),
        (lambda: homogeneous_bound([1.0], -math.inf, 0.0, 0.05), "norm must be positive"),
        (lambda: homogeneous_bound([1.0], 0.0, 0.0, 1.5), "delta must lie"),
        (lambda: best_margin([], 0.0), "no margin to choose"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(TrueriskError, match=message):
        call()
