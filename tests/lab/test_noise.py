"""What the treatments change, what they leave, and how many examples they touch."""

from __future__ import annotations

import numpy as np
import pytest

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.noise import noisy_samples, pool_pixels, treat


def test_inputs_are_white_for_real_and_random_inputs_alike():
    for noise in ("real", "randX"):
        train, test = noisy_samples("digits", 200, 50, noise, 1.0, seed=1)
        # 12,800 values: the mean of Gaussian ones has deviation 0.009, their standard deviation 0.006; 5 sigma
        assert abs(train.X.mean()) < 0.045
        assert abs(train.X.std() - 1) < 0.03
        np.testing.assert_allclose(test.X.reshape(50, -1).std(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("level", [0.0, 0.25, 1.0])
def test_random_inputs_replace_exactly_the_given_share_and_no_label(level):
    real, _ = noisy_samples("digits", 200, 50, "real", 0.0, seed=1)
    treated = treat(real, "randX", level, seed=3)
    changed = (treated.X != real.X).reshape(200, -1).any(axis=1)
    assert changed.sum() == 200 * level
    np.testing.assert_array_equal(treated.y, real.y)


def test_random_labels_leave_the_inputs_and_are_nested_in_the_level():
    real, _ = noisy_samples("digits", 500, 50, "real", 0.0, seed=1)
    some, all_ = (treat(real, "randY", level, seed=3) for level in (0.4, 1.0))
    np.testing.assert_array_equal(some.X, real.X)
    changed = some.y != real.y
    np.testing.assert_array_equal(some.y[changed], all_.y[changed])
    # binomial with mean 0.36 and deviation 0.021: 4.5 sigma, false alarms under 1e-5
    assert abs(changed.mean() - 0.36) < 0.097


def test_the_test_examples_stay_real():
    _, real = noisy_samples("digits", 200, 50, "real", 0.0, seed=1)
    for noise in ("randX", "randY"):
        _, test = noisy_samples("digits", 200, 50, noise, 1.0, seed=1)
        assert test.sha256 == real.sha256


def test_pooling_is_the_mean_of_blocks():
    X = np.arange(2 * 16, dtype=np.float32).reshape(2, 1, 4, 4)
    pooled = pool_pixels(Data("toy", X, [0, 1], classes=2), 2)
    slow = [
        [[[X[i, 0, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2].mean() for c in range(2)] for r in range(2)]] for i in range(2)
    ]
    np.testing.assert_allclose(pooled.X, slow)


def test_what_cannot_be_done_is_refused():
    data = Data("toy", np.zeros((2, 1, 3, 3)), [0, 1], classes=2)
    with pytest.raises(TrueriskError, match="divides both sides"):
        pool_pixels(data, 2)
    with pytest.raises(TrueriskError, match="no noise 'rand'"):
        treat(data, "rand", 1.0, seed=0)
