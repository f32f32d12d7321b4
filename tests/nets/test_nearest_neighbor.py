"""The nearest-neighbor rule against a loop, in blocks, with ties, and far from zero."""

import math

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.nets.nearest_neighbor import nearest_examples, nearest_labels


def slow(stored, X):
    found = []
    for x in X:
        distances = [math.dist(x, row) for row in stored]
        found.append(distances.index(min(distances)))
    return found


@pytest.mark.parametrize("entries", [1, 50, 10**6])
def test_against_a_loop(monkeypatch, entries):
    monkeypatch.setattr("truerisk.nets.nearest_neighbor.ENTRIES", entries)
    rng = np.random.default_rng(0)
    stored, new = rng.standard_normal((40, 3)), rng.standard_normal((25, 3))
    assert nearest_examples(stored, new).tolist() == slow(stored, new)


def test_images_are_flattened_and_integers_taken():
    stored, new = np.arange(24).reshape(3, 2, 4), np.arange(16).reshape(2, 2, 4)
    assert nearest_examples(stored, new).tolist() == [0, 1]


def test_every_example_is_its_own_neighbor_far_from_zero():
    stored = 1e8 + np.random.default_rng(0).standard_normal((200, 2))
    assert nearest_examples(stored, stored).tolist() == list(range(200))


def test_of_equal_rows_the_first():
    stored = np.repeat(np.random.default_rng(0).standard_normal((50, 3)), 2, axis=0)
    assert nearest_labels(stored, np.arange(100), stored).tolist() == [2 * (i // 2) for i in range(100)]


def test_no_new_inputs():
    assert nearest_labels(np.eye(2), np.array([0, 1]), np.zeros((0, 2))).tolist() == []


def test_what_does_not_match_is_refused():
    with pytest.raises(TrueriskError, match="at least one example"):
        nearest_examples(np.zeros((3, 2)), np.zeros((3, 4)))
    with pytest.raises(TrueriskError, match="at least one example"):
        nearest_examples(np.zeros((0, 2)), np.zeros((3, 2)))
    with pytest.raises(TrueriskError, match="one label for each"):
        nearest_labels(np.zeros((3, 2)), np.zeros(2), np.zeros((3, 2)))
