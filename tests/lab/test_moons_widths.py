"""The experiment `moons-widths`: no slip of the published grid, effects by hand, verdicts, figures, and a smoke run."""

import json

import numpy as np
import pytest
from scipy.stats import kendalltau

from truerisk.errors import TrueriskError
from truerisk.lab.experiments.moons_widths import (
    ARMS,
    CLAIMS,
    EXPERIMENT,
    PUBLISHED,
    lipschitz,
    over_margin,
    task,
    tau,
)
from truerisk.lab.lessons.moons_widths import LESSON
from truerisk.lab.moons_runs import fitted, logits, margins, moons
from truerisk.lab.moons_runs import lipschitz as product_of_norms
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def network(rate, k, size, gap):
    return {"rate": rate, "train": 1.0, "test": 1 - gap, "lipschitz": size, "mean_margin": 1.0, "median_margin": 1.0,
            "parameters": 10 * (k % 2 + 1)}  # fmt: skip


def world(sign=1, narrow=0.9, wide=0.98):
    made = []
    for s in EXPERIMENT.settings("quick"):
        shake = 0.001 * (s["seed"] % 5)
        if s["kind"] == "table":
            train, test = PUBLISHED[s["width"]]
            accuracy = test / 100 if s["arm"] == ARMS[0] else (narrow if s["width"] == 4 else wide) + shake
            made.append({**s, "train_accuracy": train / 100, "test_accuracy": accuracy})
            continue
        k = sum(s["hidden"]) + len(s["solver"]) + s["seed"] % 5
        gaps = [0.4 * rate + 0.0003 * (k % 17) for rate in s["rates"]]
        made.append(
            {
                **s,
                "networks": [
                    network(r, k, (10 + k % 17 + 40 * r) ** sign, g) for r, g in zip(s["rates"], gaps, strict=True)
                ],
            }
        )
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


def word(name, runs):
    return judge(CLAIM[name], runs, "quick").word


def test_verdicts_can_come_out_both_ways():
    good, odd = world(), world(sign=-1, narrow=0.99, wide=0.8)
    for name in ("wide-no-worse", "wide-errs-little", "lipschitz-follows", "margin-helps", "within-noise"):
        assert word(name, good) == "reproduced", name
        assert word(name, odd) == "not reproduced", name
    assert word("same-table", good) == "exact"
    assert word("narrow-varies", good) == "not reproduced"
    gone = Rows(good.present[:-1], missing=good.present[-1:], fields=good.fields)
    assert word("lipschitz-follows", gone) == "no verdict"


def test_tau_against_scipy():
    rng = np.random.default_rng(0)
    found = [
        {"rate": int(r), "lipschitz": int(a), "excess": round(float(e), 1)}
        for r, a, e in zip(rng.integers(0, 3, 40), rng.integers(0, 9, 40), rng.standard_normal(40), strict=True)
    ]
    x, y = ([one[name] for one in found] for name in ("lipschitz", "excess"))
    assert tau(found, lipschitz) == pytest.approx(kendalltau(x, y).statistic)
    one = [each for each in found if each["rate"] == 1]
    two = [each for each in found if each["rate"] != 1]
    assert tau(one, lipschitz, within=True) == pytest.approx(tau(one, lipschitz))
    assert tau(two, lipschitz, within=True) != pytest.approx(tau(two, lipschitz))
    assert over_margin({"lipschitz": 2.0, "median_margin": -1.0}) == np.inf


def test_none_of_the_four_slips():
    train, test = moons(30, 400, stream=5, label_noise=0.5)
    model = fitted(train, [8, 8], 0, solver="lbfgs", max_iter=20)
    probability = 1 / (1 + np.exp(-logits(model, test[0])))
    assert probability == pytest.approx(model.predict_proba(test[0])[:, 1])  # activations are applied
    signed = margins(model, *test)
    assert ((signed > 0) == (model.predict(test[0]) == test[1])).all()  # wrong points have negative margins
    assert (signed < 0).any()
    others = moons(30, 400, stream=6)
    assert not np.allclose(train[0], others[0][0])  # another seed, other points
    run = task({"kind": "grid", "n": 30, "n_test": 300, "rates": [0.5], "solver": "lbfgs", "hidden": [4], "seed": 0})
    assert run["networks"][0]["train"] < 1.01  # excess risk is not cut: both accuracies are stored
    assert product_of_norms(model) == pytest.approx(np.prod([np.linalg.svd(w)[1][0] for w in model.coefs_]))


def test_noise_is_nested_and_touches_training_labels_alone():
    clean, some, all_of_them = (moons(200, 50, stream=3, label_noise=rate) for rate in (0.0, 0.3, 1.0))
    assert (clean[1][1] == all_of_them[1][1]).all()
    assert np.allclose(clean[0][0], all_of_them[0][0])
    changed = some[0][1] != clean[0][1]
    assert 0 < changed.sum() < (all_of_them[0][1] != clean[0][1]).sum()
    assert (all_of_them[0][1][changed] == some[0][1][changed]).all()
    with pytest.raises(TrueriskError, match="0 or 1"):
        margins(fitted(clean[0], [4], 0, solver="lbfgs"), clean[0][0], clean[0][1] + 1)


def test_the_same_setting_gives_the_same_record():
    for s in EXPERIMENT.settings("smoke")[::10]:
        first = task(s)
        assert first == task(s) == json.loads(json.dumps(first, allow_nan=False))
        assert not s.keys() & first.keys()


def test_smoke_and_figures(rows):
    assert {verdict.reason for verdict in EXPERIMENT.judge(rows, "smoke")} == {"smoke"}
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    assert list(found) == ["widths", "taus", "plane", "table"]
    at = {(r["width"], r["arm"], r["seed"]): r["error"] for r in found["widths"].rows}
    run = next(row for row in rows if row["kind"] == "table" and row["arm"] == ARMS[2])
    assert at[run["width"], ARMS[2], run["seed"]] == 1 - run["test_accuracy"]
    assert found["table"].rows[0][1] == "76.7% / 87.7%"
    assert {r["number"] for r in found["taus"].rows} >= {"Lipschitz", "label noise"}
    (regions,) = LESSON.pictures(LESSON.demo(EXPERIMENT.settings("smoke")[0]))
    assert len(regions.rows) == 4 * 41**2
