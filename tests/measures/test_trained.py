"""A name or a factory in place of a module is trained first; a module is measured as it is."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import truerisk
from truerisk import TrueriskError
from truerisk.data import Data
from truerisk.measures import trained

FEW = ["parameters", "l2-norm", "distance-l2", "steps-to-loss-0.1", "gradient-noise-first-epoch"]


@pytest.fixture(scope="module")
def blobs() -> Data:
    """Two clusters that a network separates within a few epochs."""
    rng = np.random.default_rng(0)
    y = np.arange(640) % 2
    return Data("blobs", (rng.normal(size=(640, 4)) + 4 * y[:, None]).astype(np.float32), y, 2)


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.fixture
def untrainable(monkeypatch) -> None:
    """Any training is a failure."""

    def never(*_, **__):
        raise AssertionError("something was trained")

    monkeypatch.setattr(trained, "fit", never)


@pytest.mark.parametrize("model", ["mlp:8", small])
def test_a_name_or_a_factory_is_trained_and_says_so(blobs, model):
    found = truerisk.measure(model, blobs, only=FEW, seed=2)
    assert found.trained is not None
    assert found.trained.how.startswith("It was trained here first, on 512 examples (128 were held out)")
    assert found.record()["weights"] == found.trained.how
    assert set(found.values) == set(FEW)  # its own record and its own initial weights are there
    assert found["distance-l2"] > 0
    errors = (found.trained.module(torch.from_numpy(blobs.X)).argmax(1).numpy() != blobs.y).sum()
    assert errors <= 3


def test_the_trained_network_gives_the_same_numbers_again(blobs):
    first = truerisk.measure(small, blobs, only=FEW)
    network = first.trained
    assert network is not None
    again = truerisk.measure(network.module, network.data, network.init, record=network.record, only=FEW)
    assert again.trained is None
    assert again == first


def test_the_seed_decides(blobs):
    one, same, other = (truerisk.measure(small, blobs, only=["l2-norm"], seed=seed)["l2-norm"] for seed in (0, 0, 1))
    assert one == same != other


def test_a_module_is_measured_as_it_is(blobs, untrainable):
    module = small()
    before = copy.deepcopy(module.state_dict())
    found = truerisk.measure(module, blobs, only=["l2-norm"])
    assert found.trained is None
    assert "weights" not in found.record()
    squares = sum(float(p.detach().double().square().sum()) for p in module.parameters())
    assert found["l2-norm"] == pytest.approx(squares**0.5)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_a_record_that_is_given_replaces_that_of_the_training(blobs):
    found = truerisk.measure(small, blobs, only=["steps-to-loss-0.1"], record={"steps_to_0.1": 77})
    assert found["steps-to-loss-0.1"] == 77


def test_an_audit_trains_too(blobs):
    found = truerisk.audit(small, blobs, only=["l2-norm", "path-norm-l2-squared"], times=1)
    assert found.before.trained is not None
    assert not found.moves["path-norm-l2-squared"].fooled
    network = found.before.trained
    plain = truerisk.audit(network.module, network.data, only=["l2-norm", "path-norm-l2-squared"], times=1)
    assert plain == found


@pytest.mark.parametrize("entry", [truerisk.measure, truerisk.audit])
@pytest.mark.parametrize(
    ("told", "model", "settings"),
    [
        ("must be a torch module", 42, {}),
        ("must be a torch module", None, {}),
        ("no built-in", "transformer", {}),
        ("no measure nonsense", "mlp:8", {"only": ["nonsense"]}),
        ("give the trained module", small, {"init": small()}),
        ("build it in float32", lambda: small().double(), {}),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(blobs, untrainable, entry, told, model, settings):
    with pytest.raises(TrueriskError, match=told):
        entry(model, blobs, **settings)
