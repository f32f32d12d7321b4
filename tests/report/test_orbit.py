"""What the page of a walk along an orbit says, and that nothing in it comes alive."""

import re
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.pacbayes import Chain, LiftedKL
from truerisk.report import Step, write_orbit
from truerisk.report.orbit import HEIGHT, LABEL_HEIGHT, _inner, _kl_range, _levels, orbit_figure, render_orbit

EVIL = "<script>alert(1)</script>"
FACTS = {"Network": "one hidden layer", "Prior": "around 0"}
COMMAND = "python walk.py"
LIFTED = LiftedKL(988.76, 0.123, 1234, np.zeros(3), 1000.04, 987.66, 989.87, "The orbit is integrated by hand.")
CHAIN = Chain(1500.04, 900.04, 1000.04, 800.04, LIFTED)
PLACES = np.linspace(-1.5, 1.5, 13).tolist()


def parabola(line, steepness):
    """A KL that is 1,000 at the optimum and, where the steepness is 500, 1,500 at the start."""
    return [Step(line, at, 1000.04 + steepness * at * at, abs(at + 1) * 2.1e-15) for at in PLACES]


STEPS = [*parabola("straight", 500.0), *parabola("random", 3e5)]


class Outline(HTMLParser):
    """Tags, attributes and visible text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.style = [], [], [], False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.style = tag == "style"
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data):
        if not self.style:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def page():
    return render_orbit(STEPS, CHAIN, FACTS, COMMAND)


def test_everything_is_on_the_page(page):
    text = Outline(page).words
    assert "The same function, at a KL of 1,500.1 or of 1,000.1 nats." in text
    rows = [
        "As trained 1,500.1",
        "Prior scale tuned 900.1",
        "Optimally rescaled 1,000.1",
        "Both 800.1",
        "Lifted 988.7",
    ]
    for row in [*rows, "Network one hidden layer", "Prior around 0", COMMAND]:
        assert row in text
    assert "Estimated from 1,234 draws (standard error 0.12), between 987.6 and 989.9. The orbit is" in text
    assert "exact" not in text[text.index("Lifted 988") : text.index("Prior scale tuned")]
    places = [text.index(name) for name in ("As trained 1", "Optimally", "Lifted 988", "Prior scale tuned", "Both 800")]
    assert places == sorted(places)
    assert "saves 33% of the KL, the best prior scale 40%, both together 47%" in text
    assert "at 26 places" in text
    assert "at most 6e-15 at all places" in text  # 5.25e-15, rounded up
    labels = re.findall(r">([a-z ]+ [\d,.]+)</text>", page)
    levels = ["as trained 1,500.1", "both 800.1", "lifted 988.7", "rescaled 1,000.1", "scale tuned 900.1"]
    assert sorted(labels) == sorted(levels)  # the wide figure; on a phone the numbers are in the table only
    for level in levels:
        assert f">{level.rpartition(' ')[0]}</text>" in page
    assert "arXiv 2509.26149" in text


def test_without_the_lifted_kl():
    text = Outline(render_orbit(STEPS[:13], replace(CHAIN, lifted=None), FACTS)).words
    assert "ifted" not in text
    assert "make this page again" not in text
    assert "random" not in text


def test_a_lifted_kl_without_a_lower_end():
    text = Outline(render_orbit(STEPS, replace(CHAIN, lifted=replace(LIFTED, lower=None)), FACTS)).words
    assert "(standard error 0.12), at most 989.9." in text
    assert "between 987" not in text


def test_why_there_is_no_lifted_kl():
    chain = replace(CHAIN, lifted=None, lifted_note="the network contains Conv2d; use another.")
    text = Outline(render_orbit(STEPS, chain, FACTS)).words
    assert "No lifted KL: the network contains Conv2d; use another." in text
    assert "lifted at most rescaled" not in text


def test_text_never_becomes_markup():
    steps = [Step(f'" onload="x" {EVIL}', 0.0, 1.0, 0.0)]
    page = render_orbit(steps, CHAIN, {EVIL: EVIL}, EVIL)
    assert "<script" not in page
    outline = Outline(page)
    assert not [a for a in outline.attributes if a[1].startswith("on")]
    assert unescape(page).count(EVIL) == 4


def test_nothing_is_fetched(page):
    plain = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", page)
    assert not re.search(r"https?:|@import|url\((?!#)", plain)
    links = [a for a in Outline(page).attributes if a[1] in ("src", "href", "xlink:href")]
    assert links == [("link", "href", "data:,")]


def test_headings_language_and_alternative(page):
    outline = Outline(page)
    assert [tag for tag in outline.tags if re.fullmatch("h[1-6]", tag)] == ["h1", "h2", "h2", "h2"]
    assert ("html", "lang", "en") in outline.attributes
    ids = [value for _, name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {v for _, name, v in outline.attributes if name == "aria-labelledby"} <= set(ids)
    [alternative] = [value for tag, name, value in outline.attributes if (tag, name) == ("div", "aria-label")]
    assert "between 1,000.0 and" in alternative


def test_every_colour_follows_the_theme(page):
    grid = "#808080"  # half-transparent on any paper
    figure = orbit_figure(STEPS, CHAIN, 780)
    for kind in ("fill", "stroke"):
        used = set(re.findall(rf'{kind}="(#\w+)"', figure)) - {grid}
        assert used
        for colour in used:
            assert f'[{kind}="{colour}"] {{ {kind}: var(' in page
    assert "prefers-color-scheme: dark" in page


def test_the_file_is_whole_or_not_there(tmp_path, monkeypatch):
    path = write_orbit(tmp_path / "new" / "orbit.html", STEPS, CHAIN, FACTS)
    assert [p.name for p in path.parent.iterdir()] == ["orbit.html"]
    assert path.read_text(encoding="utf-8").endswith("</html>")
    assert path.stat().st_size < 300_000
    written = []
    monkeypatch.setattr("truerisk.report.orbit.write_atomically", lambda *args: written.append(args))
    write_orbit(tmp_path / "orbit.html", STEPS, CHAIN, FACTS)
    assert [(name, content[:9]) for name, content in written] == [(tmp_path / "orbit.html", b"<!doctype")]


@pytest.mark.parametrize("name", ["jinja2", "altair", "vl_convert"])
def test_a_missing_extra_is_named_and_leaves_no_file(name, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TrueriskError, match=r'pip install "truerisk\[report\]"'):
        write_orbit(tmp_path / "orbit.html", STEPS, CHAIN, FACTS)
    assert list(tmp_path.iterdir()) == []


def test_what_can_not_be_drawn_is_refused():
    with pytest.raises(TrueriskError, match="one walk or two, not 0"):
        render_orbit([], CHAIN, FACTS)
    with pytest.raises(TrueriskError, match="one walk or two, not 3"):
        render_orbit([*STEPS, Step("third", 0.0, 1.0, 0.0)], CHAIN, FACTS)
    with pytest.raises(TrueriskError, match="not finite"):
        render_orbit([Step("far", 9.0, float("inf"), 0.0)], CHAIN, FACTS)


FLAT = Chain(7.0, 7.0, 7.0, 7.0)


CROWDED = replace(CHAIN, tuned_scale=999.0)


@pytest.mark.parametrize("chain", [CHAIN, FLAT, Chain(0.0, 0.0, 0.0, 0.0), CROWDED])
def test_labels_keep_their_distance(chain):
    low, high = _kl_range(STEPS, chain)
    levels = _levels(chain, low, high)
    apart = LABEL_HEIGHT * (high - low) / HEIGHT
    assert all(a["label_at"] - b["label_at"] >= apart * (1 - 1e-9) for a, b in pairwise(levels))
    assert all(a["kl"] >= b["kl"] for a, b in pairwise(levels))
    assert all(abs(level["label_at"] - level["kl"]) <= apart * len(levels) for level in levels)
    assert all(low < level["kl"] < high for level in levels)


@pytest.mark.parametrize("change", [0.0, 1e-300, 1e-3, 2.0])
def test_extremes_are_drawn(change):
    steps = [replace(step, change=change) for step in STEPS]
    for chain in (CHAIN, FLAT, Chain(0.0, 0.0, 0.0, 0.0)):
        assert "NaN" not in render_orbit(steps, chain, FACTS)


def test_the_chart_is_to_scale():
    """The dot of the start lies on the line of the original KL, the dot of the optimum on that of the rescaled one."""
    figure = orbit_figure(STEPS, CHAIN, 780)
    width = _inner(_levels(CHAIN, *_kl_range(STEPS, CHAIN)), 780)
    marks = r'transform="translate\(([\d.]+),([\d.]+)\)" d="M[^"]*" fill="#808080"'
    start, optimum = [tuple(map(float, found)) for found in re.findall(marks, figure)]
    low, high = _kl_range(STEPS, CHAIN)
    for (x, y), at, kl in ((start, -1.0, CHAIN.original), (optimum, 0.0, CHAIN.rescaled)):
        assert x == pytest.approx(width * (at + 1.5) / 3, abs=0.01)
        assert y == pytest.approx(HEIGHT * (high - kl) / (high - low), abs=0.01)


@pytest.mark.long
@pytest.mark.parametrize("chain", [CHAIN, FLAT, CROWDED])
def test_labels_in_a_browser(browser, tmp_path, chain):
    path = write_orbit(tmp_path / "orbit.html", STEPS, chain, FACTS)
    for width in (1280, 700, 390):
        browser.open(path, width)
        assert browser.fits()
        assert browser.clashes() == []
