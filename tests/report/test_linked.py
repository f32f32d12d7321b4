"""Switches, sliders that start in the middle, upright rules, and linked figures: which rows a state shows."""

import json
from dataclasses import replace

import pytest

from truerisk.errors import TrueriskError
from truerisk.lab import Axis, Bars, Figure, Line, Linked, Map, Rule, Switch
from truerisk.lab.marks import Regions
from truerisk.report.lab.figures import WIDTHS, at_start, lab_spec, static_svg
from truerisk.report.lab.keys import DOT, PANEL, SLIDE
from truerisk.report.lab.linked import drawables, linked_rows, linked_spec, linked_svg
from truerisk.report.lab.rows import drawable

STATES = [(size, noisy) for noisy in (False, True) for size in (1, 2, 4)]
ROWS = [{"x": x, "y": x * size + noisy, "size": size, "noisy": noisy} for size, noisy in STATES for x in (0, 1)]
CURVE = [{"at": size, "e": size + noisy, "noisy": noisy} for size, noisy in STATES]
DOTS = [{"at": size, "e": size + noisy, "noisy": noisy, "size": size} for size, noisy in STATES]
SIZE, NOISE = Axis("size", "size"), Switch("noisy", "noise")
FIT = Figure("fit", "Fit", "f.", ROWS, Axis("x", "x"), Axis("y", "y"), slider=SIZE, switches=(NOISE,), group=None)
ERRORS = Figure("errors", "Errors", "e.", CURVE, Axis("at", "size"), Axis("e", "error"), slider=SIZE, switches=(NOISE,),
                dots=DOTS, group=None)  # fmt: skip
BOTH = Linked("both", "Both", "b.", [FIT, ERRORS])


def shown(drawn, state, slides=3):
    """The rows of a state, by the rule that the docstring of `rows._state` states."""
    return [row for row in drawn.rows if row.get(SLIDE) in (None, state, -1 - state // slides)]


@pytest.mark.parametrize(("state", "size", "noisy"), [(0, 1, False), (2, 4, False), (3, 1, True), (5, 4, True)])
def test_states_count_the_slider_once_for_each_setting_of_the_switches(state, size, noisy):
    assert [row["y"] for row in shown(drawable(FIT), state)] == [x * size + noisy for x in (0, 1)]
    rows = shown(drawable(ERRORS), state)
    assert [row["y"] for row in rows if row["k"] != DOT] == [each + noisy for each in (1, 2, 4)]  # the whole curve
    assert [(row["x"], row["y"]) for row in rows if row["k"] == DOT] == [(size, size + noisy)]


def test_the_expression_keeps_the_rows_of_the_state():
    layer = next(layer for layer in lab_spec(FIT, drawable(FIT), 640)["layer"] if layer["mark"]["type"] == "line")
    test = layer["transform"][0]["filter"]
    assert test == "datum.k === 'm' && (datum.v === slide || !isValid(datum.v) || datum.v === -1 - floor(slide / 3))"


@pytest.mark.parametrize(("start", "on", "state"), [(None, False, 0), (4, False, 2), (2, True, 4), (3, False, 0)])
def test_where_it_starts(start, on, state):
    figure = replace(FIT, starts_at=start, switches=(replace(NOISE, on=on),))
    drawn = drawable(figure)
    assert drawn.start == state
    assert lab_spec(figure, drawn, 640)["params"] == [{"name": "slide", "value": state}]
    assert [row for row in drawn.rows if at_start(row, drawn)] == shown(drawn, state)


def test_two_switches_count_in_binary():
    rows = [{"x": 0, "y": 10 * a + b, "a": a, "b": b} for a in (False, True) for b in (False, True)]
    figure = replace(FIT, rows=rows, slider=None, switches=(Switch("a", "a", on=True), Switch("b", "b")))
    drawn = drawable(figure)
    assert [row["y"] for state in range(4) for row in shown(drawn, state, 1)] == [0, 10, 1, 11]
    assert drawn.start == 1
    assert [row["y"] for row in drawn.rows if at_start(row, drawn)] == [10]


def test_means_over_seeds_keep_the_settings_of_switches_apart():
    rows = [{**row, "y": row["y"] + 0.1 * seed, "seed": seed} for row in ROWS for seed in range(5)]
    drawn = drawable(replace(FIT, rows=rows, group="seed"))
    assert [round(row["y"], 6) for row in shown(drawn, 5)] == [1.2, 5.2]


@pytest.mark.parametrize("row", [{"x": 0, "y": 0, "size": 1}, {"x": 0, "y": 0, "size": 1, "noisy": "yes"}])
def test_a_row_has_all_switches_or_none(row):
    with pytest.raises(TrueriskError, match="switches; give"):
        drawable(replace(FIT, rows=[*ROWS, row]))


def test_a_control_that_moves_nothing_is_refused():
    with pytest.raises(TrueriskError, match="no row of figure fit has the field 'ridge'"):
        replace(FIT, switches=(Switch("ridge", "ridge"),))


# ---- upright rules -------------------------------------------------------------------------------------------------


def test_upright_rules_have_a_place_on_the_x_axis_and_none_on_the_y_axis():
    figure = Figure("f", "F", "f.", [{"x": 1, "y": 1}, {"x": 9, "y": 2}], Axis("x", "x", log=True), Axis("y", "y"),
                    rules=[Rule(100, "far", upright=True), Rule(-5, "nowhere", upright=True)], group=None)  # fmt: skip
    spec = lab_spec(figure, drawable(figure), 640)
    rules = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    assert [layer["data"]["values"][0]["value"] for layer in rules] == [100]  # a logarithmic axis has no place for -5
    assert rules[0]["encoding"]["x"]["scale"]["domain"] == [1, 100]
    line = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "line")
    assert line["encoding"]["y"]["scale"]["domain"][1] < 3
    label = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "text")
    assert label["mark"]["align"] == "right"  # at the right end, towards the middle
    assert "far" in static_svg(figure, drawable(figure), 640)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"mark": Bars()}, "no numbers on its x axis"), ({"x": Axis("x", "x", ordinal=True)}, "no numbers on its x axis")],
)
def test_upright_rules_need_numbers(change, said):
    with pytest.raises(TrueriskError, match=said):
        replace(FIT, rules=[Rule(1, "n", upright=True)], **change)
    with pytest.raises(TrueriskError, match="only horizontal rules are shaded"):
        Rule(1, "n", shaded=True, upright=True)


def test_a_map_of_names_has_no_upright_rule():
    rows = [{"x": name, "y": 1, "v": 1.0} for name in "ab"]
    figure = Figure("m", "M", "m.", rows, Axis("x", "x"), Axis("y", "y"), Map("v", "v"), group=None,
                    rules=[Rule(1, "one", upright=True)])  # fmt: skip
    assert all(layer["mark"]["type"] != "rule" for layer in lab_spec(figure, drawable(figure), 640)["layer"])


# ---- linked figures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("medium", ["page", "static", "file"])
def test_linked_specs_follow_the_schema(width, medium):
    alt = pytest.importorskip("altair")
    spec = linked_spec(BOTH, drawables(BOTH), width, medium)
    alt.Chart.from_dict(json.loads(json.dumps(spec)))
    panels = spec["hconcat" if width >= 600 else "vconcat"]
    assert [panel["title"]["text"] for panel in panels] == [["Fit"], ["Errors"]]
    assert [panel["transform"] for panel in panels] == [[{"filter": f"datum.{PANEL} === {k}"}] for k in (0, 1)]


def test_classes_of_regions_and_series_have_scales_of_their_own():
    """One color scale for both would mix their names; Vega warns of it."""
    slider, places = Axis("s", "s"), [(x, y, s) for x in (0, 1) for y in (0, 1) for s in (0, 1)]
    cells = [{"x": x, "y": y, "s": s, "class": str(x)} for x, y, s in places]
    rows = [{"x": x, "y": y, "s": s, "on": "new" if x else "old"} for x, y, s in places]
    axes = Axis("x", "x"), Axis("y", "y")
    plane = Figure("p", "P", "p.", cells, *axes, Regions("class"), slider=slider, group=None)
    lines = Figure("l", "L", "l.", rows, *axes, Line(), series="on", series_title="on", slider=slider, group=None)
    linked = Linked("b", "B", "b.", [plane, lines])
    assert linked_spec(linked, drawables(linked), 820)["resolve"]["scale"]["color"] == "independent"
    assert "resolve" not in linked_spec(BOTH, drawables(BOTH), 820)


def test_linked_rows_say_which_panel_they_are_of():
    drawn = drawables(BOTH)
    rows = linked_rows(drawn)
    assert [row[PANEL] for row in rows] == [0] * len(drawn[0].rows) + [1] * len(drawn[1].rows)
    assert linked_svg(BOTH, drawn, 820).count(">Errors<") == 1


def test_wide_panels_take_their_shares():
    spec = linked_spec(replace(BOTH, shares=(3, 1)), drawables(BOTH), 1040)
    wide, narrow = (panel["width"] for panel in spec["hconcat"])
    assert 2.5 < wide / narrow < 5


def test_an_empty_panel_empties_the_exhibit():
    assert drawables(replace(BOTH, figures=[FIT, replace(ERRORS, rows=[], dots=[])])) == []


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ([FIT], "must link 2 to 4"),
        ([FIT, replace(ERRORS, switches=())], "differ in slider or switches"),
        ([FIT, replace(ERRORS, starts_at=2)], "differ in slider or switches"),
        ([replace(FIT, slider=None, switches=()), replace(ERRORS, slider=None, switches=())], "differ in slider"),
        ([FIT, replace(ERRORS, facet="at")], "panels of its own"),
    ],
)
def test_slips(figures, said):
    with pytest.raises(TrueriskError, match=said):
        replace(BOTH, figures=figures)
    with pytest.raises(TrueriskError, match="one positive number for each"):
        replace(BOTH, shares=(1, 0))


def test_panels_with_other_values_of_the_slider_or_other_series_are_refused():
    fewer = replace(ERRORS, dots=DOTS[:2])
    with pytest.raises(TrueriskError, match="other values of the slider"):
        drawables(replace(BOTH, figures=[FIT, fewer]))
    named = [replace(figure, rows=[{**row, "s": name} for row in figure.rows], series="s", mark=Line())
             for figure, name in ((FIT, "a"), (ERRORS, "b"))]  # fmt: skip
    with pytest.raises(TrueriskError, match="other series"):
        drawables(replace(BOTH, figures=named))
