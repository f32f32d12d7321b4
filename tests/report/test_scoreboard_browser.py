"""The scoreboard in a real browser: above the fold, without overlaps, on both papers, and with the keyboard."""

from pathlib import Path

import pytest
from boards import folder

from truerisk.report.lab.index import write_index


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    return write_index(folder(), tmp_path_factory.mktemp("board") / "index.html")


BOX = "const box = e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };"
BOXES = f"{BOX} return [...document.querySelectorAll(arguments[0])].map(box)"
STYLES = "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e)[arguments[1]])"
OVERLAPS = f"""{BOX}
const rows = [...document.querySelectorAll('.row')], found = [];
const shared = (a, b, i) => Math.min(a[i + 2], b[i + 2]) - Math.max(a[i], b[i]) > .5;
const cross = (a, b) => shared(a, b, 0) && shared(a, b, 1);
const parts = rows.map(row => [...row.children].filter(e => e.className !== 'tip').map(box));
parts.forEach((own, i) => {{
  own.forEach((a, j) => own.slice(j + 1).forEach(b => cross(a, b) && found.push(`${{i}}: within`)));
  parts.slice(i + 1).forEach(other => own.some(a => other.some(b => cross(a, b))) && found.push(`${{i}}: two rows`));
}});
return found"""


def screen(browser, width, height):
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def test_above_the_fold(browser, page):
    """At 1280 x 720 the headline has one line and the other counts at most two, and most rows can be seen."""
    browser.open(page, 1280)
    screen(browser, 1280, 720)
    [title], [lead] = browser.run(BOXES, "h1"), browser.run(BOXES, ".lead")
    assert title[3] - title[1] < 50  # pixels: one line
    assert lead[3] - lead[1] < 50
    for group in ("paper", "trial", "theorem"):
        rows = browser.run(BOXES, f"[data-group={group}] .row")
        assert rows[0][3] < 280
        assert rows[4][3] < 400
    assert len([row for row in browser.run(BOXES, ".row") if row[3] < 720]) >= 50


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (900, 700), (390, 844), (320, 600)])
def test_layout(browser, page, width, height):
    browser.open(page, width)
    screen(browser, width, height)
    for scheme in ("light", "dark"):
        browser.paper(width, scheme)
        assert browser.fits()
        assert browser.run(OVERLAPS) == []
    rows = browser.run(BOXES, ".row")
    assert len(rows) == 72
    if width < 600:  # one below the other, and large enough for a finger
        assert len({row[0] for row in rows}) == 1
        assert min(row[3] - row[1] for row in rows) >= 24
    assert browser.run("return [...document.images].every(e => e.complete && e.naturalWidth)")
    assert browser.requests() == []
    assert browser.console() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, page, scheme):
    """Texts 4.5, signs and lines 3; lines also where they cross the shaded region."""
    browser.open(page, 1280, scheme)
    browser.run("document.querySelector('details').open = true")
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    [region] = set(browser.run(STYLES, ".strip .region", "fill"))
    [card] = set(browser.run(STYLES, ".cards li", "backgroundColor"))
    texts = browser.run(STYLES, "h1, h2, h3, p, a, b, .name, .instead, .count, .word, .soft", "color")
    assert all(browser.contrast(color, ground) >= 4.5 for color in set(texts) for ground in (paper, card))
    strokes = browser.run(STYLES, ".sign, .strip .span, .strip .mean, .strip .edge", "stroke")
    assert all(browser.contrast(color, ground) >= 3 for color in set(strokes) for ground in (paper, region, card))
    assert len(set(browser.run(STYLES, ".row .sign", "stroke"))) == 3
    shapes = browser.run("return [...document.querySelectorAll('.row .sign use')].map(e => e.getAttribute('href'))")
    assert set(shapes) == {"#sign-yes", "#sign-exact", "#sign-no", "#sign-open"}


def test_keyboard(browser, page):
    from selenium.webdriver.common.keys import Keys

    browser.open(page, 1280)
    browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    focus = "const e = document.activeElement; return [e.className, getComputedStyle(e).outlineStyle, e.hash, "
    focus += "e.querySelector('.tip')?.innerText, getComputedStyle(e.querySelector('.tip')).display]"
    css, outline, link, told, shown = browser.run(focus)
    assert css.startswith("row ")
    assert outline == "solid"
    assert shown == "block"
    assert "The gap is large." in told
    assert link == "#claim-fits-everything"
    for _ in range(71):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.run("return document.activeElement.className").startswith("row ")  # the last of 72
    browser.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.run("return document.activeElement.closest('.cards') !== null")
    browser.run("document.querySelector('summary').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.run("return document.querySelector('details').open")
