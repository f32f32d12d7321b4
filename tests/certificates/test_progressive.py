"""Progressive validation: who saw what, what is counted, what verify finds."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from certificates.forging import sealed, settings_of

import truerisk
from truerisk.bounds import clopper_pearson, progressive, progressive_t
from truerisk.certificates.methods.progressive import Progressive
from truerisk.data import load, random_labels
from truerisk.errors import NotRepeatedError, TrueriskError, VerificationError

OPTIONS = {"blocks": 3, "expect": 0.1}


@pytest.fixture(scope="module", params=[0.1, 0.0], ids=["expected", "probed"])
def cert(request):
    options = {"blocks": 3, "expect": request.param}
    return truerisk.certify("mlp:16", "digits", method="progressive", prior="split:0.5", epochs=2, options=options)


def test_each_model_is_counted_on_its_own_block_alone(cert):
    """Twin: every model's errors on every block, by a plain loop."""
    data, parts = load("digits"), cert.evidence.parts
    blocks = np.array_split(parts.certify, 3)
    names = ["network", "network-02", "network-03"]
    for j, (name, rows) in enumerate(zip(names, blocks, strict=True), start=1):
        with torch.no_grad():
            out = cert.evidence.networks[name](torch.from_numpy(data.X[rows])).argmax(1).numpy()
        assert cert.record["counts"][f"block {j}"] == int((out != data.y[rows]).sum())
    errors = sum(cert.record["counts"][f"block {j}"] for j in (1, 2, 3))
    (entry,) = [e for e in cert.ledger if "progressive" in e["event"]]
    t = progressive_t(cert.record["progressive"]["expected_risk"], len(parts.certify), entry["delta"])
    assert cert.risk_bound == progressive(errors, len(parts.certify), entry["delta"], t)
    assert cert.floor == clopper_pearson(
        cert.record["counts"]["floor"], len(parts.certify), cert.record["floor_detail"]["delta"]
    )


def test_models_see_only_the_rows_before_their_block():
    seen = []

    def fit(module, dataset):
        seen.append(dataset.tensors[0].flatten(1).numpy().copy())

    cert = truerisk.certify("mlp:16", "digits", method="progressive", prior="split:0.5", fit=fit, options=OPTIONS)
    data, parts = load("digits"), cert.evidence.parts
    before = parts.prior
    for rows, block in zip(seen, np.array_split(parts.certify, 3), strict=True):
        expected = data.X[before].reshape(len(before), -1)
        assert rows.shape == expected.shape
        assert (rows == expected).all()
        before = np.concatenate([before, block])


def test_verify_and_retrain(cert, tmp_path):
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path).claimed == cert.risk_bound
    result = truerisk.verify(tmp_path, retrain=True)
    assert not any("--retrain" in line for line in result.unchecked)


@pytest.mark.parametrize("edit", ["block", "probe-free bound", "t", "fewer blocks"])
def test_edits_are_caught(cert, tmp_path, edit):
    cert.save(tmp_path)
    record = json.loads((tmp_path / "certificate.json").read_text())
    if edit == "block":
        record["counts"]["block 2"] -= 1
    elif edit == "t":
        record["progressive"]["t"] *= 1.01
    elif edit == "fewer blocks":
        record["settings"]["options"]["blocks"] = 2
    else:
        record["risk_bound"] = cert.floor
    (tmp_path / "certificate.json").write_text(json.dumps(record))
    with pytest.raises(VerificationError):
        truerisk.verify(tmp_path)


def test_a_model_that_saw_its_block_is_found_by_retraining(cert, tmp_path):
    net = copy.deepcopy(cert.evidence.networks["network-02"])
    with torch.no_grad():
        next(net.parameters()).add_(1e-3)
    forged = sealed(settings_of(cert), load("digits"), cert.evidence.having({"network-02": net}))
    forged.save(tmp_path)
    assert any("before its block" in line for line in truerisk.verify(tmp_path).unchecked)
    with pytest.raises(NotRepeatedError, match=r"network-02\.safetensors"):
        truerisk.verify(tmp_path, retrain=True)


def test_the_predictor_draws_models_by_the_size_of_their_blocks(cert):
    X = load("digits").X
    out = cert.predictor(X, seed=1)
    assert (out == cert.predictor(X, seed=1)).all()
    assert (out != cert.predictor(X, seed=2)).any()
    answers = np.stack([truerisk.nets.predict_labels(n, X) for n in cert.evidence.networks.values()])
    assert (answers == out).any(0).all()


def test_random_labels_certify_nothing():
    noise = random_labels(load("digits").take(np.arange(400)), seed=1)
    cert = truerisk.certify("mlp:32", noise, method="progressive", prior="split:0.5", epochs=20)
    assert cert.risk_bound >= 0.9


@pytest.mark.parametrize(("options", "what"), [({"blocks": 0}, "blocks"), ({"expect": 1.0}, "expect"), ({"k": 1}, "k")])
def test_bad_options_are_refused_before_training(options, what):
    with pytest.raises(TrueriskError, match=what):
        truerisk.certify("mlp:16", "digits", method="progressive", options=options)


def test_blocks_that_are_too_small_are_refused():
    data = load("digits").take(np.arange(60))
    with pytest.raises(TrueriskError, match="fill at most"):
        truerisk.certify("mlp:16", data, method="progressive", prior="split:0.5", options=OPTIONS | {"blocks": 9})


def test_the_probe_lies_in_the_prefix():
    parts = truerisk.data.split(1000, 0.5, 0)
    blocks, first = Progressive(blocks=5).cut(parts)
    assert len(first) == 400
    assert set(first) < set(parts.prior)
    assert sum(map(len, blocks)) == 500
