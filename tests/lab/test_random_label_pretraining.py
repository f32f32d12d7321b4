"""The experiment `random-label-pretraining`: starts, effects by hand, verdicts, figures, and a smoke run."""

import json

import numpy as np
import pytest

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.experiments.random_label_pretraining import CLAIMS, EXPERIMENT, FAST, own_data, task
from truerisk.lab.lessons.random_label_pretraining import LESSON
from truerisk.lab.pretraining_runs import STARTS, flat, learn, parts, start
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge
from truerisk.training.swift import answers, uniform_weights

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {"data": "digits", "n": 40, "n_test": 60, "width": 32, "epochs": 300, "batch": 20, "lr": FAST, "seed": 2}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(after=0.95, pretrained=800.0, scaled=810.0, aligned=700.0, late=False):
    made = []
    for s in EXPERIMENT.settings("quick"):
        shake = 1 + 0.01 * (s["seed"] % 3)
        random = {
            "scratch": 1600,
            "pretrained": pretrained * shake,
            "scaled": scaled,
            "shuffled": scaled,
            "aligned": aligned,
        }
        steps = {f"{kind}, random": value for kind, value in random.items()}
        steps |= {f"{kind}, true": 400 if kind == "scratch" else 100 * shake for kind in STARTS}
        if late:
            steps["pretrained, random"] = None
        made.append(
            {
                **s,
                "steps": steps,
                "first_steps": {"random": 1500, "true": 300},
                "correlations": {"before": 0.01 * shake, "random labels": after * shake**0.1, "true labels": 0.6},
                "test_errors": {kind: 0.05 + 0.02 * shake * (kind == "pretrained") for kind in STARTS},
                "eigenvalues": [2.0, 1.0],
                "variances": {"before": [1.0, 1.0], "random labels": [3.0, 1.0], "true labels": [2.0, 1.0]},
                "diverged": False,
            }
        )
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


def word(name, runs):
    return judge(CLAIM[name], runs, "quick").word


def test_verdicts_can_come_out_both_ways():
    good, slow = world(), world(after=0.3, pretrained=1500.0, scaled=800.0, aligned=900.0)
    for name in ("alignment", "faster", "scale-explains", "alignment-alone"):
        assert word(name, good) == "reproduced", name
        assert word(name, slow) == "not reproduced", name
    assert word("faster-than-scale", slow) == "not reproduced"
    assert word("faster-than-scale", world(pretrained=500.0)) == "reproduced"
    assert word("fast-training-hides-it", good) == "not reproduced"
    assert word("harm", good) == "reproduced"


def test_a_training_that_does_not_end_gives_no_verdict():
    late = world(late=True)
    assert word("faster", late) == "no verdict"
    assert word("fits", late) == "not reproduced"


def test_starts_keep_what_they_say():
    fresh, after = (uniform_weights([6, 40, 3], seed) for seed in (0, 1))
    after = [3 * part for part in after]
    after[0][0] *= 5  # the first input has large weights
    scaled, shuffled, aligned = (start(kind, fresh, after, 7) for kind in ("scaled", "shuffled", "aligned"))
    for k in range(4):
        for other in (scaled, shuffled, aligned):
            assert np.linalg.norm(other[k]) == pytest.approx(np.linalg.norm(after[k]), rel=1e-5)
        assert sorted(shuffled[k].ravel()) == sorted(after[k].ravel())
        assert np.corrcoef(scaled[k].ravel(), fresh[k].ravel())[0, 1] == pytest.approx(1)
    sizes = [
        np.linalg.norm(weights[0][0]) / np.linalg.norm(weights[0]) for weights in (after, aligned, scaled, shuffled)
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1)
    assert max(sizes[2:]) < 0.6 * sizes[0]
    assert start("pretrained", fresh, after, 7) is after
    assert start("scratch", fresh, after, 7) is fresh


def test_steps_are_counted_until_every_label_is_fitted():
    first, second, _ = parts(SMALL)
    assert not {x.tobytes() for x in first.X} & {x.tobytes() for x in second.X}
    begin = uniform_weights([64, 32, 10], 0)
    end, steps = learn(begin, first, SMALL, 1)
    assert (answers(end, flat(first)).argmax(1) == first.y).all()
    before, none = learn(begin, first, {**SMALL, "epochs": steps // 2 - 1}, 1)
    assert none is None
    assert not (answers(before, flat(first)).argmax(1) == first.y).all()


def test_the_same_setting_gives_the_same_record():
    first = task(SMALL)
    assert first == task(SMALL) == json.loads(json.dumps(first, allow_nan=False))
    assert not SMALL.keys() & first.keys()
    assert first["correlations"]["random labels"] > 0.5 > abs(first["correlations"]["before"])
    assert task({**SMALL, "lr": 1e30}) == {"diverged": True}


@pytest.mark.parametrize("name", ["integers", "huge", "two classes"])
def test_odd_data(name, tmp_path):
    rng = np.random.default_rng(0)
    X = {
        "integers": rng.integers(0, 9, (60, 5)),
        "huge": 1e30 * rng.standard_normal((60, 4)),
        "two classes": rng.standard_normal((60, 4)),
    }[name]
    data = Data(name, X, np.arange(60) % 2, 2)
    np.savez(tmp_path / "mine.npz", X=data.X, y=data.y)
    fitted = {**own_data(EXPERIMENT.settings("smoke")[0], data), "data": str(tmp_path / "mine.npz"), "epochs": 20}
    assert 2 * fitted["n"] + fitted["n_test"] <= 60
    record = {**fitted, **task(fitted)}
    json.dumps(record, allow_nan=False)
    assert LESSON.figures(Rows([record]))
    assert LESSON.pictures(LESSON.demo(fitted)) == []


def test_own_data_needs_directions():
    with pytest.raises(TrueriskError, match="at least 4"):
        own_data(EXPERIMENT.settings("quick")[0], Data("flat", np.ones((60, 3)), np.arange(60) % 2, 2))


def test_smoke_and_figures(rows):
    assert {verdict.reason for verdict in EXPERIMENT.judge(rows, "smoke")} == {"smoke"}
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    assert list(found) == ["steps", "rates", "alignment", "directions", "errors"]
    slow = next(row for row in rows if row["lr"] != FAST)
    shown = {row["start"]: row["steps"] for row in found["steps"].rows}
    assert shown["same covariance"] == slow["steps"]["aligned, random"]
    assert {row["start"]: row["error"] for row in found["errors"].rows}["pretrained"] == slow["test_errors"][
        "pretrained"
    ]
    (images,) = LESSON.pictures(LESSON.demo(EXPERIMENT.settings("smoke")[0]))
    assert [len(strip.tiles) for strip in images.strips] == [10, 10, 10]
