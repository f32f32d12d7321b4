"""The lab's pages in a real browser: they fit, can be clicked, save files, and fetch nothing."""

import csv
from xml.etree import ElementTree

import pytest

from truerisk.report import write_index, write_lab
from truerisk.report.lab.palette import ON_DARK, ON_LIGHT

PNG = b"\x89PNG\r\n\x1a\n"
DRAWN = "[...document.querySelectorAll('.plot svg')].filter(svg => svg.getClientRects().length)"
SIZES = f"return {DRAWN}.map(svg => [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height])"
SMALLEST = (
    f"return Math.min(...{DRAWN}.flatMap(svg => {{"
    "  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;"
    "  return [...svg.querySelectorAll('text')].map(t => scale * parseFloat(getComputedStyle(t).fontSize)); }))"
)
MARKS = ("curves", "panels", "norms", "dots", "bars", "heights", "before", "moving", "shares", "walk", "map", "sides",
         "valley", "hill", "pieces", "linked")  # fmt: skip
COLOURS = "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e)[arguments[1]])"


@pytest.fixture(scope="module")
def page(tmp_path_factory, lab_result):
    return write_lab(lab_result, tmp_path_factory.mktemp("lab") / "lab.html")


@pytest.fixture(scope="module")
def index(page, lab_result):
    summary = {**lab_result.summary(), "page": page.name}
    other = {**summary, "title": "a" * 200, "finding": "<script>document.title = 'taken'</script>"}
    return write_index([summary, other], page.with_name("index.html"))


@pytest.mark.parametrize("width", [1200, 700, 320])
def test_page(browser, page, width):
    browser.open(page, width)
    assert browser.run("return window.innerWidth") == width
    assert browser.driver.title == "Networks fit random labels (quick scale)"
    for scheme in ("light", "dark"):
        browser.paper(width, scheme)
        assert browser.fits()
        sizes = browser.run(SIZES)
        assert len(sizes) == len(browser.figures()) == len(MARKS)  # the static figures were replaced
        assert all(wide > 0.5 * min(width, 600) - 40 and high > 150 for wide, high in sizes)
        assert browser.run(SMALLEST) > 11
        assert browser.clashes() == []
    assert browser.requests() == []
    assert browser.console() == []


@pytest.mark.parametrize("width", [1200, 700, 320])
def test_index(browser, index, width):
    browser.open(index, width)
    assert browser.driver.title == (
        "The lab: Claims of papers: 2 of 2 reproduced; thresholds from trials: 0 of 2 reproduced, 2 not; "
        "our own questions: 0 of 2 reproduced, 2 without verdict."
    )
    for scheme in ("light", "dark"):
        browser.paper(width, scheme)
        assert browser.fits()
        paper = browser.run("return getComputedStyle(document.querySelector('.cards li')).backgroundColor")
        assert all(browser.contrast(c, paper) >= 4.5 for c in browser.run(COLOURS, "a, p, td, th, .soft", "color"))
    assert browser.requests() == []
    assert browser.console() == []


def test_links(browser, index):
    browser.open(index, 390)
    browser.run("document.querySelector('.cards a').click()")
    assert browser.wait(lambda: browser.driver.title.startswith("Networks fit"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, page, scheme):
    browser.open(page, 1200, scheme)
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (browser.luminance(paper) > 0.5) == (scheme == "light")
    texts = "h1, h3, .kicker, .chip, figcaption p, td, .source, .verdict, button, footer p, .soft, .wrong"
    labels = ".plot .role-axis-label text, .plot .role-axis-title text, .plot .role-legend-label text"
    labels += ", #figure-bars .role-mark.mark-text text"
    colours = browser.run(COLOURS, texts, "color") + browser.run(COLOURS, labels, "fill")
    assert len(colours) > 100
    # The halo of a rule's label has the colour of the paper; nothing else does.
    assert {colour for colour in colours if browser.contrast(colour, paper) < 4.5} == {paper}
    lines = set(browser.run(COLOURS, "#figure-norms .mark-line path", "stroke"))
    palette = ON_LIGHT if scheme == "light" else ON_DARK
    assert lines == {f"rgb({int(c[1:3], 16)}, {int(c[3:5], 16)}, {int(c[5:], 16)})" for c in palette[:6]}
    assert all(browser.contrast(colour, paper) >= 3 for colour in lines)


def test_legends(browser, page):
    browser.open(page)
    # curves and before have names at the ends of their lines
    assert browser.figures(clickable=True) == ["panels", "norms", "dots", "bars", "shares"]
    figures = ("panels", "dots", "bars")
    chosen = {}
    for figure in figures:
        assert [name.text for name in browser.legend(figure)] == ["true labels", "half of them random", "random labels"]
        assert set(browser.strengths(figure)) == {1.0}  # what is chosen in one figure says nothing about another
        strengths = browser.choose(figure, 1)
        chosen[figure] = len(strengths) // 3  # marks of one series of three
        assert strengths.count(1.0) == chosen[figure] >= 1
        assert max(s for s in strengths if s < 1) <= 0.2
    browser.paper(500)  # a choice outlives a new layout
    width = f"return Math.max(...{DRAWN}.map(svg => svg.viewBox.baseVal.width))"
    browser.wait(lambda: browser.run(width) < 520)
    assert {figure: browser.strengths(figure).count(1.0) for figure in figures} == chosen
    assert browser.console() == []


def test_tooltip(browser, page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    browser.open(page)
    bar = browser.driver.find_element(By.CSS_SELECTOR, "#figure-bars .role-mark.mark-rect path")
    browser.run("arguments[0].scrollIntoView({block: 'center'})", bar)
    ActionChains(browser.driver).move_to_element(bar).perform()
    shown = browser.wait(lambda: browser.run("return document.querySelector('#vg-tooltip-element.visible')?.innerText"))
    for text in ("MLP 1x512", "true labels", "training error", "12.86%", "from", "to"):
        assert text in shown


def test_downloads(browser, page):
    browser.open(page, 390, "dark")  # the files are those for white paper, whatever the screen is
    png = browser.download("panels", "png")
    assert png.name == "random-labels-panels.png"
    content = png.read_bytes()
    assert content.startswith(PNG)
    assert int.from_bytes(content[16:20]) > 1800  # pixels: wide enough for a slide

    browser.choose("bars")
    svg = browser.download("bars", "svg")
    assert svg.name == "random-labels-bars.svg"
    root = ElementTree.parse(svg).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert next(e for e in root.iter() if e.tag.endswith("rect")).get("fill") == "#ffffff"
    text = " ".join(root.itertext())
    assert "Bars" in text  # its title
    assert "chance: 90 %" in text
    assert 'opacity="0.1"' in svg.read_text()  # as it is on the screen

    with browser.download("norms", "csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18  # without the 6 that a logarithmic axis cannot show
    assert rows[0] == {"kernel": "kernel 0", "n": "100", "norm": "1000"}
    assert browser.console() == []
    assert browser.requests() == []


def test_without_javascript(browser, page):
    off = "Emulation.setScriptExecutionDisabled"
    browser.driver.execute_cdp_cmd(off, {"value": True})
    try:
        browser.paper(700)
        browser.driver.get(page.as_uri())
        sizes = browser.run(SIZES)
        assert len(sizes) == len(MARKS)
        assert all(wide > 300 for wide, _ in sizes)
        hidden = "button, .scripted, .slide, .legend"
        assert browser.run("return [...document.querySelectorAll(arguments[0])].every(e => !e.offsetParent)", hidden)
    finally:
        browser.driver.execute_cdp_cmd(off, {"value": False})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_finding_and_hero_are_on_the_first_screen(browser, page, scheme):
    browser.open(page, 1280, scheme)
    browser.paper(1280, scheme, 720)
    assert browser.bottom("h1") < 160
    assert 300 < browser.bottom(".hero .plot svg") < 720


def test_slider(browser, page):
    from selenium.webdriver.common.keys import Keys

    browser.open(page)
    first = browser.drawn("moving")
    assert browser.slide("moving", Keys.ARROW_RIGHT) == "half of them random"
    browser.wait(lambda: browser.drawn("moving") != first)
    browser.slide("moving", Keys.HOME)
    browser.wait(lambda: browser.drawn("moving") == first)
    assert browser.slide("hill", Keys.END) == "345\u00b0"  # a surface is turned
    with browser.download("moving", "csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["labels"] for row in rows} == {"true labels", "half of them random", "random labels"}
    assert browser.console() == []


def test_slider_and_switches_move_linked_panels_together(browser, page):
    from selenium.webdriver.common.keys import Keys

    browser.open(page)
    first = browser.drawn("linked")
    of = "return [...document.querySelectorAll('#figure-linked .plot svg {} path')].map(p => p.getAttribute('{}'))"
    lines, dots = of.format(".mark-line", "d"), of.format(".mark-symbol", "transform")
    (line, curve), before = browser.run(lines), browser.run(dots)
    assert browser.slide("linked", Keys.END) == "3"
    browser.wait(lambda: browser.run(lines)[0] != line)
    assert browser.run(lines)[1] == curve  # the curve depends on switches alone, and the dot moves on it
    assert browser.run(dots)[-1] != before[-1]
    switch = "document.querySelectorAll('#figure-linked .switch input')"
    assert browser.run(f"return [...{switch}].map(each => each.checked)") == [True, False]
    moved = browser.drawn("linked")
    browser.run(f"{switch}[1].click()")
    browser.wait(lambda: browser.drawn("linked") != moved)
    assert browser.run(lines)[1] != curve
    browser.run(f"{switch}[1].click()")
    browser.slide("linked", Keys.HOME)
    browser.slide("linked", Keys.ARROW_RIGHT)
    browser.wait(lambda: browser.drawn("linked") == first)  # 1, where it began
    with browser.download("linked", "csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["panel"], row["noisy"], row["bent"]) for row in rows} == {
        (panel, noisy, bent)
        for panel in ("The line", "Its error")
        for noisy in ("true", "false")
        for bent in ("true", "false")
    }
    assert {row["slope"] for row in rows if row["panel"] == "The line"} == {"0.5", "1", "2", "3"}
    assert browser.console() == []


def test_play_moves_the_slider_to_its_end(browser, page):
    browser.open(page)
    play = "document.querySelector('#figure-moving .play')"
    browser.run(f"{play}.click()")
    said = "return document.querySelector('#figure-moving .slide output').textContent"
    assert browser.wait(lambda: browser.run(said) == "random labels")
    assert browser.wait(lambda: browser.run(f"return {play}.textContent") == "\u25b6")


def test_legend_by_keyboard(browser, page):
    from selenium.webdriver.common.keys import Keys

    browser.open(page)
    entry = browser.legend("bars")[2]
    before = browser.strengths("bars")
    entry.send_keys(Keys.SPACE)
    browser.wait(lambda: browser.strengths("bars") != before)
    assert entry.get_attribute("aria-pressed") == "true"
    entry.send_keys(Keys.SPACE)
    browser.wait(lambda: browser.strengths("bars") == before)
    assert entry.get_attribute("aria-pressed") == "false"


def test_claims_and_figures_link_to_each_other(browser, page):
    browser.open(page)
    targets = browser.run("return [...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href'))")
    assert {"#claim-fit", "#figure-curves", "#figure-moving"} <= set(targets)
    assert all(browser.run("return !!document.querySelector(arguments[0])", target) for target in targets)
