"""Grids of radii: the shares add up, no norm is above its radius."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import radii_below, radius_above, radius_price
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=100)
logs = st.floats(-3000, 3000)


def share(k):
    """p_k in rational arithmetic."""
    return Fraction(2, 3) / ((abs(k) + 1) * (abs(k) + 2))


def test_the_shares_add_up_to_one():
    last = 200
    total = sum(share(k) for k in range(-last, last + 1))
    assert total == 1 - Fraction(4, 3) / (last + 2)  # so the sum over all k is 1
    for k in (-7, 0, 1, 5, 1000):
        assert radius_price(k) == pytest.approx(-math.log(share(k)), rel=1e-14)
    # Teeth: with a share that is half a step too generous the sum would pass 1.
    assert sum(Fraction(1) / ((abs(k) + 1) * (abs(k) + 2)) for k in range(-last, last + 1)) > 1


@calm
@given(logs, st.floats(1.01, 8))
def test_the_radius_is_the_next_one_above(log_norm, ratio):
    radius, price = radius_above(log_norm, ratio)
    step = math.log(ratio)
    number = round(radius / step)
    assert radius == number * step
    assert radius >= log_norm
    assert price == radius_price(number)
    if log_norm > -64 * math.log(2):
        assert radius - step < log_norm * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("k", range(-30, 31))
def test_powers_of_two_are_their_own_radius(k):
    radius, price = radius_above(k * math.log(2))
    assert (radius, price) == (k * math.log(2), radius_price(k))


def test_zero_has_a_radius():
    radius, price = radius_above(-math.inf)
    assert radius == pytest.approx(-64 * math.log(2))
    assert price == radius_price(-64)


@calm
@given(st.lists(st.one_of(logs, st.just(-math.inf)), min_size=1, max_size=20), st.integers(1, 6))
def test_many_radii_are_above_their_norms(norms, levels):
    radii, price = radii_below(norms, levels)
    assert price == pytest.approx(len(norms) * math.log(levels))
    top = max(norms)
    for radius, norm in zip(radii, norms, strict=True):
        assert -radius / math.log(2) == pytest.approx(round(-radius / math.log(2)))
        assert 0 <= round(-radius / math.log(2)) < levels
        if top > -math.inf:
            assert top + radius >= norm  # never below
            assert radius == -(levels - 1) * math.log(2) or top + radius - math.log(2) < norm + 1e-9


def test_bad_arguments_are_refused():
    with pytest.raises(TrueriskError, match="ratio must be above 1"):
        radius_above(0.0, 1.0)
    with pytest.raises(TrueriskError, match="infinite"):
        radius_above(math.inf)
    with pytest.raises(TrueriskError, match="levels"):
        radii_below([0.0], 0)
