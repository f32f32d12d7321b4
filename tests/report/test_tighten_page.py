"""The page of ``truerisk tighten``: its numbers, its figures, and how it looks in a browser."""

import math
import re
import xml.etree.ElementTree as ET
from html import unescape
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from truerisk import rescaling_report
from truerisk.errors import TrueriskError
from truerisk.pacbayes import COLUMNS, FORMS, RescalingReport
from truerisk.report import write_tighten
from truerisk.report.labels import text_width
from truerisk.report.tighten import NARROW, WIDE, Shown, render_tighten
from truerisk.report.tighten_figures import Axis, bounds_figure
from truerisk.report.tighten_walk import walk_figure
from truerisk.words import bound, magnitude, nats

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>document.title = 'taken'</script>\"'&" + "a" * 200
VISIBLE = "[...document.querySelectorAll('.plot svg')].filter(s => s.getClientRects().length)"
OVERLAPS = (
    """
const clashes = [];
for (const svg of """
    + VISIBLE
    + """) {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].filter(t => !t.getScreenCTM().b)
    .map(t => ({ words: t.textContent, box: t.getBoundingClientRect() }));
  const marks = [...svg.querySelectorAll('circle.original, path.rescaled, path.tick')]
    .map(m => m.getBoundingClientRect());
  texts.forEach(({ words, box }, i) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1) clashes.push(`${words}: cut off`);
    if (box.top < frame.top - 1 || box.bottom > frame.bottom + 3) clashes.push(`${words}: cut off below`);
    for (const other of [...texts.slice(i + 1).map(t => t.box), ...marks]) {
      const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
      const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
      if (wide > 1 && high > 4) clashes.push(`${words}: overlaps`);
    }
  });
}
return clashes
"""
)


def module(hidden, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, 2))


def data():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    return (rng.normal(size=(60, 3)) + 2 * y[:, None]).astype(np.float32), y


@pytest.fixture(scope="module")
def real():
    """A report with its walk, as it comes."""
    found = rescaling_report(module(4), data(), 0.05, 0.7, draws=60, lifted=5, form="mcallester", name="first.pt")
    return Shown(found, "truerisk certify --model 'a b'", found.walk())


def changed(shown, walk=False, **values):
    """The report with other numbers."""
    report = RescalingReport(**{**vars(shown.report), **values})
    return Shown(report, shown.certify, shown.walked if walk else None)


def bounds(shown, before, after, tuned=None, both=None, **values):
    numbers = dict(zip(COLUMNS, (before, tuned or after, after, both or after), strict=True))
    return changed(shown, bounds={**shown.report.bounds, shown.report.form: numbers}, **values)


def many(shown, count, most=2.5):
    """Networks with bounds of all sizes, crowded at 1, some with long names."""
    rng = np.random.default_rng(count)
    made = []
    for number in range(count):
        before = float(rng.uniform(0.9, most))
        after = before * float(rng.uniform(0.5, 1))
        name = f"a network with a rather long name {number}" if number % 3 == 2 else f"mlp:{number}"
        made.append(bounds(shown, before, after, after * 0.98, after * 0.95, name=name))
    return made


def cells(page):
    return [unescape(re.sub(r"<[^>]*>", "", each)).strip() for each in re.findall(r"<t[dh][^>]*>.*?</t[dh]>", page)]


def shown_number(value):
    return bound(value, 3) if value < 10 else magnitude(value)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_every_number_of_the_report_is_on_the_page(real):
    page, report = render_tighten([real]), real.report
    told = cells(page)
    for column in COLUMNS:
        assert nats(report.kl[column]) in told
        for form in FORMS:
            assert shown_number(report.bounds[form][column]) in told, (form, column)
    text = unescape(page)
    assert report.moved.replace(" -", " \u2212") in text
    assert " \u2192 ".join(nats(kl) for kl in report.best.kls) in text
    assert f"{nats(report.lifted.value, down=True)} nats, estimated from 5 sampled networks" in text
    assert "from 60 examples" in text
    assert "A tenth of delta" in text
    assert "truerisk certify --model 'a b'" in text


def test_vacuous_cells_are_marked(real):
    page = render_tighten([bounds(real, 1.2, 0.6)])
    marked = re.findall(r'<td class="number bound( says-nothing)?">([^<]*)</td>', page)[:4]
    assert marked == [(" says-nothing", "1.200"), ("", "0.600"), ("", "0.600"), ("", "0.600")]


def test_networks_beyond_those_with_a_walk_are_in_the_table_only(real):
    page = render_tighten([real, *many(real, 5)])
    assert page.count('class="network"') == 1
    assert page.count('<th scope="row" title=') == 6


def test_the_table_is_sorted_by_size(real):
    large = rescaling_report(module(9), data(), 0.05, 0.7, draws=60, lifted=0, name="larger")
    titles = re.findall(r'<th scope="row" title="([^"]*)">', render_tighten([Shown(large), real]))
    assert titles == ["first.pt", "larger"]


def test_a_network_that_certify_does_not_take(real):
    assert "save the state dict" in render_tighten([Shown(real.report)])


def test_no_network_is_refused():
    with pytest.raises(TrueriskError, match="no network"):
        render_tighten([])


@pytest.mark.parametrize("shown", ["real", "many"])
def test_the_page_needs_nothing_else(real, shown):
    page = render_tighten([real] if shown == "real" else many(real, 12))
    assert "<script" not in page.lower()
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|#)|url\((?!#)|@import""", page)


def test_all_text_is_escaped(real):
    page = render_tighten([Shown(changed(real, name=HOSTILE).report, HOSTILE, real.walked)], HOSTILE)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 5


# ---- figures ---------------------------------------------------------------------------------------------------------


def drawn(shown, width):
    return ET.fromstring(bounds_figure([each.report for each in shown], width))


def number_of(mark, key):
    return float(mark.get(key))


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 12, 20])
@pytest.mark.parametrize("most", [1.4, 30.0])
def test_marks_stand_where_the_numbers_are(real, width, count, most):
    """One circle, diamond, and pair of ticks per network; from two grid lines the axis is read back."""
    shown = many(real, count, most)
    figure = drawn(shown, width)
    circles = [each for each in figure.iter(f"{SVG}circle") if each.get("class") == "original"]
    diamonds = [each for each in figure.iter(f"{SVG}path") if each.get("class") == "rescaled"]
    ticks = [each for each in figure.iter(f"{SVG}path") if each.get("class").startswith("tick")]
    assert (len(circles), len(diamonds), len(ticks)) == (count, count, 2 * count)
    ys = [float(re.match(r"M[\d.]+,([\d.]+)L", each.get("d"))[1]) for each in figure.iter(f"{SVG}path")
          if each.get("class") == "grid"]  # fmt: skip
    words = [float(each.text) for each in figure.iter(f"{SVG}text") if each.get("text-anchor") == "end"
             and each.get("class") == "soft"]  # fmt: skip
    assert len(ys) == len(words) >= 2
    log = np.log if max(each.report.bound["original"] for each in shown) > 4 else np.asarray
    slope = (ys[-1] - ys[0]) / (log(words[-1]) - log(words[0]))
    for circle, diamond, each in zip(circles, diamonds, shown, strict=True):
        for at, column in ((number_of(circle, "cy"), "original"), (_middle(diamond), "rescaled")):
            assert at == pytest.approx(ys[0] + slope * (log(each.report.bound[column]) - log(words[0])), abs=0.6)
    one = next(each for each in figure.iter(f"{SVG}path") if each.get("class") == "one")
    at_one = float(re.match(r"M[\d.]+,([\d.]+)L", one.get("d"))[1])
    zone = next(each for each in figure.iter(f"{SVG}rect") if each.get("class") == "vacuous")
    assert number_of(zone, "y") + number_of(zone, "height") == pytest.approx(at_one, abs=0.02)


def _middle(diamond):
    top, reach = map(float, re.match(r"M[\d.]+,([\d.-]+)l([\d.]+)", diamond.get("d")).groups())
    return top + reach


def test_long_names_are_shortened_with_a_title(real):
    figure = drawn(many(real, 5), WIDE)
    titles = [each.text for each in figure.iter(f"{SVG}title")]
    assert "a network with a rather long name 2" in titles
    assert len(titles) == 5


def test_slanted_names_stay_within_the_figure(real):
    """The first one starts left of its column: a wide name is shortened further, a narrow one is whole."""
    shown = [changed(real, name=name) for name in ("W" * 14, "W" * 14, "mlp:1", "mlp:2")]
    figure = drawn(shown, NARROW)
    turned = [each for each in figure.iter(f"{SVG}text") if "rotate(-45" in (each.get("transform") or "")]
    assert len(turned) == 4
    for each in turned:
        assert float(each.get("x")) - text_width(each.text, 13) * math.sqrt(0.5) > 0
    assert [each.text for each in turned][2:] == ["mlp:1", "mlp:2"]
    assert len(turned[0].text) < len(turned[1].text)


def test_changes_are_written_as_powers(real):
    page = render_tighten([real])
    assert re.search(r"change by at most \d \u00d7 10\u207b[\u00b9\u00b2\u00b3\u2070-\u2079]+ of the largest one", page)


def test_a_gain_too_small_to_print_is_not_told(real):
    assert "from 0.501 to 0.500" in render_tighten([bounds(real, 0.5005, 0.5)])
    assert "leaves the bound of first.pt at 0.501" in render_tighten([bounds(real, 0.5005, 0.5004)])


def test_infinite_and_huge_bounds_are_drawn(real):
    figure = bounds_figure([bounds(real, float("inf"), 1e12).report, bounds(real, 1.0, 1.0).report], WIDE)
    assert "nan" not in figure
    assert "infinite" in figure


@pytest.mark.parametrize("most", [0.05, 0.7, 1.0, 3.3, 44.0, 9e6, 3e9])
def test_ticks_are_few_and_round(most):
    found = Axis(0.0, most, 0, 100).ticks()
    assert 3 <= len(found) <= 8
    steps = [b - a for (a, _), (b, _) in pairwise(found)]
    assert max(steps) == pytest.approx(min(steps))
    assert all(float(words.replace(",", "")) == pytest.approx(value, abs=1e-3 * most) for value, words in found)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_walk_shows_bounds_and_changes(real, width):
    figure = ET.fromstring(walk_figure(real.report, real.walked, width, "key"))
    paths = [each for each in figure.iter(f"{SVG}path") if "walk" in each.get("class")]
    assert [each.get("d").count("L") for each in paths] == [60] * 4
    dots = [each for each in figure.iter(f"{SVG}circle") if "step" in each.get("class")]
    assert len(dots) == sum(step.change >= 1e-17 for step in real.walked.steps)
    circle = next(each for each in figure.iter(f"{SVG}circle") if each.get("class") == "original")
    place = f"{number_of(circle, 'cx'):.1f},{number_of(circle, 'cy'):.1f}"
    assert place in paths[1].get("d")  # the given network lies on the walk
    assert len({each.get("id") for each in figure.iter(f"{SVG}clipPath")}) == 2


def test_a_network_without_a_walk_says_so():
    torch.manual_seed(0)
    found = rescaling_report(nn.Linear(3, 2), data(), 0.05, 0.7, draws=60, lifted=2)
    page = render_tighten([Shown(found, "", found.walk())])
    assert "Nothing in this network can be rescaled." in page
    assert 'aria-label="Walk along the orbit"' not in page


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 5, 12, 20])
def test_page_in_a_browser(browser, tmp_path, real, count):
    shown = [real, *many(real, count - 1)]
    path = write_tighten(tmp_path / "tighten.html", shown, "truerisk tighten --model " + "a" * 200)
    for width in (1280, 390):
        browser.open(path, width)
        assert browser.driver.title.startswith("Bounds before and after rescaling")
        for scheme in ("light", "dark"):
            browser.paper(width, scheme)
            assert browser.fits()
            assert browser.run(OVERLAPS) == []
            paper = browser.run("return getComputedStyle(document.body).backgroundColor")
            assert (browser.luminance(paper) > 0.5) == (scheme == "light")
            colors = browser.run(
                f"return {VISIBLE}.flatMap(s => [...s.querySelectorAll('text')].map(t => getComputedStyle(t).fill))"
            )
            assert len(colors) > 20
            assert min(browser.contrast(color, paper) for color in set(colors)) >= 4.5
        assert browser.requests() == []
        assert browser.console() == []


def test_overlaps_are_found(browser, tmp_path, real):
    browser.open(write_tighten(tmp_path / "tighten.html", many(real, 5)), 1280)
    assert browser.run(OVERLAPS) == []
    browser.run(f"const [a, b] = {VISIBLE}[0].querySelectorAll('text'); b.setAttribute('y', a.getAttribute('y')); "
                "b.setAttribute('x', a.getAttribute('x'))")  # fmt: skip
    assert any("overlaps" in each for each in browser.run(OVERLAPS))


def test_hostile_names_in_a_browser(browser, tmp_path, real):
    shown = Shown(changed(real, name=HOSTILE).report, HOSTILE, real.walked)
    for width in (1280, 390):
        browser.open(write_tighten(tmp_path / "tighten.html", [shown, *many(real, 3)], HOSTILE), width)
        assert browser.driver.title.startswith("Bounds before")
        assert browser.fits()
        assert browser.console() == []


@pytest.mark.parametrize("count", [1, 5, 12])
def test_the_figure_is_on_the_first_screen(browser, tmp_path, real, count):
    browser.open(write_tighten(tmp_path / "tighten.html", many(real, count)), 1280)
    assert browser.run(f"return {VISIBLE}[0].getBoundingClientRect().bottom") <= 720
