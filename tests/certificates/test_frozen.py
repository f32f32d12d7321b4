"""What is certified is what the files hold; the number of threads of the machine changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import truerisk
from truerisk.bounds import clopper_pearson
from truerisk.certificates.frozen import hashes
from truerisk.data import load
from truerisk.nets import builtin
from truerisk.threads import limited, threads_for


class Shifted(nn.Module):
    """A network that a training function can teach through a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
        self.shift = 0.0
        self.register_buffer("kept", torch.zeros(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x.flatten(1) - self.shift + self.kept)


def fit_plainly(net: nn.Module, dataset: torch.utils.data.TensorDataset) -> None:
    X, y = dataset.tensors
    net.shift = X.flatten(1).mean(0)  # a tensor that no state dict holds
    train(net, X, y)


def fit_with_a_buffer(net: nn.Module, dataset: torch.utils.data.TensorDataset) -> None:
    X, y = dataset.tensors
    net.kept.copy_(-X.flatten(1).mean(0))
    train(net, X, y)


def fit_with_a_number(net: nn.Module, dataset: torch.utils.data.TensorDataset) -> None:
    X, y = dataset.tensors
    net.shift = float(X.mean())  # a plain float: not even a tensor to be found
    train(net, X, y)


def train(net: nn.Module, X: torch.Tensor, y: torch.Tensor) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X), y).backward()
        optimizer.step()


@pytest.mark.parametrize("method", ["hold-out", "pac-bayes-kl"])
@pytest.mark.parametrize(
    ("fit", "named"), [(fit_plainly, r"\(shift\)"), (fit_with_a_number, "parameters or buffers; keep them")]
)
def test_numbers_that_the_files_would_lose_are_refused(method, fit, named):
    """Saved and loaded it would be another network, under the same claim."""
    with pytest.raises(truerisk.TrueriskError, match=f"{named}.*register_buffer"):
        truerisk.certify(Shifted, "digits", fit=fit, method=method, epochs=1)


@pytest.mark.parametrize("method", ["hold-out", "pac-bayes-kl"])
def test_numbers_in_a_buffer_are_kept(method, tmp_path):
    cert = truerisk.certify(Shifted, "digits", fit=fit_with_a_buffer, method=method, epochs=1)
    cert.save(tmp_path)
    again = truerisk.Certificate.load(tmp_path, model=Shifted)
    X = load("digits").X
    assert (again.predictor(X, seed=1) == cert.predictor(X, seed=1)).all()
    assert bool(again.evidence.network.kept.any())
    truerisk.verify(tmp_path, model=Shifted)


def fit_and_freeze(net: nn.Module, dataset: torch.utils.data.TensorDataset) -> None:
    train(net, *dataset.tensors)
    net.layers[1].requires_grad_(False)


def test_what_a_training_function_froze_is_drawn_all_the_same(tmp_path):
    cert = truerisk.certify(Shifted, "digits", method="pac-bayes-kl", fit=fit_and_freeze, epochs=1)
    assert "layers.1.weight" in cert.evidence.posterior.mean
    cert.save(tmp_path)
    truerisk.verify(tmp_path, model=Shifted)


class RandomFeatures(nn.Module):
    """Its features are drawn with the weights and are not in its state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(32, 10)
        self.register_buffer("waves", torch.randn(64, 32), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last((x.flatten(1) @ self.waves).cos())


@pytest.mark.parametrize("method", ["hold-out", "pac-bayes-kl", "description-length"])
def test_buffers_that_a_module_does_not_save_are_kept(method, tmp_path):
    cert = truerisk.certify(RandomFeatures, "digits", method=method, epochs=2)
    cert.save(tmp_path)
    X = load("digits").X
    loaded = truerisk.Certificate.load(tmp_path, model=RandomFeatures)
    assert (loaded.predictor(X, seed=1) == cert.predictor(X, seed=1)).all()
    truerisk.verify(tmp_path, model=RandomFeatures, retrain=True)


def test_counts_are_made_on_what_the_files_hold(tmp_path):
    cert = truerisk.certify("mlp:16", "digits", method="hold-out", epochs=3)
    cert.save(tmp_path)
    loaded = truerisk.Certificate.load(tmp_path)
    digits, rows = load("digits"), loaded.evidence.parts.certify
    wrong = int((loaded.predictor(digits.X[rows]) != digits.y[rows]).sum())
    assert wrong == cert.record["counts"]["floor"]
    assert loaded.frozen.digest == cert.frozen.digest
    assert hashes(loaded.frozen.files) == cert.record["files"]


# ---- the floor pays like the certificate ---------------------------------------------------------------------------


def test_the_floor_pays_for_what_was_tried():
    digits = load("digits")
    net = builtin("mlp:16", (1, 8, 8), 10).eval()
    cert = truerisk.certify(net, fresh=digits, tried=3)
    assert cert.floor == cert.risk_bound, "this certificate is itself the hold-out bound"
    assert cert.record["floor_detail"]["delta"] == pytest.approx(0.05 / 3)
    errors, n = (cert.record["floor_detail"][key] for key in ("errors", "n"))
    assert (
        cert.floor
        == clopper_pearson(errors, n, cert.record["floor_detail"]["delta"])
        > clopper_pearson(errors, n, 0.05)
    )


def test_the_floor_of_one_method_among_many_says_what_it_is():
    cert = truerisk.certify("mlp:8", "digits", method="all", predictor="deterministic", epochs=1)
    row = next(c for c in (cert, *cert.others) if c.record["method"] == "hold-out")
    assert row.record["settings"]["methods"] > 1
    assert row.floor < row.risk_bound
    assert "no other method had been tried" in row.record["floor_detail"]["what"]


# ---- threads -------------------------------------------------------------------------------------------------------

SCRIPT = """
import torch, truerisk
from truerisk.pacbayes import monte_carlo
monte_carlo.TRIALS = 20_000
torch.set_num_threads({threads})
cert = truerisk.certify("mlp:32", "digits", method="pac-bayes-kl", epochs=1)
assert torch.get_num_threads() == {threads}
print(cert.record["files"], repr(cert.risk_bound), repr(cert.kl), cert.record["counts"])
"""


@pytest.mark.long
def test_the_threads_of_the_machine_change_nothing():
    """The same seed gives the same certificate, to the last digit."""
    told = set()
    for threads in (1, 3):
        script = SCRIPT.format(threads=threads)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1


def test_small_networks_get_one_thread_and_large_ones_two():
    digits, images = np.zeros((2, 1, 8, 8), np.float32), np.zeros((2, 3, 32, 32), np.float32)
    assert threads_for(builtin("mlp", (1, 8, 8), 10), digits) == 1
    assert threads_for(builtin("cosnet", (3, 32, 32), 10), images) == 1
    assert threads_for(builtin("resnet", (3, 32, 32), 10), images) == 2
    with limited(1):
        assert threads_for(builtin("resnet", (3, 32, 32), 10), images) == 1, "a task of a grid has one core"
    assert threads_for(nn.Linear(3, 2), digits) == 1, "a network that does not run is refused elsewhere"


def test_verify_does_not_obey_a_claimed_number_of_threads(tmp_path, monkeypatch):
    """As many as the certificate says, but never more than the machine has."""
    cert = truerisk.certify("mlp:8", "digits", method="hold-out", epochs=1, threads=300)
    cert.save(tmp_path)
    used = []
    monkeypatch.setattr("truerisk.certificates.checking.verification.limited", lambda n: used.append(n) or limited(n))
    truerisk.verify(tmp_path)
    assert used == [os.cpu_count()]


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_numbers_of_threads_that_are_none(threads):
    with pytest.raises(truerisk.TrueriskError, match=r"threads is .*, but must be a"):
        truerisk.certify("mlp:8", "digits", threads=threads)
