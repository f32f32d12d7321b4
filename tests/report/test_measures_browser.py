"""The pages of measures in a real browser: the first screen, phones, dark paper, the keyboard, and the CSV file."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from report.measured import EVIL, FACTS, audited, panels, random_labels, some

from truerisk.measures.compare import Comparison
from truerisk.report.compare import render_comparison
from truerisk.report.measures import render_measures

VISIBLE = "[...document.querySelectorAll('.plot svg')].filter(s => s.getClientRects().length)"
ROWS = "[...document.querySelectorAll('[aria-labelledby=measures] .family tbody tr')]"
FIGURES = {"plain": 3, "calibrated": 4, "audited": 4, "compared": 1}
SCREEN = 720  # pixels: the height of a projector's first screen


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """A page of each kind, with names that are too long or hostile."""
    folder, facts = tmp_path_factory.mktemp("pages"), FACTS | {"Weights": EVIL, "Data": "digits: " + "n" * 60}
    found, other = some(layer=EVIL), {name: values / 50 for name, values in panels().items()}
    calibrated = some(layer=EVIL, reference=random_labels())
    html = {
        "plain": render_measures(found, panels(), facts),
        "calibrated": render_measures(calibrated, panels(), facts, other=other),
        "audited": render_measures(found, panels(), facts, audited(found)),
        "compared": render_comparison(Comparison(found, random_labels().found, ("mlp:64", "net.py:large")), facts),
    }
    for kind, text in html.items():
        (folder / f"{kind}.html").write_text(text, encoding="utf-8")
    return {kind: folder / f"{kind}.html" for kind in html}


@pytest.mark.parametrize("kind", FIGURES)
def test_finding_and_figure_are_on_the_first_screen(browser, pages, kind):
    browser.open(pages[kind], 1280)
    bottom = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
    assert browser.run(bottom, "h1") < browser.run(bottom, ".hero .plot") < SCREEN
    tall = browser.run("return document.querySelector('.hero .plot').getBoundingClientRect().height")
    assert tall > 150
    assert len(browser.run("return document.querySelector('h1').textContent").split()) <= 14


@pytest.mark.parametrize("width", [1280, 700, 390, 320])
@pytest.mark.parametrize("kind", FIGURES)
def test_page(browser, pages, kind, width):
    browser.open(pages[kind], width)
    assert browser.driver.title.startswith("Measures: ")
    for scheme in ("light", "dark"):
        browser.paper(width, scheme)
        for unfolded in (False, True):
            browser.run("document.querySelectorAll('details').forEach(d => d.open = arguments[0])", unfolded)
            assert browser.fits()
        sizes = browser.run(f"return {VISIBLE}.map(s => s.getBoundingClientRect()).map(b => [b.width, b.height])")
        assert len(sizes) == FIGURES[kind]
        assert all(size[0] > 250 and size[1] > 100 for size in sizes)
        smallest = browser.run(
            f"return Math.min(...{VISIBLE}.map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width * "
            "Math.min(...[...s.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize)))))"
        )
        assert smallest > 9
        assert browser.clashes() == []
    assert browser.requests() == []
    assert browser.console() == []


@pytest.mark.parametrize("kind", ["plain", "compared"])
def test_the_filter_works_by_keyboard(browser, pages, kind):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.open(pages[kind], 1280)
    bounds = "return [...document.querySelectorAll('[aria-labelledby=bounds] tbody tr')].filter(r => r.hidden).length"
    shown = f"return {ROWS}.filter(r => r.checkVisibility()).length"
    assert browser.run(shown) == 0, "families are folded"
    box = browser.driver.find_element(By.ID, "filter")
    box.send_keys("path-norm")
    names = browser.run(
        f"return {ROWS}.filter(r => r.checkVisibility()).map(r => r.querySelector('.name').textContent)"
    )
    assert "path-norm-l2-squared" in names
    assert browser.run(bounds) == 0, "the table of bounds is not filtered"
    every = browser.run(f"return {ROWS}.map(r => r.textContent)")
    assert len(names) == sum("path-norm" in text for text in every if text) > 0
    assert browser.run("return document.getElementById('matches').textContent") == f"{len(names)} shown"
    box.send_keys(Keys.CONTROL + "a", Keys.DELETE)
    assert browser.run(shown) == 0
    assert browser.run(
        "return [...document.querySelectorAll('[aria-labelledby=measures] details')].every(d => !d.hidden)"
    )
    box.send_keys(Keys.TAB)
    assert browser.run("return document.activeElement.textContent") == "Download CSV"
    browser.driver.switch_to.active_element.send_keys(Keys.TAB, Keys.ENTER)
    assert browser.run(shown) > 0, "a family unfolds with Enter"


@pytest.mark.parametrize(("kind", "file"), [("plain", "measures.csv"), ("compared", "comparison.csv")])
def test_the_csv_file(browser, pages, kind, file):
    for old in browser.downloads.iterdir():
        old.unlink()
    browser.open(pages[kind], 1280)
    browser.run("document.querySelector('a[download]').click()")
    path = browser.downloads / file
    browser.wait(path.exists)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    other = Comparison(some(), random_labels().found).rows() if kind == "compared" else some().rows()
    assert [row["name"] for row in rows] == [row["name"] for row in other]
    assert browser.requests() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", FIGURES)
def test_contrast(browser, pages, kind, scheme):
    browser.open(pages[kind], 1200, scheme)
    run = browser.run
    paper = run("return getComputedStyle(document.body).backgroundColor")
    assert (browser.luminance(paper) > 0.5) == (scheme == "light")
    run("document.querySelectorAll('details').forEach(d => d.open = true)")
    for selector in ("h1", ".kicker", "figcaption", "td", ".meaning", "summary", ".stays", ".moves", "footer"):
        for color in set(
            run("return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e).color)", selector)
        ):
            assert browser.contrast(color, paper) >= 4.5, selector
    fills = f"return {VISIBLE}.flatMap(s => [...s.querySelectorAll(arguments[0])].map(t => getComputedStyle(t).fill))"
    assert min(browser.contrast(color, paper) for color in set(run(fills, "text"))) >= 4.5
    marks = run(fills, "rect:not(.band):not(.random), circle:not(.hollow)")
    assert min(browser.contrast(color, paper) for color in set(marks)) >= 3
