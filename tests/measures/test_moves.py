"""Moved inputs and nearest neighbors, by hand and against slow loops."""

import math

import numpy as np
import pytest

from truerisk.measures import moves


def test_a_step_between_two_points():
    # Points 0 and 1 with the labels 0 and 1: the nearest neighbor changes in the middle, half a unit from each. Moves
    # outwards never change its answer.
    X, labels = np.array([[0.0], [1.0]]), np.array([0.0, 1.0])
    ways = np.sign(np.random.default_rng(1).standard_normal((2, 1)))[:, 0]
    inwards = float(np.mean(ways == [1, -1]))
    found = moves.kept(lambda at: labels[moves.nearest(at, X)], X, labels, [0.1, 0.4, 0.6], seed=1)
    assert found == [1, 1, 1 - inwards]
    assert inwards > 0


def test_moves_have_the_length_of_the_median_distance():
    X, seen = np.random.default_rng(0).standard_normal((30, 2, 2)), []

    def predict(at):
        seen.append(at)
        return np.zeros(len(at))

    shares = moves.kept(predict, X, np.arange(30) % 2, [0.5, 2.0], seed=3, most=20)
    assert shares == [0.5, 0.5]
    flat = X.reshape(30, 4)
    apart = [min(math.dist(flat[i], flat[j]) for j in range(30) if j != i) for i in range(20)]
    for at, length in zip(seen, (0.5, 2.0), strict=True):
        assert np.linalg.norm(at - flat[:20], axis=1) == pytest.approx(length * np.median(apart))
    assert (seen[0] - flat[:20]) * 4 == pytest.approx(seen[1] - flat[:20])  # the same directions


def test_nearest_against_a_slow_loop(monkeypatch):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((25, 3)), rng.standard_normal((40, 3))
    monkeypatch.setattr(moves, "ROWS", 7)
    assert moves.nearest(A, B).tolist() == [min(range(40), key=lambda j, a=a: math.dist(a, B[j])) for a in A]


def test_distances_of_equal_points_are_not_negative():
    X = 1e4 + np.random.default_rng(0).standard_normal((50, 20))
    found = moves.squared_distances(X, X)
    assert (found >= 0).all()
    slow = [[math.dist(a, b) ** 2 for b in X] for a in X]
    assert np.allclose(found, slow, atol=1e-4)  # eight of sixteen digits are lost to the offset of 1e4
