"""What the authors compared is paid for, however the data and the network are called."""

from dataclasses import replace

import numpy as np
import pytest
from torch import nn

import truerisk
from truerisk.certificates.charge import TUNED_ON, looks, tried_before
from truerisk.certificates.evidence import split_data
from truerisk.certificates.prior import Prior
from truerisk.data import Data, load
from truerisk.nets import architecture, builtin, mlp

FIRST, OPEN, THIRTEEN = 32, 5 + 19 + 10, 13  # configurations of the looks at digits in looks.toml


def owed(spec, data, prior="split:0.5", seed=0):
    return tried_before(architecture(spec, data.input_shape, data.classes), data, Prior(prior), seed)


def own():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 10))


def copied():
    return mlp((1, 8, 8), 10, (20,))


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.mark.parametrize(
    "spec", ["mlp", "mlp:20", "convnet", "poolnet", copied, copied(), lambda: nn.Sequential(copied())]
)
def test_one_row_less_owes_no_less(digits, spec):
    """The exact set with seed 0 certifies on rows that the last look left alone; other rows are split otherwise."""
    assert owed(spec, digits) == FIRST + OPEN
    assert (
        owed(spec, digits, seed=1)
        == owed(spec, digits, "init")
        == owed(spec, digits, "split:0.4")
        == FIRST + OPEN + THIRTEEN
    )
    for data in (digits.take(np.arange(1, len(digits))), digits.take(np.arange(200, 900))):
        assert owed(spec, data) == FIRST + OPEN + THIRTEEN
    renamed = Data("mine", 16 * digits.X.reshape(-1, 64), digits.y, 10)
    if spec not in ("convnet", "poolnet"):
        assert owed(spec, renamed) == FIRST + OPEN + THIRTEEN


def test_the_count_is_added_up_from_the_log(digits, monkeypatch):
    """No other number: an entry more in the log is a configuration more to share delta among."""
    listed = [look for look in looks() if "digits" in look.data and look.networks == "small"]
    assert sum(look.configurations for look in listed) == owed("mlp", digits, "init") == FIRST + OPEN + THIRTEEN
    one_more = replace(listed[0], configurations=7)
    monkeypatch.setattr("truerisk.certificates.charge.looks", lambda: (*listed, one_more))
    assert owed("mlp", digits, "init") == FIRST + OPEN + THIRTEEN + 7


def test_the_log_says_what_was_looked_at():
    for look in looks():
        assert look.configurations >= 1
        assert look.networks in ("small", "recipe")
        assert len(look.what) > 20
        assert set(look.data) <= TUNED_ON.keys()
        assert bool(look.seeds) == (look.fraction < 1)


def test_a_larger_part_for_training_holds_the_smaller_one(digits):
    """So a look at the first half of the rows of a seed is no look at the last fifth."""
    cert = truerisk.certify("mlp:4", digits, method="hold-out", epochs=1)
    settings = cert.record.settings
    half, most = (split_data(replace(settings, prior=Prior(f"split:{f}")), len(digits)) for f in (0.5, 0.8))
    assert not np.intersect1d(half.prior, most.certify).size


@pytest.mark.parametrize("spec", [own, own()])
def test_a_network_of_your_own_owes_nothing(digits, spec):
    assert owed(spec, digits) == 1


def test_data_of_your_own_owe_nothing():
    rng = np.random.default_rng(0)
    data = Data("digits", rng.random((100, 1, 8, 8)), np.arange(100) % 10, 10)
    assert owed("mlp", data) == owed(copied, data) == 1


def test_clean_seeds_are_about_the_exact_set(digits):
    """The rows that recipes were compared on are those that these seeds train on: in another set they are others."""
    shorter = digits.take(np.arange(1, len(digits)))
    for spec in ("resnet:8-8", lambda: builtin("resnet:8-8", (1, 8, 8), 10)):
        assert owed(spec, digits, "split:0.8") == 1
        assert owed(spec, digits, "split:0.8", seed=3) == FIRST
        assert owed(spec, digits, "split:0.5") == FIRST
        assert owed(spec, shorter, "split:0.8") == FIRST


def test_certify_splits_delta(digits):
    shorter = digits.take(np.arange(1, len(digits)))
    for spec in ("mlp:8", lambda: mlp((1, 8, 8), 10, (8,))):
        cert = truerisk.certify(spec, shorter, method="hold-out", epochs=1, tried=2)
        assert cert.record["settings"]["tried"] == 2 * (FIRST + OPEN + THIRTEEN)
