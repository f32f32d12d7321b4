"""Which labelings are realized: against exact determinants, brute force over boxes, and closed forms."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.measures import shattering


def determinant(rows):
    """By expansion along the first row, in exact arithmetic."""
    if len(rows) == 1:
        return rows[0][0]
    return sum(
        (-1) ** j * rows[0][j] * determinant([row[:j] + row[j + 1 :] for row in rows[1:]]) for j in range(len(rows))
    )


def slow_labelings(points):
    """All labelings of m > d points in general position by hyperplanes, without any optimization.

    A separating hyperplane can be moved until it passes through d of the points: the others have the signs of
    determinants, and those on it fall to whichever side a small turn puts them.
    """
    m, d = len(points), len(points[0])
    exact = [[Fraction(float(x)) for x in point] + [Fraction(1)] for point in points]
    found = set()
    for on in itertools.combinations(range(m), d):
        signs = [0 if i in on else determinant([exact[j] for j in on] + [exact[i]]) for i in range(m)]
        assert all(signs[i] != 0 for i in range(m) if i not in on)
        for flip, sides in itertools.product((1, -1), itertools.product((1, -1), repeat=d)):
            labels = [flip * s for s in signs]
            for i, side in zip(on, sides, strict=True):
                labels[i] = side
            found.add(tuple(s > 0 for s in labels))
    return found


@pytest.mark.parametrize(("m", "d"), [(3, 1), (5, 1), (4, 2), (6, 2), (5, 3), (6, 3)])
def test_linear_programs_against_determinants(m, d):
    X = np.random.default_rng(m * 10 + d).standard_normal((m, d))
    slow = slow_labelings(X.tolist())
    fast = {tuple(map(bool, labels)) for labels in shattering.all_labelings(m) if shattering.separable(X, labels)}
    assert fast == slow
    assert shattering.count_affine(X) == len(slow) == shattering.cover(m, d)


def test_points_that_are_not_in_general_position():
    line = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])  # in the plane, yet no more than three points of a line
    assert shattering.count_affine(line) == 6
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert not shattering.separable(square, np.array([True, False, False, True]))
    assert shattering.count_affine(square) == 14


def test_growth_formulas():
    for d in range(1, 6):
        assert shattering.cover(d + 1, d) == 2 ** (d + 1)  # d + 1 points are shattered
        assert shattering.cover(d + 2, d) == 2 ** (d + 2) - 2  # all but Radon's partition and its opposite
        assert shattering.cover(2 * (d + 1), d) == 2 ** (2 * (d + 1)) // 2  # half of them: the capacity
        assert all(shattering.cover(m, d) <= shattering.sauer(m, d + 1) for m in range(1, 12))
    assert all(shattering.count_intervals(m) == m * (m + 1) // 2 + 1 == shattering.sauer(m, 2) for m in range(1, 10))


def slow_boxes(x, y):
    """All labelings by rectangles with sides between (or beyond) the coordinates."""
    cuts = [c - 0.5 for c in range(len(x) + 1)]
    return {
        tuple(a < p < b and c < q < d for p, q in zip(x, y, strict=True))
        for a, b in itertools.combinations_with_replacement(cuts, 2)
        for c, d in itertools.combinations_with_replacement(cuts, 2)
    }


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_rectangles_against_all_boxes(m):
    slow = [len(slow_boxes(range(m), order)) for order in itertools.permutations(range(m))]
    assert shattering.count_rectangles(m).tolist() == slow
    assert max(slow) <= shattering.sauer(m, 4)
    assert (max(slow) == 2**m) == (m <= 4)


@pytest.mark.parametrize("m", [1, 2, 5, 7])
def test_the_sine_in_floating_point(m):
    # The angles stay below 4e7, where a float is right to 1e-8, and the sines above 3e-7: their signs are right.
    assert shattering.count_sine(m) == 2**m
    for labels in itertools.product((True, False), repeat=m):
        a = math.pi * (1 + sum(10**i for i, label in enumerate(labels, 1) if not label))
        assert tuple(math.sin(a / 10**i) > 0 for i in range(1, m + 1)) == labels


def test_more_points_than_integers_can_hold_are_refused():
    with pytest.raises(TrueriskError, match="at most 17"):
        shattering.count_sine(18)


def test_nearest_neighbors():
    X = np.random.default_rng(0).standard_normal((6, 2))
    assert shattering.count_nearest(X) == 64
    X[1] = X[0]  # two points at one place must share a label
    assert shattering.count_nearest(X) == 32


def test_one_unit_realizes_what_half_planes_do_and_no_more():
    X = np.random.default_rng(4).standard_normal((4, 2))
    assert shattering.count_trained(X, width=1, steps=300, rounds=4, seed=0) <= shattering.cover(4, 2)
    # Three units shatter four points: three half-planes would do. Training must find all 16 labelings.
    assert shattering.count_trained(X, width=3, steps=300, rounds=6, seed=0) == 16


def test_networks_on_a_line_change_sign_at_most_once_per_piece():
    X = np.arange(6.0)[:, None] - 2.5
    # Two units make three linear pieces, so at most 3 changes of sign: 2 * (1 + 5 + 10 + 10) of 64 labelings.
    assert 12 <= shattering.count_trained(X, width=2, steps=300, rounds=3, seed=1) <= 52


def test_all_labelings_are_different():
    labels = shattering.all_labelings(7)
    assert labels.shape == (128, 7)
    assert len({tuple(row) for row in labels.tolist()}) == 128
    assert labels[64:, -1].all()  # the half that the counts use
    assert not labels[:64, -1].any()
