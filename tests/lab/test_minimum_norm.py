"""The experiment `minimum-norm`: effects on rows made by hand, verdicts, and a smoke run of everything."""

import json

import numpy as np
import pytest

from truerisk.lab import Rows
from truerisk.lab.experiments import minimum_norm as lab
from truerisk.lab.experiments.minimum_norm import EXPERIMENT
from truerisk.lab.lessons.minimum_norm import LESSON, STARTS
from truerisk.lab.verdict import judge

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
SEEDS = range(20, 25)


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def pair(ratio, change, seed=20):
    """A Gaussian kernel, and patches with ``ratio`` times its norm and an error that differs by ``change``."""
    common = {"kind": "kernel", "data": "mnist1d", "n_test": 2000, "noise": 0.0, "seed": seed}
    pixels = {**common, "kernel": "gaussian", "norm": 50.0, "test_error": 0.4}
    return [pixels, {**common, "kernel": "patches", "norm": 50.0 * ratio, "test_error": 0.4 + change}]


def descent(start, distance, outside, sharpness=2.0):
    fields = {"start": start, "distance": distance, "outside": outside, "sharpness": sharpness}
    return {"kind": "sgd", "seed": 20, **fields}


def word(name, rows):
    return judge(CLAIMS[name], Rows(rows), "quick").word


def test_effects_of_rows_made_by_hand():
    assert lab.norm_ratio(Rows(pair(1.8, 0))) == pytest.approx(1.8)
    assert lab.error_change(Rows(pair(1, -0.1))) == pytest.approx(-0.1)
    assert lab.missed(Rows([{"random_missed": 0.7}])) == 0.7


@pytest.mark.parametrize(("ratio", "found"), [(1.5, "reproduced"), (1.0, "not reproduced"), (1.21, "no verdict")])
def test_patches_need_a_larger_norm(ratio, found):
    rows = [row for seed in SEEDS for row in pair(ratio * (1 + 0.02 * (seed - 22)), 0, seed)]
    assert word("larger-norm", rows) == found


@pytest.mark.parametrize(("change", "found"), [(-0.1, "reproduced"), (0.1, "not reproduced"), (0.0, "no verdict")])
def test_patches_err_less_often(change, found):
    rows = [row for seed in SEEDS for row in pair(1.5, change + 0.002 * (seed - 22), seed)]
    assert word("fewer-errors", rows) == found


@pytest.mark.parametrize(("share", "found"), [(0.7, "reproduced"), (0.4, "not reproduced")])
def test_linear_models_miss_random_labels(share, found):
    rows = [
        {"kind": "rank", "data": data, "n": 1000, "seed": seed, "random_missed": share + 0.001 * seed}
        for data in ("digits", "mnist1d")
        for seed in SEEDS
    ]
    assert word("linear-gram", rows) == found


def test_theorems_hold_for_the_smoke_run(rows):
    for name in ("sgd-from-zero", "sgd-from-elsewhere", "same-curvature"):
        assert judge(CLAIMS[name], rows, "quick").word == "exact"


def test_theorems_can_be_refuted():
    right = [descent(0.0, 1e-9, 0.0), descent(1.0, 0.97, 0.97), descent(4.0, 3.9, 3.9)]
    names = ("sgd-from-zero", "sgd-from-elsewhere", "same-curvature")
    assert {word(name, right) for name in names} == {"exact"}
    assert word("sgd-from-zero", [descent(0.0, 1e-5, 0.0), *right[1:]]) == "not reproduced"
    for other in (descent(1.0, 0.96, 0.97), descent(1.0, 0.4, 0.4)):  # not that part; too near to say anything
        assert word("sgd-from-elsewhere", [*right, other]) == "not reproduced"
    assert word("same-curvature", [*right, descent(1.0, 0.97, 0.97, sharpness=2.1)]) == "not reproduced"


def test_smoke_verdicts(rows):
    verdicts = {verdict.claim.name: verdict for verdict in EXPERIMENT.judge(rows, "smoke")}
    assert {verdict.reason for verdict in verdicts.values()} == {"smoke"}
    assert {name for name, verdict in verdicts.items() if verdict.cells} == {
        "larger-norm",
        "fewer-errors",
        "linear-gram",
    }
    json.dumps(rows.present, allow_nan=False)


@pytest.mark.parametrize("scale", EXPERIMENT.grids)
def test_patches_have_more_features_than_examples(scale):
    solves = [setting for setting in EXPERIMENT.settings(scale) if setting["kind"] == "kernel"]
    assert all(2 * setting["tuning"] <= setting["n"] for setting in solves)
    assert all(8 * setting["filters"] > setting["n"] for setting in solves if setting["kernel"] == "patches")


@pytest.mark.parametrize("kind", ["kernel", "sgd", "rank"])
def test_same_setting_same_record(kind):
    setting = next(setting for setting in EXPERIMENT.settings("smoke") if setting["kind"] == kind)
    assert EXPERIMENT.task(setting) == EXPERIMENT.task(setting)


def test_a_linear_model_on_raw_inputs_has_at_most_the_rank_of_its_inputs(rows):
    [row] = rows.where(kind="rank")
    assert row["rank"] <= row["inputs"] == 64 < row["n"]
    assert row["true_missed"] < row["random_missed"]


# ---- the lesson ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record():
    return json.loads(json.dumps(LESSON.demo(EXPERIMENT.settings("smoke")[0]), allow_nan=False))


def test_figures(rows):
    hero, path, linear, ends = LESSON.figures(rows)
    assert LESSON.hero == hero.name
    kernels = rows.where(kind="kernel")
    shown = {mark["name"]: (mark["norm"], mark["test_error"]) for mark in hero.rows}
    assert shown.keys() == {"Gaussian", "convolutional features"}
    gaussian = kernels.where(kernel="gaussian")
    assert shown["Gaussian"] == (gaussian.one("norm"), gaussian.one("test_error"))
    assert {mark["start"] for mark in path.rows} == set(STARTS.values())
    assert min(mark["step"] for mark in path.rows) > 0
    [row] = rows.where(kind="rank")
    assert {mark["labels"]: mark["missed"] for mark in linear.rows} == {
        "true labels": row["true_missed"],
        "random labels": row["random_missed"],
    }
    assert [cells[0] for cells in ends.rows] == list(STARTS.values())
    assert f"{rows.where(kind='sgd').values('n')[0]} labels" in ends.caption


def test_curves_over_noise_need_noise():
    noisy = [{**row, "n": 1000, "noise": noise} for noise in (0.0, 0.5) for row in pair(2, 0)]
    names = [exhibit.name for exhibit in LESSON.figures(Rows(noisy))]
    assert names == ["norms", "norms-and-noise"]
    assert [exhibit.name for exhibit in LESSON.figures(Rows(noisy[:2]))] == ["norms"]
    assert [exhibit.name for exhibit in LESSON.figures(Rows([]))] == ["norms"]


def test_claims_of_figures_exist(rows, record):
    exhibits = [*LESSON.figures(rows), *LESSON.pictures(record)]
    assert {name for exhibit in exhibits for name in getattr(exhibit, "claims", ())} <= CLAIMS.keys()


def test_all_paths_end_on_the_line_of_solutions_and_one_in_its_smallest(record):
    assert record == json.loads(json.dumps(LESSON.demo(EXPERIMENT.settings("smoke")[0])))
    plane, images = LESSON.pictures(record)
    ends = {one["name"]: one["path"][-1] for one in record["plane"]}
    assert all(0.28 * x + 0.96 * y == pytest.approx(1, abs=1e-5) for x, y in ends.values())
    assert ends["zero"] == pytest.approx(record["smallest"])
    norms = {name: x**2 + y**2 for name, (x, y) in ends.items()}
    assert min(norms, key=norms.get) == "zero"
    assert len(plane.dots) == 1
    assert [strip.label.split(" (")[0] for strip in images.strips] == [
        "smallest norm",
        "SGD from zero",
        "SGD from a random start",
    ]
    assert LESSON.pictures({}) == []


def test_three_models_with_the_same_training_outputs(record):
    smallest, zero, random = record["models"]
    assert all(model["residual"] < 1e-4 for model in record["models"])
    assert zero["norm"] == pytest.approx(smallest["norm"], rel=1e-4)
    assert np.abs(np.subtract(zero["images"], smallest["images"])).max() <= 1  # of 255: rounding
    assert random["norm"] > 1.3 * smallest["norm"]
