"""Figures and pages that odd or hostile code makes: they say the truth, or in one sentence why they cannot."""

import random
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.lab.claim import OURS, Checked, Exact
from truerisk.lab.figure import Axis, Figure, Images, Rule, Strip, Tile
from truerisk.lab.interval import interval
from truerisk.lab.lesson import Finding
from truerisk.lab.marks import Bars, Contour, Histogram, Line, Map, Regions
from truerisk.lab.units import PERCENT, TIMES
from truerisk.lab.verdict import Verdict
from truerisk.report import render_lab
from truerisk.report.lab.exhibits import shown
from truerisk.report.lab.figures import lab_spec, static_svg
from truerisk.report.lab.png import png
from truerisk.report.lab.rows import drawable

SMALL = Figure("f", "F", "f.", [{"x": 1, "y": 0.5}], Axis("x", "x"), Axis("y", "y"))


def seeds(counts, unit=PERCENT, **axis):
    """A line with so many seeds at each place."""
    draw = random.Random(0)
    rows = [{"x": x, "y": draw.uniform(0.1, 0.9), "seed": s, "n": 50} for x, n in enumerate(counts) for s in range(n)]
    return replace(SMALL, rows=rows, y=Axis("y", "y", unit, **axis))


@pytest.mark.parametrize("unit", [PERCENT, TIMES])
@pytest.mark.parametrize("counted_on", [None, 3, "n"])
def test_a_band_is_the_interval_that_judges(unit, counted_on):
    figure = seeds([5, 6], unit, counted_on=counted_on)
    for row in drawable(figure).of("m"):
        values = [raw["y"] for raw in figure.rows if raw["x"] == row["x"]]
        found = interval(values, unit, {None: 0.0, 3: 1 / 3, "n": 1 / 50}[counted_on])
        assert (row["y"], row["l"], row["h"]) == (found.mean, found.low, found.high)


@pytest.mark.parametrize(
    ("counts", "said", "thin"),
    [
        ([5, 7], "Lines are means over 5 to 7 seeds, bands their 95% intervals.", None),
        ([5, 1], "Lines are means over 5 seeds (1 where there is no stroke), strokes their 95% intervals.", None),
        ([4, 3, 4], "Thick lines are means over 3 or 4 seeds, thin lines the seeds.", "line"),
        ([3, 1, 3], "Lines are means over 3 seeds (1 where there is no small dot), small dots the seeds.", "point"),
        (
            [5, 3, 5],
            "Lines are means over 5 seeds (3 where there is no stroke), strokes their 95% intervals, small dots seeds.",
            "point",
        ),
        ([1, 1], "", None),
    ],
)
def test_the_sentence_about_seeds_is_what_is_drawn(counts, said, thin):
    figure = seeds(counts)
    drawn = drawable(figure)
    assert drawn.sentence == said
    layers = lab_spec(figure, drawn, 640)["layer"]
    single = [layer["mark"]["type"] for layer in layers if "'t'" in str(layer.get("transform"))]
    assert single == ([thin] if thin else [])
    assert ("area" in {layer["mark"]["type"] for layer in layers}) == ("bands" in said)


def test_numbers_of_all_kinds_are_drawn():
    values = [np.float32(0.5), np.int64(2), Decimal("0.25"), True, np.float64(1.5), np.array(3.0)]
    figure = replace(SMALL, rows=[{"x": np.int32(i), "y": y} for i, y in enumerate(values)])
    assert [row["y"] for row in drawable(figure).rows] == [0.5, 2, 0.25, 1, 1.5, 3.0]


def test_what_is_no_number_is_counted():
    odd = ["0.5", float("nan"), float("inf"), 10**400, 1e200, None]
    drawn = drawable(replace(SMALL, rows=[{"x": i, "y": y} for i, y in enumerate([1.0, *odd])]))
    assert len(drawn.rows) == 1
    assert drawn.unfit == 5  # None says that there is no number


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": [{"x": [512], "y": 1}]}, "figure f has a list in its field 'x'"),
        ({"rows": [(1, 2)]}, "a row of figure f is a tuple; give a dict"),
        ({"title": None}, "the title of figure f is None"),
        ({"y": Axis("y", "y", ordinal=True)}, "the y axis of figure f is ordinal"),
        ({"x": Axis("x", "x", ordinal=True), "mark": Histogram()}, "the x axis of figure f is ordinal"),
    ],
)
def test_slips_in_a_figure(change, said):
    with pytest.raises(TrueriskError, match=said):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Histogram(0), "bins is 0, but must be"),
        (lambda: Contour("z", "z", levels=0), "levels is 0, but must be"),
        (lambda: Rule(float("nan"), "chance"), "the rule 'chance' is nan"),
        (lambda: Axis("x", "x", "%"), "must be a Unit"),
        (lambda: drawable(Figure(**_values(0.0, TIMES))), "figure f has 0, but means of times"),
        (lambda: drawable(Figure(**_values(1.5, PERCENT))), "figure f has 1.5, but percent lie between 0 and 1"),
        (lambda: drawable(replace(SMALL, rows=[{"x": 1, "y": 1, "z": z} for z in (1, 2)], mark=Map("z", "z"))),
         "figure f has 2 rows at x=1, y=1, but needs one"),
    ],
)  # fmt: skip
def test_slips_in_marks_and_numbers(make, said):
    with pytest.raises(TrueriskError, match=said):
        make()


def _values(value, unit):
    rows = [{"x": 1, "y": value, "seed": seed} for seed in range(2)]
    return {"name": "f", "title": "F", "caption": "f.", "rows": rows, "x": Axis("x", "x"), "y": Axis("y", "y", unit)}


@pytest.mark.parametrize("text", ["\x00", "\ud800", "constructor", "toString", "", "\u2028", "\\'\""])
def test_odd_texts_are_drawn_everywhere(text):
    """A control character once ended the whole program; Vega took a title like "constructor" for a signal."""
    rows = [{"x": i, "y": i + k, "s": s, "f": s} for i in range(2) for k, s in enumerate((text, "b"))]
    figure = Figure("f", text, text, rows, Axis("x", text), Axis("y", text), Bars(), "s", text, rules=[Rule(1, text)])
    for each in (figure, replace(figure, facet="f"), replace(figure, mark=Line())):
        assert "NaN" not in static_svg(each, drawable(each), 640)


def test_dots_without_a_panel_stand_in_all_of_them():
    rows = [{"x": i, "y": i, "f": f} for i in range(2) for f in "ab"]
    figure = replace(SMALL, rows=rows, facet="f", dots=[{"x": 1, "y": 1}])
    assert [row["f"] for row in drawable(figure).of("d")] == ["a", "b"]


def test_a_map_of_names_and_numbers_has_cells():
    figure = replace(SMALL, rows=[{"x": s, "y": n, "z": n} for s in "ab" for n in (1, 10)], mark=Map("z", "z"))
    assert drawable(figure).orders == {"x": ["a", "b"], "y": ["1", "10"]}


def test_a_row_without_a_value_of_the_slider_is_always_shown():
    rows = [{"x": 1, "y": 1, "v": None}, {"x": 2, "y": 2, "v": "a"}]
    drawn = drawable(replace(SMALL, rows=rows, slider=Axis("v", "v")))
    assert [row.get("v") for row in drawn.rows] == [None, 0]


def with_lesson(result, **changes):
    lesson = replace(result.experiment.lesson, **changes)
    return replace(result, experiment=replace(result.experiment, lesson=lesson))


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (lambda rows: {"a": 1}, "an exhibit is a str; return a list of Figure"),
        (lambda rows: None, "Figures could not be drawn"),
        (lambda rows: [Images("i", "I", "i.", [Strip("s", [Tile([[1], [1, 2]])])])], "different lengths"),
        (lambda rows: [replace(SMALL, rows=[{"x": 1, "y": 1, "z": "a"}], mark=Regions("z")), 3], "is a int"),
    ],
)
def test_wrong_exhibits_cost_no_page(lab_result, figures, said):
    page = render_lab(with_lesson(lab_result, figures=figures, hero=""))
    assert said in page
    assert lab_result.verdicts[0].claim.says in page


def test_a_hero_that_does_not_exist_is_told(lab_result):
    page = shown(with_lesson(lab_result, figures=lambda rows: [SMALL], hero="g"))
    assert page.trouble == ["no exhibit is named g, which is the hero of the lesson; correct its name"]
    assert [each["name"] for each in page.figures] == ["f"]


def test_a_figure_that_cannot_be_drawn_leaves_nothing_to_the_script(lab_result, monkeypatch):
    def broken(*_, **__):
        raise ValueError("no picture")

    monkeypatch.setattr("truerisk.report.lab.exhibits.static_svg", broken)
    page = shown(with_lesson(lab_result, figures=lambda rows: [SMALL]))
    assert page.live == []


def holds(rows):
    return Checked(True, "4 of 4")


@pytest.mark.parametrize("text", ["At least {0.low}.", "{1.mean}.", "{0.mea}.", "{", "{name}."])
def test_a_headline_without_its_number_is_the_verdict(text):
    verdict = Verdict(Exact("a", "A.", holds, OURS, "all"), "exact", detail="4 of 4")
    assert Finding(("a",), text, "no", "open").sentence({"a": verdict}) == "Exact: 4 of 4; the threshold is all."


def test_a_headline_about_runs_that_hit_their_limit(lab_result):
    verdicts = {verdict.claim.name: verdict for verdict in lab_result.verdicts}
    assert Finding(("time",), "a", "{0.mean}.", "c").sentence(verdicts) == "over 5.25 times."


@pytest.mark.parametrize("pixels", [[[0.4, 300.0, -5]], [[0]], np.zeros((300, 300)), [[[1, 2, 3]]]])
def test_images(pixels):
    assert png(pixels).startswith(b"\x89PNG")


@pytest.mark.parametrize("pixels", [[], [[]], [[1, 2], [3]], [["a"]], [[float("nan")]], [[[1, 2]]], None])
def test_images_that_are_none(pixels):
    with pytest.raises(TrueriskError, match="an image has"):
        png(pixels)
