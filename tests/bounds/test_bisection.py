"""The shared bisection: its result satisfies the inequality, and no float below it inside the bracket does."""

import math

from hypothesis import given
from hypothesis import strategies as st

from truerisk.bounds._bisection import bisect_outward

UNIT = st.floats(0.0, 1.0)


@given(st.floats(1e-40, 1.0), UNIT)
def test_ends_on_the_first_float_that_is_enough(threshold, low):
    low = min(low, threshold)
    found = bisect_outward(low, 1.0, lambda p: p >= threshold)
    assert found >= threshold
    # `low` itself is never tried: a caller that starts at the solution gets its neighbor.
    assert found == (threshold if low < threshold else min(1.0, math.nextafter(low, 2.0)))


@given(UNIT, UNIT)
def test_moves_only_to_points_that_were_tried_and_held(one, two):
    low, high = min(one, two), max(one, two)
    tried = {high: True}

    def enough(p: float) -> bool:
        tried[p] = math.sin(1e6 * p) > 0.0  # not monotone: the caller's promise is broken
        return tried[p]

    assert tried[bisect_outward(low, high, enough)]
    assert all(low < p <= high for p in tried if p != high)


def test_the_ends_of_the_bracket():
    assert bisect_outward(0.25, 1.0, lambda p: False) == 1.0
    assert bisect_outward(0.25, 1.0, lambda p: True) == math.nextafter(0.25, 1.0)
    assert bisect_outward(0.5, 0.5, lambda p: True) == 0.5
    assert bisect_outward(0.5, math.nextafter(0.5, 1.0), lambda p: True) == math.nextafter(0.5, 1.0)


def test_an_early_stop_leaves_the_result_larger():
    """Near 0 floats are too dense for 200 halvings; the upper end is still a point that held."""
    found = bisect_outward(0.0, 1.0, lambda p: p >= 5e-324)
    assert found == 2.0**-200
