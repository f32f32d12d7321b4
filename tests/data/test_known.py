"""Rows of the sets that the built-in networks were chosen on are recognized, however they are spelled."""

import numpy as np
import pytest

from truerisk.data import Data, load
from truerisk.data.known import KNOWN_ROWS, PREFIX_BYTES, _sketch, known_rows, row_keys, sketch
from truerisk.errors import TrueriskError

LARGE = [name for name in KNOWN_ROWS if name != "digits"]


@pytest.fixture(scope="module")
def digits():
    return load("digits").X


def spellings(X):
    """The same images in the ways in which people store them."""
    flat, one = X.reshape(len(X), -1), X[:, 0] if X.shape[1] == 1 else X
    mean, std = X.mean((0, 2, 3), keepdims=True), X.std((0, 2, 3), keepdims=True)
    yield from (X, flat, one, np.moveaxis(X, 1, -1), X.astype(np.float64) * 255, np.float32(16) * flat)
    yield from ((X - mean) / std, (X.astype(np.float64) - 0.5) / 0.25, 2 * flat - 1)


def test_digits_are_recognized_without_one_row_and_in_any_spelling(digits):
    for X in spellings(digits[1:]):
        assert known_rows(X) == "digits"
        assert (row_keys(X) == row_keys(digits[1:])).all()
    assert known_rows(digits[:10]) == "digits"
    assert known_rows(digits[::-1]) == "digits"


def test_more_than_one_percent_counts_and_less_does_not(digits):
    noise = np.random.default_rng(0).random((1000, 1, 8, 8))
    assert known_rows(noise) is None
    assert known_rows(np.concatenate([noise[10:], digits[:10]])) is None
    assert known_rows(np.concatenate([noise[11:], digits[:11]])) == "digits"


@pytest.mark.parametrize("shape", [(64,), (1, 28, 28), (3, 32, 32), (5,)])
def test_other_data_are_not_recognized(shape):
    rng = np.random.default_rng(1)
    assert known_rows(rng.normal(size=(500, *shape))) is None
    assert known_rows(rng.integers(0, 2, (500, *shape))) is None
    assert known_rows(np.zeros((500, *shape))) is None
    assert known_rows(np.zeros((0, *shape))) is None


def test_data_know_it_once(digits):
    data = Data("mine", digits[5:], np.arange(len(digits) - 5) % 3, 3)
    assert data.known == "digits"
    assert data.known is data.known


def test_the_sketch_of_digits_is_the_one_that_its_rows_give(digits):
    assert sketch(digits, 1) == b"".join(int(key).to_bytes(PREFIX_BYTES, "big") for key in _sketch("digits"))


@pytest.mark.parametrize("name", KNOWN_ROWS)
def test_sketches_are_small_and_sorted(name):
    keys = _sketch(name)
    assert 1500 < len(keys) < 5000
    assert (np.diff(keys.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("name", LARGE)
def test_large_sets_are_recognized_and_their_test_parts_are_not(name):
    """A subset of 200 rows is missed with probability (15/16)^200 = 2e-6; this one is fixed."""
    try:
        data, test = load(name), load(f"{name}:test")
    except TrueriskError:
        pytest.skip(f"{name} is not here")
    assert known_rows(data.X) == name  # 0.1 to 0.3 seconds
    assert known_rows(test.X) is None
    for X in spellings(data.X[1000:1200]):
        assert known_rows(X) == name
