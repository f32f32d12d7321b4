"""The experiment `infinite-width`: its effects by hand, its problems, its verdicts, and its page."""

import json

import numpy as np
import pytest

from truerisk.data import Data, load
from truerisk.lab.experiments.infinite_width import CLAIMS, EXPERIMENT, own_data, problem, task
from truerisk.lab.lessons.infinite_width import LESSON, SHOWN
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge
from truerisk.nets.convex_network import objective, solve_convex
from truerisk.seeds import derive
from truerisk.training.norm_regularized import train_regularized

CLAIM = {claim.name: claim for claim in CLAIMS}


def world(wide=1.002, enough=1.001, narrow=3.0, imbalance=0.002, least=1.0, rebuilt=1.0, units=8, where=""):
    """Rows of the quick grid in which everything is as expected but for what is given, in one problem or in all."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        jump = 1 + 1e-4 * ((7 * s["seed"]) % 5)
        own = (not where) or s["problem"] == where
        objectives = [[1.5, 1.6] for _ in s["widths"]]
        first = next(i for i, width in enumerate(s["widths"]) if width > s["n"])
        objectives[first] = [(enough if own else 1.001) * jump, 1.5]
        objectives[-1] = [least if own else 1.0, max((wide if own else 1.002) * jump, least)]
        objectives[0] = [(narrow if own else 3.0) * jump, 9.0]
        record = {"bound": 1.0, "rebuilt": rebuilt, "units": units, "objectives": objectives, "optimum": 1.0}
        record["imbalances"] = [(imbalance if own else 0.002) * jump] * len(s["widths"])
        record |= {"test_losses": [0.5] * len(s["widths"]), "convex_test_loss": 0.5, "norms": [1.0] * len(s["widths"])}
        made.append({**s, **record, "convex_norm": 1.0})
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


@pytest.mark.parametrize(
    ("claim", "found", "word"),
    [
        ("wide-reaches-convex", {}, "reproduced"),
        ("wide-reaches-convex", {"wide": 1.05, "where": "digits"}, "not reproduced"),
        ("wide-reaches-convex", {"wide": 1.00985}, "no verdict"),
        ("width-above-n", {}, "reproduced"),
        ("width-above-n", {"enough": 1.03, "where": "line"}, "not reproduced"),
        ("narrow-stays-above", {}, "reproduced"),
        ("narrow-stays-above", {"narrow": 1.01}, "not reproduced"),
        ("balanced", {}, "reproduced"),
        ("balanced", {"imbalance": 0.2}, "not reproduced"),
        ("never-below", {}, "exact"),
        ("never-below", {"least": 0.99}, "not reproduced"),
        ("finite-solution", {}, "exact"),
        ("finite-solution", {"rebuilt": 1.001}, "not reproduced"),
        ("finite-solution", {"units": 22}, "not reproduced"),  # the line has 20 points
    ],
)
def test_verdicts(claim, found, word):
    assert judge(CLAIM[claim], world(**found), "quick").word == word


def test_the_task_is_its_parts():
    s = {**EXPERIMENT.settings("smoke")[0], "seed": 3, "widths": [2], "steps": 50}
    record = task(s)
    assert record == task(s)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    X, y, new, answers = problem(s)
    networks = [train_regularized(X, y, 2, 1e-3, derive(3, "start", 2, start), 50) for start in range(2)]
    reached = [objective(X, y, one.hidden, one.outer, 1e-3) for one in networks]
    assert record["objectives"] == [reached]
    best = networks[int(np.argmin(reached))]
    assert record["test_losses"] == [np.mean((best(new) - answers) ** 2)]
    assert record["imbalances"] == [max(one.imbalance for one in networks)]
    assert record["bound"] == solve_convex(X, y, 1e-3, 1e-6).bound


def test_problems():
    line = problem({"problem": "line", "n": 7, "n_test": 5, "seed": 1})
    assert [each.shape for each in line] == [(7, 1), (7,), (5, 1), (5,)]
    s = next(s for s in EXPERIMENT.settings("quick") if s["problem"] == "digits")
    X, y, new, answers = problem({**s, "seed": 1})
    assert X.shape == (50, 2)
    assert new.shape == (100, 2)
    assert np.allclose(X.mean(axis=0), 0)
    assert np.allclose(X.std(axis=0), 1)
    assert abs(np.corrcoef(X.T)[0, 1]) < 1e-9
    assert set(y) == set(answers) == {-1.0, 1.0}


def test_own_data():
    digits = load("digits")
    line, plane = (EXPERIMENT.settings("quick")[i] for i in (0, -1))
    assert own_data(line, digits) is None
    fitted = own_data(plane, digits)
    assert fitted["problem"] == "own data"
    assert fitted["classes"] == [1, 3]  # 182 and 183 examples
    rare = Data("rare", np.zeros((60, 2)), np.array([0] * 55 + [1] * 5), classes=2)
    assert own_data(plane, rare) is None
    one = Data("one", np.arange(60.0)[:, None], np.arange(60) % 2, classes=2)
    small = own_data(plane, one)
    assert small["n"] + small["n_test"] <= 50


def test_own_data_of_one_coordinate_and_of_repeated_rows(tmp_path):
    X = np.repeat(np.arange(20.0)[:, None], 3, axis=0)
    np.savez(tmp_path / "mine.npz", X=X, y=(X[:, 0] > 9).astype(int))
    s = own_data(EXPERIMENT.settings("smoke")[1], load(str(tmp_path / "mine.npz")))
    record = task({**s, "data": str(tmp_path / "mine.npz"), "widths": [1, 16]})
    assert record["optimum"] <= (1 + 1e-6) * record["bound"]
    assert min(map(min, record["objectives"])) >= record["bound"]


def test_smoke(smoke_rows):
    rows = smoke_rows(EXPERIMENT.name)
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [v.claim.name for v in verdicts if not v.cells and not v.detail] == []
    objectives, excess, tests, balance, table = LESSON.figures(rows)
    run = next(row for row in rows if row["problem"] == "digits")
    panel = "digits, on two components, 12 points"
    assert {row["which"] for row in objectives.rows} == {"best run", "median run", "worst run"}
    shown = [r["ratio"] for r in objectives.rows if (r["panel"], r["which"]) == (panel, "best run")]
    worst = [r["ratio"] for r in objectives.rows if (r["panel"], r["which"]) == (panel, "worst run")]
    assert worst == [max(each) / run["bound"] for each in run["objectives"]]
    assert shown == [min(each) / run["bound"] for each in run["objectives"]]
    assert [r["excess"] for r in excess.rows if r["panel"] == panel] == pytest.approx([one - 1 for one in shown])
    flat = {r["test"] for r in tests.rows if (r["panel"], r["model"]) == (panel, "convex solution")}
    assert flat == {run["convex_test_loss"]}
    assert [r["imbalance"] for r in balance.rows if r["panel"] == panel] == run["imbalances"][1:]  # not one unit
    assert [row[0] for row in table.rows] == ["line", "digits"]
    assert table.rows[1][3] == f"{run['units']} to {run['units']}"


def test_pictures():
    record = LESSON.demo({"seed": 1})
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    curves, units = LESSON.pictures(record)
    convex = np.array(record["convex"])
    off = {line["width"]: np.sqrt(np.mean((line["values"] - convex) ** 2)) for line in record["lines"]}
    assert list(off) == list(SHOWN)
    assert off[64] < 0.05 < off[1]
    assert all(abs(row["inner"] - row["outer"]) < 0.2 for row in units.rows)
    assert sum(row["inner"] < 0.1 for row in units.rows) > 30
    assert curves.slider.field == "width"
    assert LESSON.pictures({}) == []
