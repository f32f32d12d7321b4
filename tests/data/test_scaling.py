"""Sizes and scales of inputs, against slow reference implementations."""

import numpy as np
import pytest

from truerisk.data import Data, centre_crop
from truerisk.data.scaling import is_images, normalize, shrink_images


def images(height, width, n=3):
    X = np.random.default_rng(0).normal(size=(n, 2, height, width)).astype(np.float32)
    return Data("toy", X, np.arange(n) % 2, classes=2)


@pytest.mark.parametrize(("height", "width", "block"), [(9, 9, 2), (8, 11, 2), (13, 12, 3)])
def test_large_images_are_averaged_over_blocks(height, width, block):
    data = images(height, width)
    small = shrink_images(data, 4)
    assert small.input_shape == (2, 4, 4)
    top, left = (height - 4 * block) // 2, (width - 4 * block) // 2
    for row in range(4):
        for column in range(4):
            rows, columns = top + block * row, left + block * column
            patch = data.X[:, :, rows : rows + block, columns : columns + block].astype(np.float64)
            assert np.allclose(small.X[:, :, row, column], patch.mean(axis=(2, 3)), atol=1e-6)


def test_images_below_twice_the_side_are_cropped_and_small_ones_stay():
    data = images(32, 32)
    assert np.array_equal(shrink_images(data, 28).X, centre_crop(data, 28).X)
    assert shrink_images(data, 32) is data
    table = Data("table", np.ones((3, 50)), [0, 1, 1], classes=2)
    assert not is_images(table)
    assert shrink_images(table, 28) is table


def test_tables_are_standardized_by_their_training_rows():
    rng = np.random.default_rng(1)
    train = Data("table", np.c_[rng.normal(5, 100, 40), np.full(40, 7.0), rng.normal(size=40)], np.arange(40) % 2, 2)
    test = train.take([3, 1])
    scaled, scaled_test = normalize(train, test)
    for column in (0, 2):
        values = train.X[:, column].astype(np.float64)
        expected = [(value - sum(values) / 40) / np.sqrt(np.mean((values - sum(values) / 40) ** 2)) for value in values]
        assert np.allclose(scaled.X[:, column], expected, atol=1e-5)
    assert not scaled.X[:, 1].any()
    assert np.array_equal(scaled_test.X, scaled.X[[3, 1]])
    assert np.array_equal(scaled.y, train.y)


def test_each_image_is_whitened_by_itself():
    both = images(6, 5, n=4), images(6, 5, n=2)
    for old, new in zip(both, normalize(*both), strict=True):
        for before, after in zip(old.X.astype(np.float64), new.X, strict=True):
            assert np.allclose(after, (before - before.mean()) / before.std(), atol=1e-5)  # deviation above 1/sqrt(60)
