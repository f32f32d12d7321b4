"""Recipes: each names a network that exists, for the images it is meant for, and costs no more for fewer examples."""

import numpy as np
import pytest

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.nets import architecture, count_errors
from truerisk.training import fit, recipe

IMAGES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar-10": (3, 32, 32)}


@pytest.mark.parametrize(("name", "shape"), IMAGES.items())
def test_a_recipe_learns_images_of_its_shape(name, shape):
    """Lying and standing bars in noise, which shifts, mirror images and small rotations do not confuse."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    X = rng.random((80, *shape), dtype=np.float32) * 0.3
    X[y == 0, :, 12:15, 5:23] += 0.7
    X[y == 1, :, 5:23, 12:15] += 0.7
    data = Data("bars", X, y, 2)
    model, plan = recipe(name, 40, seed=1)
    small = plan.record() | {"epochs": 8, "batch_size": 10, "lr": 0.05}
    network = architecture(model.split(":")[0] + ":8-8-8", shape, 2).build(0)
    fit(network, data.take(range(40)), type(plan)(**small))
    assert count_errors(network, X[40:], y[40:])[0] <= 4


def test_the_seed_is_the_plans_and_fewer_examples_get_more_epochs():
    epochs = []
    for n in (54_000, 40_000, 8_000, 500):
        model, plan = recipe("mnist", n, seed=7)
        assert plan.seed == 7
        assert model == recipe("mnist", 60_000, seed=0)[0]
        epochs.append(plan.epochs)
    assert epochs == [epochs[1], epochs[1], 5 * epochs[1], 8 * epochs[1]]


def test_digits_and_unknown_grey_images_are_not_mirrored():
    for data in ("mnist", (1, 28, 28)):
        model, plan = recipe(data, 50_000, 0)
        assert "mirrored" not in model
        assert "flip" not in plan.augment


@pytest.mark.parametrize("data", ["digits", (1, 8, 8), (64,), "cifar"])
def test_what_has_no_recipe_is_refused(data):
    with pytest.raises(TrueriskError, match="no recipe"):
        recipe(data, 1_000, 0)
