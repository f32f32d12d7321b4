"""A network that is already trained, certified on the data that it was trained on."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from certificates.networks import trained
from safetensors.torch import load_file, save_file
from torch import nn

import truerisk
from truerisk.certificates.files import sha256
from truerisk.data import Data, load, random_labels

QUICK = {"epochs": 5, "tried": 1}


@pytest.fixture(scope="module")
def halves():
    """Two classes of digits, easy enough that a small network says something: labelled rows, and other inputs."""
    digits = load("digits")
    rows = np.flatnonzero(digits.y < 2)
    easy = Data("zeros and ones", digits.X[rows], digits.y[rows], 2)
    return easy.take(np.arange(200)), easy.X[200:]


@pytest.fixture(scope="module")
def target(halves):
    net = trained(halves[0], 4, 200, lr=5e-3)
    assert (net(torch.from_numpy(halves[0].X)).argmax(1).numpy() == halves[0].y).all()
    return net


@pytest.fixture(scope="module")
def noise():
    """300 digits with labels that mean nothing: the true risk of any predictor is 0.9."""
    return random_labels(load("digits").take(np.arange(300)), seed=1)


@pytest.fixture(scope="module")
def memorizer(noise):
    net = trained(noise, 256, 400, lr=5e-3)
    assert (net(torch.from_numpy(noise.X)).argmax(1).numpy() == noise.y).mean() > 0.99
    return net


@pytest.mark.parametrize("prior", ["zero", "init"])
@pytest.mark.parametrize("method", ["pac-bayes-around", "single-draw-around"])
@pytest.mark.parametrize("scales", ["grid", "fixed"])
def test_memorized_noise_certifies_nothing(noise, memorizer, prior, method, scales):
    cert = truerisk.certify(
        memorizer, noise, prior, method=method, options={"scales": scales}, weights=memorizer.state_dict(), epochs=20
    )
    assert cert.risk_bound >= 0.9


def test_the_test_above_would_see_it(noise, memorizer):
    """With the memorizer's weights in the prior (a false promise), the same network is certified far below 0.9."""
    cert = truerisk.certify(
        lambda: memorizer,
        noise,
        "init",
        method="pac-bayes-around",
        weights=memorizer.state_dict(),
        trust_factory=True,
        prior_std=1e-3,
        options={"scales": "fixed"},
        epochs=20,
    )
    assert cert.risk_bound < 0.5
    assert any("You vouch" in line for line in cert.assumptions)


@pytest.fixture(scope="module")
def made(halves, target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("around")
    long = QUICK | {"epochs": 50}
    cert = truerisk.certify(target, halves[0], weights=target.state_dict(), method="pac-bayes-around", **long)
    cert.save(folder)
    return cert, folder


def test_the_given_weights_are_the_means_and_nothing_else(made, halves, target):
    cert, _ = made
    posterior, prior = cert.evidence.posterior, cert.evidence.prior
    symmetry = truerisk.find_symmetry(target, torch.zeros(1, *halves[0].input_shape))
    back = symmetry.rescale(posterior, cert.evidence.log_scales["best"]).mean  # from where its KL is smallest
    assert all(torch.allclose(back[name], p.double(), rtol=1e-6, atol=0) for name, p in target.named_parameters())
    assert not any(mean.any() for mean in prior.mean.values()), "the prior is centred at zero"
    other = truerisk.certify(target, halves[0], weights=three_times(target), method="pac-bayes-around", **QUICK)
    for name, std in prior.std.items():
        assert std.equal(other.evidence.prior.std[name]), "the prior does not know the weights"
    assert cert.record["settings"]["prior"] == "zero"
    assert cert.record["n_certify"] == 200
    assert cert.record["n_prior"] == 0


def three_times(target):
    """Other weights of the same network."""
    return {name: 3 * value for name, value in target.state_dict().items()}


def test_it_says_something_where_it_can(made, halves, target):
    """200 zeros and ones: the posterior around the weights errs seldom, and the bound is below chance."""
    cert, _ = made
    assert cert.empirical_risk < 0.1
    assert cert.risk_bound < 0.5
    labels = cert.predictor(halves[1], seed=0)
    assert (labels == target(torch.from_numpy(halves[1])).argmax(1).numpy()).mean() > 0.8


def test_verify_makes_it_again(made, halves, target):
    cert, folder = made
    result = truerisk.verify(folder, data=halves[0], model=target)
    assert result.claimed == cert.risk_bound
    assert any("seed and the architecture decide was reproduced" in line for line in result.checked)
    assert truerisk.verify(folder, data=halves[0], model=target, retrain=True).claimed == cert.risk_bound


def wider(tensors):
    tensors["index"] += 1


def too_far(tensors):
    tensors["index"] += 30


def too_few(tensors):
    tensors["index"] = tensors["index"][:1].clone()


def as_floats(tensors):
    tensors["index"] = tensors["index"].double()


@pytest.mark.parametrize("change", [wider, too_far, too_few, as_floats])
def test_other_prior_scales_are_seen(made, halves, target, tmp_path, change):
    made[0].save(tmp_path)
    path = tmp_path / "scales.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    rehash(tmp_path)
    with pytest.raises(truerisk.VerificationError):
        truerisk.verify(tmp_path, data=halves[0], model=target)


def test_trained_weights_in_the_prior_are_seen(made, halves, target, tmp_path):
    made[0].save(tmp_path)
    path = tmp_path / "prior.safetensors"
    tensors = load_file(path)
    for name, p in target.named_parameters():
        tensors[f"mean.{name}"] = p.detach().clone()
    save_file(tensors, path)
    rehash(tmp_path)
    with pytest.raises(truerisk.VerificationError, match="prior"):
        truerisk.verify(tmp_path, data=halves[0], model=target)


def rehash(folder):
    path = folder / "certificate.json"
    record = json.loads(path.read_text())
    record["files"] = {name: sha256((folder / name).read_bytes()) for name in record["files"]}
    path.write_text(json.dumps(record))


def test_single_draw_around_the_weights(halves, target, tmp_path):
    cert = truerisk.certify(target, halves[0], weights=target.state_dict(), predictor="single-draw", **QUICK)
    assert cert.record["method"] == "single-draw-around"
    assert not cert.others
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path, data=halves[0], model=target).claimed == cert.risk_bound


def test_all_that_is_valid_with_unlabelled_inputs(halves, target, tmp_path):
    """Weights in a file, a built-in network: around them and by disagreement, half of delta each."""
    save_file(target.state_dict(), tmp_path / "w.safetensors")
    cert = truerisk.certify("mlp:4", halves[0], weights=tmp_path / "w.safetensors", unlabelled=halves[1], **QUICK)
    names = {cert.record["method"], *(other.record["method"] for other in cert.others)}
    assert {"pac-bayes-around", "disagreement"} <= names
    assert not any("single-draw" in name for name in names)
    assert all(c.record["settings"]["methods"] == len(names) for c in (cert, *cert.others))
    cert.save(tmp_path / "out")
    folders = [tmp_path / "out", *(tmp_path / "out" / "others").iterdir()]
    assert len(folders) == len(names)
    for folder in folders:
        truerisk.verify(folder, data=halves[0])


def test_a_plain_sentence_where_it_says_nothing(noise, memorizer):
    cert = truerisk.certify(memorizer, noise, weights=memorizer.state_dict(), method="pac-bayes-around", epochs=2)
    [line] = [line for line in cert.record["warnings"] if "would help" in line]
    assert "--fresh" in line
    assert "--unlabeled" in line
    assert "leaves a part of the data aside" in line


def norm_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def test_learnt_statistics_are_refused(halves):
    net = norm_net()
    net(torch.from_numpy(halves[0].X))  # moves the running statistics
    with pytest.raises(truerisk.TrueriskError, match=r"running_mean.*fold_batch_norm"):
        truerisk.certify(norm_net, halves[0], weights=net.eval().state_dict(), method="pac-bayes-around", epochs=1)
    cert = truerisk.certify(norm_net, halves[0], weights=net.eval().state_dict(), unlabelled=halves[1], epochs=1)
    assert "pac-bayes-around" not in set(cert.table["method"])


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ("sets no examples aside", {"prior": "split:0.5", "method": "pac-bayes-around"}),
        ("sets no examples aside", {"prior": "split:0.5", "predictor": "stochastic"}),
        ("trains its own network", {"method": "pac-bayes-kl"}),
        ("--unlabeled", {"method": "disagreement"}),
        ("do not fit", {"weights": {"0.weight": torch.zeros(1)}}),
    ],
)
def test_what_can_not_work_is_refused(halves, target, told, arguments):
    with pytest.raises(truerisk.TrueriskError, match=told):
        truerisk.certify(target, halves[0], **{"weights": target.state_dict(), **arguments})
