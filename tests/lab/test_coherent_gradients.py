"""`coherent-gradients`: effects on rows made by hand, the task, and the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab import coherent_effects as effects
from truerisk.lab.coherent_effects import FULL, HALF, RANDOM, REAL
from truerisk.lab.coherent_pictures import LABELS
from truerisk.lab.coherent_runs import as_module, learned, looked_at, run_coherent, tensors
from truerisk.lab.experiments.coherent_gradients import CLAIMS, EXPERIMENT, own_data
from truerisk.lab.lessons.coherent_gradients import LESSON
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge
from truerisk.training.swift import answers, uniform_weights

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {"data": "digits", "n": 60, "n_test": 60, "hidden": 12, "batch": 20, "lr": 0.06, "epochs": 20, "noise": HALF,
         "rate": FULL, "seed": 3}  # fmt: skip


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def row(s, **changed):
    """A run in which pristine examples lead early and corrupt ones late; m-coherence rises at the full rate alone."""
    wobble = 0.01 * (s["seed"] % 5)
    epoch, late = s["n"] // s["batch"], 0.3 if s["rate"] == FULL else 0.11
    real = s["noise"] == REAL
    made = {
        "diverged": False,
        "corrupt": 200,
        "steps": [0, 2 * epoch, 4 * epoch, 100 * epoch, 200 * epoch],
        "fitted": [0.1, 0.3, 0.5, 0.8, 1.0],
        "fitted_pristine": [0.1, 0.5, 0.9, 1.0, 1.0],
        "fitted_corrupt": None if real else [0.1, 0.1, 0.1, 0.5, 1.0],
        "m_coherence": [9.0, 5.0 + wobble, 4.0, 1.0, 0.9] if real else [9.0, 1.0 + wobble, 0.5, 0.1, late + wobble],
        "whole": [9.0, 2.0, 2.0, 1.0, 1.0],
        "from_pristine": [5.0, 2.0 + wobble, 2.0, 0.3 + wobble, 0.5],
        "share": [0.6, 1.0 + wobble / 2, 1.0, 0.3 + wobble, 0.5],
        **{"drawn": [0.5] * 5, "drawn_low": [0.4] * 5, "drawn_high": [0.6] * 5},
        "from_new": [20.0, 15.0, 12.0 + wobble, 3.0, 2.0] if real else [20.0, 3.0, -0.5 + wobble, 0.0, 0.0],
        "alignments": {"0": {"corrupt": [0.1], "pristine": [0.1]},
                       str(2 * epoch): {"corrupt": [-0.1, 0.1], "pristine": [0.2, 0.1 + wobble]}},
    }  # fmt: skip
    made["fitted_corrupt"] = made["fitted_corrupt"] or [None] * 5
    made |= {"m_hidden": made["m_coherence"], "m_output": made["m_coherence"]}
    return {**s, **made, **changed}


def world(change=lambda s: {}, scale="quick"):
    settings = EXPERIMENT.settings(scale)
    return Rows([row(s, **change(s)) for s in settings], fields={name for s in settings for name in s})


# ---- effects and verdicts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIM)
def test_all_claims_can_be_reproduced(claim):
    verdict = judge(CLAIM[claim], world(), "quick")
    assert (verdict.word, verdict.detail) == ("reproduced", "")


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("pristine-early", lambda s: {"from_pristine": [5.0, 1.0 + s["seed"] / 1000, 1.0, 0.3, 0.5]}),
        ("corrupt-late", lambda s: {"from_pristine": [5.0, 2.0, 2.0, 0.7 + s["seed"] / 1000, 0.5]}),
        ("pristine-aligned", lambda s: {"alignments": {"10": {"pristine": [s["seed"] / 1e4], "corrupt": [0.1]}}}),
        ("real-above-random", lambda s: {"m_coherence": [9.0, 1.0 + s["seed"] / 1000, 1.0, 1.0, 1.0]}),
        ("random-rises", lambda s: {"m_coherence": [9.0, 1.0, 0.5, 0.4, 0.4 + s["seed"] / 1000]}),
        ("real-falls", lambda s: {"m_coherence": [9.0, 1.0, 0.1, 0.4, 0.4 + s["seed"] / 1000]}),
        ("rise-needs-rate", lambda s: {"m_coherence": [9.0, 1.0, 0.1, 0.4, 0.4 + s["seed"] / 1000]}),
        ("new-real", lambda s: {"from_new": [20.0, 9.0, s["seed"] / 1000, 0.0, 0.0]}),
        ("new-random", lambda s: {"from_new": [20.0, 9.0, 5 + s["seed"] / 1000, 0.0, 0.0]}),
    ],
)
def test_all_claims_can_fail(claim, change):
    assert judge(CLAIM[claim], world(change), "quick").word == "not reproduced"


def test_numbers_of_the_effects():
    s = {**SMALL, "n": 500, "batch": 100, "seed": 20}
    one = Rows([row(s)])
    assert effects.early_share(one) == pytest.approx(1.0 - 0.5)  # pooled over the two early looks
    assert effects.late_share(one) == pytest.approx(0.3 - 0.5)  # the one look at which half of the corrupt are fitted
    assert effects.early_alignment(one) == pytest.approx(0.15)
    assert effects.rise({"m_coherence": [9, 1, 0.1, 0.3, 0.2]}) == pytest.approx(3)
    assert effects.rise({"m_coherence": [9, 5, 1]}) == 1
    both = Rows([row({**s, "noise": REAL}), row({**s, "noise": RANDOM})])
    assert effects.coherence_ratio(both) == pytest.approx((5 * 4 / (1 * 0.5)) ** 0.5)
    assert effects.new_real(both) == 12  # the first look, in which class frequencies are learned, is left out


def test_no_number_without_the_right_looks():
    s = {**SMALL, "n": 500, "batch": 100}
    for change in ({"steps": [0, 2000, 3000, 4000, 5000]}, {"whole": [0.0] * 5}):
        with pytest.raises(IncompleteError):
            effects.early_share(Rows([row(s, **change)]))
    with pytest.raises(IncompleteError):
        effects.late_share(Rows([row(s, fitted_corrupt=[0.0] * 5)]))
    with pytest.raises(IncompleteError):
        effects.early_alignment(Rows([row(s, alignments={"0": {"pristine": [0.1], "corrupt": [0.1]}})]))
    with pytest.raises(IncompleteError):
        effects.new_real(Rows([row({**s, "noise": REAL}, from_new=[None] * 5)]))
    wild = judge(CLAIM["random-rises"], world(lambda s: {"diverged": s["seed"] == 21}), "quick")
    assert (wild.word, wild.reason) == ("no verdict", "diverged")


# ---- the task ------------------------------------------------------------------------------------------------------


def test_the_same_setting_gives_the_same_record():
    first = run_coherent(SMALL)
    assert first == run_coherent(SMALL) == json.loads(json.dumps(first, allow_nan=False))
    assert not SMALL.keys() & first.keys()
    assert first["steps"] == [3 * epoch for epoch in looked_at(20)]
    assert run_coherent({**SMALL, "seed": 4})["m_coherence"] != first["m_coherence"]
    assert len(json.dumps(first)) < 12_000


def test_the_first_look_is_that_of_all_gradients():
    """Shares and m-coherence at initialization against one backward pass for each example."""
    from truerisk.seeds import derive

    found = run_coherent({**SMALL, "epochs": 1})
    train, clean, _ = learned(SMALL)
    weights = uniform_weights([64, 12, 10], derive(3, "weights"), glorot=True)
    net, (X, y) = as_module(weights), tensors(train)
    assert np.allclose(net(X).detach().numpy(), answers(weights, X.numpy()), atol=1e-5)
    rows = []
    for x, label in zip(X, y, strict=True):
        loss = torch.nn.functional.cross_entropy(net(x[None]), label[None])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))]))
    G = torch.stack(rows).double()
    S, pristine = G.sum(0), torch.from_numpy(train.y == clean.y)
    assert found["m_coherence"][0] == pytest.approx(float(S @ S / G.square().sum()), rel=1e-3)
    assert found["share"][0] == pytest.approx(float(G[pristine].sum(0) @ S / (S @ S)), rel=1e-3)
    assert found["drawn_low"][0] < found["drawn"][0] < found["drawn_high"][0]
    assert found["drawn"][0] == pytest.approx(float(pristine.double().mean()), abs=0.03)
    assert found["corrupt"] == int((~pristine).sum())


def test_true_labels_have_no_corrupt_examples_and_rates_may_be_too_large():
    found = run_coherent({**SMALL, "noise": REAL, "epochs": 2})
    assert found["fitted_corrupt"] == [None] * 3
    assert found["share"] == [1.0] * 3
    assert set(found["alignments"]["3"]) == {"pristine"}
    assert run_coherent({**SMALL, "lr": 1e30}) == {"diverged": True}


def tables():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    return {
        "integers": Data("integers", rng.integers(0, 9, (60, 4)), y, 2),
        "one feature": Data("one", rng.standard_normal((60, 1)), y, 2),
        "repeated rows": Data("repeated", np.repeat(np.eye(3), 20, axis=0), np.repeat([0, 1, 1], 20), 2),
        "huge": Data("huge", 1e30 * rng.standard_normal((60, 3)), y, 2),
    }


@pytest.mark.parametrize("name", tables())
def test_odd_data_have_records_and_figures(name, tmp_path):
    data = tables()[name]
    np.savez(tmp_path / "mine.npz", X=data.X, y=data.y)
    made = []
    for s in EXPERIMENT.settings("smoke")[:3]:
        fitted = {**own_data(s, data), "data": str(tmp_path / "mine.npz"), "epochs": 5}
        made.append({**fitted, **run_coherent(fitted)})
    json.dumps(made, allow_nan=False)
    assert LESSON.figures(Rows(made, fields=made[0]))
    assert [exhibit.name for exhibit in LESSON.pictures(LESSON.demo(made[0]))] == ["pairs"]  # tables have no images


def test_own_data_takes_the_full_rate_and_refuses_constants():
    kept = [own_data(s, tables()["integers"]) for s in EXPERIMENT.settings("quick")]
    assert {(s["rate"], s["seed"]) for s in kept if s} == {(FULL, seed) for seed in (20, 21, 22)}
    with pytest.raises(TrueriskError, match="all inputs are alike"):
        own_data(EXPERIMENT.settings("quick")[0], Data("flat", np.ones((60, 3)), np.arange(60) % 2, 2))


# ---- the page ------------------------------------------------------------------------------------------------------


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    names = [exhibit.name for exhibit in LESSON.figures(rows)]
    assert names == ["alignment", "shares", "coherence", "rates", "new", "learning"]


def test_figures_show_the_numbers_of_the_rows():
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(world())}
    histogram, shares = found["alignment"].figures
    assert {r["look"] for r in histogram.rows} == {r["look"] for r in shares.dots} == {10}
    assert sorted(r["alignment"] for r in histogram.rows if r["seed"] == 21) == [-0.1, 0.1, 0.11, 0.2]
    at = {(r["step"], r["seed"], r["examples"][:7]): r["part"] for r in shares.rows}
    assert at[500, 23, "pristin"] == pytest.approx(0.33)
    assert at[500, 23, "corrupt"] == pytest.approx(0.67)
    assert min(r["step"] for r in shares.rows) > 0  # a logarithmic axis
    rates = {(r["rate"], r["step"], r["seed"]): r["value"] for r in found["rates"].rows}
    assert rates[FULL, 1000, 20] == 0.3
    assert {r["labels"] for r in found["coherence"].rows} == set(LABELS.values())
    assert all(exhibit.name != "rates" for exhibit in LESSON.figures(Rows(r for r in world() if r["rate"] == FULL)))


def test_gaps():
    nothing = LESSON.figures(Rows([], missing=EXPERIMENT.settings("quick")))
    assert nothing[0].name == "alignment"
    assert LESSON.pictures({}) == []


def test_pictures_of_digits():
    record = LESSON.demo({**EXPERIMENT.settings("smoke")[0], "n": 60})
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    pairs, images = LESSON.pictures(record)
    assert {r["labels"] for r in pairs.rows} == {LABELS[REAL], LABELS[RANDOM]}
    assert all(-1 <= r["cosine"] <= 1 for r in pairs.rows)
    best, worst = ([tile.wrong for tile in strip.tiles] for strip in images.strips)
    assert sum(best) < sum(worst)
