"""The page of a tour: escaped, without references to anything outside, right on phones and screens."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest
from tours.outcomes import OUTCOMES, TOUR

from truerisk.certificates.given import Given
from truerisk.report import write_tour
from truerisk.report.labels import apart
from truerisk.report.tour import NARROW, WIDE, render_tour
from truerisk.report.tour_figures import PAD, costs_figure, labels_figure, twin_figure

HOSTILE = "<script>document.title = 'taken'</script>\"'&" + "a" * 200
SVG = "{http://www.w3.org/2000/svg}"
VISIBLE = "[...document.querySelectorAll('.plot svg')].filter(s => s.getClientRects().length)"

BOX = "getBoundingClientRect()"
INSIDE = (
    f"svg => [...svg.querySelectorAll('text')].every(t => t.{BOX}.left >= svg.{BOX}.left - 1 "
    f"&& t.{BOX}.right <= svg.{BOX}.right + 1)"
)


def hostile():
    subject = replace(TOUR.subject, model=HOSTILE, data=HOSTILE, given=Given(HOSTILE, HOSTILE))
    return replace(TOUR, subject=subject, refusal=HOSTILE, twin=None)


@pytest.mark.parametrize("name", list(OUTCOMES))
def test_every_outcome_has_a_page_that_needs_nothing_else(name):
    page = render_tour(OUTCOMES[name])
    assert "<script" not in page.lower()
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|#)|url\((?!#)|@import""", page)
    assert "nan" not in re.findall(r'[xyrw12]="(\w+)"', page)
    assert OUTCOMES[name].story.headline in page.replace("&#39;", "'")


def test_all_text_is_escaped():
    page = render_tour(hostile())
    assert "<script" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", list(OUTCOMES))
def test_no_two_labels_of_slopes_overlap(name, width):
    if OUTCOMES[name].twin is None:
        return
    drawn = ET.fromstring(twin_figure(OUTCOMES[name].twin, width))
    labels = [each for each in drawn.iter(f"{SVG}text") if "text-" in each.get("class")]
    places = sorted(float(each.get("y")) for each in labels)
    assert len(labels) == len(OUTCOMES[name].twin.moves)
    assert min(b - a for a, b in pairwise(places)) >= 16
    assert places[0] > 20
    assert places[-1] <= float(drawn.get("height"))


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_no_dashed_line_runs_through_a_title(width):
    for svg in (labels_figure(TOUR.labels, width), costs_figure(TOUR.costs, width)):
        drawn = ET.fromstring(svg)
        texts = [each for each in drawn.iter(f"{SVG}text") if "halo" in each.get("class")]
        titles = [each for each in texts if each.get("x") == f"{PAD:.1f}"]
        lines = [each for each in drawn.iter(f"{SVG}line") if each.get("class") == "chance"]
        assert len(titles) >= 2
        assert len(lines) > len(titles)  # one beside each title, and one above all
        for place in (float(title.get("y")) for title in titles):
            assert not any(float(each.get("y1")) < place + 3 and float(each.get("y2")) > place - 11 for each in lines)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_figures_are_one_svg_each(width):
    for svg in (labels_figure(TOUR.labels, width), costs_figure(TOUR.costs, width)):
        assert ET.fromstring(svg).get("width") == str(width)


def test_labels_keep_their_distance_and_their_order():
    assert apart([5.0, 6.0, 7.0, 90.0], 10, 0, 100) == [0.0, 10.0, 20.0, 90.0]
    assert apart([95.0, 96.0], 10, 0, 100) == [90.0, 100.0]
    assert apart([], 10, 0, 100) == []


@pytest.mark.parametrize("name", ["usual", "left out", "imbalanced", "hostile"])
def test_page_in_a_browser(browser, tmp_path, name):
    path = write_tour(hostile() if name == "hostile" else OUTCOMES[name], tmp_path / "tour.html")
    for width in (1600, 800, 390):
        browser.open(path, width)
        assert browser.driver.title.startswith("Tour: ")
        for scheme in ("light", "dark"):
            browser.paper(width, scheme)
            assert browser.fits()
            inside = browser.run(f"return {VISIBLE}.every({INSIDE})")
            assert inside
            ink, paper = browser.run("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")
            assert browser.contrast(ink, paper) >= 7
            assert (browser.luminance(paper) > 0.5) == (scheme == "light")
        assert browser.requests() == []
        assert browser.console() == []


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_the_first_figure_is_on_the_first_screen(browser, tmp_path, width, height):
    browser.open(write_tour(TOUR, tmp_path / "tour.html"), width)
    assert browser.run(f"return {VISIBLE}[0].{BOX}.bottom") <= height


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_in_figures_can_be_read(browser, tmp_path, scheme):
    browser.open(write_tour(TOUR, tmp_path / "tour.html"), 1200, scheme)
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    colors = browser.run(
        f"return {VISIBLE}.flatMap(s => [...s.querySelectorAll('text')].map(t => getComputedStyle(t).fill))"
    )
    assert len(colors) > 20
    for color in set(colors):
        assert browser.contrast(color, paper) >= 4.5
