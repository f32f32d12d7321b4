"""The date of a certificate: written in one form, read strictly, and of no consequence."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

import truerisk
from truerisk.certificates import made
from truerisk.certificates.request import Request
from truerisk.errors import TrueriskError, VerificationError
from truerisk.report.certificate import render


@pytest.fixture(scope="module")
def cert():
    return truerisk.certify("mlp:4", "digits", method="pac-bayes-kl", prior="init", epochs=1)


def edited(cert, folder, value):
    cert.save(folder, force=True)
    path = folder / "certificate.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"made": value}))
    return folder


def test_the_clock_in_utc_to_the_second(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    before, text = datetime.now(UTC).replace(microsecond=0), made.now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)
    assert before <= datetime.fromisoformat(text) <= datetime.now(UTC)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "")
    assert made.checked(made.now())


def test_source_date_epoch_in_place_of_the_clock(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1794950052")
    assert made.now() == "2026-11-17T21:14:12Z"


@pytest.mark.parametrize("given", ["yesterday", "1.5", "9" * 30, "-" + "9" * 15])
def test_a_bad_epoch_is_told_before_any_work(given, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    with pytest.raises(TrueriskError, match=r"SOURCE_DATE_EPOCH is .*, but must be seconds since 1970; unset it"):
        Request()


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-11-17", "2026-11-17T21:14:12", "2026-11-17 21:14:12Z", "2026-11-17T21:14Z"),
        *("2026-02-30T21:14:12Z", "2026-13-01T21:14:12Z", "2026-11-17T24:00:00Z", "2026-11-17T21:14:60Z"),
        *("2026-11-17T21:14:12+00:00", "2026-11-17T21:14:12.5Z", "20261117T211412Z", "2026-11-17t21:14:12Z"),
        *("2026-11-17T21:14:12ZZ", "26-11-17T21:14:12Z", "\uff12026-11-17T21:14:12Z", "2026-W47-2T21:14:12Z"),
    ],
)
def test_other_forms_and_days_that_do_not_exist_are_refused(text, cert, tmp_path):
    with pytest.raises(TrueriskError, match="a date must look like 2026-11-17T21:14:12Z; certify again"):
        made.checked(text)
    with pytest.raises(VerificationError, match="a date must look like"):
        truerisk.verify(edited(cert, tmp_path, text))


@pytest.mark.parametrize("value", [None, 1794950052, ["2026-11-17T21:14:12Z"]])
def test_another_type_is_refused(value, cert, tmp_path):
    with pytest.raises(VerificationError, match="made"):
        truerisk.verify(edited(cert, tmp_path, value))


def test_no_verdict_and_no_draw_depends_on_it(cert, tmp_path):
    first = truerisk.verify(edited(cert, tmp_path, "1999-12-31T23:59:59Z"), seed=3)
    assert first == truerisk.verify(edited(cert, tmp_path, "2100-01-01T00:00:00Z"), seed=3)
    loaded = truerisk.Certificate.load(tmp_path)
    assert loaded.record == cert.record
    assert loaded.record.made != cert.record.made
    assert loaded.frozen.seed("any") == cert.frozen.seed("any")


def test_the_page_shows_it(cert):
    assert made.shown(cert.record.made) in render(cert.record)
