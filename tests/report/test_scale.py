"""The picture of a certificate: true numbers, marks where they belong, and labels that never overlap."""

import re
from dataclasses import fields
from fractions import Fraction
from html import unescape
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from truerisk.report.certificate import NARROW, WIDE, templates
from truerisk.report.labels import Label
from truerisk.report.scale import Scale, common_end, finding, scale_svg

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "\"'><script>alert(1)</script>&"
SHAPES = {
    "usual": Scale(0.898, 0.067, observed=0.031, baseline=0.054),
    "two-sided": Scale(0.898, 0.029, 0.004, 0.013, 0.044, 0.0),
    "near the baseline": Scale(0.898, 0.0301, observed=0.013, baseline=0.0302, training=0.001),
    "near the observed": Scale(0.898, 0.0301, observed=0.03, baseline=0.05),
    "narrow range": Scale(0.898, 0.0301, 0.03, 0.03005, 0.0303, 0.03),
    "all in the middle": Scale(0.898, 0.46, 0.44, 0.45, 0.47, 0.455),
    "above chance": Scale(0.898, 0.93, observed=0.884, baseline=0.915),
    "two classes": Scale(0.5, 0.7, 0.3, 0.5, 0.6, 0.45),
    "a rare class": Scale(0.1, 0.15, observed=0.11, baseline=0.14),
    "bound 1": Scale(0.898, 1.0, observed=0.9, baseline=1.0, training=0.9),
    "at chance": Scale(0.898, 0.898, observed=0.8),
    "no errors": Scale(0.898, 0.004, observed=0.0, baseline=0.0041, training=0.0),
    "tiny": Scale(0.898, 1e-9),
    "one class": Scale(0.0, 0.2, observed=0.0),
}
# Widths of DejaVu Sans in thousandths of an em: the widest of the common fonts. Numbers are in bold.
REGULAR = dict(zip("abcdefghijklmnopqrstuvwxyz", (613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974,
                   634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525), strict=True))  # fmt: skip
REGULAR |= {" ": 318, "\u00a0": 318, ".": 318, ":": 337, "%": 950, "-": 361, "+": 838, "\u2192": 838}
REGULAR |= dict.fromkeys("0123456789", 636)
BOLD = 1.24  # of regular letters, at most


def root(svg):
    return ElementTree.fromstring(svg)


def boxes(svg):
    """Left, top, right, bottom of each line of text."""
    found = []
    for text in root(svg).iter(f"{SVG}text"):
        size, y = float(text.get("font-size")), float(text.get("y"))
        for line in text:
            y += float(line.get("dy"))
            strong = text.get("class").startswith("strong")
            parts = [(line.text or "", strong)] + [(each.text, True) for each in line]
            width = sum(size * REGULAR[c] / 1000 * (BOLD if bold and c.isalpha() else 1.1 if bold else 1)
                        for part, bold in parts for c in part)  # fmt: skip
            left = float(line.get("x")) - width * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
            found.append((left, y - 0.75 * size, left + width, y + 0.2 * size))
    return found


def leaders(svg):
    paths = (each.get("d") for each in root(svg).iter(f"{SVG}path") if each.get("class").startswith("leader"))
    return [tuple(map(float, re.fullmatch(r"M([\d.]+),([\d.]+)V([\d.]+)", path).groups())) for path in paths]


def assert_legible(svg):
    width, height = map(float, root(svg).get("viewBox").split()[2:])
    found = boxes(svg)
    for left, top, right, bottom in found:
        assert left >= -1
        assert right <= width + 1
        assert top >= 0
        assert bottom <= height
    for a, b in combinations(found, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
    for x, one, other in leaders(svg):
        for left, top, right, bottom in found:
            assert not (left < x < right and min(one, other) < bottom and top < max(one, other)), "through a text"


def shown(svg):
    return unescape(" ".join(root(svg).itertext())).replace("\u00a0", " ")


rates = st.one_of(st.floats(0, 1), st.floats(0, 0.05), st.sampled_from([0.0, 0.03, 0.0301, 0.5, 0.9, 0.905, 1.0]))


@st.composite
def scales(draw):
    upper = draw(rates)
    lower = draw(st.none() | st.floats(0, upper))
    return Scale(draw(st.floats(0, 1)), upper, lower, *(draw(st.none() | rates) for _ in range(3)))


@given(scales())
@example(Scale(0.9, 0.3, 0.29, 0.3, 0.3, 0.3))
@example(Scale(0.5, 0.51, 0.5, 0.5, 0.49, 0.505))
def test_labels_never_overlap(scale):
    for width in (WIDE, NARROW):
        assert_legible(scale_svg(scale, width))


@given(st.lists(scales(), min_size=1, max_size=3))
def test_pictures_can_share_a_scale(group):
    end = common_end(group)
    for width in (WIDE, NARROW):
        pictures = [scale_svg(each, width, end=end, title="a name", overview=i == 0) for i, each in enumerate(group)]
        tracks = set()
        for picture in pictures:
            assert_legible(picture)
            *_, track = (r for r in root(picture).iter(f"{SVG}rect") if r.get("class") == "track")
            tracks.add((track.get("x"), track.get("width")))
        assert len(tracks) == 1


def test_a_scale_ends_after_its_marks():
    with pytest.raises(ValueError, match="common_end"):
        scale_svg(SHAPES["usual"], WIDE, end=0.06)


@given(scales())
def test_numbers_are_rounded_as_they_must(scale):
    for text in (shown(scale_svg(scale, WIDE)), finding(scale)):
        found = {k: Fraction(v) / 100 for k, v in re.findall(r"(\w+):? +([\d.]+) ?%", text) if k != "rate"}
        assert found["most"] >= Fraction(repr(scale.upper))
        if scale.lower:
            assert found["least"] <= Fraction(repr(scale.lower))
        if scale.baseline is not None:
            assert found["baseline"] >= Fraction(repr(scale.baseline))
        for name, rate in (("observed", scale.observed), ("examples", scale.training), ("guessing", scale.chance)):
            if rate is not None:
                assert abs(found[name] - Fraction(repr(rate))) <= Fraction(1, 1999)


@pytest.mark.parametrize("name", SHAPES)
def test_the_picture_is_told_to_screen_readers(name):
    scale, element = SHAPES[name], root(scale_svg(SHAPES[name], NARROW, title="A net"))
    assert element.get("role") == "img"
    assert element.get("aria-label") == finding(scale, "A net")
    assert finding(scale, "A net").startswith("A net. Scale of error rates: certified at most ")
    assert ("no better than guessing" in finding(scale)) == (scale.upper >= scale.chance)


@pytest.mark.parametrize("field", [f.name for f in fields(Scale) if f.default is None])
def test_only_known_values_are_drawn(field):
    words = {"lower": "at least", "observed": "observed", "baseline": "hold-out baseline", "training": "own training"}
    for scale in (Scale(0.9, 0.1), Scale(0.9, 0.1, **{field: 0.05})):
        known = getattr(scale, field) is not None
        assert [words[field] in text for text in (shown(scale_svg(scale, WIDE)), finding(scale))] == [known, known]


@pytest.mark.parametrize(("upper", "zooms"), [(0.029, True), (0.29, True), (0.31, False), (0.9, False), (0.95, False)])
def test_only_small_certificates_are_magnified(upper, zooms):
    svg = scale_svg(Scale(0.9, upper), WIDE)
    assert ('class="panel"' in svg) == zooms
    assert ('class="panel"' in scale_svg(Scale(0.9, upper), WIDE, overview=False)) is False
    assert ('class="zone"' in svg) == ("no better than guessing" in shown(svg)) == (upper > 0.9)
    assert ("100%" in shown(svg)) == (upper > 0.9)
    assert len(re.findall("guessing: +90", shown(svg))) == 1


def test_marks_are_drawn_to_scale():
    scale = Scale(0.9, 0.6, 0.3, 0.45, 0.75, 0.15)
    parts = {}
    for each in root(scale_svg(scale, WIDE)).iter():
        if each.tag == f"{SVG}circle":
            parts[each.get("class")] = float(each.get("cx"))
        elif each.tag == f"{SVG}rect" and each.get("class") in ("track", "band"):
            left = float(each.get("x"))
            parts[each.get("class")] = (left, left + float(each.get("width")))
    (left, right), (begin, end) = parts["track"], parts["band"]
    for place, value in ((begin, 0.3), (end, 0.6), (parts["dot"], 0.45), (parts["ring"], 0.15)):
        assert place == pytest.approx(left + (right - left) * value / 0.9, abs=0.2)


def test_text_never_becomes_markup():
    for width in (WIDE, NARROW):
        svg = scale_svg(SHAPES["usual"], width, title=EVIL)
        assert "<script" not in svg
        assert {each.tag for each in root(svg).iter()} <= {
            f"{SVG}{t}" for t in "svg path rect circle text tspan".split()
        }
        assert root(svg).get("aria-label").startswith(EVIL)


def test_nothing_is_fetched_or_run():
    svg = scale_svg(SHAPES["two-sided"], WIDE)
    assert not re.search(r"url\(|href|style=|\bon\w+=", svg)


def test_a_number_is_never_broken():
    label = Label(10, "on its own training examples", "0.33\u00a0%", "ring", 13)
    assert label.lines(10)[-1] == "0.33\u00a0%"
    assert len(label.lines(99)) == 1


# ---- in a browser --------------------------------------------------------------------------------------------------

OVERLAPS = """
const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
const inner = r => ({left: r.left, right: r.right, top: r.top + 3, bottom: r.bottom - 3});  // letters, without leading
const found = [];
for (const svg of document.querySelectorAll('svg.scale')) {
  if (!svg.getClientRects().length) continue;
  const lines = [...svg.querySelectorAll('text > tspan')].map(t => [t.textContent, inner(t.getBoundingClientRect())]);
  const marks = [...svg.querySelectorAll('.leader, .dot, .ring')];
  const drawn = marks.map(mark => [mark.getAttribute('class'), mark.getBoundingClientRect()]);
  lines.forEach(([a, box], i) => {
    for (const [b, other] of [...lines.slice(i + 1), ...drawn]) if (!apart(box, other)) found.push([a, b]);
    if (box.left < 0 || box.right > document.documentElement.clientWidth) found.push([a, 'edge']);
  });
}
return found;
"""
SMALLEST = """
const svg = [...document.querySelectorAll('svg.scale')].filter(s => s.getClientRects().length);
return Math.min(...svg.map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width *
  Math.min(...[...s.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize)))));
"""


@pytest.fixture
def gallery(tmp_path):
    """All shapes on one page, each wide and narrow."""
    style = templates().get_template("style.css").render()
    figures = "".join(
        f'<figure class="hero"><div class="wide">{scale_svg(scale, WIDE)}</div>'
        f'<div class="narrow">{scale_svg(scale, NARROW)}</div></figure>'
        for scale in SHAPES.values()
    )
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    path = tmp_path / "gallery.html"
    path.write_text(f"<!doctype html>{head}<style>{style}</style><main>{figures}</main>", encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_never_overlap_in_the_browser(browser, gallery, width):
    browser.open(gallery, width)
    assert browser.run(OVERLAPS) == []
    assert browser.run(SMALLEST) >= 13
    assert browser.fits()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, gallery, scheme):
    browser.open(gallery, 1280, scheme)
    style = "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e).fill)"
    [card] = set(browser.run(style, ".scale .panel"))
    papers = [card, browser.run("return getComputedStyle(document.body).backgroundColor")]
    for text in set(browser.run(style, ".scale text, .scale .number")):
        assert min(browser.contrast(text, paper) for paper in papers) >= 4.5
    for weak in ("", ".weak"):
        other = "" if weak else ":not(.weak)"
        [band] = set(browser.run(style, f".scale .band{weak}{other}"))
        [mark] = set(browser.run(style, f".scale rect.mark{weak}{other}"))
        assert browser.contrast(mark, band) >= 2.5
        assert browser.contrast(browser.run(style, ".scale circle.dot")[0], band) >= 3
