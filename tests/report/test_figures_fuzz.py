"""Odd figures: each is refused in one sentence that names it, or is drawn without a number that is none."""

import re
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Axis, Figure, Rule
from truerisk.lab.marks import (
    Bars,
    Contour,
    Histogram,
    Line,
    Map,
    Path,
    Points,
    Polygons,
    Regions,
    Slope,
    Surface,
)
from truerisk.lab.units import CORRELATION, PERCENT, PLAIN, POINTS, TIMES
from truerisk.report.lab.exhibits import _figure, _script
from truerisk.report.lab.figures import DATA, lab_spec
from truerisk.report.lab.page import json_in_html
from truerisk.report.lab.rows import drawable

vl_convert = pytest.importorskip("vl_convert")
alt = pytest.importorskip("altair")

MARKS = (Line(), Line(points=False), Points(), Bars(), Slope(), Histogram(5), Path(), Path(arrow=True),
         Map("z", "value"), Map("z", "value", CORRELATION), Map("z", "", log=True), Regions("z"), Contour("z", "value"),
         Contour("z", "value", log=True), Surface("z", "value"), Polygons("p", "z"))  # fmt: skip
HOSTILE = ("</script><script>alert(1)</script>", "\u2028", "'\"\\", "\\", "__proto__", "", " ", "a" * 200, "\ud800",
           "\x00", "constructor", "null", "\U0001f600", "\u202eright to left", "100%", "NaN", "${x}")  # fmt: skip
NAMES = st.sampled_from(HOSTILE) | st.text(string.printable, max_size=12)
SIZES = st.sampled_from([0, 1, -1, 0.5, -0.0, 1e-320, 1e-9, 1e9, -1e15, 1e99, 1e308, 10**400, 2**53 + 1, 1 / 3])
NUMBERS = st.integers(-3, 5) | st.floats(-2, 2) | SIZES
NONE = st.sampled_from([None, float("nan"), float("inf"), True, False])
CELLS = NUMBERS | NONE | NAMES
FIELDS = {
    "x": (st.integers(1, 4), NUMBERS, NAMES, CELLS, st.just(0.3)),
    "y": (st.floats(0.01, 1), NUMBERS, CELLS, st.just(0), st.integers(1, 4)),
    "z": (NUMBERS, NAMES, CELLS, st.just(1.0), st.floats(-1, 1)),
    "p": (st.integers(0, 2), NAMES),
    "s": (st.integers(0, 30), NAMES, CELLS, st.sampled_from("abc")),
    "f": (st.integers(0, 20), NAMES, CELLS, st.sampled_from("ab")),
    "v": (st.integers(0, 60), NAMES, CELLS, st.just("only")),
    "seed": (st.integers(0, 6), st.just(0)),
}
BAD = re.compile(r"NaN|Infinity|undefined")


@st.composite
def tables(draw, most=14):
    """Rows of one kind: each field has one sort of values, and some rows lack it."""
    kinds = {name: draw(st.sampled_from(some)) for name, some in FIELDS.items()}
    rows = draw(st.lists(st.fixed_dictionaries(kinds), min_size=1, max_size=most))
    gone = draw(st.sampled_from([None, None, *FIELDS]))
    return [{k: v for k, v in row.items() if k != gone or i % 2} for i, row in enumerate(rows)]


@st.composite
def grids(draw):
    """A value for each pair of x and y, as planes need it; sometimes with a hole."""
    xs, ys = (draw(st.lists(NUMBERS, min_size=1, max_size=4, unique=True)) for _ in range(2))
    value = draw(st.sampled_from(FIELDS["z"]))
    panel = draw(st.sampled_from([["a"], ["a", "b"]]))
    rows = [{"x": x, "y": y, "z": draw(value), "f": f, "v": f, "s": f, "p": 1} for f in panel for x in xs for y in ys]
    return rows[draw(st.sampled_from([0, 0, 0, 1])) :]


@st.composite
def axes(draw, name):
    unit = draw(st.sampled_from([PLAIN, PLAIN, PERCENT, POINTS, TIMES]))
    flags = {each: draw(st.sampled_from([False, False, True])) for each in ("log", "ordinal", "zero", "bound")}
    if name == "y":
        flags["ordinal"] = draw(st.integers(0, 9)) == 0
    return Axis(name, draw(NAMES), unit, **flags, counted_on=draw(st.sampled_from([None, 10, "n"])))


@st.composite
def figures(draw):
    """The arguments of a figure."""
    some = st.sampled_from([None, None, "name"])
    mark = draw(st.sampled_from(MARKS))
    plane = isinstance(mark, Map | Regions | Contour | Surface)
    optional = {key: name for key, name in (("series", "s"), ("facet", "f")) if draw(some)}
    if draw(some):
        optional["slider"] = Axis("v", draw(NAMES), draw(st.sampled_from([PLAIN, PERCENT])))
    return {
        "name": "odd",
        "title": draw(NAMES),
        "caption": draw(NAMES),
        "rows": draw(grids() if plane and draw(st.booleans()) else tables()),
        "x": draw(axes("x")),
        "y": draw(axes("y")),
        "mark": mark,
        "series_title": draw(NAMES),
        "rules": [Rule(value, draw(NAMES)) for value in draw(st.lists(st.floats(-50, 1e5), max_size=2))],
        "dots": draw(tables(4)) if draw(some) else [],
        "dots_title": draw(NAMES),
        "observed": draw(st.lists(NAMES, max_size=1)),
        "group": draw(st.sampled_from(["seed", "seed", None])),
        **optional,
    }


def drawn_or_refused(arguments, every=False):
    """Draw a figure as a page does; whether it could be drawn."""
    try:
        figure = Figure(**arguments)
        drawn = drawable(figure)
    except TrueriskError as error:
        said = str(error)
        assert "odd" in said
        assert said.endswith(".")
        assert len(said.splitlines()) == 1
        return False
    if not drawn.rows:
        return True
    for width in (280, 820) if every else (640,):
        for medium in ("page", "static", "file") if every else ("page",):
            spec = lab_spec(figure, drawn, width, medium)
            alt.Chart.from_dict(spec)  # raises where it does not follow the schema
            vl_convert.vegalite_to_vega({**spec, "datasets": {DATA: drawn.rows}})
    json_in_html(_script(figure, drawn, hero=True))  # refuses numbers that are none
    shown = _figure(figure, drawn, hero=True)
    for part in ("wide", "narrow", "card"):
        outside = re.sub(r"<text.*?</text>|aria-label=\"[^\"]*\"", "", shown[part], flags=re.DOTALL)
        assert not BAD.search(outside), BAD.search(outside)
        numbers = re.findall(r">([^<]*)</text>", re.sub(r"<title>.*?</title>", "", shown[part], flags=re.DOTALL))
        texts = {"NaN", figure.series_title, figure.dots_title, figure.x.title, figure.y.title}  # texts of the figure
        assert not {"NaN", "NaN%", "Infinity", "undefined"} & (set(numbers) - texts)
    return True


@given(figures())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
def test_odd_figures(arguments):
    drawn_or_refused(arguments)


@pytest.mark.long
@given(figures())
@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
def test_many_odd_figures(arguments):
    drawn_or_refused(arguments, every=True)
