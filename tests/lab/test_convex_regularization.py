"""The experiment `convex-regularization`: its effect by hand, its models, its verdicts, and a smoke run."""

import json

import numpy as np
import pytest

from truerisk.data import load
from truerisk.lab.experiments.convex_regularization import (
    AT_N,
    CLAIMS,
    EXPERIMENT,
    NAMES,
    STRENGTHS,
    _standardized,
    gain,
    interpolates,
    own_data,
    task,
)
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.convex_regularization import LESSON
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.verdict import judge
from truerisk.nets.random_features import random_features
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
BASE = {"data": "digits", "n": 60, "n_validation": 50, "n_test": 300, "ratio": 1, "regularized": False, "seed": 0}
BY_SGD = {"batch_size": 20, "lr_decay": 0.99, "epochs": 20}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(**gains):
    """Rows of the quick grid in which a regularizer lowers the test error of each model by so much."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        without = 0.05 + gains.get(s["model"], 0.0) * (s["ratio"] in (AT_N, gains.get("at", AT_N)))
        error = (0.05 if s["regularized"] else without) + 0.001 * ((7 * s["seed"] + s["regularized"]) % 3)
        made.append({**s, "train_error": gains.get("train", 0.0), "test_error": error, "diverged": False})
    return Rows(made, fields=made[0])


def test_gain_is_the_error_without_minus_the_error_with():
    pair = [{"regularized": False, "test_error": 0.8, "seed": 1}, {"regularized": True, "test_error": 0.05, "seed": 1}]
    assert gain(Rows(pair)) == pytest.approx(0.75)


def test_interpolation_means_no_training_error_at_all():
    assert interpolates(Rows([{"train_error": 0.0}] * 2)).holds
    assert not interpolates(Rows([{"train_error": 0.0}, {"train_error": 0.002}])).holds


@pytest.mark.parametrize(
    ("claim", "found", "word"),
    [
        ("least-squares-needs-ridge", {"least-squares-exact": 0.7}, "reproduced"),
        ("least-squares-needs-ridge", {"least-squares-exact": 0.1}, "not reproduced"),
        ("network-needs-no-decay", {"network": 0.01}, "reproduced"),
        ("network-needs-no-decay", {"network": 0.05}, "not reproduced"),
        ("sgd-needs-no-ridge", {"softmax-sgd": 0.01}, "reproduced"),
        ("sgd-needs-no-ridge", {"least-squares-sgd": 0.2}, "not reproduced"),
        ("softmax-needs-ridge", {"softmax-exact": 0.1}, "reproduced"),
        ("softmax-needs-ridge", {"softmax-exact": 0.0}, "not reproduced"),
        ("wide-needs-no-ridge", {"least-squares-exact": 0.7}, "reproduced"),
        ("wide-needs-no-ridge", {"least-squares-exact": 0.2, "at": 8}, "not reproduced"),
        ("interpolates", {}, "exact"),
        ("interpolates", {"train": 0.004}, "not reproduced"),
    ],
)
def test_verdicts(claim, found, word):
    assert judge(CLAIM[claim], world(**found), "quick").word == word


def test_the_sgd_claim_has_a_cell_for_each_loss():
    verdict = judge(CLAIM["sgd-needs-no-ridge"], world(), "quick")
    assert [cell.name for cell in verdict.cells] == ["least squares by SGD", "softmax regression by SGD"]
    assert all(len(cell.values) == 5 for cell in verdict.cells)


def test_exact_least_squares_is_the_pseudoinverse():
    """The whole task in a few lines of numpy."""
    rows, test = samples("digits", 110, 300, derive(0, "examples"))
    train = rows.take(np.arange(60))
    X, Z = _standardized(train, test)
    phi = random_features(64, 90, derive(0, "features"))
    readout = np.linalg.pinv(phi(X), rcond=1e-12) @ np.eye(10)[train.y]
    error = np.mean((phi(Z) @ readout).argmax(axis=1) != test.y)
    record = task({**BASE, "model": "least-squares-exact", "ratio": 1.5})
    assert record["test_error"] == pytest.approx(error, abs=1 / 300)
    assert record["train_error"] == record["strength"] == 0


def test_validation_examples_choose_the_strength(monkeypatch):
    s = {**BASE, "model": "least-squares-exact", "regularized": True}
    chosen, each = task(s), {}
    for strength in STRENGTHS:
        monkeypatch.setattr("truerisk.lab.experiments.convex_regularization.STRENGTHS", (strength,))
        each[strength] = task(s)
    least = min(record["validation_error"] for record in each.values())
    assert max(record["validation_error"] for record in each.values()) > least
    assert chosen["strength"] == max(k for k, record in each.items() if record["validation_error"] == least)
    assert chosen == each[chosen["strength"]]


def test_inputs_are_standardized_by_the_training_rows():
    train, test = samples("digits", 200, 100, seed=3)
    X, Z = _standardized(train, test)
    assert np.allclose(X.mean(axis=0), 0)
    assert X.std() == pytest.approx(1)
    flat = train.X.reshape(200, -1).astype(float)
    by_hand = (test.X.reshape(100, -1) - flat.mean(axis=0)) / np.sqrt(np.mean((flat - flat.mean(axis=0)) ** 2))
    assert np.allclose(Z, by_hand)


@pytest.mark.parametrize("model", NAMES)
def test_a_task_repeats_itself_and_learns(model):
    s = {**BASE, "model": model, "lr": 0.05 if model == "network" else 0.5, **BY_SGD, "regularized": True}
    first = task(s)
    assert first == task(s)
    assert not s.keys() & first.keys()
    assert first["test_error"] < 0.5  # chance is 0.9
    assert first["strength"] in STRENGTHS


def test_a_run_that_diverges_says_so():
    s = {**BASE, **BY_SGD, "model": "least-squares-sgd", "lr": 1e6}
    assert task(s) == {"diverged": True}


def test_own_data_keeps_examples_for_all_three_parts():
    digits = load("digits")
    for s in EXPERIMENT.settings("quick")[:2] + EXPERIMENT.settings("paper")[:2]:
        fitted = own_data(s, digits)
        assert fitted["n"] + fitted["n_validation"] + fitted["n_test"] <= len(digits)
        assert fitted["n_validation"] <= fitted["n"]


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [v.claim.name for v in verdicts if not v.cells and not v.detail] == []
    figures = LESSON.figures(rows)
    assert [figure.name for figure in figures] == ["errors", "models", "other-models"]
    for figure in figures:
        assert isinstance(figure, Figure)
        assert figure.rows
        assert set(figure.claims) <= set(CLAIM)
    assert {row["name"] for row in figures[1].rows} == set(NAMES.values())
    assert all(not figure.rows for figure in LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))))


def test_figures_show_errors_with_and_without_a_regularizer():
    errors, models, others = LESSON.figures(world(**{"least-squares-exact": 0.7}))
    found = {(r["ratio"], r["regularizer"]): r["test_error"] for r in errors.rows if r["seed"] == 20 and "lr" not in r}
    assert found[AT_N, "no regularizer"] - found[AT_N, "with a regularizer"] == pytest.approx(0.7, abs=0.003)
    assert found[8, "no regularizer"] == pytest.approx(found[8, "with a regularizer"], abs=0.003)
    assert {row["model"] for row in errors.rows} == {"least-squares-exact", "network"}
    assert {row["ratio"] for row in models.rows} == {AT_N}
    assert len({row["name"] for row in others.rows}) == 3
    assert [rule.value for rule in errors.rules] == [0.9]
    own = Rows({**row, "data_sha256": "0"} for row in world())
    assert LESSON.figures(own)[0].rules == []  # its number of classes is not known


def test_pictures_show_what_a_ridge_repairs():
    setting = EXPERIMENT.settings("quick")[0]
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(setting)
    images, curve, norms = LESSON.pictures(record)
    without, ridge = (sum(tile.wrong for tile in strip.tiles) for strip in images.strips)
    assert without >= 5 > ridge  # of ten, where the runs err on 81% and on 3%
    size = {(row["ratio"], row["regularizer"]): row["norm"] for row in norms.rows}
    assert size[AT_N, "no regularizer"] > 10 * size[2, "no regularizer"]
    assert size[AT_N, "with a regularizer"] < 2 * size[2, "with a regularizer"]
    assert all(abs(row["y"]) <= 3 for row in curve.rows)
    assert curve.slider.field == "waves"
    assert LESSON.pictures({}) == []


def test_the_curve_meets_its_points_from_fifteen_waves_on():
    _, curve, _ = LESSON.pictures(LESSON.demo(EXPERIMENT.settings("smoke")[0]))
    for waves, most in ((8, None), (15, 0.05), (240, 0.05)):
        mine = [r for r in curve.rows if r["waves"] == waves and r["regularizer"] == "no regularizer"]
        at = np.interp([p["x"] for p in curve.dots], [r["x"] for r in mine], [r["y"] for r in mine])
        off = np.abs(at - [p["y"] for p in curve.dots]).max()
        assert off > 0.1 if most is None else off < most


def test_vectors_have_no_pictures_of_data_but_the_curve():
    record = LESSON.demo({**EXPERIMENT.settings("smoke")[0], "data": "moons"})
    assert [exhibit.name for exhibit in LESSON.pictures(record)] == ["curve", "norms"]
