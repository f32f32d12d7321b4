"""Everything at once, as a user would: all experiments at smoke scale, then every page in a real browser."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from filelock import FileLock

from truerisk import lab
from truerisk.cli import lab as lab_command
from truerisk.lab import load, names
from truerisk.report.lab.exhibits import shown

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def runs(runs_folder):
    """The folder of one run of everything, made by the first process that needs it.

    What tests of single experiments have computed is found there; the others run in a process of their own.
    """
    with FileLock(f"{runs_folder}.lock"):
        if not all((runs_folder / name / "smoke.html").exists() for name in names()):
            lab_command.run([], True, "smoke", "local", str(runs_folder), 1, json=False, quiet=True)
    return runs_folder


def test_every_claim_was_tried(runs):
    """A smoke run gives no verdicts, but an effect that fails says so."""
    for name in names():
        summary = json.loads((runs / name / "smoke.json").read_text())
        assert summary["failures"] == []
        assert summary["missing"] == 0
        assert len(summary["claims"]) == len(load(name).claims)
        assert {claim["reason"] for claim in summary["claims"]} == {"smoke"}


def test_a_second_run_computes_nothing(runs, capsys):
    for name in names():
        again = lab.run(name, "smoke", "inline", str(runs))
        assert again.computed == 0 < again.reused
    before = (runs / "index.html").read_bytes()
    lab_command.run(["memorizer"], False, "smoke", "inline", str(runs), None, json=True, quiet=True)
    [entry] = json.loads(capsys.readouterr().out)["experiments"]
    assert entry["computed"] == 0 < entry["reused"]
    assert (runs / "index.html").read_bytes() == before


@pytest.mark.parametrize("name", names())
def test_every_figure_follows_the_schema(runs, name):
    """All exhibits of all lessons are drawn, and their specifications are what Vega-Lite's schema allows."""
    alt = pytest.importorskip("altair")
    result = lab.run(name, "smoke", "inline", str(runs))
    page = shown(result)
    assert page.trouble == []
    assert page.hero or result.experiment.lesson.hero
    for figure in page.live:
        for spec in [figure["file"], *(layout["spec"] for layout in figure["layouts"])]:
            alt.Chart.from_dict(spec)  # raises where it does not


@pytest.mark.parametrize("name", names())
def test_the_page_in_a_browser(runs, browser, name):
    """Opens, fits a phone, a legend can be clicked, figures can be downloaded, no errors, no requests."""
    browser.open(runs / name / "smoke.html")
    figures = browser.figures()
    assert figures
    browser.paper(1280, "light", 720)
    if load(name).lesson.hero in figures:  # at smoke scale a hero may have nothing to draw
        assert browser.bottom("h1") < browser.bottom(".hero .plot svg") < 720  # both on the first screen
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


def test_the_index_in_a_browser(runs, browser):
    browser.open(runs / "index.html")
    for width, scheme in ((1200, "light"), (390, "dark"), (320, "light")):
        browser.paper(width, scheme)
        assert browser.fits()
    links = browser.run("return [...document.querySelectorAll('a[href$=\".html\"]')].map(a => a.getAttribute('href'))")
    assert {link.split("#")[0] for link in links} >= {f"{name}/smoke.html" for name in names()}
    assert browser.console() == []
    assert browser.requests() == []
