"""The same network trained on random labels: the same start, the same inputs, other labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import truerisk
from truerisk.data import Data
from truerisk.measures import trained
from truerisk.measures.calibration import LONGER, random_label_network

ONLY = ["parameters", "l2-norm", "distance-l2", "path-norm-l2-squared"]


@pytest.fixture(scope="module")
def blobs() -> Data:
    """Two clusters in twenty dimensions, few enough that random labels can be memorized."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    return Data("blobs", (rng.normal(size=(120, 20)) + 4 * y[:, None]).astype(np.float32), y, 2)


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 2))


@pytest.fixture(scope="module")
def found(blobs) -> truerisk.measures.Measures:
    return truerisk.measure(wide, blobs, only=ONLY, calibrate=True, seed=3)


def test_the_reference_starts_from_the_same_weights_on_the_same_inputs(found):
    own, other = found.trained, found.reference.network
    for name, value in own.init.state_dict().items():
        assert torch.equal(value, other.init.state_dict()[name])
    assert np.array_equal(own.data.X, other.data.X)
    assert (own.data.y == other.data.y).mean() == pytest.approx(0.5, abs=0.2)
    assert not any(
        torch.equal(value, other.module.state_dict()[name]) for name, value in own.module.state_dict().items()
    )
    assert (own.plan.seed, own.plan.lr, own.plan.batch_size) == (other.plan.seed, other.plan.lr, other.plan.batch_size)
    assert other.plan.epochs == LONGER * own.plan.epochs


def test_it_memorizes_and_generalizes_like_a_coin(found):
    assert found.reference.fitted
    assert found.reference.found.observed.train.errors == 0
    assert 0.2 < found.reference.found.observed.test.rate < 0.8
    assert found.observed.test.rate < 0.1
    assert "by the same recipe; it misclassifies 0% of these examples." in found.reference.note


def test_ratios_are_those_of_the_values(found):
    for name in ONLY:
        own, other = found[name], found.reference.found[name]
        assert 10 ** found.ratio(name) == pytest.approx(other / own)
    rows = {row["name"]: row for row in found.record()["measures"]}
    assert rows["l2-norm"]["ratio"] == pytest.approx(found.reference.found["l2-norm"] / found["l2-norm"])
    assert rows["parameters"]["ratio"] == 1
    assert rows["path-norm-l2-squared"]["ratio"] > 2, "random labels take larger weights"
    assert list(found.table["ratio"]) == [row["ratio"] for row in found.record()["measures"]]


def test_the_seed_decides(blobs, found):
    again = truerisk.measure(wide, blobs, only=ONLY, calibrate=True, seed=3)
    assert again.reference.found == found.reference.found
    plain = truerisk.measure(wide, blobs, only=ONLY, seed=3)
    assert plain == found, "the reference changes nothing about the network itself"
    assert plain.reference is None


def test_a_network_that_does_not_fit_says_so(blobs, monkeypatch):
    monkeypatch.setattr(trained, "TARGET_LOSS", 1e-9)
    monkeypatch.setattr("truerisk.measures.calibration.LONGER", 1)
    network = truerisk.measure(lambda: nn.Linear(20, 2), blobs, only=["parameters"]).trained
    other, note = random_label_network(network)
    assert not other.fitted
    assert "does not fit its random labels: after 100 epochs it misclassifies" in note


def test_a_network_that_fits_with_a_large_loss_is_told_apart(blobs, monkeypatch):
    monkeypatch.setattr(trained, "TARGET_LOSS", 1e-9)
    monkeypatch.setattr("truerisk.measures.calibration.LONGER", 1)
    reference = truerisk.measure(wide, blobs, only=["parameters"], calibrate=True).reference
    assert not reference.network.fitted
    assert reference.found.observed.train.errors == 0
    assert reference.fitted
    assert "after 100 epochs it misclassifies none of these examples, but its loss is above" in reference.note


def test_a_trained_module_is_re_initialized(blobs):
    module = wide()
    found = truerisk.measure(module, blobs, only=ONLY, calibrate=True)
    other = found.reference.network
    assert "from new initial weights, by truerisk's recipe, which may not be that of yours" in found.reference.note
    assert other.init is None
    assert "distance-l2" in found.reference.found.skipped
    assert found.reference.found.observed.train.errors == 0


def test_with_init_it_starts_there_and_keeps_the_precision(blobs):
    module, init = wide().double(), wide().double()
    found = truerisk.measure(module, blobs, init, only=ONLY, calibrate=True)
    other = found.reference.network
    assert "from the same initial weights" in found.reference.note
    for name, value in init.state_dict().items():
        assert other.init.state_dict()[name].dtype == torch.float64
        assert torch.allclose(value, other.init.state_dict()[name], rtol=1e-6)
    assert {p.dtype for p in other.module.parameters()} == {torch.float64}


class Bare(nn.Module):
    """Weights that no reset_parameters reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(20, 2))

    def forward(self, x):
        return x @ self.weight


def test_where_there_is_no_reference_the_reason_is_told(blobs):
    found = truerisk.measure(Bare(), blobs, only=["parameters"], calibrate=True)
    assert found.reference is None
    assert found.no_reference.startswith("There is no reference on random labels: the weights weight can't be re-init")
    assert found.record()["random_labels"]["note"] == found.no_reference
    assert found["parameters"] == 40


def test_frozen_weights_are_trained_all_the_same(blobs):
    module = wide().requires_grad_(False)
    found = truerisk.measure(module, blobs, only=["cross-entropy"], calibrate=True)
    assert found.reference.found.observed.train.errors == 0
    assert not any(p.requires_grad for p in module.parameters())


def test_a_frozen_network_cannot_be_trained_here(blobs):
    with pytest.raises(truerisk.TrueriskError, match="0 trainable parameters"):
        truerisk.measure(lambda: wide().requires_grad_(False), blobs, only=ONLY)


def test_outputs_that_are_not_numbers_are_not_called_random(blobs):
    class Nowhere(nn.Linear):
        def forward(self, x):
            return super().forward(x) * float("nan")

    with pytest.raises(truerisk.TrueriskError, match=r"its outputs are not finite\.$"):
        truerisk.measure(Nowhere(20, 2), blobs, only=ONLY)
