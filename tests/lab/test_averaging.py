"""The experiment `averaging`: effects by hand, families against plain code, verdicts, figures, and a smoke run."""

import json

import numpy as np
import pytest

from truerisk.data import Data
from truerisk.lab import averages
from truerisk.lab.averages import FAMILIES, boosted
from truerisk.lab.experiments.averaging import (
    CLAIMS,
    EXPERIMENT,
    NOISE,
    error_fall,
    fits_all,
    gain_on_last,
    gain_on_run,
    margin_growth,
    scaling_gap,
    share_left,
    share_of_whole,
    task,
)
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.averaging import LABELS, LESSON, NAMES, VOTES
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.samples import samples
from truerisk.lab.verdict import judge
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {"data": "digits", "n": 80, "n_test": 60, "noise": NOISE, "seed": 3}
SHORT = {
    "pert": {"members": 10},
    "bagging": {"members": 10},
    "boosting": {"rounds": 12, "depth": 4},
    "dropout": {"members": 10, "width": 16, "p": 0.5, "epochs": 4, "lr": 0.01},
    "snapshots": {"cycles": 2, "width": 16, "epochs": 4, "lr": 0.1},
}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(**given):
    """Rows of the quick grid in which every family has the given numbers."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        wiggle = 1 + 0.01 * (7 * s["seed"] % 3)
        one, many = 0.4, given.get("many", 0.02) * wiggle
        fit = {"train": 0.0, "test": many + given.get("fall", 0.06), "smallest": 0.1, "low": 0.2}
        end = {"train": 0.0, "test": many, "smallest": 0.1 + given.get("growth", 0.4) * wiggle, "low": 0.5}
        record = {
            "at": [1, 5],
            "test_errors": [given.get("one", one), many],
            "train_errors": [given.get("train", 0.0), 0.0],
            "whole_error": 0.2,
            "scaled_error": many + given.get("scaled", 0.0),
            "one_run_error": many + given.get("run", 0.1),
            "cycle_errors": [0.3, 0.2],
            "smallest_margins": [-1.0, 0.1],
            "low_margins": [0.0, 0.2],
            "fitted": given.get("fitted", 4),
            "at_fit": fit,
            "at_end": end,
            "diverged": False,
        }
        made.append({**s, **record})
    fields = {name for s in EXPERIMENT.settings("quick") for name in s}
    return Rows(made, fields=fields)


def test_effects_by_hand():
    run = {
        "n_test": 100,
        "test_errors": [0.4, 0.1, 0.05],
        "whole_error": 0.2,
        "scaled_error": 0.06,
        "one_run_error": 0.02,
        "fitted": 4,
        "at_fit": {"test": 0.08, "smallest": 0.1},
        "at_end": {"test": 0.03, "smallest": 0.55},
    }
    runs = Rows([run])
    assert share_left(runs) == pytest.approx(0.125)
    assert share_of_whole(runs) == pytest.approx(0.25)
    assert scaling_gap(runs) == pytest.approx(0.01)
    assert gain_on_last(runs) == pytest.approx(0.35)
    assert gain_on_run(runs) == pytest.approx(-0.03)
    assert error_fall(runs) == pytest.approx(0.05)
    assert margin_growth(runs) == pytest.approx(0.45)
    assert share_left(Rows([{**run, "test_errors": [0.0, 0.0]}])) == 1, "half an example over half an example"
    with pytest.raises(IncompleteError, match="has not reached"):
        error_fall(Rows([{**run, "fitted": None}]))
    assert not fits_all(Rows([{"train_errors": [0.0, 0.01]}])).holds


@pytest.mark.parametrize(
    ("claim", "given", "word"),
    [
        ("pert-tenth", {}, "reproduced"),
        ("pert-tenth", {"many": 0.08}, "not reproduced"),
        ("pert-tenth", {"many": 0.0396}, "no verdict"),
        ("pert-noise", {}, "reproduced"),
        ("pert-noise", {"many": 0.3}, "not reproduced"),
        ("pert-fits", {}, "exact"),
        ("pert-fits", {"train": 0.001}, "not reproduced"),
        ("bagging-half", {}, "reproduced"),
        ("bagging-half", {"many": 0.15}, "not reproduced"),
        ("margins-grow", {}, "reproduced"),
        ("margins-grow", {"growth": 0.1}, "not reproduced"),
        ("boosting-falls", {}, "reproduced"),
        ("boosting-falls", {"fall": 0.0}, "not reproduced"),
        ("boosting-falls", {"fitted": None}, "no verdict"),
        ("boosting-noise", {}, "reproduced"),
        ("boosting-noise", {"fall": 0.0}, "not reproduced"),
        ("dropout-average", {}, "reproduced"),
        ("dropout-average", {"many": 0.39}, "not reproduced"),
        ("weight-scaling", {}, "reproduced"),
        ("weight-scaling", {"scaled": 0.05}, "not reproduced"),
        ("snapshots-last", {}, "reproduced"),
        ("snapshots-last", {"one": 0.01}, "not reproduced"),
        ("snapshots-last", {"one": 0.0202}, "no verdict"),
        ("snapshots-run", {}, "reproduced"),
        ("snapshots-run", {"run": -0.01}, "not reproduced"),
        ("snapshots-noise", {}, "reproduced"),
        ("snapshots-noise", {"run": 0.0}, "not reproduced"),
    ],
)
def test_verdicts(claim, given, word):
    assert judge(CLAIM[claim], world(**given), "quick").word == word


@pytest.mark.parametrize("family", FAMILIES)
def test_a_task_repeats_itself(family):
    s = {"family": family, **SMALL, **SHORT[family]}
    first = task(s)
    assert json.loads(json.dumps(first, allow_nan=False)) == task(s)
    assert not s.keys() & first.keys()
    assert len(first["at"]) == len(first["test_errors"]) == len(first["train_errors"])
    assert first["test_errors"] != task({**s, "seed": 4})["test_errors"]


def test_bagging_in_a_few_lines():
    """The first bootstrap samples, with replacement and as large as the training set, vote."""
    from sklearn.tree import DecisionTreeClassifier

    train, test = (data.X.reshape(len(data), -1) for data in samples("digits", 80, 60, derive(3, "examples")))
    y, z = (data.y for data in samples("digits", 80, 60, derive(3, "examples")))
    rng, said = np.random.default_rng(derive(3, "bootstrap")), []
    for k in range(3):
        drawn = rng.integers(80, size=80)
        tree = DecisionTreeClassifier(random_state=derive(3, "tree", k) % 2**32).fit(train[drawn], y[drawn])
        said.append(tree.predict(test))
    votes = [np.bincount(column, minlength=10).argmax() for column in np.array(said).T]
    record = task({"family": "bagging", **SMALL, "noise": 0.0, "members": 3})
    assert record["test_errors"][-1] == pytest.approx(np.mean(votes != z))
    assert record["test_errors"][0] == pytest.approx(np.mean(np.array(said) != z))


def test_margins_of_boosting_in_a_few_lines():
    train, _ = samples("digits", 80, 60, derive(3, "examples"))
    X = train.X.reshape(80, -1)
    trees, weights = boosted(X, train.y, 5, 4, derive(3, "boosting"))
    margins = []
    for x, y in zip(X, train.y, strict=True):
        share = dict.fromkeys(range(10), 0.0)
        for tree, weight in zip(trees, weights, strict=True):
            share[int(tree.predict(x[None])[0])] += weight / sum(weights)
        margins.append(share[y] - max(share[k] for k in share if k != y))
    record = task({"family": "boosting", **SMALL, "noise": 0.0, "rounds": 5, "depth": 4})
    assert record["smallest_margins"][-1] == record["at_end"]["smallest"] == pytest.approx(min(margins), abs=1e-6)
    assert record["low_margins"][-1] == pytest.approx(np.quantile(margins, 0.1), abs=1e-6)


def test_boosting_ends_with_a_perfect_tree_and_survives_a_useless_one():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    assert len(boosted(X, y, 10, 3, 0)[0]) == 1
    trees, weights = boosted(np.ones((6, 1)), y, 10, 3, 0)
    assert len(trees) == len(weights) == 1
    with pytest.raises(ValueError, match="NaN"):
        boosted(X, y * np.nan, 10, 3, 0)


def test_snapshots_average_the_last_cycles():
    record = task({"family": "snapshots", **SMALL, **SHORT["snapshots"]})
    assert record["test_errors"][0] == record["cycle_errors"][-1]
    assert record["at"] == [1, 2]
    assert record["one_run_error"] not in (None, 0)


def test_a_run_that_diverges_says_so(monkeypatch):
    def diverge(*_):
        raise DivergedError("no")

    monkeypatch.setitem(averages.FAMILIES, "dropout", diverge)
    assert task({"family": "dropout", **SMALL, **SHORT["dropout"]}) == {"diverged": True}
    gone = [{**row, "diverged": row["family"] == "dropout"} for row in world()]
    assert not LESSON.figures(Rows(gone))[-1].rows


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    figures = LESSON.figures(rows)
    assert [figure.name for figure in figures] == ["members", "rounds", "margin-growth", "snapshots", "dropout"]
    assert all(isinstance(figure, Figure) and figure.rows for figure in figures)
    assert {row["name"] for row in figures[0].rows} == set(NAMES.values())
    assert all(not figure.rows for figure in LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))))


def test_figures_show_the_numbers_of_the_runs():
    members, rounds, margins, cycles, dropout = LESSON.figures(world(scaled=0.01))
    pert = [r for r in members.rows if r["name"] == NAMES["pert"] and r["seed"] == 21 and r["labels"] == LABELS[0.0]]
    assert [(r["count"], r["error"]) for r in pert] == [(1, 0.4), (5, pytest.approx(0.02))]
    assert {(r["on"], r["counted"]) for r in rounds.rows} == {("training", 1000), ("new examples", 797)}
    assert {r["margin"] for r in margins.rows if r["which"] == "smallest"} == {-1.0, 0.1}
    assert {r["which"] for r in cycles.rows} == {"first snapshot", "last snapshot", "average", "one long run"}
    assert {r["error"] for r in cycles.rows if r["which"] == "first snapshot"} == {0.3}
    scaled = {r["error"] for r in dropout.rows if r["which"] == "scaled weights"}
    assert scaled == {r["error"] + 0.01 for r in dropout.rows if r["which"] == "average of masks"}


def test_pictures_show_smoother_regions_and_growing_margins():
    setting = {**EXPERIMENT.settings("smoke")[0], "n": 120}
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(setting)
    regions, histogram = LESSON.pictures(record)
    assert {row["trees"] for row in regions.rows} == set(VOTES)
    assert len(regions.rows) == len(VOTES) * len(record["plane"]["x"]) ** 2

    def changes(labels):  # neighbors with different classes: the length of the boundary
        grid = np.array([int(label) for label in labels]).reshape(len(record["plane"]["y"]), -1)
        return (grid[1:] != grid[:-1]).sum() + (grid[:, 1:] != grid[:, :-1]).sum()

    assert changes(record["plane"]["regions"]["100"]) < 0.9 * changes(record["plane"]["regions"]["1"])
    smallest = {k: min(values) for k, values in record["margins"].items()}
    assert smallest["1"] == -1
    assert list(smallest.values())[-1] > 0 > smallest["2"]
    assert histogram.slider.field == "round"
    assert LESSON.pictures({}) == []


@pytest.mark.parametrize("kind", ["one feature, two classes", "repeated rows", "huge integers"])
def test_odd_data_of_a_user(tmp_path, kind):
    rng = np.random.default_rng(1)
    X = {"one feature, two classes": rng.random((60, 1)), "repeated rows": np.repeat(rng.random((6, 3)), 10, axis=0),
         "huge integers": rng.integers(-(10**9), 10**9, (60, 2))}[kind]  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(60) % (2 if "two" in kind else 3))
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    found = Rows([{**s, **own.task(s)} for s in own.settings("smoke")], fields=own.settings("smoke")[0])
    assert all(figure.rows for figure in LESSON.figures(found))
    fitted = max(max(errors) for errors in found.where(family="pert").column("train_errors")) == 0
    assert fitted == (kind != "repeated rows"), "equal inputs with different labels cannot be fitted"
    assert LESSON.pictures(LESSON.demo(own.settings("smoke")[0]))


def test_networks_see_inputs_in_units_of_the_largest():
    large = Data("large", np.array([[-400.0, 100.0], [0.0, 200.0]], np.float32), np.array([0, 1]), 2)
    train, test = averages._scaled(large, large.take([1]))
    assert train.X.tolist() == [[-1.0, 0.25], [0.0, 0.5]]
    assert test.X.tolist() == [[0.0, 0.5]]
    zero = Data("zero", np.zeros((2, 2), np.float32), np.array([0, 1]), 2)
    assert averages._scaled(zero)[0].X.tolist() == [[0.0, 0.0]] * 2
    whole = Data("whole", np.array([[2], [4]]), np.array([0, 1]), 2)
    assert averages._scaled(whole)[0].X.dtype == np.float32
