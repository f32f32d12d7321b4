"""Several methods on one delta: it is split among them, the best is picked, all of them can be checked."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal

import pytest
from certificates.own import own
from scipy.stats import beta

import truerisk
from truerisk.certificates import request as requests
from truerisk.certificates.choose import choose
from truerisk.certificates.ledger import ledger
from truerisk.certificates.methods import METHODS
from truerisk.certificates.workshop.material import gather
from truerisk.data import load

QUICK = {"epochs": 3, "tried": 1}
CHOSEN = ("pac-bayes-kl", "single-draw", "progressive", "hold-out")


@pytest.fixture(scope="module")
def digits():
    """In other shades: on rows of digits every configuration counts 32 times."""
    return own(load("digits").take(range(600)))


@pytest.fixture(scope="module")
def patched():
    """Four quick methods in place of all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "METHODS", {name: METHODS[name] for name in CHOSEN})
        yield


@pytest.fixture(scope="module")
def made(patched, digits, tmp_path_factory):
    """(the best certificate of all, where it is, the folder of checkpoints)."""
    folder, work = tmp_path_factory.mktemp("all"), tmp_path_factory.mktemp("work")
    cert = truerisk.certify("mlp:16", digits, method="all", options={"blocks": 2}, work=work, **QUICK)
    cert.save(folder)
    return cert, folder, work


def own_part(cert) -> Decimal:
    """What the events of this method take, in exact decimals."""
    return sum((Decimal(repr(e["delta"])) for e in cert.ledger if " other method" not in e["event"]), Decimal(0))


def test_the_best_comes_first_and_knows_the_others(made):
    cert, _, _ = made
    everyone = (cert, *cert.others)
    assert {c.record["method"] for c in everyone} == set(CHOSEN)
    assert [c.risk_bound for c in everyone] == sorted(c.risk_bound for c in everyone)
    assert list(cert.table.columns) == ["method", "predictor", "risk_bound", "empirical_risk", "kl", "floor"]
    assert cert.table["method"].tolist() == [c.record["method"] for c in everyone]
    assert cert.table["risk_bound"].tolist() == [c.risk_bound for c in everyone]
    assert cert.table["kl"].isna().tolist() == [c.kl is None for c in everyone], "no KL is not a number"
    assert [row["kl"] for row in cert.rows()] == [c.kl for c in everyone], "for JSON it is null"
    progressive = next(c for c in everyone if c.record["method"] == "progressive")
    assert progressive.record["settings"]["options"]["blocks"] == 2, "an option goes to the method that has it"


def test_delta_is_spent_once(made):
    """Each method gets a quarter, and the four quarters together are no more than delta."""
    cert, _, _ = made
    parts = [own_part(c) for c in (cert, *cert.others)]
    assert all(part <= Decimal("0.0125") for part in parts)
    assert Decimal("0.049") < sum(parts) <= Decimal("0.05")
    for c in (cert, *cert.others):
        assert sum(Decimal(repr(e["delta"])) for e in c.ledger) <= Decimal("0.05")
        assert any(e["event"] == "the certificates of 3 other methods on this data" for e in c.ledger)
        assert any("4 methods" in line for line in c.assumptions)


def test_the_bound_is_that_of_a_quarter(made):
    cert, _, _ = made
    held = next(c for c in (cert, *cert.others) if c.record["method"] == "hold-out")
    errors, n = held.record["floor_detail"]["errors"], held.record["floor_detail"]["n"]
    assert held.risk_bound == pytest.approx(beta.isf(0.05 / 4, errors + 1, n - errors), abs=1e-9)
    assert held.floor == pytest.approx(beta.isf(0.05, errors + 1, n - errors), abs=1e-9)


def test_a_training_that_two_methods_need_is_made_once(made):
    cert, _, work = made
    networks = {c.record["method"]: c.evidence.network for c in (cert, *cert.others)}
    first, second = networks["hold-out"].state_dict(), networks["single-draw"].state_dict()
    assert all(first[name].equal(second[name]) for name in first)
    assert len(list(work.glob("posterior-*"))) == 1
    assert len(list(work.glob("prior-*"))) == 2, "one of the three, and the shorter one of progressive"


@pytest.mark.parametrize("method", CHOSEN)
def test_all_of_them_hold(made, digits, method):
    cert, folder, _ = made
    place = folder if cert.record["method"] == method else folder / "others" / method
    claimed = json.loads((place / "certificate.json").read_text())["risk_bound"]
    assert truerisk.verify(place, data=digits).claimed == claimed


def copy_of(made, tmp_path, method):
    cert, folder, _ = made
    place = tmp_path / "copy"
    shutil.copytree(folder if cert.record["method"] == method else folder / "others" / method, place)
    return place


def edit(folder, change):
    path = folder / "certificate.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_a_delta_that_is_spent_twice_is_seen(made, digits, tmp_path):
    """All of delta for one of four methods: with the numbers that follow from it, and with the ledger alone."""
    alone = truerisk.certify("mlp:16", digits, method="hold-out", **QUICK).record

    def whole(record):
        for name in ("risk_bound", "ledger", "breakdown", "sentence", "warnings"):
            record[name] = alone[name]

    for change in (whole, lambda r: r.update(ledger=alone["ledger"]), lambda r: r["settings"].update(methods=1)):
        folder = copy_of(made, tmp_path, "hold-out")
        edit(folder, change)
        with pytest.raises(truerisk.VerificationError):
            truerisk.verify(folder, data=digits)
        shutil.rmtree(folder)


def test_a_certificate_that_denies_those_beside_it_is_seen(made, digits, tmp_path):
    cert, _, _ = made
    folder = copy_of(made, tmp_path, cert.record["method"])
    alone = truerisk.certify(
        "mlp:16", digits, method=cert.record["method"], options=cert.record["settings"]["options"], **QUICK
    )
    alone.save(tmp_path / "alone")
    assert truerisk.verify(tmp_path / "alone", data=digits).claimed == alone.risk_bound
    (folder / "certificate.json").write_text((tmp_path / "alone" / "certificate.json").read_text())
    with pytest.raises(truerisk.VerificationError, match="not split over the 3 other methods"):
        truerisk.verify(folder, data=digits)


def test_saving_again_removes_the_others(made, digits, tmp_path):
    cert, _, _ = made
    cert.save(tmp_path)
    (tmp_path / "others" / "mine.txt").write_text("a file of the user's")
    cert.save(tmp_path)  # the very same
    with pytest.raises(truerisk.TrueriskError, match="already holds a certificate; save into another folder, or"):
        cert.others[0].save(tmp_path)
    assert truerisk.verify(tmp_path, data=digits).claimed == cert.risk_bound, "nothing was touched"
    cert.others[0].save(tmp_path, force=True)
    assert [path.name for path in (tmp_path / "others").iterdir()] == ["mine.txt"]
    assert truerisk.verify(tmp_path, data=digits).claimed == cert.others[0].risk_bound


@pytest.mark.parametrize(
    ("kind", "prior", "method"),
    [
        ("stochastic", None, "pac-bayes-kl"),
        ("single-draw", "init", "single-draw"),
        ("deterministic", None, "hold-out"),
        ("deterministic", "init", "description-length"),
        (None, "zero", "pac-bayes-kl"),
    ],
)
def test_the_usual_method_of_a_kind(patched, digits, kind, prior, method):
    [settings] = chosen(digits, prior=prior, predictor=kind)
    assert (settings.method.name, str(settings.prior)) == (method, prior or "split:0.5")


def test_all_of_one_kind(patched, digits):
    drawn = chosen(digits, method="all", predictor="stochastic")
    assert [settings.method.name for settings in drawn] == ["pac-bayes-kl", "progressive"]
    without_split = chosen(digits, method="all", prior="init")
    assert [settings.method.name for settings in without_split] == ["pac-bayes-kl", "single-draw"]


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ("predictor is 'oracle'", {"predictor": "oracle"}),
        ("certifies a deterministic predictor", {"method": "hold-out", "predictor": "stochastic"}),
        ("has the option magic", {"method": "all", "options": {"magic": 1}}),
        ("no option blocks", {"method": "hold-out", "options": {"blocks": 3}}),
        ("blocks is 0", {"method": "all", "predictor": "stochastic", "options": {"blocks": 0}, "prior": "split:2"}),
        ("--weights", {"method": "pac-bayes-around"}),
        ("--unlabeled", {"method": "disagreement"}),
        ("needs examples", {"method": "progressive", "prior": "init"}),
    ],
)
def test_what_can_not_work_is_refused_before_training(patched, digits, told, arguments):
    told = "split:2" if arguments.get("prior") == "split:2" else told
    with pytest.raises(truerisk.TrueriskError, match=told):
        truerisk.certify("mlp:16", digits, **arguments)


def chosen(data, **asked):
    request = requests.Request(model="mlp:16", data=data, epochs=1, **asked)
    return choose(request, gather(request))


def test_ledger_of_methods_and_configurations():
    entries = ledger(0.05, 4, [("one", Decimal("0.9")), ("two", Decimal("0.1"))], methods=5)
    assert [e["delta"] for e in entries] == [0.00225, 0.00025, 0.01, 0.0375]
    assert [e["event"] for e in entries[2:]] == [
        "the certificates of 4 other methods on this data",
        "3 other configurations that you or truerisk's authors may have tried on this data",
    ]
    [_, authors] = ledger(0.05, 32, [("one", Decimal(1))])
    assert authors["event"] == "31 other configurations that you or truerisk's authors may have tried on this data"
    with pytest.raises(truerisk.TrueriskError, match="methods is 0"):
        ledger(0.05, 1, [("one", Decimal(1))], methods=0)
    with pytest.raises(truerisk.TrueriskError, match="--scales fixed"):
        ledger(0.05, 32, [("one", Decimal(1) / 25**9), ("rest", Decimal("0.9"))], methods=10)


@pytest.mark.parametrize("method", ["pac-bayes-kl", "single-draw"])
def test_prior_scales_on_a_grid_are_paid_for(patched, digits, tmp_path, method):
    plain = truerisk.certify("mlp:16", digits, "zero", method=method, **QUICK)
    cert = truerisk.certify("mlp:16", digits, "zero", method=method, options={"scales": "grid"}, **QUICK)
    assert cert.record["settings"]["options"]["scales"] == "grid:2"
    assert cert.kl < plain.kl, "a grid that holds the fixed scale can't lose"
    assert cert.ledger[0]["delta"] == pytest.approx(plain.ledger[0]["delta"] / 25**2, rel=1e-9)
    assert sum(Decimal(repr(e["delta"])) for e in cert.ledger) <= Decimal("0.05")
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path, data=digits).claimed == cert.risk_bound

    def fewer(record):
        record["settings"]["options"]["scales"] = "grid:1"

    edit(tmp_path, fewer)
    with pytest.raises(truerisk.VerificationError):
        truerisk.verify(tmp_path, data=digits)
