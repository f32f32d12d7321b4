"""A method that is not part of truerisk: one class and one entry. Everything else follows from its declaration."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest

import truerisk
from truerisk import cli
from truerisk.bounds import kl_inverse
from truerisk.certificates.counts import FLOOR, Counts
from truerisk.certificates.ledger import share
from truerisk.certificates.methods import METHODS
from truerisk.certificates.methods.base import DETERMINISTIC, Method, floor_counts
from truerisk.certificates.origins import TRAINED, File
from truerisk.certificates.record import Derivation, Part
from truerisk.certificates.schema import option
from truerisk.certificates.story import tell
from truerisk.certificates.tale import Line, Tale, nats
from truerisk.cli.declare import certify as declared
from truerisk.data import load
from truerisk.report.certificate import render

EVENT = "Chernoff: the certification examples are unrepresentative"


@dataclass(frozen=True)
class Exponent:
    """What only this method has."""

    exponent: float


@dataclass(frozen=True)
class Chernoff(Method):
    """kl(errors/n, risk) <= ln(1/delta)/n (Chernoff 1952), and a part of delta that is thrown away."""

    name = "chernoff"
    predictor = DETERMINISTIC
    summary = "the network trained on one part of the data, tested on the rest (Chernoff)"
    paper = "the bound of Chernoff (1952)"
    needs_split = True

    waste: float = option(0.5, "Share of delta that chernoff does not use.", low=0, below=1)

    def events(self):
        return [(EVENT, 1 - Decimal(repr(self.waste)))]

    def produce(self, trainer, parts):
        from truerisk.certificates.evidence import Evidence

        return Evidence(parts, {"network": trainer.tested(parts)})

    def files(self, settings):
        return {"network": File(TRAINED, predicts=True)}

    def count(self, settings, data, frozen, seed):
        return floor_counts(settings, data, frozen.evidence)

    def derive(self, counts: Counts, entries):
        count = counts[FLOOR]
        exponent = -float(np.log(share(entries, EVENT)))
        bound, risk = kl_inverse(count.value / count.trials, exponent / count.trials), count.value / count.trials
        parts = Part("errors on the tested examples", risk), Part("confidence (delta)", bound - risk)
        return Derivation(bound, risk, risk, parts, details=(Exponent(exponent),))

    def details(self):
        return (Exponent,)

    def tell(self, record):
        line = Line("exponent", nats(record.derivation.detail(Exponent).exponent), "nats: ln(1/delta)")
        return Tale(seen="error rate of the network on the tested examples", lines=(line,))


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(METHODS, Chernoff.name, Chernoff)
    declared._whole.cache_clear()
    yield
    declared._whole.cache_clear()


def test_it_is_certified_verified_told_and_loaded(tmp_path):
    made = truerisk.certify("mlp:8", "digits", method="chernoff", options={"waste": 0.25}, epochs=5)
    same = truerisk.certify("mlp:8", "digits", method=Chernoff(waste=0.25), epochs=5)
    assert made.to_json() == same.to_json()
    assert made.record["settings"]["options"] == {"waste": 0.25}
    made.save(tmp_path)
    assert truerisk.verify(tmp_path, retrain=True).claimed == made.risk_bound
    loaded = truerisk.Certificate.load(tmp_path)
    X = load("digits").X[:50]
    assert (loaded.predictor(X) == made.predictor(X)).all()
    story = tell(loaded.record)
    assert ("exponent", "nats: ln(1/delta)") in [(line.label, line.meaning) for line in story.lines]
    page = render(loaded.record)
    assert "chernoff: the bound of Chernoff (1952)" in page
    assert "Exponent" in page


def test_forged_numbers_and_options_are_caught(tmp_path):
    truerisk.certify("mlp:8", "digits", method="chernoff", epochs=2).save(tmp_path)
    honest = (tmp_path / "certificate.json").read_text()
    for change, told in (
        (lambda r: r.update(exponent=0.1), "exponent does not follow"),
        (lambda r: r.update(exponent="0.1"), "not readable"),
        (lambda r: r.pop("exponent"), "no field 'exponent'"),
        (lambda r: r["settings"]["options"].update(waste=1.0), "waste is 1.0, but must be at least 0 and less than 1"),
        (lambda r: r["settings"]["options"].update(waste=0.1), "does not follow"),
        (lambda r: r["settings"]["options"].update(thrift=0.1), "has no option thrift"),
    ):
        record = json.loads(honest)
        change(record)
        (tmp_path / "certificate.json").write_text(json.dumps(record))
        with pytest.raises(truerisk.VerificationError, match=told):
            truerisk.verify(tmp_path)


def test_it_is_on_the_command_line_and_among_all(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["truerisk", "certify", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    told = " ".join(capsys.readouterr().out.split())
    assert "--waste" in told
    assert "Share of delta that chernoff does not use." in told
    assert "tested on the rest (Chernoff) [deterministic]" in told
    line = "certify --model mlp:8 --epochs 2 --method chernoff --waste 0.75 --json --quiet"
    monkeypatch.setattr(sys, "argv", ["truerisk", *line.split()])
    with pytest.raises(SystemExit):
        cli.main()
    assert json.loads(capsys.readouterr().out)["settings"]["options"] == {"waste": 0.75}
    best = truerisk.certify(
        "mlp:8", "digits", method="all", predictor="deterministic", epochs=1, options={"rounds": 2, "waste": 0.1}
    )
    assert "chernoff" in set(best.table["method"])
