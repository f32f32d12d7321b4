"""Splits: every index in exactly one set, the same on every machine, and equal inputs noticed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerisk.data import Data, Split, check_partition, duplicates_across, shuffle, split
from truerisk.errors import TrueriskError


def test_shuffle_is_pinned():
    # Certificates name only the seed: these values may never change.
    assert shuffle(10, 0).tolist() == [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]
    assert shuffle(10, 0).dtype == np.int64
    assert shuffle(0, 0).tolist() == []


def test_shuffle_depends_on_the_seed():
    assert not np.array_equal(shuffle(1000, 0), shuffle(1000, 1))
    assert np.array_equal(shuffle(1000, 5), shuffle(1000, np.int64(5)))


def test_shuffle_sends_every_index_to_every_place():
    # Each of the 16 cells is Binomial(4000, 1/4) with standard deviation 27; one beyond 150 (5.5 standard
    # deviations) has a chance below 1e-6, and the seeds are fixed, so it happens always or never.
    table = np.zeros((4, 4), dtype=int)
    for seed in range(4000):
        table[np.arange(4), shuffle(4, seed)] += 1
    assert np.abs(table - 1000).max() < 150


@given(
    n=st.integers(10, 400),
    fraction=st.floats(0, 1, exclude_max=True),
    seed=st.integers(0, 2**64),
)
def test_split_is_a_partition(n, fraction, seed):
    size = round(fraction * n)
    if n - size < 10:
        with pytest.raises(TrueriskError, match="leave at least 10"):
            split(n, fraction, seed)
        return
    parts = split(n, fraction, seed)
    assert len(parts.prior) == size
    assert sorted([*parts.prior, *parts.certify]) == list(range(n))
    check_partition(parts, n)


@pytest.mark.parametrize(
    ("n", "fraction", "prior"), [(100, 0, 0), (100, 0.5, 50), (100, 0.9, 90), (1797, 0.5, 898), (13, 0.2, 3)]
)
def test_fractions(n, fraction, prior):
    parts = split(n, fraction, seed=0)
    assert (len(parts.prior), len(parts.certify)) == (prior, n - prior)


@pytest.mark.parametrize("fraction", [-0.1, 1, 1.5, float("nan"), float("inf")])
def test_impossible_fractions(fraction):
    with pytest.raises(TrueriskError, match="choose one from 0"):
        split(100, fraction, seed=0)


@pytest.mark.parametrize("seed", [-1, 0.5, "1", None, True])
def test_impossible_seeds(seed):
    with pytest.raises(TrueriskError, match="give a whole number"):
        shuffle(10, seed)


@pytest.mark.parametrize(
    ("prior", "certify", "sentence"),
    [
        ([0, 1, 1], [2, 3], "holds an index twice"),
        ([0, 1], [2, 3, 4, 4], "holds an index twice"),
        ([0, 5], [1, 2, 3, 4], "index outside 0 to 4"),
        ([0, -1], [1, 2, 3], "index outside 0 to 4"),
        ([0, 1, 2], [2, 3, 4], "Example 2 is in the prior set and in the certify set"),
        ([0, 1], [3, 4], "1 of 5 examples are in neither"),
        ([0.0, 1.0], [2, 3, 4], "whole-number indices"),
        ([[0, 1]], [2, 3, 4], "whole-number indices"),
    ],
)
def test_what_is_no_partition_is_refused(prior, certify, sentence):
    with pytest.raises(TrueriskError, match=sentence):
        check_partition(Split(np.array(prior), np.array(certify)), 5)


def test_duplicates_are_counted_on_the_certifying_side():
    X = np.arange(40, dtype=np.float32).reshape(20, 2)
    X[15] = X[16] = X[2]  # two certifying copies of one prior example
    X[18] = X[17]  # a pair inside the certifying set does not count
    X[4], X[19] = [0.0, 5.0], [-0.0, 5.0]
    data = Data("toy", X, np.arange(20) % 2, 2)
    parts = Split(np.arange(10), np.arange(10, 20))
    assert duplicates_across(data, parts) == 3
    slow = sum(any((X[i] == X[j]).all() for j in parts.prior) for i in parts.certify)
    assert duplicates_across(data, parts) == slow
    assert duplicates_across(data, Split(np.arange(0), np.arange(20))) == 0
