"""The experiment `good-bad-minima`: effects by hand, the runs, verdicts, figures, and a smoke run."""

import json

import numpy as np
import pytest
import torch

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.experiments.good_bad_minima import CLAIMS, EXPERIMENT, own_data, task
from truerisk.lab.lessons.good_bad_minima import LESSON
from truerisk.lab.minima_effects import descent_avoids, kept_by_small_steps, smaller_basin
from truerisk.lab.minima_runs import BOUNDS as PROVED
from truerisk.lab.minima_runs import KINDS, MEASURES, around, as_module, parts, trained, twin
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge
from truerisk.training.full_batch import one_of

CLAIM = {claim.name: claim for claim in CLAIMS}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(bad=0.6, ratio=10.0, found=0.05):
    """Rows of the quick grid: the bad network errs ``bad``, with ``ratio`` times the measures of others."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        shake = 1 + 0.01 * (s["seed"] % 3)
        if s["kind"] == "starts":
            made.append({**s, "fitted": s["starts"], "found": [found] * s["starts"], "diverged": False})
            continue
        names = (*MEASURES, *PROVED)
        values = {kind: dict.fromkeys(names, shake * (ratio if kind == "bad" else 1.0)) for kind in KINDS}
        counts = [0, *(round(share * s["n"]) for share in s["shares"])]
        made.append(
            {
                **s,
                "poisoned": counts,
                "train_errors": [0.0] * len(counts),
                "test_errors": [0.05, 0.3 * shake, 0.4, bad * shake],
                "errors": {"good": 0.05, "control": 0.03, "bad": bad * shake},
                "basins": {kind: [0.0] * 12 for kind in KINDS},
                "radii": {"good": 0.5, "control": 0.4, "bad": 0.5 * shake / ratio},
                "measures": values,
                "twin_trace": 2 * ratio * 1.1,
                "pac_bayes": dict.fromkeys(KINDS, 0.999),
                "hold_out": {"good": [0.01, 0.1], "control": [0.01, 0.1], "bad": [bad - 0.1, bad + 0.1]},
                "onward_errors": [0.1, bad * shake],
                "diverged": False,
            }
        )
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


def word(name, runs):
    return judge(CLAIM[name], runs, "quick").word


def test_verdicts_can_come_out_both_ways():
    good, poor = world(), world(bad=0.15, ratio=0.5, found=0.6)
    for name in ("any-test-error", "smaller-basin", "sharper", "invariant-flatness", "norms", "large-steps-leave"):
        assert word(name, good) == "reproduced", name
        assert word(name, poor) == "not reproduced", name
    for name in ("hold-out-separates", "descent-avoids"):
        assert word(name, good) == "exact", name
        assert word(name, poor) == "not reproduced", name
    assert word("margin-is-blind", good) == "not reproduced"
    assert word("margin-is-blind", world(ratio=2.0)) == "reproduced"


def test_missing_runs_give_no_verdict():
    runs = world()
    gone = Rows(runs.present[1:], missing=[EXPERIMENT.settings("quick")[0]], fields=runs.fields)
    assert word("any-test-error", gone) == "no verdict"


def test_the_share_of_bad_starts_is_counted_among_those_that_fit():
    runs = Rows([{"kind": "starts", "fitted": 300, "found": [0.1] * 299 + [0.4]}])
    assert descent_avoids(runs).measured.startswith("1 of 300 starts")
    assert not descent_avoids(runs).holds  # the upper end is 1.57%
    assert not descent_avoids(Rows([{"kind": "starts", "fitted": 0, "found": []}])).holds


def test_effects():
    run = Rows([{"radii": {"good": 0.6, "control": 0.3, "bad": 0.1}, "onward_errors": [0.1, 0.5]}])
    assert smaller_basin(run) == {"than good": pytest.approx(6), "than control": pytest.approx(3)}
    assert kept_by_small_steps(run) == pytest.approx(0.4)


# ---- the runs ------------------------------------------------------------------------------------------------------


def test_the_same_setting_gives_the_same_record_and_no_field_twice():
    s = EXPERIMENT.settings("smoke")[0]
    first = task(s)
    assert first == task(s) == json.loads(json.dumps(first, allow_nan=False))
    assert not s.keys() & first.keys()
    assert len(first["planes"]) == len(first["poisoned"]) == 4


def test_the_bad_network_fits_true_and_wrong_labels():
    s = {**EXPERIMENT.settings("smoke")[0], "steps": 1500}
    train, pool, _ = parts(s)
    start, bad, good = trained(s, train, pool)
    module = as_module(one_of(bad.weights, -1), train, s["hidden"])
    answers = module(torch.from_numpy(pool.X)).argmax(1).numpy()
    assert (answers != pool.y).mean() > 0.9
    assert (module(torch.from_numpy(train.X)).argmax(1).numpy() == train.y).all()
    assert float(good.losses[0]) <= s["until"]
    assert around(one_of(good.weights, 0), start, train, seed=0) > 0.9
    assert around(start, start, train.take(range(5)), seed=0) == 1.0  # too few examples


def test_a_twin_has_the_same_predictions():
    s = EXPERIMENT.settings("smoke")[0]
    train, pool, _ = parts(s)
    module = as_module(trained({**s, "steps": 5}, train, pool)[0], train, s["hidden"])
    X = torch.from_numpy(train.X)
    assert torch.allclose(module(X), twin(module)(X), atol=1e-5)
    assert not torch.allclose(module[1].weight, twin(module)[1].weight)


@pytest.mark.parametrize("name", ["integers", "repeated", "huge"])
def test_odd_data(name, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = {
        "integers": rng.integers(0, 9, (60, 1)),
        "repeated": np.repeat(np.eye(3), 20, axis=0),
        "huge": 1e30 * rng.standard_normal((60, 3)),
    }[name]
    data = Data(name, X, y[: len(X)], 2)
    np.savez(tmp_path / "mine.npz", X=data.X, y=data.y)
    model = next(s for s in EXPERIMENT.settings("smoke") if s["data"] == "digits")
    fitted = {**own_data(model, data), "data": str(tmp_path / "mine.npz"), "steps": 20, "onward": 5, "hidden": [8, 8]}
    assert 3 * fitted["n"] + fitted["n_test"] <= len(data)
    record = task(fitted)
    json.dumps(record, allow_nan=False)
    assert LESSON.figures(Rows([{**fitted, **record}]))


def test_own_data_needs_two_classes_and_enough_examples():
    model = next(s for s in EXPERIMENT.settings("quick") if s["data"] == "digits")
    with pytest.raises(TrueriskError, match="at least 2"):
        own_data(model, Data("one", np.ones((60, 3)), np.zeros(60, dtype=int), 1))
    with pytest.raises(TrueriskError, match="at least 44"):
        own_data(model, Data("few", np.ones((43, 3)), np.arange(43) % 2, 2))
    assert own_data(model, Data("enough", np.ones((44, 3)), np.arange(44) % 2, 2))["n"] == 10
    assert own_data(EXPERIMENT.settings("quick")[0], Data("two", np.ones((60, 3)), np.arange(60) % 2, 2)) is None


# ---- the page ------------------------------------------------------------------------------------------------------


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    assert list(found) == ["poison", "errors", "basins", "measures", "bounds", "starts", "onward"]
    plane, curve = found["poison"].figures
    run = next(row for row in rows if row.get("planes"))
    shown = {(row["count"], row["on"]): row["error"] for row in curve.rows}
    assert shown[run["poisoned"][-1], "new examples"] == run["test_errors"][-1]
    assert len(plane.rows) == 4 * 41**2
    ratio = {(r["measure"], r["set"]): r["ratio"] for r in found["measures"].rows}
    bad, good = (run["measures"][kind]["hessian-trace"] for kind in ("bad", "good"))
    assert ratio["Hessian trace", "moons"] == pytest.approx(bad / good)


def test_without_a_plane_the_errors_are_the_hero():
    runs = Rows([row for row in world() if row["data"] == "digits"])
    assert "poison" in [exhibit.name for exhibit in LESSON.figures(runs)]
