"""The manual describes certificates and options as they are: every field, and none besides."""

from __future__ import annotations

import copy
import importlib
import inspect
from pathlib import Path

import pytest

from truerisk.certificates.methods import METHODS
from truerisk.certificates.request import Request
from truerisk.certificates.schema import flags

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not here")
FLAGS = {"predictor": "--for", "unlabelled": "--unlabeled"}  # as in ``cli.declare.certify``


@pytest.fixture
def page(monkeypatch):
    """The extension that writes the page; it needs no Sphinx until it is set up."""
    monkeypatch.syspath_prepend(DOCS / "extensions")
    return importlib.import_module("format")


def test_the_page_describes_every_field_and_no_other(page):
    assert page.problems(page.records()) == []


def test_the_stored_certificates_are_of_all_methods(page):
    assert {record["method"] for record in page.records()} == METHODS.keys()


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ([], "certificate.json has a field 'new' without a meaning"),
        (["floor_detail"], "floor_detail has a field 'new' without a meaning"),
        (["counts"], "counts has a field 'new' without a meaning"),
        (["files"], "files has a field 'new' without a meaning"),
        (["settings"], "settings has a field 'new' without a meaning"),
        (["settings", "options"], "settings.options has a field 'new' without a meaning"),
        (["settings", "plans", "prior"], "plan has a field 'new' without a meaning"),
        (["ledger", 0], "ledger has a field 'new' without a meaning"),
    ],
)
def test_a_field_without_a_meaning_stops_the_build(page, place, told, monkeypatch):
    records = copy.deepcopy(page.records())
    found = records[0]
    for step in place:
        found = found[step]
    found["new"] = 1
    monkeypatch.setattr(page, "records", lambda: records)
    assert page.problems(records) == [told]
    with pytest.raises(LookupError, match="new"):
        list(page.field_lines())


@pytest.mark.parametrize("place", ["", "data", "counts", "files", "settings", "plan", "progressive.blocks", "steps"])
def test_a_meaning_without_a_field_stops_the_build(page, place, monkeypatch):
    monkeypatch.setitem(page.MEANINGS, place, {**page.MEANINGS[place], "gone": "Nothing."})
    assert page.problems(page.records()) == [f"{place or 'certificate.json'} has no field 'gone', but a meaning"]
    with pytest.raises(LookupError, match="gone"):
        list(page.method_lines())


def test_a_new_field_of_a_method_needs_a_meaning(page, monkeypatch):
    monkeypatch.delitem(page.MEANINGS["compression"], "k")
    with pytest.raises(LookupError, match=r"compression\.k has no meaning"):
        list(page.method_lines())


def test_the_page_lists_the_options_fields_and_files_of_every_method(page):
    text = "\n".join(page.method_lines())
    for name, kind in METHODS.items():
        section = text.split(f".. rubric:: {name}\n")[1].split(".. rubric::")[0]
        assert all(f"``{flag.name}``" in section for flag in flags(kind))
        assert all(f"``{each}``" in section for detail in kind().details() for each in detail.__annotations__)
        assert "``split``" in section
        assert "``network``" in section


def test_the_table_of_options_has_each_once_for_each_default(page):
    lines = "\n".join(page.option_lines())
    for kind in METHODS.values():
        assert all(f"``--{flag.name}``" in lines for flag in flags(kind))
    assert lines.count("``--scales``") == 2  # fixed, and grid around given weights
    assert lines.count("``--warmup``") == 1


def test_the_manual_names_every_option_of_certify():
    text = (DOCS / "command-line.rst").read_text()
    section = text[text.index("truerisk certify\n") : text.index("truerisk search\n")]
    asked = [FLAGS.get(flag.name, f"--{flag.name.replace('_', '-')}") for flag in flags(Request)]
    assert [flag for flag in asked if f"``{flag}" not in section] == []
    assert ".. method-options::" in section


def test_the_extension_says_which_directives_it_has(page):
    assert all(f".. {name}::" in inspect.getdoc(page) for name in page.DIRECTIVES)
