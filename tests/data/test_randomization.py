"""Treatments by name: which part of which examples changes."""

import numpy as np
import pytest

from truerisk.data import load
from truerisk.data.randomization import LABELS, PIXELS, label_treatment, randomize
from truerisk.data.scaling import normalize
from truerisk.errors import TrueriskError


@pytest.fixture(scope="module")
def parts():
    digits = load("digits")
    return digits.take(np.arange(300)), digits.take(np.arange(300, 500))


def test_labels_change_in_the_training_set_only(parts):
    plain, plain_test = parts
    for p, sd in ((0.5, 8.7), (1.0, 5.2)):
        train, test = randomize(*parts, label_treatment(p), p, seed=4)
        assert test is plain_test
        assert np.array_equal(train.X, plain.X)
        # 0.9 p of 300 labels change on average; four standard deviations have a false-alarm rate of 6e-5
        assert abs(np.sum(train.y != plain.y) - 270 * p) < 4 * sd
    train, _ = randomize(*parts, LABELS[0], 0.0, seed=4)
    assert np.array_equal(train.y, plain.y)


@pytest.mark.parametrize("treatment", PIXELS)
def test_pixels_change_in_both_sets_and_labels_in_none(parts, treatment):
    found = randomize(*parts, treatment, 0.0, seed=4)
    for old, new in zip(parts, found, strict=True):
        assert np.array_equal(old.y, new.y)
        assert not np.array_equal(old.X, new.X)
        before, after = (data.X.reshape(len(data), -1) for data in (old, new))
        # a permutation keeps the values of each image; one for all images keeps the means of pixels over images, too
        assert np.array_equal(np.sort(before, 1), np.sort(after, 1)) == (treatment != "Gaussian pixels")
        means = (np.sort(values.mean(0, dtype=np.float64)) for values in (before, after))
        assert np.allclose(*means, atol=1e-9) == (treatment == "shuffled pixels")


def test_training_and_test_images_share_the_permutation(parts):
    # With another permutation for test images, nearest neighbors would guess. Their error on digits is about 3%.
    train, test = normalize(*randomize(*parts, "shuffled pixels", 0.0, seed=4))
    distances = ((test.X.reshape(200, 1, 64) - train.X.reshape(1, 300, 64)) ** 2).sum(-1)
    assert np.mean(train.y[distances.argmin(1)] != test.y) < 0.15


def test_images_of_the_two_sets_have_draws_of_their_own(parts):
    train = parts[0]
    for treatment in ("random pixels", "Gaussian pixels"):
        one, other = randomize(train, train, treatment, 0.0, seed=4)
        assert not np.array_equal(one.X, other.X)


@pytest.mark.parametrize(("treatment", "p"), [("random labels", 0.5), ("shuffled pixels", 0.5), ("noise", 0.0)])
def test_names_that_do_not_fit_their_p_are_refused(parts, treatment, p):
    with pytest.raises(TrueriskError, match="treatment"):
        randomize(*parts, treatment, p, seed=4)
