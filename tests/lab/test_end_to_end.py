"""Everything at once, as a user would: all experiments at smoke scale, then every page in a real browser."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from filelock import FileLock

from truerisk.cli import lab as lab_command
from truerisk.lab import names


@pytest.fixture(scope="module")
def runs(tmp_path_factory, worker_id):
    """The folder of one run of everything, shared by the processes that run the tests."""
    base = tmp_path_factory.getbasetemp()
    out = (base if worker_id == "master" else base.parent) / "runs"
    with FileLock(f"{out}.lock"):  # the second process finds all results stored
        lab_command.run([], True, "smoke", "local", str(out), 2, json=False, quiet=True)
    return out


def test_every_claim_has_a_verdict(runs):
    for name in names():
        summary = json.loads((runs / name / "smoke.json").read_text())
        assert summary["failures"] == []
        assert summary["missing"] == 0
        assert len(summary["claims"]) >= 3
        assert {claim["verdict"] for claim in summary["claims"]} <= {"seen again", "not seen again", "not checked"}


def test_a_second_run_computes_nothing(runs, capsys):
    before = (runs / "index.html").read_bytes()
    lab_command.run([], True, "smoke", "inline", str(runs), None, json=True, quiet=True)
    entries = json.loads(capsys.readouterr().out)["experiments"]
    assert [entry["computed"] for entry in entries] == [0] * len(names())
    assert all(entry["reused"] > 0 for entry in entries)
    assert (runs / "index.html").read_bytes() == before


@pytest.mark.parametrize("name", names())
def test_the_page_in_a_browser(runs, browser, name):
    """Opens, fits a phone, a legend can be clicked, figures can be downloaded, no errors, no requests."""
    browser.open(runs / name / "smoke.html")
    figures = browser.figures()
    assert figures
    for width in (1200, 390):
        browser.paper(width, "dark")
        assert browser.fits()
    browser.paper(1200, "light")
    clickable = browser.figures(clickable=True)
    if clickable:
        before = browser.strengths(clickable[0])
        after = browser.choose(clickable[0])
        assert min(after) < min(before)
    assert browser.download(figures[0], "png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ElementTree.parse(browser.download(figures[0], "svg")).getroot().tag.endswith("svg")
    assert browser.console() == []
    assert browser.requests() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390, 320])
def test_the_index_in_a_browser(runs, browser, width, scheme):
    browser.open(runs / "index.html", width, scheme)
    assert browser.fits()
    links = browser.run("return [...document.querySelectorAll('a[href$=\".html\"]')].map(a => a.getAttribute('href'))")
    assert {link.split("#")[0] for link in links} >= {f"{name}/smoke.html" for name in names()}
    assert browser.console() == []
    assert browser.requests() == []
