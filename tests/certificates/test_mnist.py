"""On real MNIST: the data-free certificate that the design promises, with a fraction of the default's training."""

from __future__ import annotations

import pytest

import truerisk
from truerisk.data import load, random_labels
from truerisk.pacbayes import monte_carlo

pytestmark = pytest.mark.long


@pytest.fixture
def few_draws(monkeypatch):
    """Two passes are enough here; the certificate pays for having fewer draws."""
    monkeypatch.setattr(monte_carlo, "NORMALS", 300_000_000)


def test_data_free_certificate_on_mnist(data_folder, few_draws, tmp_path):
    cert = truerisk.certify(None, "mnist", prior="init", epochs=2, data_dir=data_folder)
    assert cert.record["model"]["name"] == "convnet"
    assert cert.record["n_certify"] == 60_000
    assert cert.risk_bound < 0.28
    # The truth, as well as 10,000 test images tell it.
    test = load("mnist:test", data_folder)
    error = float((cert.predictor(test.X, seed=0) != test.y).mean())
    assert error < cert.risk_bound
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path, data_dir=data_folder).claimed == cert.risk_bound


def test_random_labels_on_mnist(data_folder, few_draws):
    noise = random_labels(load("mnist", data_folder), seed=0)
    cert = truerisk.certify("mlp:20", noise, prior="init", epochs=1)
    assert cert.risk_bound >= 0.9
