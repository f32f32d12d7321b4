"""Description length: the file is the network, its length is the price, and verify reads it again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import truerisk
from truerisk.bounds import description_length
from truerisk.codes import decode
from truerisk.data import load, random_labels
from truerisk.errors import TrueriskError, VerificationError

METHOD = "description-length"


@pytest.fixture(scope="module")
def cert():
    return truerisk.certify("mlp:16", "digits", prior="init", method=METHOD, epochs=15)


@pytest.fixture(scope="module")
def folder(cert, tmp_path_factory):
    path = tmp_path_factory.mktemp("certificate")
    cert.save(path)
    return path


def test_the_bound_follows_from_the_file_alone(cert):
    """Twin: bytes of the file, errors of what it decodes to by a plain pass, the first event's share of delta."""
    code = cert.evidence.arrays["code"]["bytes"].numpy().tobytes()
    data = load("digits")
    with torch.no_grad():
        network = decode(code, cert.evidence.networks["network-start"])
        logits = network(torch.from_numpy(data.X)).numpy()
    rows = np.arange(len(data))
    right = logits[rows, data.y].copy()
    logits[rows, data.y] = -np.inf
    errors = int((right <= logits.max(axis=1)).sum())  # ties count as errors, and rounded weights do tie
    delta = next(e["delta"] for e in cert.ledger if e["event"].startswith("description length"))
    assert delta == pytest.approx(0.05 / cert.record["settings"]["tried"] / 64, rel=1e-9)
    assert cert.record["bits"] == 8 * len(code)
    assert cert.risk_bound == description_length(errors, len(data), 8 * len(code), delta)
    assert cert.risk_bound < 0.7, "digits can be learnt"
    assert (cert.predictor(data.X) != data.y).sum() <= errors


def test_round_trip(cert, folder):
    result = truerisk.verify(folder)
    assert result.claimed == cert.risk_bound
    assert any("seed and the architecture decide was reproduced" in line for line in result.checked)
    assert not any("--retrain" in line for line in truerisk.verify(folder, retrain=True).unchecked)


def cut(tensors):
    tensors["bytes"] = tensors["bytes"][:-1].clone()


def longer(tensors):
    tensors["bytes"] = torch.cat([tensors["bytes"], tensors["bytes"][:1]])


def flip(tensors):
    tensors["bytes"][len(tensors["bytes"]) // 2] ^= 16


def as_float(tensors):
    tensors["bytes"] = tensors["bytes"].float()


@pytest.mark.parametrize("change", [cut, longer, flip, as_float])
def test_another_file_is_caught(folder, tmp_path, edit, change):
    with pytest.raises(VerificationError):
        truerisk.verify(edit(folder, tmp_path, tensors=("code.safetensors", change)))


def test_learnt_weights_in_the_decoder_are_caught(folder, tmp_path, edit):
    """Whatever the decoder knows must come from the seed: otherwise an empty file could hold a whole network."""

    def learn(tensors):
        next(iter(tensors.values())).view(-1)[0].add_(0.5)

    with pytest.raises(VerificationError, match=r"network-start\.safetensors could not be reproduced"):
        truerisk.verify(edit(folder, tmp_path, tensors=("network-start.safetensors", learn)))


def fewer_bits(record):
    record["bits"] -= 80


def n_doubled(record):
    record["n_certify"] *= 2


def fewer_errors(record):
    record["counts"]["decoded network"] -= 1


@pytest.mark.parametrize("change", [fewer_bits, n_doubled, fewer_errors])
def test_other_numbers_are_caught(folder, tmp_path, edit, change):
    with pytest.raises(VerificationError):
        truerisk.verify(edit(folder, tmp_path, record=change))


def test_random_labels_certify_nothing():
    noise = random_labels(load("digits").take(np.arange(300)), seed=1)
    assert truerisk.certify("mlp:16", noise, prior="init", method=METHOD, epochs=20).risk_bound >= 0.9


def test_a_higher_price_gives_a_shorter_file_with_more_errors():
    """The price steers the search alone: the same file would be certified by the same number at any price."""
    cheap, dear = (
        truerisk.certify("mlp:16", "digits", prior="init", method=METHOD, epochs=15, options={"price": price})
        for price in (1.0, 20.0)
    )
    assert dear.record["bits"] < 0.8 * cheap.record["bits"]
    assert dear.empirical_risk > cheap.empirical_risk
    assert cheap.ledger == dear.ledger


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(price):
    with pytest.raises(TrueriskError, match="price"):
        truerisk.certify("mlp:16", "digits", method=METHOD, options={"price": price})


def test_an_option_that_is_left_out_of_the_file_is_refused(folder, tmp_path, edit):
    """The settings have one form: what is left out could stand for anything."""

    def without(record):
        del record["settings"]["options"]["price"]

    with pytest.raises(VerificationError, match="settings"):
        truerisk.verify(edit(folder, tmp_path, record=without))


def test_a_split_is_refused():
    with pytest.raises(TrueriskError, match="sets no data aside"):
        truerisk.certify("mlp:16", "digits", prior="split:0.5", method=METHOD)
