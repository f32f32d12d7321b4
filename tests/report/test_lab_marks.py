"""What marks draw, against plain computations: means, bins, cells, lines of equal value, surfaces, images."""

import io
import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from truerisk.errors import TrueriskError
from truerisk.lab import PERCENT, TIMES, Axis, Contour, Figure, Histogram, Line, Map, Path, Polygons, Regions, Surface
from truerisk.lab.figure import Rule
from truerisk.lab.images import pixels
from truerisk.lab.units import CORRELATION
from truerisk.report.lab.ends import apart, end_labels, room_for_ends
from truerisk.report.lab.figures import lab_spec
from truerisk.report.lab.keys import (
    BOTTOM,
    CORNER,
    HIGH,
    ISOLINE,
    LEFT,
    LOW,
    MEAN,
    ONE_SEED,
    RIGHT,
    SEEN_X,
    SEEN_Y,
    SERIES,
    SHAPE,
    SLIDE,
    TEXT,
    TOP,
    VALUE,
    X,
    Y,
)
from truerisk.report.lab.marks.surface import TILT
from truerisk.report.lab.png import png
from truerisk.report.lab.rows import drawable

A, B = Axis("a", "a"), Axis("b", "b")


def runs(seeds, value=lambda seed: 0.1 + 0.01 * seed):
    return [
        {"p": p, "error": value(seed) + p, "seed": seed, "n_test": 100} for p in (0.0, 0.5) for seed in range(seeds)
    ]


def test_from_five_seeds_on_the_interval_that_judges():
    """Student's t by hand: mean, and mean -+ t s / sqrt(n); never below one example of n_test."""
    y = Axis("error", "error", PERCENT, counted_on="n_test")
    found = drawable(Figure("f", "F", "f.", runs(6), Axis("p", "p"), y))
    first = found.of(MEAN)[0]
    values = [0.1 + 0.01 * seed for seed in range(6)]
    half = stats.t.ppf(0.975, 5) * statistics.stdev(values) / math.sqrt(6)
    assert first[Y] == pytest.approx(statistics.mean(values))
    assert (first[LOW], first[HIGH]) == pytest.approx((first[Y] - half, first[Y] + half))
    assert not found.of(ONE_SEED)
    still = drawable(Figure("f", "F", "f.", runs(5, lambda seed: 0.2), Axis("p", "p"), y)).of(MEAN)[0]
    half = stats.t.ppf(0.975, 4) * 0.01 / math.sqrt(5)  # all agree: one example of 100 is the least spread
    assert (still[LOW], still[HIGH]) == pytest.approx((0.2 - half, 0.2 + half))


@pytest.mark.parametrize("seeds", [2, 3, 4])
def test_up_to_four_seeds_are_drawn_one_by_one(seeds):
    found = drawable(Figure("f", "F", "f.", runs(seeds), Axis("p", "p"), Axis("error", "error", PERCENT)))
    assert sorted(row[Y] for row in found.of(ONE_SEED)) == pytest.approx(sorted(row["error"] for row in runs(seeds)))
    assert all(LOW not in row for row in found.rows)
    assert f"means over {seeds} seeds" in found.sentence


def test_ratios_have_geometric_means():
    rows = [{"p": 0, "times": times, "seed": seed} for seed, times in enumerate((1.0, 4.0, 16.0))]
    [mean] = drawable(Figure("f", "F", "f.", rows, Axis("p", "p"), Axis("times", "times", TIMES))).of(MEAN)
    assert mean[Y] == pytest.approx(4.0)
    [plain] = drawable(Figure("f", "F", "f.", rows, Axis("p", "p"), Axis("times", "times"))).of(MEAN)
    assert plain[Y] == pytest.approx(7.0)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=8), st.floats(5, 20))
@example([284.0, 300.0, 300.0], 10.0)  # the last two move up, to the one before them
def test_names_keep_apart(wanted, least):
    found = apart(wanted, least, 300.0)
    order = sorted(range(len(wanted)), key=lambda i: (found[i], wanted[i]))
    assert [wanted[i] for i in order] == sorted(wanted)  # lines and their names are in one order
    gaps = [found[j] - found[i] for i, j in itertools.pairwise(order)]
    assert all(gap >= least - 1e-6 for gap in gaps)
    assert max(found) <= 300 + 1e-6
    if all(abs(a - b) > 2 * least for a, b in itertools.combinations(wanted, 2)):
        assert found == pytest.approx(wanted)  # nothing moves without need


def test_names_stand_at_the_ends_of_lines():
    rows = [{"x": x, "y": x * k, "k": k} for x in (1, 2, 3) for k in (8, 64)]
    figure = Figure("f", "F", "f.", rows, Axis("x", "x"), Axis("y", "y"), series="k", series_title="units")
    found = drawable(figure)
    assert room_for_ends(figure, found, 820, 15) > 0
    labels = end_labels(figure, found, 400, 15, (0.0, 200.0))
    assert [label[TEXT] for label in labels] == ["units", "8", "64"]  # numbers alone say nothing
    assert labels[1][Y] == pytest.approx(24)
    assert labels[2][Y] == pytest.approx(192)
    assert room_for_ends(figure, found, 350, 15) == 0  # a legend, where the paper is narrow
    early = drawable(
        Figure("f", "F", "f.", [*rows, {"x": 9, "y": 1, "k": 8}], Axis("x", "x"), Axis("y", "y"), series="k")
    )
    assert room_for_ends(figure, early, 820, 15) == 0  # a line that ends early would have its name among the others


def test_more_than_six_names_get_panels():
    rows = [{"x": x, "y": x, "k": f"k{k}"} for x in (1, 2) for k in range(7)]
    figure = Figure("f", "F", "f.", rows, Axis("x", "x"), Axis("y", "y"), series="k")
    assert len(lab_spec(figure, drawable(figure), 820)["facet"]["sort"]) == 7
    numbers = Figure("f", "F", "f.", [{**row, "k": int(row["k"][1:])} for row in rows], figure.x, figure.y, series="k")
    assert "facet" not in lab_spec(numbers, drawable(numbers), 820)


def test_histogram():
    rng = np.random.default_rng(0)
    rows = [{"v": float(v), "s": s} for s in "ab" for v in rng.normal(ord(s), 1, 200)]
    figure = Figure("f", "F", "f.", rows, Axis("v", "v"), Axis("", "share", PERCENT), Histogram(9), series="s")
    found = drawable(figure)
    _, edges = np.histogram([row["v"] for row in rows], bins=9)
    for name in "ab":
        own = [row["v"] for row in rows if row["s"] == name]
        bars = [row for row in found.rows if row[SERIES] == name]
        assert sum(bar[Y] for bar in bars) == pytest.approx(1)
        for bar in bars:
            last = bar[RIGHT] == pytest.approx(edges[-1])
            inside = [v for v in own if bar[LEFT] <= v < bar[RIGHT] or (last and v == bar[RIGHT])]
            assert bar[Y] == pytest.approx(len(inside) / len(own))


def test_maps_have_real_axes():
    rows = [{"a": a, "b": b, "z": a * b} for a in (1, 10, 100) for b in (0.0, 0.5, 2.0)]
    found = drawable(Figure("f", "F", "f.", rows, Axis("a", "a", log=True), B, Map("z", "z")))
    cell = next(row for row in found.rows if (row[X], row[Y]) == (10, 0.5))
    assert (cell[LEFT], cell[RIGHT]) == pytest.approx((10**0.5, 10**1.5))
    assert (cell[BOTTOM], cell[TOP]) == pytest.approx((0.25, 1.25))
    assert not found.orders


@pytest.mark.parametrize(("unit", "percent"), [(PERCENT, True), (CORRELATION, False)])
def test_the_ramp_of_a_map_has_the_unit_of_its_cells(unit, percent):
    rows = [{"a": a, "b": b, "z": a * b / 10} for a in range(3) for b in range(3)]
    figure = Figure("f", "F", "f.", rows, A, B, Map("z", "z", unit))
    [legend] = ramps(lab_spec(figure, drawable(figure), 820))
    assert ("'%'" in legend.get("labelExpr", "")) is percent


def ramps(spec):
    """The legends of a specification that are ramps of colors."""
    parts = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ()
    found = [spec] if isinstance(spec, dict) and "gradientLength" in spec else []
    return found + [legend for part in parts for legend in ramps(part)]


def test_regions_say_the_same_with_fewer_cells():
    rows = [{"a": a, "b": b, "c": "in" if a * a + b * b < 9 else "out"} for a in range(-5, 6) for b in range(-5, 6)]
    found = drawable(Figure("f", "F", "f.", rows, A, B, Regions("c"))).rows
    assert len(found) < len(rows) / 3
    for row in rows:
        cells = [cell for cell in found if cell[LEFT] < row["a"] < cell[RIGHT] and cell[BOTTOM] < row["b"] < cell[TOP]]
        assert [cell[VALUE] for cell in cells] == [row["c"]]


def bowl(step=0.25):
    places = [round(-2 + step * k, 6) for k in range(round(4 / step) + 1)]
    return [{"a": a, "b": b, "z": a * a + 2 * b * b} for a in places for b in places]


def test_lines_of_equal_value():
    """Along each line of the bowl a^2 + 2 b^2 is constant, up to the curvature between two places of the grid."""
    found = drawable(Figure("f", "F", "f.", bowl(), A, B, Contour("z", "z", levels=5)))
    lines = {}
    for row in found.of(ISOLINE):
        lines.setdefault(row[SHAPE], []).append(row[X] ** 2 + 2 * row[Y] ** 2)
    assert len(lines) >= 5
    for values in lines.values():
        assert max(values) - min(values) < 3 * 0.25**2  # (1 + 2) step^2 / 4 at most on an edge, and some room


def test_surface():
    """Each corner is a point of the surface in parallel projection; far cells come first."""
    found = drawable(Figure("f", "F", "f.", bowl(0.5), A, B, Surface("z", "z")))
    corners = [row for row in found.of(CORNER) if row[SLIDE] == 0]
    places = np.linspace(-1, 1, 9)
    angle = math.radians(30)
    height = {(x, y): 1.5 * ((2 * x) ** 2 + 2 * (2 * y) ** 2) / 12 for x in places for y in places}
    seen = {}
    for (x, y), z in height.items():
        depth = x * math.sin(angle) + y * math.cos(angle)
        point = (x * math.cos(angle) - y * math.sin(angle), z * math.cos(TILT) + depth * math.sin(TILT))
        seen[point] = depth
    depths = []
    for row in corners:
        nearest = min(seen, key=lambda point: abs(point[0] - row[SEEN_X]) + abs(point[1] - row[SEEN_Y]))
        assert nearest == pytest.approx((row[SEEN_X], row[SEEN_Y]), abs=1e-3)
        depths.append(seen[nearest])
    cells = [sum(depths[i : i + 4]) for i in range(0, len(depths), 4)]
    assert len(cells) == 64
    assert cells == sorted(cells, reverse=True)
    assert len(found.slides) == 8
    assert found.of(ISOLINE)  # never without its contour


def test_paths_and_polygons_keep_the_order_of_rows():
    rows = [{"a": a, "b": b, "id": 0, "z": 1.0} for a, b in ((0, 0), (2, 1), (1, 2), (0, 1))]
    for mark in (Path(), Polygons("id", "z")):
        found = drawable(Figure("f", "F", "f.", rows, A, B, mark))
        assert [(row[X], row[Y]) for row in sorted(found.rows, key=lambda row: row["o"])] == [
            (0, 0),
            (2, 1),
            (1, 2),
            (0, 1),
        ]


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3), (1, 1)])
def test_png_is_read_back(shape):
    image = pytest.importorskip("PIL.Image")
    values = np.random.default_rng(1).integers(0, 256, shape)
    assert np.array_equal(np.asarray(image.open(io.BytesIO(png(values.tolist())))), values)


def test_pixels():
    assert pixels(np.array([[0.0, 2.0]]), low=0, high=4) == [[0, 128]]
    assert pixels(np.full((1, 2, 2), 7.0)) == [[0, 0], [0, 0]]
    assert np.asarray(pixels(np.zeros((3, 4, 5)))).shape == (4, 5, 3)


def test_one_notation_of_ticks():
    """An axis from 1e-5 to 10 has powers of ten throughout, not decimals here and exponents there."""
    rows = [{"x": 10.0**k, "y": k} for k in range(-5, 2)]
    figure = Figure("f", "F", "f.", rows, Axis("x", "x", log=True), Axis("y", "y"), Line(), rules=[Rule(0, "zero")])
    spec = lab_spec(figure, drawable(figure), 820)
    x = next(layer for layer in spec["layer"] if "x" in layer["encoding"] and layer["mark"]["type"] == "line")
    labels = x["encoding"]["x"]["axis"]["labelExpr"]
    assert "10\\u207b\\u2075" in labels
    assert "0.001" not in labels.partition("[indexof")[0]


def test_yes_is_not_one():
    """True equals 1 in Python; on paper they are two places."""
    rows = [{"a": a, "b": 0.5, "seed": seed} for seed, a in enumerate((1, True, 0, False))]
    figure = Figure("f", "F", "f.", rows, Axis("a", "a", ordinal=True), B, rules=[Rule(0.5, "half")])
    found = drawable(figure)
    assert found.orders[X] == ["1", "yes", "0", "no"]
    assert lab_spec(figure, found, 640)["layer"]


def test_numbers_too_far_apart_have_no_interval():
    rows = [{"a": 0, "b": b, "seed": seed} for seed, b in enumerate((1e-90, 1e90))]
    with pytest.raises(TrueriskError, match=r"numbers from 1e-90 to 1e\+90 at one place"):
        drawable(Figure("f", "F", "f.", rows, A, Axis("b", "b", log=True)))
