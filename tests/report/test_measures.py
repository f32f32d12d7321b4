"""The page of a network's measures: what it says, and where the marks of its figures are."""

from __future__ import annotations

import base64
import hashlib
import math
import re

import numpy as np
import pytest
from report.measured import EVIL, FACTS, LEADING, NAMES, audited, bound, panels, random_labels, some

from truerisk.measures import BOUNDS, MEASURES, Measures, Value
from truerisk.measures.audit import Moved
from truerisk.measures.compare import Comparison
from truerisk.measures.zoo import zoo
from truerisk.report.compare import render_comparison
from truerisk.report.measure_figures import (
    Dot,
    Mark,
    bounds_figure,
    layers_figure,
    log10,
    margins_figure,
    ratios_figure,
)
from truerisk.report.measure_parts import LAYERED
from truerisk.report.measures import render_measures


@pytest.fixture(scope="module")
def page() -> str:
    return render_measures(some(), panels(), FACTS)


def words(page: str) -> str:
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>|<script>.*?</script>", " ", page, flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_everything_is_on_the_page(page):
    text = words(page)
    found = some()
    for name in NAMES:
        entry = MEASURES[name]
        assert entry.name in text
        assert " ".join(entry.meaning.split()) in text.replace("&#39;", "'").replace("&lt;", "<")
    for name in found.bounds:
        assert name in text
    assert "10^2171.5" in text  # a value beyond floats
    assert "at most 31.0% wrong on unseen data" in text
    assert "vacuous: 868.6 orders of magnitude too large" in text
    assert f"1 of {len(found.bounds)} bounds says something" in text
    assert "one, two: no layer is a convolution." in text
    assert f"Held-out error is 2.8%; the smallest of {len(found.bounds)} bounds is 0.31." in text
    assert "10 of 359" not in text
    assert "2.8% of 359 held-out examples (95% interval for the true risk: 1.3% to 5.1%)" in text
    assert "Nothing on this page is a certificate" in text


def test_the_best_come_first_the_rest_is_folded_by_family(page):
    order = [page.index(f'id="{name}"') for name in ("leading", "bounds", "margins", "measures", "layers")]
    assert order == sorted(order)
    leading = page[order[0] : order[1]]
    assert re.findall(r'<span class="name">([^<]+)<', leading) == [MEASURES[name].name for name in LEADING]
    for name in LEADING:
        known = zoo().measures[name]
        assert f"tau {known.tau:+.2f}".replace("-", "\u2212") in leading
    assert "75 fully connected networks" in leading
    assert "loose comparison" in leading
    families = re.findall(r"<summary>([a-z]+) <span", page)
    assert families == list(dict.fromkeys(MEASURES[name].family for name in NAMES))
    assert '<details class="family" open' not in page


def test_one_histogram_of_margins(page):
    section = page[page.index('id="margins"') : page.index('id="measures"')]
    assert section.count("<svg") == 2, "one figure, drawn for screens and for phones"
    medians = [f"{np.median(values):.4g}" for values in panels().values()]
    assert re.findall(r'<td class="number">([^<]+)</td>', section) == medians


def test_random_labels_stand_next_to_every_number():
    found = some(reference=random_labels())
    page = render_measures(found, panels(), FACTS, other={k: v / 50 for k, v in panels().items()})
    text = words(page)
    assert "leading measures rate this network simpler than a random-label copy." in text
    assert "This network errs on 2.8% of held-out examples, its copy on 90.5%." in text
    assert "Training errors are 0.07% and 0%: the copy has memorized its labels." in text
    assert "The reference was trained on random labels." in text
    leading = page[page.index('id="leading"') : page.index('id="bounds"')]
    for name in LEADING:
        row = leading[leading.index(f">{MEASURES[name].name}<") :].split("</tr>")[0]
        value, other, ratio = re.findall(r'data-label="(?:Value|Random labels|Ratio)">([^<]*)<', row)
        assert float(other.replace(",", "")) / float(value.replace(",", "")) == pytest.approx(
            float(ratio.replace(",", "")), rel=6e-3
        )
    section = page[page.index('id="margins"') : page.index('id="measures"')]
    assert "over path norm" in section
    assert re.findall(r'<td class="number">(0\.02)</td>', section) == ["0.02"] * 3
    assert "does not fit" not in text
    failed = some(reference=random_labels(fits=False))
    assert "The copy does not fit its random labels." in words(render_measures(failed, panels(), FACTS))
    reason = "There is no reference on random labels: no."
    assert reason in words(render_measures(some(no_reference=reason), panels(), FACTS))


def test_the_csv_of_the_page_is_that_of_the_numbers(page):
    [data] = re.findall(r'href="data:text/csv;charset=utf-8;base64,([^"]+)"', page)
    assert base64.b64decode(data).decode() == some().csv()


def test_the_policy_allows_this_script_and_no_other(page):
    [script] = re.findall(r"<script>(.*?)</script>", page, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    allowed = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert allowed == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
    }


def test_the_audit_replaces_what_is_declared():
    found = some()
    text = words(render_measures(found, panels(), FACTS, audited(found)))
    fooled = len(audited(found).fooled)
    assert f"{fooled} of {len(found.values) + len(found.bounds)} numbers changed while the network stayed" in text
    assert "No output changed by more than 3e-16" in text
    assert re.search(r"changed \u00d7[\d.,]+", text)
    assert "changed its sign" in text
    assert "may change" not in text
    assert "this network was not rescaled" not in text
    wrong = audited(found)
    name = next(iter(wrong.moves))
    wrong.moves[name] = Moved(name, "measure", "f", True, 1.0, 2.0, 1e-5)
    assert f"Declared wrongly as invariant: {name}." in words(render_measures(found, panels(), FACTS, wrong))


def test_one_wording_for_what_a_rescaling_does(page):
    cells = set(re.findall(r'<span class="(?:stays|moves)">([^<]+)<', page))
    assert cells == {"unchanged", "may change"}
    assert "this network was not rescaled" in words(page)
    assert not re.search(r"rescaling[^.]* changes \d|\bfooled", words(page))


def test_text_never_becomes_markup():
    found = some(layer=EVIL, reference=random_labels(EVIL), no_reference=EVIL)
    found.skipped["three"] = EVIL
    evil = FACTS | {"Network": EVIL, EVIL: EVIL}
    pages = [
        render_measures(found, {EVIL: panels()["margins"]}, evil),
        render_comparison(Comparison(found, found, (EVIL, "b")), evil | {"Data": EVIL}),
    ]
    for page in pages:
        assert page.count("<script") == 1, "its own"
        assert "document.title = 'taken'" not in page
        assert page.count("&lt;script&gt;") >= 5


def test_without_margins_bounds_layers_or_measures():
    bare = Measures({}, {}, {}, 60, 3)
    page = render_measures(bare, {}, FACTS)
    assert "<svg" not in page
    assert "Skipped" not in page
    one = Measures({NAMES[0]: Value(1.0)}, {}, {}, 60, 3)
    text = words(render_measures(one, {"margins": panels()["margins"]}, FACTS))
    assert "1 measure of one network." in text
    assert "Not defined for this network" in text


def test_nothing_is_fetched(page):
    plain = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", page)
    assert not re.search(r"https?:|@import|url\((?!#)", plain)


def test_a_comparison_tells_both_networks():
    small, large = (
        some(),
        Measures(random_labels().found.values, {}, {}, 60, 3, observed=random_labels().found.observed),
    )
    page = render_comparison(Comparison(small, large, ("mlp:64", "mlp:512")), FACTS | {"Data": "digits"})
    text = words(page)
    assert "A: mlp:64. B: mlp:512." in text
    assert "Held-out errors: 2.8% (A) and 90.5% (B) of 359 examples. Training errors: 0.07% (A) and 0% (B)." in text
    alike = render_comparison(Comparison(small, small, ("a", "b")), FACTS)
    assert "their 95% intervals overlap" in words(alike)
    [data] = re.findall(r"base64,([^\"]+)\"", page)
    assert base64.b64decode(data).decode() == Comparison(small, large).csv()


# ---- figures -------------------------------------------------------------------------------------------------------


def rects(figure: str, kind: str) -> list[tuple[float, float]]:
    """(left end, width) of each bar of a class."""
    found = re.findall(rf'<rect class="[^"]*\b{kind}\b[^"]*" x="([-\d.]+)" y="[-\d.]+" width="([-\d.]+)"', figure)
    return [(float(x), float(width)) for x, width in found]


def test_bars_of_bounds_end_where_they_should():
    """On the logarithmic axis the way from 1 to each bound is in proportion to its orders of magnitude."""
    names = list(BOUNDS)[:3]
    sizes = [bound(names[0], 0.01), bound(names[1], 100.0), bound(names[2], 1e8)]
    figure = bounds_figure(sizes, None, 780)
    [(low, down)], [(start, up), (same, most)] = rects(figure, "good"), rects(figure, "bad")
    assert down == pytest.approx(up, abs=0.02)
    assert most == pytest.approx(4 * up, abs=0.05)
    assert start == same == pytest.approx(low + down, abs=0.02)


@pytest.mark.parametrize("width", [780, 320])
def test_the_observed_error_is_where_a_bound_of_its_size_would_end(width):
    sizes = [bound("a", 0.028), bound("b", 1e4)]
    figure = bounds_figure(sizes, Mark(0.028, "held-out error 2.8%", (0.01, 0.05)), width)
    lines = {float(x) for x in re.findall(r'<path class="observed" d="M([\d.]+),', figure)}
    [(left, _)] = rects(figure, "good")
    assert list(lines) == [pytest.approx(left, abs=0.02)]
    one = left + rects(figure, "good")[0][1]
    scale = (one - left) / -math.log10(0.028)  # pixels of a power of ten
    for start, wide in rects(figure, "band"):
        assert (start, start + wide) == pytest.approx((one - 2 * scale, one + scale * math.log10(0.05)), abs=0.1)
    assert "held-out error 2.8%" in figure
    none = bounds_figure(sizes, Mark(0.0, "training error 0%"), width)
    assert "\u2190 training error 0%" in none


def test_bounds_beyond_floats_have_a_place():
    assert log10(bound("b", math.inf, 2000.0)) == pytest.approx(2000 / math.log(10))
    assert math.isfinite(log10(bound("b", math.inf)))
    assert "10\u2078\u2070\u2070" in bounds_figure([bound("vc", math.inf, 2000.0)], None, 780)


@pytest.mark.parametrize("width", [780, 320])
def test_dots_of_ratios_are_in_proportion_to_their_logarithms(width):
    rows = [Dot("a", 1.0, "x", "good"), Dot("b", -0.5, "y", "bad"), Dot("c", 2.0, "z", "good")]
    figure = ratios_figure(rows, "axis", "1", width)
    one = {float(x) for x in re.findall(r'<circle class="hollow" cx="([\d.]+)"', figure)}
    at = [float(x) for x in re.findall(r'<circle class="(?:good|bad)" cx="([\d.]+)"', figure)]
    [origin] = one
    assert [(x - origin) / (at[0] - origin) for x in at] == pytest.approx([1.0, -0.5, 2.0], abs=0.01)


def test_shares_of_the_histogram():
    own = np.array([-1.0] * 10 + [1.0] * 30)
    figure = margins_figure(own, None, "margin", 780)
    heights = {
        kind: float(re.findall(rf'class="bin {kind}"[^/]*height="([\d.]+)"', figure)[0]) for kind in ("own", "bad")
    }
    assert heights["own"] == pytest.approx(3 * heights["bad"], abs=0.05)
    both = margins_figure(np.full(9, 1.0), np.full(9, 0.01), "margin", 780)
    [(here, _)], [(there, wide)] = rects(both, "own"), rects(both, "random")
    assert there + wide < here


def test_layers_are_in_the_order_in_which_they_run():
    figure = layers_figure({"l2-norm": {"z": 3.0, "m": 1.0, "a": 2.0}}, 320)
    assert re.findall(r">([zma])</text>", figure) == ["z", "m", "a"]


def test_few_measures_are_drawn_layer_by_layer(page):
    section = page[page.index('id="layers"') : page.index('id="skipped"')]
    drawn = {name for name in NAMES if f">{name}</text>" in section}
    assert 1 <= len(drawn) <= LAYERED
    assert len({MEASURES[name].family for name in drawn}) == len(drawn)


def test_long_notes_are_wrapped_and_not_cut():
    note = "Geometric mean of squared spectral norms, times depth"
    drawn = ratios_figure([Dot("spectral-mean", 1.0, "x10", "good", note)], "axis", "1", 800)
    assert "Geometric mean of squared</text>" in drawn
    assert "spectral norms, times depth</text>" in drawn
