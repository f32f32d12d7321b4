"""Treatments: what they change, what they leave, and that they are as random as they say."""

import numpy as np
import pytest
from scipy import stats

from truerisk.data import (
    Data,
    centre_crop,
    corrupt_labels,
    gaussian_pixels,
    load,
    random_labels,
    random_pixels,
    shuffle,
    shuffle_pixels,
    whiten_images,
)
from truerisk.data.treatments import _uniform
from truerisk.errors import TrueriskError


def test_random_labels_change_labels_only():
    data = load("digits")
    treated = random_labels(data, seed=3)
    assert treated.X is data.X
    assert treated.classes == 10
    assert treated.source is None
    assert treated.name == "digits with random labels"
    assert "seed 3" in treated.note
    assert np.array_equal(treated.y, random_labels(data, seed=3).y)
    assert not np.array_equal(treated.y, random_labels(data, seed=4).y)
    assert treated.sha256 != data.sha256
    with pytest.raises(TrueriskError, match="seed"):
        random_labels(data, seed=-1)


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_labels_are_uniform_and_do_not_follow_the_shuffle(classes):
    # Two chi-squared tests per case, each with a false-alarm rate of 1e-6; the seeds are fixed.
    n = 50_000
    labels = _uniform(classes, n, seed=0)
    assert stats.chisquare(np.bincount(labels, minlength=classes)).pvalue > 1e-6
    first = labels[shuffle(n, seed=0)[: n // 2]]
    assert stats.chisquare(np.bincount(first, minlength=classes)).pvalue > 1e-6


# The number of changed labels is Binomial(n, 0.9 p). All seeds together lie within three standard deviations of it
# (false-alarm rate 0.0027 per case); of 100 single seeds at most four lie outside (1e-5). The seeds are fixed.
@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.8, 1.0])
def test_nine_tenths_of_p_are_changed(p):
    n, seeds = 2_000, 100
    data = Data("toy", np.zeros((n, 1)), np.arange(n) % 10, classes=10)
    changed = np.array([np.sum(corrupt_labels(data, p, seed).y != data.y) for seed in range(seeds)])
    deviation = np.sqrt(n * 0.9 * p * (1 - 0.9 * p))
    assert abs(changed.sum() - seeds * n * 0.9 * p) <= 3 * np.sqrt(seeds) * deviation
    assert np.sum(abs(changed - n * 0.9 * p) > 3 * deviation) <= 4


def test_corruption_grows_from_true_to_random_labels():
    data = load("digits")
    assert np.array_equal(corrupt_labels(data, 0.0, seed=5).y, data.y)
    assert np.array_equal(corrupt_labels(data, 1.0, seed=5).y, random_labels(data, seed=5).y)
    some, more = (corrupt_labels(data, p, seed=5).y for p in (0.3, 0.6))
    assert np.array_equal(some[some != data.y], more[some != data.y])
    assert np.array_equal(some, corrupt_labels(data, 0.3, seed=5).y)
    assert not np.array_equal(some, corrupt_labels(data, 0.3, seed=6).y)
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(TrueriskError, match="from 0 to 1"):
            corrupt_labels(data, p, seed=0)


def test_new_labels_do_not_follow_the_choice_of_examples():
    # Chi-squared test with false-alarm rate 1e-6; the seed is fixed. All true labels are 0.
    data = Data("toy", np.zeros((50_000, 1)), np.zeros(50_000), classes=10)
    labels = corrupt_labels(data, 0.5, seed=0).y
    assert stats.chisquare(np.bincount(labels[labels > 0], minlength=10)[1:]).pvalue > 1e-6


def colours(n=30, seed=0):
    X = np.random.default_rng(seed).normal(0.4, 2.0, size=(n, 3, 6, 5))
    return Data("toy", X, np.arange(n) % 3, classes=3)


def test_shuffled_pixels_move_alike_in_training_and_test_images_and_can_be_moved_back():
    places = np.tile(np.arange(30.0).reshape(1, 1, 6, 5), (1, 3, 1, 1))  # an image of the places themselves
    order = shuffle_pixels(Data("places", places, [0], classes=2), seed=7).X.reshape(3, 30).astype(int)
    assert sorted(order[0]) == list(range(30))
    assert (order == order[0]).all()  # colours move together
    for data in (colours(seed=0), colours(n=11, seed=1)):
        moved = shuffle_pixels(data, seed=7)
        assert np.array_equal(moved.X.reshape(-1, 3, 30), data.X.reshape(-1, 3, 30)[:, :, order[0]])
        back = moved.X.reshape(-1, 3, 30)[:, :, np.argsort(order[0])]
        assert np.array_equal(back.reshape(data.X.shape), data.X)
        assert np.array_equal(moved.y, data.y)
        assert not np.array_equal(moved.X, shuffle_pixels(data, seed=8).X)


def test_random_pixels_keep_the_pixels_of_each_image_and_nothing_else():
    data = colours()
    moved = random_pixels(data, seed=2)
    before, after = (d.X.reshape(30, 3, 30).transpose(0, 2, 1) for d in (data, moved))
    orders = set()
    for old, new in zip(before, after, strict=True):
        assert sorted(map(tuple, old)) == sorted(map(tuple, new))
        orders.add(tuple(np.argmax((old[None, :, 0] == new[:, None, 0]), axis=1)))
    assert len(orders) == 30  # each image has its own permutation
    assert np.array_equal(moved.y, data.y)
    assert np.array_equal(moved.X, random_pixels(data, seed=2).X)
    assert not np.array_equal(moved.X, random_pixels(data, seed=3).X)


def test_inputs_that_are_no_images_have_one_pixel_per_feature():
    data = Data("toy", np.arange(40.0).reshape(2, 20), [0, 1], classes=2)
    assert sorted(shuffle_pixels(data, seed=0).X[1]) == list(range(20, 40))
    assert sorted(random_pixels(data, seed=0).X[0]) == list(range(20))


def test_gaussian_pixels_have_the_mean_and_variance_of_the_data_and_nothing_of_the_images():
    # n = 120,000 values: mean and variance within 5 standard errors, no correlation with the old values beyond
    # 5/sqrt(n), a Kolmogorov-Smirnov test at 1e-6. False-alarm rate under 1e-5 in all; the seed is fixed.
    data = Data("toy", np.random.default_rng(0).exponential(2.0, size=(400, 3, 10, 10)), np.arange(400) % 2, classes=2)
    noise = gaussian_pixels(data, seed=1).X.ravel().astype(np.float64)
    mean, std, n = data.X.mean(dtype=np.float64), data.X.std(dtype=np.float64), noise.size
    assert abs(noise.mean() - mean) < 5 * std / np.sqrt(n)
    assert abs(noise.var() / std**2 - 1) < 5 * np.sqrt(2 / n)
    assert abs(np.corrcoef(noise, data.X.ravel())[0, 1]) < 5 / np.sqrt(n)
    assert stats.kstest(noise[:10_000], "norm", args=(mean, std)).pvalue > 1e-6
    assert not np.array_equal(gaussian_pixels(data, seed=2).X, gaussian_pixels(data, seed=1).X)


def test_whitening_takes_each_image_by_itself():
    X = np.random.default_rng(0).normal(3.0, 5.0, size=(4, 3, 6, 5))
    X[2] = 7.0  # one colour: stays finite
    X[3] = 1e-3 * X[0]  # below the lower limit of the standard deviation
    white = whiten_images(Data("toy", X, [0, 1, 0, 1], classes=2)).X
    for i in (0, 1):
        assert np.allclose(white[i], (X[i] - X[i].mean()) / X[i].std(), atol=1e-5)
    assert not white[2].any()
    assert np.allclose(white[3], (X[3] - X[3].mean()) * np.sqrt(90), atol=1e-5)


def test_centre_crop():
    X = np.arange(2 * 1 * 8 * 9.0).reshape(2, 1, 8, 9)
    data = Data("toy", X, [0, 1], classes=2)
    assert np.array_equal(centre_crop(data, 4).X, X[:, :, 2:6, 2:6])
    assert centre_crop(data, 8).X.shape == (2, 1, 8, 8)
    for size in (0, 9):
        with pytest.raises(TrueriskError, match="crop"):
            centre_crop(data, size)


@pytest.mark.parametrize("treat", [shuffle_pixels, random_pixels, gaussian_pixels, random_labels])
def test_treated_data_say_so(treat):
    data = load("digits")
    treated = treat(data, seed=3)
    assert treated.source is None
    assert treated.name != data.name
    assert "seed 3" in treated.note
    assert treated.X.shape == data.X.shape
    assert treated.X.dtype == np.float32
    with pytest.raises(TrueriskError, match="seed"):
        treat(data, seed=-1)
