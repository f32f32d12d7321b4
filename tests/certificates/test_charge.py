"""What the authors compared is paid for, however the data and the network are called."""

import numpy as np
import pytest
from torch import nn

import truerisk
from truerisk.certificates.charge import TRIED_BY_AUTHORS, tried_before
from truerisk.certificates.prior import Prior
from truerisk.data import Data, load
from truerisk.nets import architecture, builtin, mlp


def owed(spec, data, prior="split:0.5", seed=0):
    return tried_before(architecture(spec, data.input_shape, data.classes), data, Prior(prior), seed)


def own():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 10))


def copied():
    return mlp((1, 8, 8), 10, (20,))


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.mark.parametrize("spec", ["mlp", "mlp:20", "convnet", copied, copied(), lambda: nn.Sequential(copied())])
def test_one_row_less_owes_as_much(digits, spec):
    for data in (digits, digits.take(np.arange(1, len(digits))), digits.take(np.arange(200, 900))):
        assert owed(spec, data) == TRIED_BY_AUTHORS
    renamed = Data("mine", 16 * digits.X.reshape(-1, 64), digits.y, 10)
    if spec != "convnet":
        assert owed(spec, renamed) == TRIED_BY_AUTHORS


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
        assert owed(spec, digits, "split:0.8", seed=3) == TRIED_BY_AUTHORS
        assert owed(spec, digits, "split:0.5") == TRIED_BY_AUTHORS
        assert owed(spec, shorter, "split:0.8") == TRIED_BY_AUTHORS
    assert owed("mlp", digits, "split:0.8") == TRIED_BY_AUTHORS


def test_certify_splits_delta(digits):
    shorter = digits.take(np.arange(1, len(digits)))
    for spec in ("mlp:8", lambda: mlp((1, 8, 8), 10, (8,))):
        cert = truerisk.certify(spec, shorter, method="hold-out", epochs=1, tried=2)
        assert cert.record["settings"]["tried"] == 2 * TRIED_BY_AUTHORS
