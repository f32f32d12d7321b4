"""A certificate in a terminal and in a notebook."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

import truerisk
from truerisk import words
from truerisk.report import notebook


@pytest.fixture(scope="module")
def cert():
    return truerisk.certify("mlp:4", "digits", epochs=1)


def test_one_line(cert):
    most = words.bound(cert.risk_bound)
    assert repr(cert) == f"Certificate(true risk <= {most} with 95% confidence; hold-out, digits, n = 899)"


def test_both_ends_are_rounded_outward():
    cert = truerisk.certify("mlp:4", "digits", epochs=1, two_sided=True, delta=0.1)
    low, high = words.lower(cert.risk_lower), words.bound(cert.risk_bound)
    assert float(low) <= cert.risk_lower < cert.risk_bound <= float(high)
    assert repr(cert).startswith(f"Certificate({low} <= true risk <= {high} with 90% confidence; ")


def test_a_name_stays_in_its_line(cert):
    card = replace(cert.record.data, name="a\nb\x1b[2J")
    assert repr(replace(cert, record=replace(cert.record, data=card))).endswith("; hold-out, a?b?[2J, n = 899)")


@pytest.mark.parametrize("pages", [True, False])
def test_a_notebook_gets_a_small_piece_of_html(cert, pages, monkeypatch):
    if not pages:
        monkeypatch.setattr(notebook, "find_spec", lambda _: None)
    hostile = "<script>alert(1)</script>&\"'"
    card, settings = replace(cert.record.data, name=hostile), replace(cert.record.settings, model=hostile)
    record = replace(cert.record, data=card, settings=settings, sentence=f"{cert.sentence} {hostile}")
    shown = replace(cert, record=record)._repr_html_()
    root = ET.fromstring(shown)  # well formed
    assert {each.tag.split("}")[-1] for each in root.iter()}.isdisjoint({"script", "style", "link", "img", "iframe"})
    assert hostile in "".join(root.itertext())
    assert not any(name.startswith("on") or name in ("href", "src") for each in root.iter() for name in each.attrib)
    assert ("<svg" in shown, "<table" in shown) == (pages, not pages)
    assert words.bound_percent(cert.risk_bound) in shown
    assert len(shown) < 20_000
