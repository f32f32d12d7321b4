"""Description length from weights that came trained: they are where the search begins, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from certificates.networks import trained
from safetensors.torch import save_file
from torch import nn

import truerisk
from truerisk.bounds import description_length
from truerisk.codes import compress, decode
from truerisk.codes.compress import Latent
from truerisk.codes.network import encode_numbers
from truerisk.codes.quantize import Rounded
from truerisk.data import load, random_labels
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import count_errors, mlp
from truerisk.pacbayes import monte_carlo
from truerisk.training import Plan

METHOD = "description-length"
MODEL = "mlp:16"


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def given(digits):
    return trained(digits, 16, 150, lr=1e-2)


@pytest.fixture(scope="module")
def made(given, tmp_path_factory):
    folder = tmp_path_factory.mktemp("given")
    cert = truerisk.certify(MODEL, "digits", method=METHOD, weights=given.state_dict(), epochs=15)
    cert.save(folder)
    return cert, folder


@pytest.fixture(scope="module")
def anew():
    return truerisk.certify(MODEL, "digits", method=METHOD, epochs=15)


def bits_of(network: nn.Module) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in network.state_dict().values()]


def test_the_given_weights_do_not_reach_the_decoder(made, anew, given):
    """To the last bit, its start network is the one of a search without weights; the file is another."""
    start, other = (c.evidence.networks["network-start"] for c in (made[0], anew))
    assert bits_of(start) == bits_of(other)
    assert bits_of(start) != bits_of(given)
    codes = [c.evidence.arrays["code"]["bytes"].numpy().tobytes() for c in (made[0], anew)]
    assert codes[0] != codes[1]
    assert made[0].ledger == anew.ledger
    assert made[0].risk_bound < 0.7


def test_the_same_certificate_from_a_file(given, digits, tmp_path):
    some = digits.take(np.arange(200))
    save_file(given.state_dict(), tmp_path / "w.safetensors")
    one, two = (
        truerisk.certify(MODEL, some, method=METHOD, weights=weights, epochs=1)
        for weights in (given.state_dict(), tmp_path / "w.safetensors")
    )
    assert one.record == two.record


def test_a_module_alone_is_drawn_anew(given, digits):
    """Without ``weights`` a module is an architecture, as for all methods that can do without."""
    some = digits.take(np.arange(200))
    cert = truerisk.certify(given, some, method=METHOD, epochs=1)
    zero = {name: torch.zeros_like(value) for name, value in given.state_dict().items()}
    given_zero = truerisk.certify(given, some, method=METHOD, epochs=1, weights=zero)
    assert not cert.record["settings"]["given"]
    assert any("its weights were not used" in line for line in cert.assumptions)
    assert given_zero.record["settings"]["given"]
    assert not any("were not used" in line for line in given_zero.assumptions)
    assert cert.evidence.arrays["code"]["bytes"].tolist() != given_zero.evidence.arrays["code"]["bytes"].tolist()


def test_it_says_that_another_network_is_certified(made, anew, given, digits):
    cert = made[0]
    assert "the compressed network errs on at most" in cert.sentence
    assert cert.sentence.endswith("It replaces the network that you gave.")
    [line] = [line for line in cert.assumptions if "given weights" in line]
    assert "the compressed network is certified, and it predicts" in line
    assert "compressed" not in anew.sentence
    assert not any("given weights" in line for line in anew.assumptions)
    code = cert.evidence.arrays["code"]["bytes"].numpy().tobytes()
    network = decode(code, cert.evidence.networks["network-start"])
    errors = count_errors(network, digits.X, digits.y)[0]
    assert (cert.predictor(digits.X) != digits.y).sum() <= errors == round(cert.empirical_risk * len(digits))
    assert errors > count_errors(given, digits.X, digits.y)[0]


def test_verify(made):
    cert, folder = made
    result = truerisk.verify(folder)
    assert result.claimed == cert.risk_bound
    assert not result.noticed
    assert truerisk.verify(folder, retrain=True).claimed == cert.risk_bound


def flip(tensors):
    tensors["bytes"][len(tensors["bytes"]) // 2] ^= 16


def cut(tensors):
    tensors["bytes"] = tensors["bytes"][:-1].clone()


@pytest.mark.parametrize("change", [flip, cut])
def test_another_file_is_caught(made, tmp_path, edit, change):
    with pytest.raises(VerificationError):
        truerisk.verify(edit(made[1], tmp_path, tensors=("code.safetensors", change)))


def test_the_given_weights_in_the_decoder_are_caught(made, given, tmp_path, edit):
    def learn(tensors):
        tensors.update({name: value.clone() for name, value in given.state_dict().items()})

    with pytest.raises(VerificationError, match=r"network-start\.safetensors could not be reproduced"):
        truerisk.verify(edit(made[1], tmp_path, tensors=("network-start.safetensors", learn)))


def not_given(record):
    record["settings"]["given"] = False


def other_subject(record):
    record["sentence"] = record["sentence"].replace("the compressed network", "this network")


def other_method(record):
    record["settings"]["method"] = record["method"] = "hold-out"


@pytest.mark.parametrize("change", [not_given, other_subject, other_method])
def test_other_words_are_caught(made, tmp_path, edit, change):
    with pytest.raises(VerificationError):
        truerisk.verify(edit(made[1], tmp_path, record=change))


@pytest.fixture(scope="module")
def noise(digits):
    """300 digits with labels that mean nothing: the true risk of any predictor is 0.9."""
    return random_labels(digits.take(np.arange(300)), seed=1)


@pytest.fixture(scope="module")
def memorizer(noise):
    net = trained(noise, 256, 400, lr=1e-2)
    assert count_errors(net, noise.X, noise.y)[0] <= 3
    return net


def test_memorized_noise_certifies_nothing(noise, memorizer):
    for epochs in (1, 30):
        cert = truerisk.certify("mlp:256", noise, method=METHOD, weights=memorizer.state_dict(), epochs=epochs)
        assert cert.risk_bound >= 0.9


def test_the_test_above_would_see_it(noise, memorizer):
    """With the memorizer in the decoder, a file that says "all as it was" certifies noise; its true risk is 0.9."""
    same = {name: Rounded(0, True, np.zeros(p.shape, np.int64)) for name, p in memorizer.named_parameters()}
    code = encode_numbers(same)
    errors = count_errors(decode(code, memorizer), noise.X, noise.y)[0]
    assert description_length(errors, len(noise), 8 * len(code), 0.05 / 64) < 0.2


def test_the_search_begins_at_the_given_weights(given, digits):
    """Before any training the file holds the given weights, rounded: few errors more than they make."""
    start = mlp(digits.input_shape, digits.classes, hidden=(16,)).eval()
    latent = Latent(start, given)
    for name, units, log_step in zip(latent.names, latent.units, latent.log_steps, strict=True):
        weights = units.detach() * log_step.detach().exp()
        torch.testing.assert_close(weights, dict(given.named_parameters())[name].detach(), rtol=1e-5, atol=1e-6)
    rounded = decode(encode_numbers(latent.numbers()), start)
    assert count_errors(rounded, digits.X, digits.y)[0] < 0.5 * len(digits)
    assert count_errors(start, digits.X, digits.y)[0] > 0.8 * len(digits)
    before = [p.detach().clone() for p in given.parameters()]
    plan = Plan(epochs=1, batch_size=50, lr=0.05)
    code = compress(start, digits.X[:100], digits.y[:100], plan, given=given)
    assert code != compress(start, digits.X[:100], digits.y[:100], plan)
    assert all(torch.equal(p, q) for p, q in zip(given.parameters(), before, strict=True))


def test_a_tensor_of_zeros_has_the_usual_step(digits):
    start = mlp(digits.input_shape, digits.classes, hidden=(4,)).eval()
    zero = mlp(digits.input_shape, digits.classes, hidden=(4,))
    for p in zero.parameters():
        nn.init.zeros_(p)
    latent, usual = Latent(start, zero), Latent(start)
    assert all(torch.equal(mine, other) for mine, other in zip(latent.log_steps, usual.log_steps, strict=True))
    assert not any(units.any() for units in latent.units)


def norm_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))


def folded_net() -> nn.Module:
    return truerisk.fold_batch_norm(norm_net())


def test_learnt_statistics_are_refused_and_folded_ones_are_not(digits, tmp_path):
    some = digits.take(np.arange(300))
    net = norm_net()
    net(torch.from_numpy(some.X))  # moves the running statistics
    with pytest.raises(TrueriskError, match=r"running_mean.*truerisk\.fold_batch_norm"):
        truerisk.certify(norm_net, some, weights=net.eval().state_dict(), method=METHOD, epochs=1)
    with pytest.raises(TrueriskError, match=r"running_mean.*truerisk\.fold_batch_norm"):
        compress(norm_net().eval(), some.X, some.y, Plan(epochs=1, batch_size=50, lr=0.05), given=net.eval())
    folded = truerisk.fold_batch_norm(net)
    for model in (folded, folded_net):  # the module itself, or a factory of such modules
        cert = truerisk.certify(model, some, weights=folded.state_dict(), method=METHOD, epochs=1)
        cert.save(tmp_path, force=True)
        assert truerisk.verify(tmp_path, data=some, model=model).claimed == cert.risk_bound


def test_it_is_among_all_methods_for_given_weights(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(monte_carlo, "TRIALS", 20_000)
    some = digits.take(np.arange(300))
    net = trained(some, 4, 100, lr=1e-2)
    cert = truerisk.certify("mlp:4", some, weights=net.state_dict(), method="all", epochs=2, tried=1)
    names = set(cert.table["method"])
    assert names == {METHOD, "pac-bayes-around", "single-draw-around"}
    cert.save(tmp_path)
    for folder in (tmp_path, *(tmp_path / "others").iterdir()):
        truerisk.verify(folder, data=some)
    kind = truerisk.certify("mlp:4", some, weights=net.state_dict(), predictor="deterministic", epochs=1, tried=1)
    assert kind.table["method"].tolist() == [METHOD]


def test_a_surrogate_of_this_kind_is_made_anew(digits):
    """Disagreement certifies the given network itself, and its sentence says nothing of a file."""
    some = digits.take(np.arange(300))
    net = trained(some, 4, 100, lr=1e-2)
    cert = truerisk.certify(
        net,
        some,
        weights=net.state_dict(),
        method="disagreement",
        prior="init",
        unlabelled=digits.X[300:500],
        options={"surrogate": METHOD},
        epochs=1,
    )
    assert "file" not in cert.sentence
    assert not any("given weights" in line for line in cert.assumptions)
    alone = truerisk.certify(net, some, method=METHOD, prior="init", epochs=1)
    assert cert.evidence.arrays["code"]["bytes"].equal(alone.evidence.arrays["code"]["bytes"])
