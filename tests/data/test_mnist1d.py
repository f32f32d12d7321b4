"""MNIST-1D: independent draws, fixed constants, and no trace left in any global random state."""

import importlib
import random
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from truerisk.data import load
from truerisk.data.mnist1d import generate_mnist1d
from truerisk.errors import TrueriskError


@pytest.fixture(scope="module")
def data():
    return load("mnist1d")


@pytest.fixture(scope="module")
def second_part():
    return load("mnist1d:test")


def test_shape_and_source(data, second_part):
    assert data.X.shape == second_part.X.shape == (5000, 40)
    assert data.classes == 10
    assert data.source == data.name == "mnist1d"
    assert second_part.source == "mnist1d:test"
    assert data.sha256 != second_part.sha256


def test_the_draws_are_pinned(data):
    assert data.y[:8].tolist() == [5, 2, 7, 3, 5, 7, 4, 0]
    assert data.X[0, :3].tolist() == [0.608642578125, 0.36279296875, 0.166015625]


def test_deterministic_by_seed_and_nested_in_n(data):
    few = generate_mnist1d(50, seed=0)
    assert np.array_equal(few.X, data.X[:50])
    assert np.array_equal(few.y, data.y[:50])
    assert few.source is None
    assert not np.array_equal(generate_mnist1d(50, seed=2).X, few.X)


def test_classes_are_uniform_but_not_balanced(data, second_part):
    # Chi-squared tests with a false-alarm rate of 1e-6 each; exactly balanced classes, which would mean
    # dependent labels, have probability below 1e-15 under independent draws.
    for part in (data, second_part):
        assert stats.chisquare(part.counts).pvalue > 1e-6
        assert len(set(part.counts)) > 1


def test_standardised_up_to_sampling_error(data):
    # The constants come from other draws. Values of one example are dependent, so allow six standard errors
    # of 5000 values, not of 200,000: a false alarm below 1e-8 (for the deviation, if values were Gaussian).
    assert abs(data.X.mean()) < 6 / np.sqrt(5000)
    assert data.X.std() == pytest.approx(1, abs=6 / np.sqrt(2 * 5000))


def test_global_random_states_are_untouched_and_unused():
    def states():
        kind, keys, *rest = np.random.get_state()  # noqa: NPY002
        return random.getstate(), kind, keys.tolist(), rest, torch.get_rng_state().tolist()

    before = states()
    one = generate_mnist1d(20, seed=7)
    assert states() == before
    np.random.rand(3)  # noqa: NPY002
    random.random()
    assert generate_mnist1d(20, seed=7).sha256 == one.sha256


def test_state_is_restored_after_an_error(monkeypatch):
    def fail(*args):
        raise RuntimeError("broken")

    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    # By its module: in the package itself the function hides the module of the same name.
    monkeypatch.setattr(importlib.import_module("mnist1d.transform"), "transform", fail)
    with pytest.raises(RuntimeError, match="broken"):
        generate_mnist1d(20, seed=7)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_no_warnings():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        generate_mnist1d(20, seed=7)
    assert caught == []


def test_impossible_requests():
    with pytest.raises(TrueriskError, match="0 examples"):
        generate_mnist1d(0, seed=0)
    with pytest.raises(TrueriskError, match="seed -1"):
        generate_mnist1d(20, seed=-1)
