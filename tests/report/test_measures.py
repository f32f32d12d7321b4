"""The page of a network's measures: what it says, and how it looks in a real browser."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from truerisk.measures import BOUNDS, MEASURES, Bound, Measures, Value
from truerisk.measures.audit import Audit, Moved
from truerisk.report.measure_figures import bounds_figure, layers_figure, log10
from truerisk.report.measures import LAYERED, render_measures, write_measures

EVIL = "<script>document.title = 'taken'</script>"
VISIBLE = "[...document.querySelectorAll('.plot svg')].filter(s => s.getClientRects().length)"
NAMES = list(MEASURES)[:40]
FACTS = {"Network": "mlp", "Data": "digits: 60 examples", "Seed": "0"}


def bound(name: str, value: float, log: float | None = None) -> Bound:
    return Bound(name, value, "A paper", "Theorem 1", "What it means.", {}, log)


def some(layer: str = "a.layer") -> Measures:
    """Numbers of all sizes under real names, some of them with layers, and bounds below and above 1."""
    rng = np.random.default_rng(0)
    values = {name: Value(float(10 ** rng.uniform(-8, 12))) for name in NAMES}
    for name in NAMES[::3]:
        values[name] = Value(3.0, layers={layer: 1.0, "b": 2.0, "c" * 60: 1e-5})
    values[NAMES[1]] = Value.of_log(5000.0)
    values[NAMES[2]] = Value(-2.5)
    sizes = [0.31, 1.02, 7.0, 2e4, 1e9, *[1e12] * 20]
    bounds = {name: bound(name, size) for name, size in zip(BOUNDS, sizes, strict=False)}
    last = list(bounds)[-1]
    bounds[last] = bound(last, math.inf, 2000.0)
    skipped = {"one": "no layer is a convolution.", "two": "no layer is a convolution.", "three": "it is no chain."}
    return Measures(values, bounds, skipped, 60, 3)


def panels() -> dict[str, np.ndarray]:
    margins = np.random.default_rng(0).normal(2.0, 1.5, size=500)
    return {"margins": margins, "over spectral complexity": 1e-3 * margins, "over path norm": 1e-9 * margins}


def audited(found: Measures) -> Audit:
    moves = {}
    for k, name in enumerate([*found.values, *found.bounds]):
        invariant = (MEASURES | BOUNDS)[name].invariant
        orders = 0.0 if invariant else (math.inf if k % 7 == 0 else 0.4 * k)
        moves[name] = Moved(name, "measure", "f", invariant, 1.0, orders, 1e-5, "changed its sign")
    return Audit(moves, found, 3e-16, 100, 5, 1.0)


@pytest.fixture(scope="module")
def page() -> str:
    return render_measures(some(), panels(), FACTS)


def words(page: str) -> str:
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", page, flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_everything_is_on_the_page(page):
    text = words(page)
    found = some()
    for name in NAMES:
        entry = MEASURES[name]
        assert name in text
        assert " ".join(entry.meaning.split()) in text.replace("&#39;", "'").replace("&lt;", "<")
    for name in found.bounds:
        assert name in text
    assert "10^2171.5" in text  # a value beyond floats
    assert "at most 31.0% wrong on unseen data" in text
    assert "vacuous: 868.6 orders of magnitude too large" in text
    assert f"1 of {len(found.bounds)} bounds says something" in text
    assert "one, two: no layer is a convolution." in text
    invariant = sum(MEASURES[name].invariant for name in NAMES)
    assert f"40 measures of one network; rescaling leaves {invariant} unchanged by definition." in text
    assert "Nothing on this page is a certificate" in text


def test_families_come_in_order_and_once(page):
    families = re.findall(r'scope="rowgroup">([^<]+)<', page)
    assert families == list(dict.fromkeys(MEASURES[name].family for name in NAMES))


def test_the_audit_replaces_what_is_declared():
    found = some()
    text = words(render_measures(found, panels(), FACTS, audited(found)))
    fooled = len(audited(found).fooled)
    assert f"{fooled} of {len(found.values) + len(found.bounds)} numbers changed while the network stayed" in text
    assert "No output changed by more than 3e-16" in text
    assert "orders of magnitude" in text
    assert "changed its sign" in text
    assert "may change" not in text
    assert "by definition" not in text.lower()
    wrong = audited(found)
    name = next(iter(wrong.moves))
    wrong.moves[name] = Moved(name, "measure", "f", True, 1.0, 2.0, 1e-5)
    assert f"Declared wrongly as invariant: {name}." in words(render_measures(found, panels(), FACTS, wrong))


def test_nothing_is_claimed_that_was_not_tried(page):
    text = words(page)
    assert "this network was not rescaled" in text
    assert "When rescaled" not in text
    assert not re.search(r"rescaling[^.]* changes \d|\bchanged|fooled|unchanged (?!by definition)", text)


def test_text_never_becomes_markup():
    found = some(layer=EVIL)
    found.skipped["three"] = EVIL
    page = render_measures(found, {EVIL: panels()["margins"]}, FACTS | {"Network": EVIL, EVIL: EVIL})
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 8


def test_without_margins_bounds_layers_or_measures():
    bare = Measures({}, {}, {}, 60, 3)
    page = render_measures(bare, {}, FACTS)
    assert "<svg" not in page
    assert "Skipped" not in page
    one = Measures({NAMES[0]: Value(1.0)}, {}, {}, 60, 3)
    text = words(render_measures(one, {"margins": panels()["margins"]}, FACTS))
    assert "1 measure of one network" in text
    assert "not defined for this network" in text


def test_nothing_is_fetched(page):
    plain = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", page)
    assert not re.search(r"https?:|@import|url\((?!#)", plain)


def test_bars_of_bounds_end_where_they_should():
    """On the logarithmic axis the way from 1 to each bound is in proportion to its orders of magnitude."""
    names = list(BOUNDS)[:3]
    figure = bounds_figure([bound(names[0], 0.01), bound(names[1], 100.0), bound(names[2], 1e8)], 780)
    bars = re.findall(r'<path [^>]*d="M([-\d.]+),[-\d.]+h([-\d.]+)[^"]*"[^>]* fill="#', figure)
    starts, lengths = ([float(number) for number in numbers] for numbers in zip(*bars, strict=True))
    assert len(lengths) == 3
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-6)
    assert lengths[2] == pytest.approx(4 * lengths[1], rel=1e-6)
    assert starts[1] == pytest.approx(starts[2])
    assert starts[0] + lengths[0] == pytest.approx(starts[1])


def test_bounds_beyond_floats_have_a_place():
    assert log10(bound("b", math.inf, 2000.0)) == pytest.approx(2000 / math.log(10))
    assert math.isfinite(log10(bound("b", math.inf)))
    assert "10\u2078\u2070\u2070" in bounds_figure([bound("vc", math.inf, 2000.0)], 780)


def test_layers_are_in_the_order_in_which_they_run():
    figure = layers_figure({"l2-norm": {"z": 3.0, "m": 1.0, "a": 2.0}}, 320)
    assert re.findall(r">([zma])</text>", figure) == ["z", "m", "a"]


def test_few_measures_are_drawn_layer_by_layer(page):
    section = page[page.index('id="layers"') : page.index('id="skipped"')]
    drawn = {name for name in NAMES if f">{name}</text>" in section}
    assert 1 <= len(drawn) <= LAYERED
    assert len({MEASURES[name].family for name in drawn}) == len(drawn)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, Path]:
    """Two pages in files, without and with an audit."""
    found, folder = some(layer=EVIL), tmp_path_factory.mktemp("pages")
    facts = FACTS | {"Network": "n" * 200, "Weights": EVIL}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("truerisk.report.measures.margin_panels", lambda subject: panels())
        return {
            kind: write_measures(folder / f"{kind}.html", found, None, facts, audit=audit)  # type: ignore[arg-type]
            for kind, audit in (("plain", None), ("audited", audited(found)))
        }


@pytest.mark.parametrize("width", [1200, 700, 390, 320])
@pytest.mark.parametrize("kind", ["plain", "audited"])
def test_page_in_a_browser(browser, written, kind, width):
    browser.open(written[kind], width)
    assert browser.driver.title.startswith("Measures: nnn")
    assert browser.run("return window.innerWidth") == width
    for scheme in ("light", "dark"):
        browser.paper(width, scheme)
        browser.run("document.querySelectorAll('details').forEach(d => d.open = false)")
        looks_right(browser)
    assert browser.requests() == []
    assert browser.console() == []


def looks_right(browser) -> None:
    """Nothing is cut off or too small, with the details closed and open."""
    run = browser.run
    assert browser.fits()
    run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.fits()
    sizes = run(f"return {VISIBLE}.map(s => [s.getBoundingClientRect().width, s.getBoundingClientRect().height])")
    assert len(sizes) == 3
    assert all(size[0] > 250 and size[1] > 100 for size in sizes)
    smallest = run(
        f"return Math.min(...{VISIBLE}.map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width * "
        "Math.min(...[...s.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize)))))"
    )
    assert smallest > 9
    outside = run(
        f"return {VISIBLE}.flatMap(s => {{ const b = s.getBoundingClientRect(); return [...s.querySelectorAll('text')]"
        ".filter(t => t.textContent && (t.getBoundingClientRect().left < b.left - 3 || "
        "t.getBoundingClientRect().right > b.right + 3)).map(t => t.textContent) })"
    )
    assert outside == []
    assert browser.clashes() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_no_line_runs_through_the_names_of_bounds(browser, tmp_path, width):
    values = dict(zip(BOUNDS, (0.3, 7.831, 9.99, 1781.0, 2e5), strict=False))
    found = Measures({}, {name: bound(name, value) for name, value in values.items()}, {}, 60, 3)
    path = tmp_path / "bounds.html"
    path.write_text(render_measures(found, {}, FACTS), encoding="utf-8")
    browser.open(path, width)
    assert browser.clashes() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, written, scheme):
    browser.open(written["audited"], 1200, scheme)
    run = browser.run
    paper = run("return getComputedStyle(document.body).backgroundColor")
    assert (browser.luminance(paper) > 0.5) == (scheme == "light")
    for selector in ("h1", ".kicker", "figcaption", "td", ".meaning", "summary", ".stays", ".moves", "li", "footer"):
        colour = run("return getComputedStyle(document.querySelector(arguments[0])).color", selector)
        assert browser.contrast(colour, paper) >= 4.5, selector
    fills = f"return {VISIBLE}.flatMap(s => [...s.querySelectorAll(arguments[0])].map(t => getComputedStyle(t).fill))"
    texts, bars = run(fills, "text"), run(fills, ".mark-rect path")
    assert texts
    assert bars
    assert min(browser.contrast(colour, paper) for colour in set(texts)) >= 4.5
    assert min(browser.contrast(colour, paper) for colour in set(bars)) >= 3
