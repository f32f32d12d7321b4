"""What readers with fresh eyes broke, or tried and could not break."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates.forging import saved, sealed, settings_of
from certificates.networks import trained
from torch import nn

import truerisk
from truerisk import Certificate, TrueriskError, VerificationError
from truerisk.certificates.checking.reading import read_record
from truerisk.certificates.draws import read_ids
from truerisk.certificates.methods.disagreement import Disagreement
from truerisk.certificates.methods.recursive import Recursive
from truerisk.certificates.record import Record
from truerisk.certificates.sentences import headline
from truerisk.certificates.story import Story, tell
from truerisk.data import Data, load, random_labels
from truerisk.report.certificate import render

DRAWS = 2_000
MODEL = "mlp:8"
BIG = 10**400
MANY = "9" * 5000  # more digits than Python turns into an integer


@pytest.fixture(scope="module")
def shades() -> Data:
    """300 digits in other shades: rows of no known set."""
    digits = load("digits")
    return Data("shades", np.sqrt(digits.X[:300]), digits.y[:300], digits.classes)


@pytest.fixture(scope="module")
def unlabelled() -> np.ndarray:
    return np.sqrt(load("digits").X[400:500])


@pytest.fixture(scope="module")
def target(shades) -> nn.Module:
    return trained(shades, hidden=8, steps=100, lr=0.02).eval()


def edited(cert: Certificate, folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A saved certificate with an edited ``certificate.json``."""
    saved(cert, folder)
    claims = json.loads((folder / "certificate.json").read_text())
    change(claims)
    (folder / "certificate.json").write_text(json.dumps(claims))
    return folder


# ---- another predictor than the certified one ----------------------------------------------------------------------


def test_bytes_mean_the_same_when_certified_and_when_predicted(tmp_path):
    """A threshold at half of the range. Certified: below 5 %. The predictor's answers to such arrays: half wrong."""
    rng = np.random.default_rng(0)
    X, new = (rng.integers(0, 256, (n, 4), dtype=np.uint8) for n in (600, 5000))
    cert = truerisk.certify(MODEL, (X, (X[:, 0] > 128).astype(int)), method="hold-out", epochs=60, lr=0.02)
    assert cert.risk_bound < 0.05
    answers = Certificate.load(saved(cert, tmp_path)).predictor(new)
    assert (answers != (new[:, 0] > 128)).mean() < 0.05


# ---- a fraction that sets no row aside -----------------------------------------------------------------------------


def test_a_floor_that_nothing_vouches_for(tmp_path):
    """Random labels, a fraction that rounds to no row, the memorizer as the floor's network: 10 % in place of 90 %."""
    noise = random_labels(load("digits").take(np.arange(300)), seed=5)
    with pytest.raises(TrueriskError, match="sets none of 300 examples aside"):
        truerisk.certify("mlp:64", noise, method="pac-bayes-kl", prior="split:0.0001", prior_std=1.0, epochs=1)
    honest = truerisk.certify("mlp:64", noise, method="pac-bayes-kl", prior="split:0.01", prior_std=1.0, epochs=1)
    memorizer = trained(noise, hidden=64, steps=400, lr=0.02).eval()
    forged = sealed(settings_of(honest), noise, honest.evidence.having({"network": memorizer}))
    assert honest.floor > 0.85
    assert forged.floor < 0.2
    try:
        told = truerisk.verify(saved(forged, tmp_path), data=noise)
    except VerificationError:
        return
    assert not any("seed and the architecture decide was reproduced" in line for line in told.checked)
    assert any("network of the hold-out baseline" in line for line in told.unchecked)


@pytest.mark.parametrize("method", ["pac-bayes-kl", "recursive", "progressive", "hold-out", "pick-to-learn"])
def test_a_fraction_that_sets_no_row_aside_is_refused(shades, method):
    options = {"progressive": {"expect": 0.5}, "pick-to-learn": {"rounds": 2}}.get(method, {})
    with pytest.raises(TrueriskError):
        truerisk.certify(MODEL, shades, method=method, prior="split:0.0001", epochs=1, options=options)


# ---- certificates of the version before ----------------------------------------------------------------------------


def test_a_disagreement_certificate_that_names_a_default(shades, unlabelled, target, tmp_path):
    """Options are stored as the user gave them, those of the surrogate as well."""
    options = {"surrogate": "progressive"}
    given = options | {"blocks": 5}
    cert = truerisk.certify(target, shades, method="disagreement", unlabelled=unlabelled, epochs=1, options=given)
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path, data=shades, model=target).claimed == cert.risk_bound
    named = Disagreement.of(options | {"blocks": 5})
    assert named.options() == options | {"blocks": 5}
    assert Disagreement.of(options).options() == options


# ---- hostile certificates ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(shades, unlabelled, target) -> dict[str, Certificate]:
    given = {"method": "disagreement", "unlabelled": unlabelled}
    asked: dict[str, dict[str, Any]] = {
        "disagreement": given,
        "description-length": {"method": "description-length"},
        "grid": {"prior": "init", "options": {"scales": "grid:1"}},
        "split": {"method": "pac-bayes-kl"},
    }
    return {n: truerisk.certify(target if n == given["method"] else MODEL, shades, epochs=1, **asked[n]) for n in asked}


HOSTILE = {
    "surrogate": ("disagreement", lambda r: r["settings"]["options"].update(surrogate=[])),
    "price": ("description-length", lambda r: r["settings"]["options"].update(price=BIG)),
    "warmup": ("grid", lambda r: r["settings"]["options"].update(warmup=BIG)),
    "scales": ("grid", lambda r: r["settings"]["options"].update(scales=f"grid:{MANY}")),
    "augment": ("split", lambda r: r["settings"]["plans"]["prior"].update(augment=f"shift:{MANY}")),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_options_end_in_one_sentence(made, tmp_path, case):
    name, change = HOSTILE[case]
    with pytest.raises(VerificationError):
        read_record(edited(made[name], tmp_path, change))


def test_lists_in_lists_end_in_one_sentence(made, tmp_path):
    """At some depth between what is fine and what JSON refuses, whatever the stack below."""
    script = (
        "import json, sys, truerisk\n"
        "from truerisk.certificates.checking.reading import read_record\n"
        "path = sys.argv[1] + '/certificate.json'\n"
        "text = open(path).read()\n"
        "for depth in range(900, 1000):\n"
        "    open(path, 'w').write(text.replace('\"@@\"', '[' * depth + ']' * depth))\n"
        "    try:\n"
        "        read_record(sys.argv[1])\n"
        "    except truerisk.VerificationError:\n"
        "        pass\n"
    )
    folder = edited(made["split"], tmp_path, lambda r: r.update(n_certify="@@"))
    done = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]


def test_half_a_character_in_a_name(made, shades, tmp_path):
    folder = edited(made["split"], tmp_path, lambda r: r["data"].update(name="\ud800"))
    with pytest.raises(VerificationError):
        truerisk.verify(folder, data=shades)


def test_a_certificate_without_its_training_plans(made, shades, tmp_path):
    """How it was trained is then unknown, and the page says no more than that it was."""
    folder = edited(made["split"], tmp_path, lambda r: r["settings"].update(plans={}))
    told = dict(tell(read_record(folder)).facts)["Prior"]
    assert "a network trained, only on the prior's examples" in told
    assert "epoch" not in told


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_file_in_another_encoding(made, tmp_path, encoding):
    saved(made["split"], tmp_path)
    path = tmp_path / "certificate.json"
    path.write_bytes(path.read_text().encode(encoding))
    with pytest.raises(VerificationError):
        read_record(tmp_path)


def test_a_name_that_writes_on_the_terminal(made, tmp_path):
    name = "x\x1b[2K\x1b[GConfirmed: with 95% confidence, the true risk is at most 0.001000"
    folder = edited(made["split"], tmp_path, lambda r: r["data"].update(name=name))
    command = [sys.executable, "-m", "truerisk", "verify", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert "\x1b" not in done.stderr


def test_data_of_the_user_that_call_themselves_known(shades, made, tmp_path):
    """Constants of these inputs may come from the certifying rows; only a known set needs no such promise."""
    cert = made["split"]
    promise = "No constant that prepares the inputs"
    assert any(line.startswith(promise) for line in cert.assumptions)
    forged = sealed(settings_of(cert), replace(shades, source="digits"), cert.evidence)
    assert not any(line.startswith(promise) for line in forged.assumptions)
    with pytest.raises(VerificationError):
        truerisk.verify(saved(forged, tmp_path), data=shades, seed=1)


def test_a_model_file_that_does_not_exist(made, shades, tmp_path):
    with pytest.raises(TrueriskError) as caught:
        truerisk.verify(saved(made["split"], tmp_path), data=shades, model="nowhere.py:build")
    assert not isinstance(caught.value, VerificationError)


# Tried, and refused as it should be: other spellings of what is stored, options that are not resolved, other types.
REFUSED: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "unresolved": ("grid", lambda r: r["settings"]["options"].update(scales="grid")),
    "more layers than there are": ("grid", lambda r: r["settings"]["options"].update(scales="grid:8")),
    "no layers": ("grid", lambda r: r["settings"]["options"].update(scales="grid:0")),
    "whole number": ("grid", lambda r: r["settings"]["options"].update(warmup=0)),
    "truth value": ("grid", lambda r: r["settings"]["options"].update(warmup=False)),
    "another bound in the floor": ("grid", lambda r: r["floor_detail"].update(bound=0.001)),
    "a floor of its own": ("grid", lambda r: (r["floor_detail"].update(bound=r["floor"]), r.update(floor=0.001))),
    "a prior for what came trained": ("split", lambda r: r["settings"].update(prior="none")),
    "given": ("split", lambda r: r["settings"].update(given=True)),
    "another fraction": ("split", lambda r: r["settings"].update(prior="split:0.4")),
    "steps of another method": ("split", lambda r: r.update(steps=[])),
    "KL without rescaling": ("split", lambda r: r.update(rescaling=None)),
    "no KL": ("split", lambda r: r.update(kl=None)),
    "method of the surrogate": ("disagreement", lambda r: r["settings"]["options"].update(surrogate="disagreement")),
    "rows that nobody vouches for": ("disagreement", lambda r: r["settings"].update(repeats=3)),
    "identities for rows that are not equal": (
        "disagreement",
        lambda r: r["settings"].update(repeats=3, row_ids="0" * 64),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_readings_are_refused(made, shades, target, tmp_path, case):
    name, change = REFUSED[case]
    with pytest.raises(VerificationError):
        truerisk.verify(
            edited(made[name], tmp_path, change), data=shades, model=target if name == "disagreement" else None
        )


@pytest.mark.parametrize("scales", ["grid:01", "grid:\u0661"])
def test_another_spelling_of_the_same_grid_costs_the_same(shades, made, scales):
    asked = truerisk.certify(MODEL, shades, prior="init", epochs=1, options={"scales": scales})
    assert asked.ledger == made["grid"].ledger


@pytest.mark.parametrize("gamma", [2e-16, 1 - 2**-53, 1 - 1e-12, 1e-12])
def test_a_chain_with_a_gamma_at_an_end_certifies_no_noise(gamma):
    noise = random_labels(load("digits").take(np.arange(300)), seed=5)
    assert truerisk.certify(MODEL, noise, method=Recursive(2, gamma), epochs=3).risk_bound > 0.85


# ---- odd arguments -------------------------------------------------------------------------------------------------

NUMBERS: dict[str, dict[str, Any]] = {
    "a whole width": {"prior": "init", "prior_std": 1},
    "a whole rate": {"method": "hold-out", "lr": 1},
    "delta of numpy": {"method": "hold-out", "delta": np.float64(0.05)},
    "tried of numpy": {"method": "hold-out", "tried": np.int64(2)},
    "option of numpy": {"method": "pac-bayes-kl", "options": {"warmup": np.float64(0.5)}},
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_numbers(shades, case):
    """They are taken, and stored as the plain numbers that JSON has."""
    asked = NUMBERS[case]
    stored = truerisk.certify(MODEL, shades, epochs=1, **asked).record["settings"]
    flat = stored | stored["options"] | {"lr": stored["plans"]["prior"]["lr"]}
    for name, value in (asked | asked.get("options", {})).items():
        if name in ("prior_std", "lr", "delta", "warmup"):
            assert (flat[name], type(flat[name])) == (value, float)
        if name == "tried":
            assert (flat[name], type(flat[name])) == (2, int)


ODD: dict[str, Callable[[Data, nn.Module], Any]] = {
    "delta": lambda data, _: truerisk.certify(MODEL, data, delta=BIG),
    "gamma": lambda data, _: Recursive(gamma=BIG),
    "scales": lambda data, _: truerisk.certify(MODEL, data, method="pac-bayes-kl", options={"scales": f"grid:{MANY}"}),
    "seed": lambda data, _: truerisk.certify(MODEL, data, method="hold-out", seed=10**5000),
    "options in a list": lambda data, _: truerisk.certify(MODEL, data, options=["blocks"]),
    "options with numbers": lambda data, _: truerisk.certify(MODEL, data, options={1: 2}),
    "surrogate": lambda data, _: truerisk.certify(MODEL, data, method="disagreement", options={"surrogate": []}),
    "surrogate by name": lambda data, net: truerisk.certify(net, data, method=Disagreement("hold-out")),
    "fit": lambda data, _: truerisk.certify(MODEL, data, fit="train"),
    "weights": lambda data, _: truerisk.certify(MODEL, data, weights=3),
    "folder": lambda data, _: truerisk.verify(3),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_arguments_end_in_one_sentence(shades, target, case):
    with pytest.raises(TrueriskError):
        ODD[case](shades, target)


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_odd_seeds_of_a_prediction(made, shades, seed):
    with pytest.raises(TrueriskError):
        made["split"].predictor(shades.X, seed=seed)


@pytest.mark.parametrize("scales", ["grid", "grid:2"])
def test_a_grid_for_the_last_layer_alone(shades, scales):
    """One group of layers is random, so one width is chosen; two are refused before anything is trained."""
    asked = {"prior": "zero", "epochs": 1, "options": {"random": "last", "scales": scales}}
    if scales == "grid:2":
        with pytest.raises(TrueriskError, match="the network has 1 group of layers"):
            truerisk.certify(MODEL, shades, **asked)
        return
    cert = truerisk.certify(MODEL, shades, **asked)
    assert cert.record["settings"]["options"]["scales"] == "grid:1"
    assert cert.evidence.arrays["scales"]["index"].shape == (1,)


IGNORED: dict[str, Any] = {
    "options": {"blocks": 3},
    "prior": "zero",
    "epochs": 7,
    "lr": 0.1,
    "objective": "kl",
    "prior_std": 2.0,
    "fit": lambda module, dataset: None,
}


@pytest.mark.parametrize("option", IGNORED)
def test_what_fresh_examples_have_no_use_for(shades, target, option):
    with pytest.raises(TrueriskError):
        truerisk.certify(target, fresh=shades, **{option: IGNORED[option]})


@pytest.mark.parametrize("text", ['"abc"', '{"a": 1, "b": 2, "c": 3}'])
def test_identities_that_are_no_list(tmp_path, text):
    (tmp_path / "ids.json").write_text(text)
    with pytest.raises(TrueriskError):
        read_ids(tmp_path / "ids.json", "ids")


# ---- false words ---------------------------------------------------------------------------------------------------


def told(cert: Certificate) -> Story:
    return tell(cert.record)


def everything(record: Record) -> str:
    """All that the page says, figures aside."""
    return render(record)


def test_the_width_of_a_prior_on_the_grid(made):
    assert made["grid"].evidence.arrays["scales"]["index"].any()
    assert not dict(told(made["grid"]).facts)["Prior"].endswith("width 4/√fan-in")


def test_only_the_last_layer_is_random(shades):
    cert = truerisk.certify(MODEL, shades, prior="zero", epochs=1, options={"random": "last"})
    assert "last layer" in everything(cert.record)


def test_the_kl_of_a_chain(shades):
    cert = truerisk.certify(MODEL, shades, method="recursive", prior="zero", epochs=2, options={"steps": 2})
    q, p = cert.evidence.posterior, cert.evidence.prior
    assert cert.kl != pytest.approx(q.kl(p), rel=0.1)
    facts = dict(told(cert).facts)
    assert facts["Prior"].startswith("zero: a Gaussian around zero")
    assert "KL(posterior, prior)" not in facts


@pytest.mark.parametrize("method", ["pac-bayes-kl", "progressive", "pick-to-learn"])
def test_advice_that_was_followed_already(shades, method):
    options = {"pick-to-learn": {"rounds": 1}, "progressive": {"blocks": 2}}.get(method, {})
    cert = truerisk.certify(MODEL, shades, method=method, prior="split:0.5", epochs=1, options=options)
    assert cert.record.warnings
    assert not any("--prior split:0.5 would help" in line for line in cert.record.warnings)


@pytest.fixture(scope="module")
def compared(shades, unlabelled, target) -> Certificate:
    """A given network beside a surrogate with a posterior."""
    options = {"surrogate": "pac-bayes-kl"}
    return truerisk.certify(target, shades, method="disagreement", unlabelled=unlabelled, epochs=1, options=options)


def test_a_surrogate_that_learnt_little(compared):
    assert compared.kl < 1
    assert not any("the floor is the simpler guarantee" in line for line in compared.record.warnings)


def test_the_forms_of_a_surrogates_bound(compared):
    table = next(t for t in told(compared).tables if "other forms" in t.title)
    named = [row[1].value for row in table.rows if "the certificate" in row[0]]
    assert all(value == compared.risk_bound for value in named)


def test_the_rescaling_of_a_surrogate(compared):
    tables = [t for t in told(compared).tables if "rescaling" in t.title.lower()]
    assert all("surrogate" in t.title.lower() for t in tables)
    assert not any("The posterior that is certified" in t.about for t in tables)


def test_who_trains_again_what_the_user_trained(shades):
    cert = truerisk.certify(MODEL, shades, method="hold-out", fit=lambda module, dataset: None)
    story = told(cert)
    assert not story.check.retrain
    assert not any("verify --retrain" in line for line in story.unchecked)


def test_the_headline_of_a_vacuous_certificate(made):
    record = made["split"].record
    said = headline(record.settings, replace(record.derivation, risk_bound=1.0))
    assert said.endswith("for this network with 95% confidence. Weights are resampled for each prediction.")
