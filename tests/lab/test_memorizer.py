"""The experiment `memorizer`: checks that can fail, verdicts on both sides of thresholds, a smoke run, its lesson."""

import json

import numpy as np
import pytest

from truerisk.lab import unsettled
from truerisk.lab.experiments.memorizer import EXPERIMENT, LENGTHS, _sample, field
from truerisk.lab.lessons.memorizer import LESSON, NEW, SIZES
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
THEOREMS = ("fits-any-labels", "weights", "training-accuracy", "depth")
DIGITS = {
    "part": "claims",
    "data": "digits",
    "n": 1000,
    "n_test": 797,
    "layers": 1,
    "kinks": "points",
    "precision": "float64",
}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def over_seeds(row, name, value):
    return Rows({**row, "seed": 20 + k, name: value * (1 + 0.01 * k)} for k in range(5))


def test_an_effect_by_hand():
    assert field(Rows([{"max_error": 2e-3}]), "max_error", 1e-6) == pytest.approx(2000)
    assert field(Rows([{"test_error": 0.25}]), "test_error") == 0.25


@pytest.mark.parametrize(
    ("claim", "name", "value", "expected"),
    [
        ("rounding", "max_error", 0.5, "reproduced"),
        ("rounding", "max_error", 1e-4, "not reproduced"),
        ("no-learning", "test_error", 0.85, "reproduced"),
        ("no-learning", "test_error", 0.3, "not reproduced"),
        ("neighbor-learns", "neighbor_test_error", 0.03, "reproduced"),
        ("neighbor-learns", "neighbor_test_error", 0.1, "not reproduced"),
    ],
)
def test_verdicts(claim, name, value, expected):
    row = DIGITS | {"labels": "true", "precision": "float32" if claim == "rounding" else "float64"}
    assert judge(CLAIMS[claim], over_seeds(row, name, value), "quick").word == expected


def test_rounding_must_break_every_kind_of_labels():
    bad, good = (
        over_seeds(DIGITS | {"labels": labels, "precision": "float32"}, "max_error", error).present
        for labels, error in (("true", 1e-4), ("random", 0.5))
    )
    verdict = judge(CLAIMS["rounding"], Rows(good + bad), "quick")
    assert (verdict.word, verdict.decisive.name) == ("not reproduced", "digits, true")


@pytest.mark.parametrize("name", THEOREMS)
def test_theorems_hold_even_in_a_smoke_run(rows, name):
    assert judge(CLAIMS[name], rows, "quick").word == "exact"


@pytest.mark.parametrize(
    ("claim", "fault"),
    [
        ("fits-any-labels", {"max_error": 1e-5}),
        ("weights", {"weights": 1}),
        ("training-accuracy", {"train_error": 0.001}),
        ("depth", {"max_error": 1e-5}),
        ("depth", {"width": 1005}),
        ("depth", {"weights": 10**6}),
    ],
)
def test_each_check_can_fail(rows, claim, fault):
    last = rows.where(**CLAIMS[claim].where).present[-1]  # one bad run of many
    spoiled = Rows({**row, **fault} if row == last else row for row in rows)
    assert judge(CLAIMS[claim], spoiled, "quick").word == "not reproduced"
    gone = Rows([row for row in rows if row != last], [last])
    assert judge(CLAIMS[claim], gone, "quick").reason == "incomplete"


def test_large_samples_may_lose_digits(rows):
    """The claim about errors ends at 1,000 points; that about accuracy does not."""
    large = {**rows.where(**CLAIMS["training-accuracy"].where).present[0], "n": 10_000, "max_error": 1e-3}
    assert judge(CLAIMS["fits-any-labels"], Rows([*rows, large]), "quick").word == "exact"
    wrong = {**large, "train_error": 0.1}
    assert judge(CLAIMS["training-accuracy"], Rows([*rows, wrong]), "quick").word == "not reproduced"


@pytest.mark.parametrize("scale", ["quick", "medium", "paper"])
def test_the_grid_can_settle_all_claims(scale):
    assert unsettled(EXPERIMENT, scale) == {}
    assert {s["n"] for s in EXPERIMENT.settings(scale) if s["part"] in ("claims", "depth")} == {1000}


@pytest.mark.parametrize("fields", [{"n": 30, "labels": "random"}, {"layers": 10}, {"labels": "real numbers", "n": 30}])
def test_same_setting_same_record(fields):
    setting = Rows(EXPERIMENT.settings("smoke")).where(**fields).present[0]
    record = EXPERIMENT.task(setting)
    assert record == EXPERIMENT.task(setting)
    assert not set(record) & set(setting)
    assert record["weights"] <= 4 * setting["n"] + 64 + 5 * setting["layers"]


def test_predictions_survive_short_moves_only(rows):
    random = rows.where(**DIGITS | {"labels": "random", "n": 200, "n_test": 100})
    kept, neighbor = (np.array(random.one(name)) for name in ("kept", "neighbor_kept"))
    assert len(kept) == len(LENGTHS)
    assert kept[0] == neighbor[0] == 1
    assert kept[-1] < 0.5
    assert (neighbor[np.array(LENGTHS) < 0.4] == 1).mean() > 0.9  # most points are half a unit from any boundary


def test_gaussian_points_and_test_points_are_different_draws():
    setting = next(s for s in EXPERIMENT.settings("smoke") if s["data"] == "gaussian")
    train, test = _sample(setting)
    assert train.X.shape == (setting["n"], 50)
    assert test.X.shape == (setting["n_test"], 50)
    assert not set(train.X[:, 0].tolist()) & set(test.X[:, 0].tolist())
    assert len(set(train.y.tolist())) > 5


def test_smoke_run(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert [verdict.claim.name for verdict in verdicts] == list(CLAIMS)
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert all(verdict.cells or verdict.detail for verdict in verdicts)  # every effect and check was computed
    json.dumps(rows.present, allow_nan=False)


# ---- the lesson ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record():
    return json.loads(json.dumps(LESSON.demo(EXPERIMENT.settings("smoke")[0]), allow_nan=False))


def test_figures(rows):
    exhibits = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    assert list(exhibits) == ["fit-and-learn", "sizes", "moves", "depth", "rounding"]
    assert all(exhibit.rows for exhibit in exhibits.values())
    run = rows.where(**DIGITS | {"labels": "true", "n": 200, "n_test": 100})
    shown = {(row["who"], row["on"]): row["error"] for row in exhibits["fit-and-learn"].rows}
    assert shown == {
        ("memorizer", "training examples"): 0,
        ("memorizer", "new examples"): run.one("test_error"),
        ("nearest neighbor", "training examples"): 0,
        ("nearest neighbor", "new examples"): run.one("neighbor_test_error"),
    }
    assert {row["case"] for row in exhibits["moves"].rows} == {"digits", "Gaussian points"}
    assert len(exhibits["moves"].rows) == 2 * 2 * len(LENGTHS)
    assert sorted(row["layers"] for row in exhibits["depth"].rows) == [1, 2, 10]
    assert LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke")))  # gaps are allowed


def test_claims_of_figures_exist_and_the_hero_too(rows, record):
    exhibits = [*LESSON.figures(rows), *LESSON.pictures(record)]
    assert {name for exhibit in exhibits for name in exhibit.claims} <= CLAIMS.keys()
    assert LESSON.hero in {exhibit.name for exhibit in LESSON.figures(rows)}


def test_the_broken_line_passes_through_its_training_images(record):
    assert record == json.loads(json.dumps(LESSON.demo(EXPERIMENT.settings("smoke")[0])))
    for n in SIZES:
        here = Rows(record["lines"]).where(n=n)
        line = {round(row["place"], 9): row["label"] for row in here.where(what="memorizer")}
        images = here.where(what="training images")
        assert len(images) == n == len(line) - 1  # one more: the kink before the first image
        assert all(line[round(row["place"], 9)] == pytest.approx(row["label"], abs=1e-6) for row in images)
        assert (images.min("place"), images.max("place")) == (0, 1)


def test_the_strips_show_images_with_their_own_labels(record):
    assert len(record["strips"]) == NEW
    line, images = LESSON.pictures(record)
    assert images.strips[0].label == "new image"
    assert not any(tile.wrong for tile in images.strips[0].tiles)
    says = images.strips[3]
    wrong = [one["says"] != one["new"]["label"] for one in record["strips"]]
    assert [tile.wrong for tile in says.tiles] == wrong
    assert len(line.dots) > sum(SIZES)
    assert LESSON.pictures({}) == []


def test_data_that_are_not_images_have_no_strips():
    setting = {**EXPERIMENT.settings("smoke")[0], "data": "mnist1d"}
    assert LESSON.demo(setting)["strips"] == []
