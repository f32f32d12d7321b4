"""The scoreboard: its geometry, its links and counts, and that no stored file can break or take over the page."""

import base64
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from boards import CELL, EXACT, FAILED, HERO, OPEN, claim, summary
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.engine import Store
from truerisk.lab.claim import OURS, Claim
from truerisk.lab.rows import Rows
from truerisk.lab.units import STEPS, at_most
from truerisk.lab.verdict import judge
from truerisk.report.lab import picture as pictures
from truerisk.report.lab.index import LARGEST, picture_of, render_index
from truerisk.report.lab.picture import STRIP, large, picture, shape, strip
from truerisk.report.lab.scoreboard import board, chance, counted, entries, in_words
from truerisk.report.publish import is_summary, summaries

EVIL = "</script><script>alert(1)</script><!-- & ' \" \u2028 {{ x }} </style></svg>"


class Outline(HTMLParser):
    """Tags, attributes, and visible text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.styled = [], [], [], False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.styled = tag == "style"

    def handle_endtag(self, tag):
        self.styled = False

    def handle_data(self, data):
        self.text += [] if self.styled else [data]

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())

    def all(self, tag, name):
        return [value for t, n, value in self.attributes if (t, n) == (tag, name)]


def drawn(svg):
    """The elements of a picture by class, each with its numbers."""
    found = {}
    for element in ElementTree.fromstring(svg).iter():
        values = {key: float(value) for key, value in element.attrib.items() if re.fullmatch(r"-?[\d.]+", value)}
        found.setdefault(element.get("class"), []).append(values)
    return found


def test_strip_on_a_linear_scale():
    """From 0.2 to 0.8 with 6% of room on each side: 0.164 is at 4 pixels, 0.836 at 100."""
    parts = drawn(strip(shape(claim())))
    assert parts["strip yes"] == [{"width": 104, "height": 15}]
    assert parts["edge"][0]["x1"] == 9.1  # 4 + 96 * 0.036 / 0.672
    assert parts["region"][0] | {"x": 9.1, "width": 94.9} == parts["region"][0]  # to the right edge
    assert (parts["span"][0]["x1"], parts["span"][0]["x2"]) == (37.7, 66.3)
    assert parts["mean"][0]["x1"] == 52.0
    assert parts["published"][0] | {"x": 37.7, "width": 57.2} == parts["published"][0]  # 40 to 80 points


def test_strip_on_a_logarithmic_scale():
    """From 4 to 16: two doublings, with 6% of them on each side."""
    cell = {"low": 4.0, "mean": 8.0, "high": 16.0}
    parts = drawn(strip(shape(claim(unit="times", wants=[None, 4.0], published_at=16, cells=[cell]))))
    assert (parts["span"][0]["x1"], parts["mean"][0]["x1"], parts["span"][0]["x2"]) == (9.1, 52.0, 94.9)
    assert parts["region"][0] | {"x": 0, "width": 9.1} == parts["region"][0]
    own = shape(claim(unit="a user's", wants=[None, 4.0], published_at=16, cells=[cell], log=True))
    assert strip(own) == strip(shape(claim(unit="times", wants=[None, 4.0], published_at=16, cells=[cell])))


def test_open_ends_and_single_seeds():
    above = drawn(strip(shape(claim(cells=[{**CELL, "high": None}]))))
    assert above["span"][0]["x2"] == STRIP
    assert len(above["arrow"]) == 1
    alone = drawn(strip(shape(claim(cells=[{"seeds": {"7": 0.5}, "mean": None}]))))
    assert "span" not in alone
    assert len(alone["seed alone"]) == 1
    other = drawn(strip(shape(claim(cells=[CELL, {**CELL, "mean": 0.45}, "damaged"], decisive=1))))
    assert (len(other["mean other"]), len(other["mean"])) == (1, 1)
    assert drawn(strip(shape(claim(cells="damaged", published_at="damaged")))).keys() == {"strip yes", "region", "edge"}


@pytest.mark.parametrize("wants", [None, [None, None], [1, 1], [2, 1], [1], ["a", "b"], [math.nan, None], 3])
def test_without_a_region_nothing_is_drawn(wants):
    assert shape(claim(wants=wants)) is None


def slowdown(runs):
    return 1.5 + runs.one("seed")


def test_the_picture_of_a_verdict():
    rows = Rows([{"seed": seed, "steps": 3} for seed in range(3)], fields=["seed"])
    slow = Claim("slow", "It is slow.", slowdown, at_most(1000, STEPS), OURS)
    svg = picture(judge(slow, rows, "quick"))
    parts = drawn(svg)
    assert [len(parts[css]) for css in ("span", "mean", "seed", "region", "number")] == [1, 1, 3, 1, 1]
    assert ">1,000</text>" in svg  # the threshold
    assert ">10</text>" in svg  # a round number between
    assert picture(judge(slow, Rows([{"seed": 0}], fields=["seed"]), "quick")).count('class="seed alone"') == 1


FINITE = st.floats(allow_nan=False, allow_infinity=False)
ENDS = st.one_of(st.none(), FINITE)
CELLS = st.fixed_dictionaries(
    {"low": ENDS, "mean": ENDS, "high": ENDS, "seeds": st.dictionaries(st.text(max_size=2), FINITE, max_size=4)}
)


@settings(max_examples=300, deadline=None)
@given(
    wants=st.tuples(ENDS, ENDS),
    published=st.one_of(ENDS, st.tuples(FINITE, FINITE)),
    cells=st.lists(CELLS, max_size=15),
    unit=st.sampled_from(["points", "times", "plain", "unknown"]),
    factor=st.one_of(st.none(), FINITE),
)
def test_pictures_stay_in_their_box(wants, published, cells, unit, factor):
    changes = {"unit": unit, "factor": factor, "cells": cells, "decisive": 3, "published_at": published}
    found = shape(claim(wants=list(wants), **changes))
    if found is None:
        return
    for svg in (strip(found), large(found)):
        root = ElementTree.fromstring(svg)
        width, height = float(root.get("width")), float(root.get("height"))
        assert width == STRIP if "strip" in root.get("class") else pictures.WIDTH
        for element in root:
            spots = {key: float(element.get(key)) for key in ("x", "x1", "x2", "cx") if element.get(key)}
            assert all(0 <= x <= width for x in spots.values()), svg
            assert spots.get("x", 0) + float(element.get("width", 0)) <= width + 0.1
            assert all(0 <= float(element.get(key, 0)) <= height for key in ("y", "y1", "y2", "cy", "height"))
            assert not {"nan", "inf"} & set(re.findall(r"[a-z]+", str(list(element.attrib.values()))))


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.just(10**400),
        st.just(EVIL),
        st.just("\ud800"),
        st.text(),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def spoiled(value):
    """The same with some fields replaced by anything that JSON can hold."""
    return st.dictionaries(st.sampled_from(sorted(value)), JSON, max_size=6).map(lambda changes: {**value, **changes})


@settings(max_examples=60, deadline=None)
@given(spoiled(summary(hero=HERO, finding="Found.")), st.lists(spoiled({**claim(), "figure": ""}), max_size=3))
def test_damaged_summaries(top, claims):
    """No error, no element that the page itself does not have, no link that leaves the folder."""
    for stored in (top, {**top, "claims": claims}):
        page = Outline(render_index([stored, summary(claim(), EXACT, FAILED, OPEN)]).encode().decode())
        assert not {"script", "iframe", "object", "foreignobject", "form"} & set(page.tags)
        assert not any(name.startswith("on") for _, name, _ in page.attributes)
        assert all(re.fullmatch(r"[\w.~/%-]*(#[A-Za-z0-9-]+)?", href) for href in page.all("a", "href"))
        assert all(src.startswith("data:image/svg+xml;base64,") for src in page.all("img", "src"))
        is_summary(stored)


def test_a_damaged_file_does_not_hide_the_others(tmp_path):
    for name, content in (
        ("a/quick.json", '{"name": "a", "title": "A", "about": "", "scale": "quick", "runs": 1, "missing": 0, '
         '"seconds": 1, "claims": [{"name": "odd", "verdict": 3}]}'),
        ("b/quick.json", "{"),
        ("c/quick.json", '{"name": "c", "title": "C", "about": "", "scale": "quick", "runs": 1, "missing": 0, '
         '"seconds": NaN, "claims": []}'),
        ("d/quick.json", "[" * 100_000),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content)
    [found] = summaries(Store(str(tmp_path)))
    page = Outline(render_index([found]))
    assert "odd not drawn" in page.words
    assert "Not known to be committed before their runs: 0 of 1 reproduced, 1 without verdict." in page.words


def test_links():
    claims = [claim(), FAILED, claim(name="a b"), claim(name="a b", figure='"><')]
    links = [entry.link for entry in entries([summary(*claims, page="javascript:x/a b.html")])]
    page = "javascript%3Ax/a%20b.html"
    assert links == [f"{page}#claim-small-gap", f"{page}#figure-errors", page, page]


def test_groups_and_labels():
    other = summary(claim(), claim(group="trial"), name="capacity", scale="medium", data="wine")
    groups = board(entries([summary(claim(), EXACT, FAILED, OPEN), other]))
    assert [group["title"] for group in groups] == [
        "Claims of papers", "Thresholds from trials", "Theorems", "Our own questions"
    ]  # fmt: skip
    paper = groups[0]
    assert [block["label"] for block in paper["blocks"]] == [
        "random labels, quick scale",
        "capacity, medium scale, on wine",
    ]
    assert paper["blocks"][1]["entries"][0].title == "Networks fit random labels (medium scale, on wine)"
    assert [(count["word"], count["n"]) for count in paper["counts"] if count["n"]] == [
        ("reproduced", 2), ("not reproduced", 1)
    ]  # fmt: skip
    assert counted(entries([other])) == {
        group: {"reproduced": 1, "not reproduced": 0, "no verdict": 0} for group in ("paper", "trial")
    }


def test_failures_come_first():
    found = in_words(entries([summary(claim(), EXACT, OPEN, FAILED)]))
    assert [(title, [entry.name for entry in some]) for title, some in found] == [
        ("Not reproduced", ["failed"]),
        ("No verdict", ["open"]),
        ("Reproduced", ["small gap", "count"]),
    ]


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ([claim()] * 60 + [FAILED, OPEN, EXACT], "Of the 61 verdicts from intervals, at most 1.6 are expected"),
        ([claim()] * 40, "Of the 40 verdicts from intervals, at most 1.0 are expected to be wrong by chance."),
        ([claim()], "Of the only verdict from intervals, at most 0.1"),
    ],
)
def test_wrong_by_chance(claims, said):
    """2.5% of the verdicts that follow from intervals, rounded up; without verdict or exact do not count."""
    assert said in chance(entries([summary(*claims)]))
    assert render_index([summary(*claims)]).count("by chance") == 1


def test_chance_without_intervals():
    assert chance(entries([summary(EXACT, OPEN)])) == ""


def test_page_in_words():
    page = Outline(
        render_index([summary(claim(), EXACT, FAILED, OPEN, finding="Noise is fitted. By -3 points.", hero=HERO)])
    )
    for text in (
        "The lab: 1 experiment at quick scale, 4 claims",
        "Claims of papers: 1 of 2 reproduced, 1 not.",
        "Theorems: 1 of 1 hold; our own questions: 0 of 1 reproduced, 1 without verdict.",
        "Noise is fitted. By \u22123 points.",  # the whole finding
        "Quick scale: 28 runs, 2 missing, 2 min 13 s of computing",
        "Not reproduced: \u22121.0 points.",
        "count exact",
        "Every claim in words Not reproduced (1)",
    ):
        assert text in page.words, text
    [told] = [label for label in page.all("a", "aria-label") if label.startswith("failed")]
    assert told == (
        "failed, random labels. The gap is large. Not reproduced: \u22121.0 points. Published: 40 to 80 points."
    )
    assert "script" not in page.tags
    empty = Outline(render_index([])).words
    assert "No claim was checked." in empty
    assert "Every claim" not in empty
    assert "by chance" not in empty


def test_cards():
    counts = "Claims of papers: 1 of 1 reproduced."
    old = Outline(render_index([summary(claim())]))
    assert old.words.count(counts) == 3  # the titles of the page, and the card in place of a finding
    assert "img" not in old.tags
    assert Outline(render_index([summary(claim(), finding="Found.")])).words.count(counts) == 3
    assert Outline(render_index([summary(claim(), hero=HERO)])).tags.count("img") == 1


def test_hero():
    head, content = picture_of(HERO).split(",")
    assert head == "data:image/svg+xml;base64"
    svg = base64.b64decode(content).decode()
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 30"><style>')
    assert '[stroke="#0072b2"]{stroke:#5aaee6}' in svg
    assert picture_of(f'<?xml version="1.0" encoding="latin-1"?>\n{HERO}') == picture_of(HERO)
    for bad in (
        HERO.replace("</svg>", ""),
        HERO.replace("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"),
        HERO.replace("<path", "<!-- --><path"),
        HERO.replace("M0", "M" + "0" * LARGEST),
        '<!DOCTYPE svg [<!ENTITY a "a">]>' + HERO,
        EVIL, "", 3, None, [HERO],
    ):  # fmt: skip
        assert picture_of(bad) == "", bad
