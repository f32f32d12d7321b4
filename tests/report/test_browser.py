"""The page in a real browser: fits a phone and a screen, in light and dark, and fetches nothing."""

import pytest

from truerisk.certificates.checking.reading import record_of
from truerisk.certificates.story import tell
from truerisk.report import write_report

VISIBLE = "[...document.querySelectorAll('.plot svg')].filter(s => s.getClientRects().length)"


@pytest.mark.parametrize("kind", ["pac_bayes", "hold_out", "chain"])
def test_page(browser, tmp_path, request, kind):
    record = request.getfixturevalue(kind)
    record["data"]["name"] = "a" * 200  # no place to break a line
    record["warnings"] = ["<script>document.title = 'taken'</script>"]
    told = tell(record_of(record))
    path = write_report(record_of(record), tmp_path / "report.html")
    for width in (1200, 700, 390, 320):
        browser.open(path, width)
        assert browser.driver.title.startswith("Certificate: mlp:16")
        assert browser.run("return document.querySelector('h1').textContent") == told.headline
        assert browser.run("return window.innerWidth") == width
        for scheme in ("light", "dark"):
            browser.paper(width, scheme)
            looks_right(browser)
        assert browser.requests() == []
        assert browser.console() == []


def looks_right(browser):
    """Nothing is cut off or too small."""
    run = browser.run
    assert browser.fits()
    [size] = run(f"return {VISIBLE}.map(s => [s.getBoundingClientRect().width, s.getBoundingClientRect().height])")
    assert size[0] > 250
    assert size[1] > 100
    smallest = run(
        f"const s = {VISIBLE}[0], k = s.getBoundingClientRect().width / s.viewBox.baseVal.width;"
        "const sizes = [...s.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize));"
        "return k * Math.min(...sizes)"
    )
    assert smallest > 9


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, tmp_path, pac_bayes, scheme):
    browser.open(write_report(record_of(pac_bayes), tmp_path / "report.html"), 1200, scheme)
    run = browser.run
    paper = run("return getComputedStyle(document.body).backgroundColor")
    assert (browser.luminance(paper) > 0.5) == (scheme == "light")
    for selector in ("h1", ".kicker", ".numbers dd:last-child", "figcaption", "td", "li", "footer"):
        colour = run("return getComputedStyle(document.querySelector(arguments[0])).color", selector)
        assert browser.contrast(colour, paper) >= 4.5, selector
    fill = "getComputedStyle(e).fill"
    bars = run(f"return [...{VISIBLE}[0].querySelectorAll('.mark-rect path')].map(e => {fill})")
    assert len(bars) == 5
    for colour in bars:
        assert browser.contrast(colour, paper) >= 3
    labels = run(f"return [...{VISIBLE}[0].querySelectorAll('.layer_1_marks text')].map(e => {fill})")
    assert labels
    for label, bar in ((label, bar) for label in labels for bar in (bars[0], bars[2])):
        assert browser.contrast(label, bar) >= 4.5
    titles = run(f"return [...{VISIBLE}[0].querySelectorAll('.layer_2_marks text, .role-axis text')].map(e => {fill})")
    for colour in titles:
        assert browser.contrast(colour, paper) >= 4.5
