"""A trained network, unchanged, certified by its agreement with a certified one on unlabelled inputs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from certificates.own import own
from safetensors.torch import load_file, save_file
from scipy.stats import beta

import truerisk
from truerisk.certificates.files import sha256
from truerisk.certificates.workshop import compare
from truerisk.data import Data, load, random_labels
from truerisk.nets import mlp
from truerisk.pacbayes import monte_carlo
from truerisk.training import Plan, fit

QUICK = {"epochs": 20, "tried": 1, "method": "disagreement"}


@pytest.fixture(scope="module")
def parts():
    """(labelled digits, others whose labels only the tests know)."""
    digits = own(load("digits"))
    return digits.take(np.arange(800)), digits.take(np.arange(800, 1797))


@pytest.fixture(scope="module")
def target(parts):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        net = mlp((1, 8, 8), 10, hidden=(32,))
    fit(net, parts[0], Plan(epochs=20, batch_size=32, seed=5))
    return net


@pytest.fixture(scope="module")
def made(parts, target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("disagreement")
    cert = truerisk.certify(target, parts[0], unlabelled=parts[1].X, **QUICK)
    cert.save(folder)
    return cert, folder


def test_the_bound_is_the_sum_of_two(made, parts, target):
    """Twin: half of delta for the surrogate's test, half for the disagreement, each by the beta distribution."""
    cert, _ = made
    surrogate = cert.evidence.network
    rows = cert.evidence.parts.certify
    labelled, fresh = parts[0].take(rows), torch.from_numpy(parts[1].X)
    with torch.no_grad():
        wrong = int((surrogate(torch.from_numpy(labelled.X)).argmax(1).numpy() != labelled.y).sum())
        differ = int((surrogate(fresh).argmax(1) != target(fresh).argmax(1)).sum())
    assert 0 < differ < 200
    m = len(fresh)
    expected = beta.isf(0.025, wrong + 1, len(rows) - wrong) + beta.isf(0.025, differ + 1, m - differ)
    assert cert.risk_bound == pytest.approx(expected, abs=1e-9)
    assert cert.record["counts"]["disagreements"] == differ
    assert sum(entry["value"] for entry in cert.record["breakdown"]) == pytest.approx(cert.risk_bound, abs=1e-12)
    assert sum(entry["delta"] for entry in cert.ledger) <= 0.05


def test_it_is_about_the_network_that_was_given(made, parts, target):
    cert, _ = made
    assert cert.record["predictor"] == "deterministic"
    answers = cert.predictor(parts[1].X)
    assert (answers == target(torch.from_numpy(parts[1].X)).argmax(1).numpy()).all()
    assert cert.risk_bound > (answers != parts[1].y).mean(), "its error on labels that nobody used"
    assert any("You vouch that neither the network nor its surrogate was trained" in line for line in cert.assumptions)


def test_labels_of_unlabelled_inputs_are_not_looked_at(parts, target):
    records = []
    for y in (parts[1].y, np.roll(parts[1].y, 1)):
        named = Data("others", parts[1].X, y, 10)
        records.append(truerisk.certify(target, parts[0], unlabelled=named, **QUICK | {"epochs": 1}).record)
    assert records[0] == records[1]


def test_random_labels_certify_nothing():
    """Rows of noise in training and in the unlabelled inputs: the true risk of anything is 0.9."""
    rng = np.random.default_rng(0)
    data = random_labels(Data("noise", rng.normal(size=(400, 1, 8, 8)), rng.integers(0, 10, 400), 10), seed=1)
    net = mlp((1, 8, 8), 10, hidden=(256,))
    fit(net, data, Plan(epochs=40, batch_size=50, lr=3e-3, seed=0))
    assert (net(torch.from_numpy(data.X)).argmax(1).numpy() == data.y).mean() > 0.99
    fresh = rng.normal(size=(500, 1, 8, 8)).astype(np.float32)
    for surrogate in ("hold-out", "pac-bayes-kl"):
        cert = truerisk.certify(
            net, data, unlabelled=fresh, method="disagreement", options={"surrogate": surrogate}, epochs=5
        )
        assert cert.risk_bound >= 0.9


@pytest.mark.parametrize(
    ("surrogate", "prior", "more"),
    [("pac-bayes-kl", "split:0.5", {}), ("progressive", None, {"blocks": 2}), ("single-draw", "init", {})],
)
def test_any_method_certifies_the_surrogate(parts, target, tmp_path, surrogate, prior, more):
    cert = truerisk.certify(
        target,
        parts[0],
        prior,
        unlabelled=parts[1],
        options={"surrogate": surrogate, **more},
        **QUICK | {"epochs": 3},
    )
    found = cert.record["disagreement"]
    assert cert.risk_bound == pytest.approx(min(1, found["surrogate_bound"] + found["upper"]), abs=1e-12)
    cert.save(tmp_path)
    result = truerisk.verify(tmp_path, data=parts[0], model=target)
    assert result.claimed == cert.risk_bound
    assert not result.noticed


def test_a_stochastic_surrogate_has_new_weights_for_each_input(parts, target, monkeypatch):
    """Where few networks may be drawn, inputs would share one, and would not be independent trials any more."""
    cert = truerisk.certify(
        target, parts[0], unlabelled=parts[1].X[:50], options={"surrogate": "pac-bayes-kl"}, **QUICK | {"epochs": 1}
    )
    sizes, plan_draws = [], monte_carlo.plan_draws

    def spy(gaussian, X):
        plan = plan_draws(gaussian, X)
        sizes.append(plan.size)
        return plan

    few = 3 * cert.evidence.posterior.size
    monkeypatch.setattr(monte_carlo, "NORMALS", few)
    monkeypatch.setattr(compare, "NORMALS", few)
    monkeypatch.setattr(monte_carlo, "_numbers_per_example", lambda *_: None)  # as for a network with tied layers
    monkeypatch.setattr(monte_carlo, "plan_draws", spy)
    method = cert.record.settings.method
    inner, own = method.surrogate, method.inner(cert.record.settings)
    answers = compare.answers(inner, own, cert.frozen, parts[1].X[:50], 0)
    assert len(answers) == 50
    assert set(sizes) == {1}
    inner.predict(own, cert.frozen, parts[1].X[:50], 0)
    assert sizes[-1] > 1, "all at once they would share"


def test_inputs_that_were_seen_are_refused(parts, target):
    mixed = np.concatenate([parts[1].X[:20], parts[0].X[7:8]])
    with pytest.raises(truerisk.TrueriskError, match=r"1 of 21 unlabeled inputs \(the first: row 20\)"):
        truerisk.certify(target, parts[0], unlabelled=mixed, **QUICK)


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ("at least 10", {"unlabelled": np.zeros((9, 1, 8, 8), dtype=np.float32)}),
        ("shape", {"unlabelled": np.zeros((20, 64), dtype=np.float32)}),
        ("NaN", {"unlabelled": np.full((20, 1, 8, 8), np.nan, dtype=np.float32)}),
        ("surrogate is 'disagreement'", {"options": {"surrogate": "disagreement"}}),
        ("surrogate is 'pac-bayes-around'", {"options": {"surrogate": "pac-bayes-around"}}),
        ("no option blocks", {"options": {"blocks": 3}}),
        ("needs examples", {"prior": "init"}),
        ("either --fresh or --unlabeled", {"fresh": "digits", "data": None}),
    ],
)
def test_what_can_not_work_is_refused(parts, target, told, arguments):
    wish = {"data": parts[0], "unlabelled": parts[1].X, **arguments}
    data = wish.pop("data")
    with pytest.raises(truerisk.TrueriskError, match=told):
        truerisk.certify(target, data, method="disagreement", **wish)


def test_untouched_it_holds(made, parts, target):
    cert, folder = made
    result = truerisk.verify(folder, data=parts[0], model=target)
    assert result.claimed == cert.risk_bound
    assert any("unlabeled inputs, and that nobody selected them" in line for line in result.unchecked)
    assert truerisk.verify(folder, data=parts[0], model=target, retrain=True).claimed == cert.risk_bound


def fewer_disagreements(record):
    record["counts"]["disagreements"] -= 1


def all_of_delta(record):
    """Each of the two events takes all of it."""
    for entry in record["ledger"]:
        entry["delta"] = 0.05


def lower_bound(record):
    record["risk_bound"] *= 0.99


def better_surrogate(record):
    record["disagreement"]["surrogate_bound"] *= 0.9


def fewer_inputs(record):
    record["disagreement"]["unlabelled"] += 1


def no_promise(record):
    record["assumptions"].pop()


def other_surrogate(record):
    record["settings"]["options"]["surrogate"] = "pac-bayes-kl"


@pytest.mark.parametrize(
    "change",
    [fewer_disagreements, all_of_delta, lower_bound, better_surrogate, fewer_inputs, no_promise, other_surrogate],
)
def test_edits_of_numbers_are_seen(made, parts, target, tmp_path, change):
    folder = tmp_path / "copy"
    shutil.copytree(made[1], folder)
    path = folder / "certificate.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(truerisk.VerificationError):
        truerisk.verify(folder, data=parts[0], model=target)


def agreeable_target(folder, parts):
    shutil.copy(folder / "network.safetensors", folder / "network-target.safetensors")


def seen_inputs(folder, parts):
    save_file({"X": torch.from_numpy(parts[0].X[:100])}, folder / "unlabelled.safetensors")


def fewer(folder, parts):
    X = load_file(folder / "unlabelled.safetensors")["X"]
    save_file({"X": X[:500].clone()}, folder / "unlabelled.safetensors")


@pytest.mark.parametrize("change", [agreeable_target, seen_inputs, fewer])
def test_edits_of_files_are_seen(made, parts, target, tmp_path, change):
    folder = tmp_path / "copy"
    shutil.copytree(made[1], folder)
    change(folder, parts)
    with pytest.raises(truerisk.VerificationError, match="sha256"):
        truerisk.verify(folder, data=parts[0], model=target)
    path = folder / "certificate.json"
    record = json.loads(path.read_text())
    record["files"] = {name: sha256((folder / name).read_bytes()) for name in record["files"]}
    path.write_text(json.dumps(record))
    with pytest.raises(truerisk.VerificationError):
        truerisk.verify(folder, data=parts[0], model=target)
