"""The experiment `shattering`: its checks can fail, its effect by hand, a smoke run whose theorems hold, its lesson."""

import json

import numpy as np
import pytest

from truerisk.lab import unsettled
from truerisk.lab.claim import Exact
from truerisk.lab.experiments.shattering import EXPERIMENT, largest_shattered, off_formula
from truerisk.lab.lessons.shattering import FOUR, LESSON, ON_A_LINE, THREE, _sides
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge
from truerisk.measures.shattering import cover

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
EXACT = [name for name, claim in CLAIMS.items() if isinstance(claim, Exact)]
THEOREMS = [name for name in EXACT if CLAIMS[name].whose.kind == "theorem"]


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


@pytest.fixture(scope="module")
def found(rows):
    """The smoke rows with networks that shatter: two short rounds of training may miss a labeling."""
    return Rows({**row, "least": 2 ** row["m"]} if row.get("family") == "relu" else row for row in rows)


def capacity(n, off):
    formula = cover(n, 10) / 2**n
    wobble = (-0.01, 0.005, 0.0, 0.01, -0.005)
    row = {"part": "capacity", "d": 10, "n": n, "draws": 1000, "formula": formula}
    return [{**row, "seed": 20 + k, "share": formula + off + wobble[k]} for k in range(5)]


def test_the_difference_from_the_formula():
    assert off_formula(Rows(capacity(22, 0.03)[:1])) == pytest.approx(0.02)
    assert cover(22, 10) / 2**22 == 0.5


@pytest.mark.parametrize(("off", "expected"), [(0.0, "reproduced"), (0.1, "not reproduced"), (-0.1, "not reproduced")])
def test_cover_capacity(off, expected):
    right, here = capacity(16, 0.0), capacity(22, off)
    assert judge(CLAIMS["cover-capacity"], Rows(right + here), "quick").word == expected


def test_the_largest_shattered_set():
    rows = [{"m": m, "most": most} for m, most in ((1, 2), (2, 4), (3, 7), (4, 16), (5, 20))]
    assert largest_shattered(Rows(rows)) == 4
    assert largest_shattered(Rows(rows[2:3])) == 0
    with pytest.raises(IncompleteError):
        largest_shattered(Rows(rows, missing=[{"m": 6}]))


@pytest.mark.parametrize("name", THEOREMS)
def test_mathematics_holds_even_in_a_smoke_run(rows, name):
    assert judge(CLAIMS[name], rows, "quick").word == "exact"


@pytest.mark.parametrize(
    ("claim", "where", "new"),
    [
        ("cover-count", {"family": "affine", "d": 2, "m": 4}, {"least": 12}),
        ("vc-affine", {"family": "affine", "d": 2, "m": 4}, {"most": 16}),
        ("vc-affine", {"family": "affine", "d": 3, "m": 4}, {"most": 14}),
        ("vc-boxes", {"family": "rectangles", "m": 5}, {"most": 32}),
        ("vc-boxes", {"family": "intervals", "m": 2}, {"most": 3}),
        ("vc-boxes", {"family": "intervals", "m": 5}, {"most": 17}),
        ("vc-infinite", {"family": "sine", "m": 5}, {"least": 31}),
        ("network-shatters", {"family": "relu", "m": 4, "width": 4}, {"least": 14}),
    ],
)
def test_each_check_can_fail(found, claim, where, new):
    assert judge(CLAIMS[claim], found, "quick").word == "exact"
    chosen = list(found.where(**where))
    assert chosen
    spoiled = Rows({**row, **new} if row in chosen else row for row in found)
    assert judge(CLAIMS[claim], spoiled, "quick").word == "not reproduced"


def test_narrow_networks_do_not_count(found):
    chosen = list(found.where(family="relu", width=1))
    assert chosen
    spoiled = Rows({**row, "least": 0} if row in chosen else row for row in found)
    assert judge(CLAIMS["network-shatters"], spoiled, "quick").word == "exact"


@pytest.mark.parametrize("name", EXACT)
def test_a_missing_run_of_its_own_leaves_no_verdict(found, name):
    last = found.where(**CLAIMS[name].where).present[-1]
    gone = Rows([row for row in found if row != last], [last])
    assert judge(CLAIMS[name], gone, "quick").reason == "incomplete"
    elsewhere = Rows(found.where(part="shatter"), found.where(part="capacity").present)
    assert judge(CLAIMS[name], elsewhere, "quick").word == "exact"


@pytest.mark.parametrize("scale", ["quick", "medium", "paper"])
def test_the_grid_can_settle_all_claims(scale):
    assert unsettled(EXPERIMENT, scale) == {}
    settings = EXPERIMENT.settings(scale)
    for d in (1, 2, 3):  # no theorem about d + 2 points without many of them
        assert max(s["sets"] for s in settings if s.get("family") == "affine" and s["d"] == d) >= 30


@pytest.mark.parametrize("family", ["affine", "relu", "nearest", "rectangles"])
def test_a_task_repeats_itself(family):
    setting = next(s for s in EXPERIMENT.settings("smoke") if s.get("family") == family and s["m"] == 3)
    record = EXPERIMENT.task(setting)
    assert record == EXPERIMENT.task(setting)
    assert not setting.keys() & record.keys()


def test_shares_are_those_of_the_formula_where_all_or_none_are_separable():
    setting = {"part": "capacity", "d": 2, "draws": 40, "seed": 0}
    assert EXPERIMENT.task({**setting, "n": 3}) == {"share": 1.0, "formula": 1.0}
    assert EXPERIMENT.task({**setting, "n": 40})["share"] == 0.0


def test_smoke_run(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert [verdict.claim.name for verdict in verdicts] == list(CLAIMS)
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert all(verdict.cells or verdict.detail for verdict in verdicts)  # every effect and check was computed


# ---- the lesson ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record():
    return json.loads(json.dumps(LESSON.demo(EXPERIMENT.settings("smoke")[0])))


def test_figures(rows):
    exhibits = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    assert list(exhibits) == ["labelings", "networks", "capacity", "vc-dimensions"]
    shares = {(row["family"], row["m"]): row["share"] for row in exhibits["labelings"].rows}
    assert [shares["lines (half-planes)", m] for m in (3, 4)] == [1, 14 / 16]
    assert [shares["intervals", m] for m in (2, 3)] == [1, 7 / 8]
    assert shares["sine waves", 5] == 1
    curve = {row["ratio"]: row["share"] for row in exhibits["capacity"].rows if row["d"] == 10}
    assert curve[2.0] == 0.5
    assert len(exhibits["capacity"].dots) == len(rows.where(part="capacity"))
    table = {line[0]: line[1:4] for line in exhibits["vc-dimensions"].rows}
    assert table["affine classifiers in R^2"] == ["3", "3", "3"]
    assert table["sine"] == ["1", "infinite", "at least 5"]
    assert table["ReLU network of width 4, trained"][:2] == ["17", "at least 4"]
    assert LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke")))  # gaps are allowed


def test_claims_of_figures_exist_and_the_hero_too(rows, record):
    exhibits = [*LESSON.figures(rows), *LESSON.pictures(record)]
    assert {name for exhibit in exhibits for name in getattr(exhibit, "claims", ())} <= CLAIMS.keys()
    assert LESSON.hero in {exhibit.name for exhibit in LESSON.figures(rows)}


def test_the_drawn_lines_separate_their_labels(record):
    assert record == json.loads(json.dumps(LESSON.demo({"seed": 20})))
    for points in (THREE, FOUR):
        found = record["lines"][str(len(points))]
        lines = [(np.array(one["labels"]), one["line"]) for one in found if one["line"]]
        assert len(lines) == cover(len(points), 2)
        for labels, (w1, w2, b) in lines:
            assert (((np.array(points) @ [w1, w2] + b) > 0) == labels).all()
    refused = [one["labels"] for one in record["lines"]["4"] if one["line"] is None]
    assert refused == [[False, True, True, False], [True, False, False, True]] or refused == [
        [True, False, False, True],
        [False, True, True, False],
    ]


def test_every_labeling_has_its_wave(record):
    for one in record["waves"]:
        assert ((np.sin(one["frequency"] * np.array(ON_A_LINE)) > 0.3) == one["labels"]).all()
    assert len({tuple(one["labels"]) for one in record["waves"]}) == 16


def test_pictures_show_the_labeling_without_a_line_first(record):
    three, four, waves = LESSON.pictures(record)
    assert len({row["labels"] for row in three.rows}) == 8
    corners = {name: [row for row in four.rows if row["labels"] == name] for name in (r["labels"] for r in four.rows)}
    assert [len(some) == 1 for some in corners.values()] == [True] * 2 + [False] * 14  # one corner: nothing is colored
    assert len(waves.dots) == 16 * len(ON_A_LINE)
    assert LESSON.pictures({}) == []


def test_the_two_sides_of_a_line_fill_the_picture():
    def area(shape):
        x, y = np.array(shape).T
        return abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2

    for line in ([1.0, 0.5, 0.2], [0.0, -2.0, 1.0], [0.3, 0.3, 0.9]):
        assert sum(area(shape) for shape in _sides(line).values()) == pytest.approx(9, abs=1e-3)
    assert list(_sides([0.0, 0.0, 1.0])) == ["label +"]
