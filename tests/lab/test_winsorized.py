"""`winsorized`: effects on rows made by hand, the task, and the page."""

from __future__ import annotations

import json

import numpy as np
import pytest

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.experiments import winsorized as experiment
from truerisk.lab.experiments.winsorized import CLAIMS, CLEAN, EXPERIMENT, HALF, MOST, PLAIN, SOME, own_data
from truerisk.lab.figure import Table
from truerisk.lab.lessons.winsorized import LESSON
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge
from truerisk.lab.winsorized_runs import M3, RM3, learned, optimizer, run_winsorized, winsorized

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {"data": "digits", "n": 60, "n_test": 80, "n_validation": 40, "hidden": [8], "batch": 20, "lr": 0.2,
         "epochs": 4, "noise": HALF, "method": winsorized(2), "seed": 3}  # fmt: skip
OVERFIT = {PLAIN: 0.6, SOME: 0.4, MOST: 0.2, M3: 0.4, RM3: 0.4}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def row(s, **changed):
    wobble = 0.002 * (s["seed"] % 5)
    plain = s["method"] == PLAIN
    made = {
        "diverged": False,
        "at": [1, 2, 3],
        "train_accuracies": [0.3, 0.5, 1.0] if plain else [0.3, 0.5, 0.6],
        "test_accuracies": [0.5, 0.8, 0.5] if plain else [0.5, 0.8, 0.65 + wobble],
        "validation_accuracies": [0.3, 0.4, 0.3],
        "corrupt_accuracies": [0.1, 0.1, 0.5],
        "overfit": OVERFIT.get(s["method"], 0.5) + wobble * plain,
        "test_accuracy": 0.97 if s["noise"] == CLEAN else 0.5 + wobble if plain else 0.65,
        "stopped_accuracy": 0.8 + wobble,
        "best_accuracy": 0.8 + wobble * plain,
        "corrupt_fitted": 0.5,
    }
    return {**s, **made, **changed}


def world(change=lambda s: {}, scale="quick"):
    settings = EXPERIMENT.settings(scale)
    return Rows([row(s, **change(s)) for s in settings], fields={name for s in settings for name in s})


def only(method, change):
    return lambda s: change(0.001 * s["seed"]) if s["method"] == method else {}


@pytest.mark.parametrize("claim", CLAIM)
def test_all_claims_can_be_reproduced(claim):
    verdict = judge(CLAIM[claim], world(), "quick")
    assert (verdict.word, verdict.detail) == ("reproduced", "")


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("overfit-falls", only(SOME, lambda w: {"overfit": 0.65 + w})),
        ("overfit-falls", only(MOST, lambda w: {"overfit": 0.38 + w})),
        ("clean-cost", only(MOST, lambda w: {"test_accuracy": 0.9 - w})),
        ("final-accuracy", only(MOST, lambda w: {"test_accuracy": 0.4 + w})),
        ("early-stopping", only(PLAIN, lambda w: {"stopped_accuracy": 0.6 + w})),
        ("same-best", only(MOST, lambda w: {"best_accuracy": 0.6 + w})),
        ("same-fit", only(MOST, lambda w: {"test_accuracy": 0.9 + w})),
        ("m3", only(M3, lambda w: {"overfit": 0.55 + w})),
        ("rm3", only(RM3, lambda w: {"overfit": 0.55 + w})),
    ],
)
def test_all_claims_can_fail(claim, change):
    assert judge(CLAIM[claim], world(change), "quick").word == "not reproduced"


def test_numbers_of_the_effects():
    half = world().where(noise=HALF, seed=20)
    assert experiment.overfit_falls(half) == {"c from 0 to 4": pytest.approx(0.2), "c from 4 to 8": pytest.approx(0.2)}
    assert experiment.accuracy_gain(half) == pytest.approx(0.15)
    assert experiment.stopping_gain(half) == pytest.approx(0.15)
    plain = experiment.of(half, PLAIN)
    assert experiment.test_at(plain, 0.6) == pytest.approx(0.8 - 0.3 / 5)  # a fifth of the way from 0.8 to 0.5
    assert experiment.test_at(plain, 0.1) == 0.5
    assert experiment.same_fit(half) == pytest.approx(0.65 - 0.74)
    with pytest.raises(IncompleteError, match="never reached"):
        experiment.test_at({**plain, "train_accuracies": [0.1, 0.2, 0.3]}, 0.9)
    gone = Rows([r for r in half if r["method"] != MOST], missing=[s for s in half if s["method"] == MOST])
    with pytest.raises(IncompleteError):
        experiment.overfit_falls(gone)
    wild = judge(CLAIM["m3"], world(lambda s: {"diverged": s["method"] == M3}), "quick")
    assert (wild.word, wild.reason) == ("no verdict", "diverged")


# ---- the task ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [winsorized(0), winsorized(2), M3, RM3])
def test_the_same_setting_gives_the_same_record(method):
    s = {**SMALL, "method": method}
    first = run_winsorized(s)
    assert first == run_winsorized(s) == json.loads(json.dumps(first, allow_nan=False))
    assert not s.keys() & first.keys()
    proper = 0.5 / 10 + 0.5 * first["test_accuracy"]
    assert first["overfit"] == pytest.approx(first["train_accuracies"][-1] - proper, abs=1e-4)
    best = first["validation_accuracies"].index(max(first["validation_accuracies"]))
    assert first["stopped_accuracy"] == first["test_accuracies"][best] <= first["best_accuracy"]


def test_parts_are_disjoint_and_only_test_labels_are_true():
    train, clean, validation, test = learned({**SMALL, "noise": 1.0})
    assert (len(train), len(validation), len(test)) == (60, 40, 80)
    seen = np.concatenate([part.X.reshape(len(part), -1) for part in (train, validation, test)])
    assert len(np.unique(seen, axis=0)) == 180
    same = learned({**SMALL, "noise": 0.0})
    assert (test.y == same[3].y).all()
    assert (validation.y != same[2].y).mean() > 0.6
    assert (train.y != clean.y).mean() > 0.6
    assert (clean.y == same[0].y).all()


def test_divergence_and_unknown_methods():
    assert run_winsorized({**SMALL, "lr": 1e30}) == {"diverged": True}
    with pytest.raises(TrueriskError, match="no method"):
        optimizer("M5", None, 0.1)


@pytest.mark.parametrize("kind", ["integers", "one feature", "repeated rows", "huge", "thirty"])
def test_odd_data_have_records_and_figures(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = {
        "integers": rng.integers(0, 9, (60, 4)),
        "one feature": rng.standard_normal((60, 1)),
        "repeated rows": np.repeat(np.eye(3), 20, axis=0),
        "huge": 1e30 * rng.standard_normal((60, 3)),
        "thirty": rng.standard_normal((30, 3)),
    }[kind]
    data = Data(kind, X, np.arange(len(X)) % 2, 2)
    np.savez(tmp_path / "mine.npz", X=data.X, y=data.y)
    made = []
    for s in EXPERIMENT.settings("smoke"):
        fitted = {**own_data(s, data), "data": str(tmp_path / "mine.npz"), "epochs": 2}
        assert fitted["n"] + fitted["n_test"] + fitted["n_validation"] <= len(X)
        made.append({**fitted, **run_winsorized(fitted)})
    json.dumps(made, allow_nan=False)
    assert LESSON.figures(Rows(made, fields=made[0]))
    assert LESSON.pictures(LESSON.demo(made[0]))


def test_own_data_refuses_constants_and_batches_that_are_too_small():
    settings = EXPERIMENT.settings("quick")
    with pytest.raises(TrueriskError, match="all inputs are alike"):
        own_data(settings[0], Data("flat", np.ones((60, 3)), np.arange(60) % 2, 2))
    small = Data("small", np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 2, 2)
    kept = [own_data({**s, "batch": 14}, small) for s in settings]
    assert {s["method"] for s in kept if s} == {PLAIN, SOME, M3, RM3, winsorized(2)}


# ---- the page ------------------------------------------------------------------------------------------------------


def test_smoke(rows):
    assert {verdict.reason for verdict in EXPERIMENT.judge(rows, "smoke")} == {"smoke"}
    names = [exhibit.name for exhibit in LESSON.figures(rows)]
    assert names == ["overfit", "curves", "same-fit", "stopping", "clean", "numbers"]


def test_figures_show_the_numbers_of_the_rows():
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(world())}
    at = {(r["c"], r["seed"], r["labels"]): r["overfit"] for r in found["overfit"].rows}
    assert at[4, 22, "50% of labels redrawn"] == 0.4
    assert at[8, 20, "true labels"] == 0.2
    assert {r["c"] for r in found["overfit"].rows} == {0, 2, 4, 8}  # medians of means have no c
    assert {r["seed"] for r in found["same-fit"].rows} == {20}
    assert isinstance(found["numbers"], Table)
    assert ["50%", "c = 8", "5", "20.0", "50.0%", "65.0%", "80.4%", "80.0%"] in [list(r) for r in found["numbers"].rows]


def test_gaps():
    nothing = LESSON.figures(Rows([], missing=EXPERIMENT.settings("quick")))
    assert nothing[0].name == "overfit"
    assert LESSON.pictures({}) == []


def test_the_picture_shows_gradients_of_one_weight():
    record = LESSON.demo(EXPERIMENT.settings("smoke")[0])
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    (figure,) = LESSON.pictures(record)
    assert {r["epoch"] for r in figure.rows} == {0, 2, 10, 40}
    assert {r["label"] for r in figure.rows} == {"true", "wrong"}
