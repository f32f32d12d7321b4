"""Certificates with both ends: what the lower end counts, what verify makes of edits, and the gap that follows."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from certificates.forging import saved, sealed, settings_of
from certificates.networks import trained
from torch import nn

import truerisk
from truerisk import TrueriskError, VerificationError
from truerisk.bounds import clopper_pearson, clopper_pearson_lower
from truerisk.certificates.diagnosis import CANNOT_TELL, GOOD_FIT, OVERFITS, UNDERFITS, word
from truerisk.certificates.methods import METHODS
from truerisk.certificates.story import tell
from truerisk.data import Data, load, random_labels
from truerisk.plan import Plan
from truerisk.report.certificate import render
from truerisk.training import fit

DRAWS = 2_000
ONE_END = {"pick-to-learn", "recursive"}
GIVEN = {"pac-bayes-around", "single-draw-around", "disagreement"}


@pytest.fixture(scope="module")
def shades() -> Data:
    """300 digits in other shades: rows of no known set."""
    digits = load("digits")
    return Data("shades", np.sqrt(digits.X[:300]), digits.y[:300], digits.classes)


@pytest.fixture(scope="module")
def target(shades) -> nn.Module:
    return trained(shades, hidden=8, steps=100, lr=0.02).eval()


@pytest.fixture(scope="module")
def made(shades, target) -> dict[str, truerisk.Certificate]:
    """One certificate of every method that has both ends."""
    unlabelled = np.sqrt(load("digits").X[400:500])
    found = {}
    for name in METHODS.keys() - ONE_END:
        given = {"build": target, "unlabelled": unlabelled} if name in GIVEN else {"build": "mlp:8"}
        if name in GIVEN - {"disagreement"}:
            given.pop("unlabelled")
        found[name] = truerisk.certify(data=shades, method=name, two_sided=True, epochs=2, **given)
    return found


def test_every_method_has_both_ends_or_says_why_not(made, shades):
    assert made.keys() | ONE_END == METHODS.keys()
    for cert in made.values():
        assert 0 <= cert.risk_lower <= cert.empirical_risk <= cert.risk_bound
        assert sum(entry["delta"] for entry in cert.ledger) <= cert.delta * (1 + 1e-12)
    for name in ONE_END:
        with pytest.raises(TrueriskError, match=f"{name} has no lower end, because .*--two-sided"):
            truerisk.certify("mlp:8", shades, method=name, two_sided=True)


def test_all_means_all_that_have_both_ends(shades):
    cert = truerisk.certify("mlp:8", shades, method="all", predictor="deterministic", two_sided=True, epochs=1)
    assert {each.record["method"] for each in (cert, *cert.others)} == {"hold-out", "description-length"}
    assert cert.risk_lower is not None


def test_verify_derives_both_ends(made, tmp_path, shades, target):
    for name, cert in made.items():
        result = truerisk.verify(saved(cert, tmp_path / name), data=shades, model=target if name in GIVEN else None)
        assert result.risk_lower == pytest.approx(cert.risk_lower, abs=0.05)
        if not any("draw" in count for count in cert.record["counts"]):
            assert result.risk_lower == cert.risk_lower


EDITS = {
    "risk_lower up": lambda c: c.update(risk_lower=c["risk_lower"] + 1e-4),
    "risk_lower down": lambda c: c.update(risk_lower=c["risk_lower"] - 1e-4),
    "risk_lower gone": lambda c: c.update(risk_lower=None),
    "risk_lower is the observed error": lambda c: c.update(risk_lower=c["empirical_risk"]),
    "empirical": lambda c: c.update(empirical_risk_lower=c["empirical_risk_lower"] + 1e-3),
    "both ends gone": lambda c: c.update(risk_lower=None, empirical_risk_lower=None),
    "one-sided settings": lambda c: c["settings"].update(two_sided=False),
    "sure errors": lambda c: c["counts"].update({k: v + 1 for k, v in c["counts"].items() if k.endswith("ties")}),
    "sure errors gone": lambda c: [c["counts"].pop(k) for k in list(c["counts"]) if k.endswith("ties")],
    "ledger": lambda c: c["ledger"][1].update(delta=2 * c["ledger"][1]["delta"]),
    "ledger without the lower event": lambda c: c["ledger"].pop(1),
    "gap": lambda c: c["fit"].update(gap_lower=c["fit"]["gap_lower"] + 0.01),
    "gap above": lambda c: c["fit"].update(gap_upper=c["fit"]["gap_upper"] - 0.01),
    "training error": lambda c: c["fit"].update(training_error=0.5),
    "training count": lambda c: c["counts"].update(training=c["counts"]["training"] + 1),
    "diagnosis": lambda c: c["fit"].update(diagnosis="overfits" if c["fit"]["diagnosis"] != "overfits" else "good fit"),
    "no fit": lambda c: c.update(fit=None),
    "vouched rows": lambda c: c["settings"].update(own_rows=10),
}


@pytest.mark.parametrize("what", EDITS)
def test_every_edit_of_the_lower_end_is_caught(made, tmp_path, shades, what):
    folder = saved(made["hold-out"], tmp_path)
    assert truerisk.verify(folder, data=shades).risk_lower == made["hold-out"].risk_lower
    claims = json.loads((folder / "certificate.json").read_text())
    EDITS[what](claims)
    (folder / "certificate.json").write_text(json.dumps(claims))
    with pytest.raises(VerificationError):
        truerisk.verify(folder, data=shades)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - ONE_END))
def test_a_forged_lower_end_is_caught_whatever_the_method(made, tmp_path, shades, target, name):
    forged = replace_claims(made[name], tmp_path, risk_lower=made[name].risk_lower + 0.01)
    with pytest.raises(VerificationError):
        truerisk.verify(forged, data=shades, model=target if name in GIVEN else None)


def replace_claims(cert: truerisk.Certificate, folder: Path, **claims: object) -> Path:
    saved(cert, folder)
    (folder / "certificate.json").write_text(json.dumps({**cert.to_json(), **claims}))
    return folder


# ---- ties ----------------------------------------------------------------------------------------------------------


class Constant(nn.Module):
    """Every answer is a tie: an upper end must call each an error, a lower end must not."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * torch.ones(len(x), 10) + 0 * x.flatten(1).sum(1, keepdim=True)


def test_ties_are_errors_above_and_right_answers_below(shades):
    cert = truerisk.certify(Constant(1.0), fresh=shades, two_sided=True)
    assert (cert.risk_lower, cert.risk_bound) == (0.0, 1.0)
    assert (cert.predictor(shades.X) == 0).all()  # and it is right on every zero


def test_near_ties_do_not_raise_the_lower_end(shades):
    class Nearly(Constant):
        def forward(self, x):
            return super().forward(x) + 1e-7 * torch.eye(10)[9]

    cert = truerisk.certify(Nearly(1.0), fresh=shades, two_sided=True)
    assert cert.risk_lower == 0.0


# ---- the gap -------------------------------------------------------------------------------------------------------


def test_memorized_labels_leave_a_certified_gap(shades):
    cert = truerisk.certify("mlp:200", random_labels(shades, seed=1), two_sided=True, epochs=150, lr=0.01)
    assert cert.fit.training_error == 0
    assert cert.risk_lower > 0.8
    assert cert.fit.gap_lower == cert.risk_lower
    assert cert.fit.diagnosis == OVERFITS
    told = tell(cert.record)
    assert "a certified gap of at least 8" in told.fit
    assert "overfits" in told.fit


def test_the_three_ways_to_name_the_training_examples(shades, tmp_path):
    """Row numbers of the data, another data set, or rows that the seed sets aside: one count."""
    first, rest = np.arange(150), np.arange(150, 300)
    net = trained(shades.take(first), hidden=16, steps=200, lr=0.02).eval()
    outside = truerisk.certify(net, fresh=shades.take(rest), trained_on=shades.take(first), two_sided=True)
    inside = truerisk.certify(net, fresh=shades, trained_on=first, two_sided=True)
    wrong = int((outside.predictor(shades.X[first]) != shades.y[first]).sum())
    assert outside.fit == inside.fit
    assert outside.fit.training_error == wrong / 150
    assert outside.record.settings.own_rows == 150
    result = truerisk.verify(saved(outside, tmp_path), data=shades.take(rest), model=net)
    assert any("150 training examples" in line for line in result.unchecked)
    unknown = truerisk.certify(net, fresh=shades.take(rest), two_sided=True)
    assert unknown.fit is None
    assert unknown.risk_lower == outside.risk_lower


def test_a_training_set_with_more_classes_than_answers_is_refused(shades):
    net = trained(shades, hidden=8, steps=1, lr=0.02).eval()
    other = Data("other", shades.X, shades.y + 5, 15)
    with pytest.raises(TrueriskError, match="15 classes, but the network answers 10"):
        truerisk.certify(net, fresh=shades, trained_on=(other.X + 1, other.y))


def test_the_gap_of_a_posterior_is_about_the_examples_that_certify(made):
    cert = made["pac-bayes-kl"]
    lower, found = cert.record.derivation.lower, cert.record.derivation
    assert cert.fit.gap_lower == lower.risk - found.empirical_risk_upper < 0  # kl bounds never prove a gap
    assert cert.fit.gap_upper == found.risk_bound - lower.empirical


@pytest.mark.parametrize(
    ("own", "least", "most", "expected"),
    [
        (0.0, 0.06, 0.2, OVERFITS),
        (0.3, 0.06, 0.2, OVERFITS),
        (0.051, 0.0, 0.01, UNDERFITS),
        (0.05, 0.05, 0.05, GOOD_FIT),
        (0.0, None, 0.05, GOOD_FIT),
        (0.0, None, 0.051, CANNOT_TELL),
        (0.0, 0.05, 0.051, CANNOT_TELL),
    ],
)
def test_diagnoses(own, least, most, expected):
    assert word(own, least, most) == expected


def test_one_sided_certificates_know_their_training_error_too(shades):
    cert = truerisk.certify("mlp:8", shades, method="hold-out", epochs=1)
    assert cert.risk_lower is None
    assert cert.fit.gap_lower is None
    assert cert.fit.diagnosis == UNDERFITS
    assert "truerisk search" in tell(cert.record).fit


def test_both_ends_are_those_of_clopper_and_pearson(made):
    cert = made["hold-out"]
    counts, n, delta = cert.record["counts"], cert.record["n_certify"], cert.delta / 2
    assert cert.risk_bound == clopper_pearson(counts["floor"], n, delta)
    assert cert.risk_lower == clopper_pearson_lower(counts["floor, without ties"], n, delta)


def test_a_forger_who_moves_the_shares_is_caught(shades, tmp_path):
    """Settings that call for one end, a record with two: the reader refuses what its settings do not have."""
    cert = truerisk.certify("mlp:8", shades, method="hold-out", epochs=1)
    settings = settings_of(cert)
    forged = sealed(replace(settings, two_sided=True), shades, cert.evidence)
    truerisk.verify(saved(forged, tmp_path / "honest"), data=shades)  # the same evidence with both ends is honest
    with pytest.raises(VerificationError):
        truerisk.verify(replace_claims(cert, tmp_path / "a", risk_lower=0.5, empirical_risk_lower=0.6), data=shades)


def test_terminal_and_page_say_what_both_ends_are(made, shades):
    told = tell(made["hold-out"].record)
    assert "not split over both ends" in told.floor.meaning
    assert "splitting delta over both ends" in told.verdict
    text = html.unescape(re.sub(r"<[^>]*>", "", render(made["hold-out"].record)))
    for words in (told.fit, told.lower.meaning, "at least"):
        assert words in text
    plain = tell(truerisk.certify("mlp:8", shades, epochs=2).record)
    assert plain.lower is None
    assert "the same number" in plain.floor.meaning


class OwnCNN(nn.Module):
    """As users write them: convolutions, a pool, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 8, 3)
        self.pool, self.head = (
            nn.MaxPool2d(2),
            nn.Sequential(nn.Flatten(), nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 10)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(torch.relu(self.second(self.pool(torch.relu(self.first(x)))))))


def test_a_rescaled_twin_of_an_own_network_keeps_its_certificate(shades):
    """Both ends, training error, gap and diagnosis are about the function, not about the weights."""
    train, rest = shades.take(np.arange(150)), shades.take(np.arange(150, 300))
    torch.manual_seed(0)
    network = OwnCNN()
    fit(network, train, Plan(epochs=20, batch_size=32, lr=0.01))
    network.eval()
    symmetry = truerisk.find_symmetry(network, torch.from_numpy(shades.X[:1]))
    twin = symmetry.rescale(network, symmetry.random(std=2.0, seed=3))
    assert not torch.allclose(twin.first.weight, network.first.weight, rtol=0.5)
    one, two = (truerisk.certify(each, fresh=rest, trained_on=train, two_sided=True) for each in (network, twin))
    assert (one.risk_lower, one.risk_bound, one.fit) == (two.risk_lower, two.risk_bound, two.fit)
    assert 0 < one.risk_lower < one.risk_bound < 1
