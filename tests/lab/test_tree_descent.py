"""The experiment `tree-descent`: its effects by hand, its averages against loops, its verdicts, and a smoke run."""

import json

import numpy as np
import pytest

from truerisk.cli import lab as lab_command
from truerisk.data import Data, corrupt_labels, load
from truerisk.lab.experiments.tree_descent import (
    CLAIMS,
    EXPERIMENT,
    NOISE,
    _averages,
    descent,
    fitted,
    peak_of_error,
    peak_of_loss,
    task,
    unfolded_peak,
)
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.tree_descent import LESSON, NAMES
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.samples import samples
from truerisk.lab.verdict import judge
from truerisk.nets.tree_ensembles import tree_scores
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {"model": "forest", "data": "digits", "n": 80, "n_test": 60, "members": 4, "noise": NOISE, "seed": 3}
TABLE = {
    "n_test": 100,
    "test_loss": [[0.8, 0.6], [0.4, 0.25], [0.5, 0.2]],
    "test_error": [[0.5, 0.3], [0.2, 0.1], [0.22, 0.05]],
}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(**given):
    """Rows of the quick grid with three sizes and two counts; ``given`` names the numbers of the last size."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        noisy = s["noise"] > 0
        wiggle = 1 + 0.004 * ((7 * s["seed"] + noisy) % 3)
        loss = given.get("loss", 0.5) * wiggle
        error = (given.get("noisy", 0.3) if noisy else given.get("error", 0.2)) * wiggle
        record = {
            "sizes": [10.0, 50.0, 100.0 + s["seed"] % 2],
            "counts": [1, 5],
            "test_loss": [[0.8, 0.6], [0.4, 0.25], [loss, given.get("averaged", 0.2) * wiggle]],
            "test_error": [[0.5, 0.3], [0.2, 0.1], [error, given.get("many", 0.05) * wiggle]],
            "train_loss": [[0.7, 0.5], [0.2, 0.1], [0.0, 0.0]],
            "train_error": [[0.4, 0.2], [0.1, 0.05], [given.get("train", 0.0), 0.0]],
        }
        made.append({**s, **record})
    return Rows(made, fields=EXPERIMENT.settings("quick")[-1])


def test_effects_by_hand():
    runs = Rows([TABLE])
    assert descent(runs) == pytest.approx(0.05 / 0.2)
    assert peak_of_loss(runs) == pytest.approx(0.5 / 0.4)
    assert peak_of_error(runs) == pytest.approx(0.22 / 0.2)
    assert unfolded_peak(runs) == pytest.approx(0.2 / 0.25), "full size is compared with smaller sizes only"
    none = Rows([{**TABLE, "test_error": [[0.5, 0.3], [0.0, 0.0], [0.0, 0.0]]}])
    assert descent(none) == peak_of_error(none) == 1, "no error counts as half an example, not as a division by zero"


@pytest.mark.parametrize(
    ("claim", "given", "word"),
    [
        ("second-descent", {}, "reproduced"),
        ("second-descent", {"many": 0.19}, "not reproduced"),
        ("second-descent", {"many": 0.0996}, "no verdict"),
        ("peak-of-loss", {}, "reproduced"),
        ("peak-of-loss", {"loss": 0.39}, "not reproduced"),
        ("no-peak-of-error", {}, "reproduced"),
        ("no-peak-of-error", {"error": 0.3}, "not reproduced"),
        ("noise-makes-a-peak", {}, "reproduced"),
        ("noise-makes-a-peak", {"noisy": 0.2}, "not reproduced"),
        ("unfolded", {}, "reproduced"),
        ("unfolded", {"averaged": 0.4}, "not reproduced"),
        ("threshold-fits", {}, "exact"),
        ("threshold-fits", {"train": 0.01}, "not reproduced"),
    ],
)
def test_verdicts(claim, given, word):
    assert judge(CLAIM[claim], world(**given), "quick").word == word


def test_both_models_must_have_the_effect():
    verdict = judge(CLAIM["second-descent"], world(), "quick")
    assert [cell.name for cell in verdict.cells] == ["forest", "boosting"]
    bad = Rows([{**row, "test_error": [[0.2, 0.2]] * 3} if row["model"] == "boosting" else row for row in world()])
    assert judge(CLAIM["second-descent"], Rows(bad, fields=world().fields), "quick").word == "not reproduced"
    assert not fitted(Rows([{"train_error": [[0.2, 0.0], [0.1, 0.0]]}])).holds


def test_a_run_of_the_forest_in_a_few_lines():
    record = task(SMALL)
    train, test = samples("digits", 80, 60, derive(3, "examples"))
    train = corrupt_labels(train, NOISE, derive(3, "noise"))
    X, Z, Y = train.X.reshape(80, -1), test.X.reshape(60, -1), np.eye(10)[train.y]
    trees = [tree_scores(X, Y, [Z], 10, derive(3, "tree", k)).outputs[0] for k in range(4)]
    row = record["sizes"].index(10.0)
    assert record["counts"] == [1, 2]
    errors = [np.mean(tree.argmax(axis=1) != test.y) for tree in trees]
    assert record["test_error"][row][0] == pytest.approx(np.mean(errors))
    pairs = [(trees[0] + trees[1]) / 2, (trees[2] + trees[3]) / 2]
    losses = [np.mean([np.sum((p - np.eye(10)[y]) ** 2) for p, y in zip(pair, test.y, strict=True)]) for pair in pairs]
    assert record["test_loss"][row][1] == pytest.approx(np.mean(losses))
    assert record["train_error"][-1] == record["train_loss"][-1] == [0.0, 0.0]


def test_the_loss_of_an_average_is_the_mean_loss_minus_the_spread():
    """The formula of the page, on members without any structure."""
    rng = np.random.default_rng(0)
    members, truth = rng.normal(size=(5, 30, 3)), np.eye(3)[rng.integers(0, 3, 30)]
    single, together = (_averages(list(members), truth, k)[0] for k in (1, 5))
    spread = np.square(members - members.mean(axis=0)).sum(axis=2).mean()
    assert together == pytest.approx(single - spread)


@pytest.mark.parametrize("model", ["forest", "boosting"])
def test_a_task_repeats_itself(model):
    s = {**SMALL, "model": model, "members": 2, "rounds": 5}
    first = task(s)
    assert json.loads(json.dumps(first, allow_nan=False)) == task(s)
    assert not s.keys() & first.keys()
    assert first["test_error"] != task({**s, "seed": 4})["test_error"]


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [v.claim.name for v in verdicts if not v.cells and not v.detail] == []
    figures = LESSON.figures(rows)
    assert [figure.name for figure in figures] == ["descent", "errors", "unfolded"]
    assert all(isinstance(figure, Figure) and figure.rows for figure in figures)
    assert all(not figure.rows for figure in LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))))


def test_figures_show_the_axis_with_its_turn():
    hero, errors, sizes = LESSON.figures(world())
    forest = [r for r in hero.rows if r["model"] == NAMES["forest"] and r["seed"] == 25 and r["on"] == "new examples"]
    assert [(r["total"], r["value"]) for r in forest[:2]] == [(10, 0.8), (50, 0.4)]
    full = {row["total"] for row in hero.rows if row["full"] and row["count"] == 1}
    assert len(full) == 1, "runs of all seeds meet at one place"
    assert {row["total"] for row in hero.rows if row["count"] == 5} == {5 * total for total in full}
    assert {row["noise"] for row in hero.rows} == {0.0}
    assert {(dot["model"], dot["total"]) for dot in hero.dots} == {(name, *full) for name in NAMES.values()}
    assert len(errors.dots) == 4
    assert {row["count"] for row in sizes.rows if row["size"] == 10} == {1, 5}
    assert {row["labels"] for row in sizes.rows} == {"true labels", "20% random labels"}


def test_runs_with_different_numbers_of_sizes_and_missing_runs():
    some = world().present
    some[0] = {
        **some[0],
        **{name: some[0][name][1:] for name in ("sizes", "test_loss", "test_error", "train_loss", "train_error")},
    }
    hero = LESSON.figures(Rows(some[:-3], missing=some[-3:]))[0]
    assert len({row["total"] for row in hero.rows if row["full"] and row["count"] == 1}) == 1


def test_pictures_show_a_fit_that_becomes_smoother():
    record = LESSON.demo(EXPERIMENT.settings("quick")[0])
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(EXPERIMENT.settings("quick")[0])
    (figure,) = LESSON.pictures(record)
    assert figure.slider.field == "step"
    x, y = np.array(record["points"]).T
    fits = {(fit["trees"], fit["leaves"]): np.array(fit["values"]) for fit in record["fits"]}
    off = {key: np.mean((np.interp(x, record["grid"], values) - y) ** 2) for key, values in fits.items()}
    assert off[1, 3] > 5 * off[1, 40]
    jump = {key: np.abs(np.diff(values)).max() for key, values in fits.items()}
    assert jump[100, 40] < 0.7 * jump[1, 40], "slopes instead of jumps"
    away = {key: np.mean((values - record["truth"]) ** 2) for key, values in fits.items()}
    assert away[100, 40] < away[1, 40]
    assert LESSON.pictures({}) == []


@pytest.mark.parametrize("kind", ["one feature, two classes", "repeated rows", "huge integers"])
def test_odd_data_of_a_user(tmp_path, kind):
    rng = np.random.default_rng(1)
    X = {"one feature, two classes": rng.random((60, 1)), "repeated rows": np.repeat(rng.random((6, 3)), 10, axis=0),
         "huge integers": rng.integers(-(10**9), 10**9, (60, 2))}[kind]  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(60) % (2 if "two" in kind else 3))
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    found = Rows([{**s, **own.task(s)} for s in own.settings("smoke")], fields=own.settings("smoke")[-1])
    figures = LESSON.figures(found)
    assert all(np.isfinite(row["test_loss"]) for row in figures[2].rows)
    if kind == "repeated rows":
        assert max(table[-1][0] for table in found.column("train_error")) > 0, "equal inputs with different labels"


def test_own_data_have_sizes_that_fit():
    small = load("digits").take(np.arange(50))
    assert isinstance(small, Data)
    for scale in ("quick", "paper"):
        for s in EXPERIMENT.settings(scale):
            own = EXPERIMENT.own_data(s, small)
            assert own["n"] + own["n_test"] <= 50


@pytest.mark.parametrize("slip", [False, True])
def test_an_effect_that_a_dataset_does_not_have_is_not_a_slip(tmp_path, capsys, monkeypatch, slip):
    """One threshold separates the classes, so full trees have two leaves, and there are no smaller ones.

    Nor is it the user's to repair if an effect of ours fails on such data.
    """
    if slip:
        monkeypatch.setattr("truerisk.lab.experiments.tree_descent._floored", lambda table, runs: 1 / 0)
    X = np.linspace(-1, 1, 120)[:, None]
    np.savez(tmp_path / "mine.npz", X=X, y=(X[:, 0] > 0).astype(int))
    how = {"json": True, "quiet": True, "data": str(tmp_path / "mine.npz")}
    lab_command.run(["tree-descent"], False, "smoke", "inline", str(tmp_path / "runs"), None, **how)
    [entry] = json.loads(capsys.readouterr().out)["experiments"]
    assert ("broken" in {claim["reason"] for claim in entry["claims"]}) is slip


def test_trees_of_one_size_have_no_peak():
    with pytest.raises(IncompleteError, match="none is smaller"):
        peak_of_loss(Rows([{"test_loss": [[0.5, 0.4]], "n_test": 100, "seed": 1}]))
