"""The experiment `conditioning`: effects by hand, verdicts, odd data, a smoke run, and its page."""

import json
import math

import numpy as np
import pytest
import torch

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.conditioning_runs import OPTIMIZERS, REMEDIES, descend, inputs, network, run_words, word_weights
from truerisk.lab.experiments.conditioning import (
    CLAIMS,
    EXPERIMENT,
    NETWORK,
    STRONG,
    WEAK,
    WORDS,
    batch_lead,
    gains,
    own_data,
    predicts,
    same_spectrum,
    task,
)
from truerisk.lab.lessons.conditioning import LESSON, ORDER
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {"kind": NETWORK, "data": "digits", "n": 15, "side": 14, "depth": 2, "width": 6, "steps": 5, "seed": 3}
SIZES = {**dict.fromkeys(REMEDIES, 1e6), **dict.fromkeys(STRONG, 1e3), **dict.fromkeys(WEAK, 1e4), "batch norm": 50.0,
         "all": 30.0}  # fmt: skip


def spectrum(condition, rank):
    return {"condition": condition, "condition_median": 10 * condition, "effective_rank": rank, "largest": 2.0,
            "ranks": [1, 10], "values": [1.0, 0.1]}  # fmt: skip


def row(s, **changed):
    wobble = 1 + 0.01 * (s["seed"] % 5)
    if s["kind"] == WORDS:
        made = {
            "ratios": {"SGD": 0.1 * wobble, "AdaGrad": 0.9 * wobble, "RMSProp": 0.9, "Adam": 0.9 * wobble},
            "word_conditions": {"plain": 1000 * wobble, "scaled": 10.0},
            "word_losses": {name: [0.5] * 6 for name in OPTIMIZERS},
            "word_ratios": {name: [0.5] * 6 for name in OPTIMIZERS},
            "word_bins": {name: [1.0] * 10 for name in OPTIMIZERS},
            "word_occurrences": [10.0] * 10,
        }
    else:
        size = SIZES[s["remedy"]] * wobble ** (1 + len(s["remedy"]) / 20)
        rank = (20.0 if s["remedy"] == "batch norm" else 5.0) * wobble ** len(s["remedy"])
        loss = size / 1e6 + 0.3 * (s["seed"] % 5 == 1) * (s["remedy"] == "skips")
        made = {"start": spectrum(size, rank), "end": spectrum(size, rank), "loss": loss, "losses": [loss] * 5,
                "rate": 0.1}  # fmt: skip
        if not s["steps"]:
            made = {"start": made["start"]}
    return {**s, **made, **changed}


def world(change=lambda s: {}, scale="quick"):
    settings = EXPERIMENT.settings(scale)
    return Rows([row(s, **change(s)) for s in settings], fields={name for s in settings for name in s})


def worse(remedy, size):
    """A world in which one remedy has another condition number."""
    return lambda s: {"start": spectrum(size * (1 + s["seed"] / 500), 5.0)} if s.get("remedy") == remedy else {}


@pytest.mark.parametrize("claim", CLAIM)
def test_all_claims_can_be_reproduced(claim):
    wanted = "exact" if claim == "weight-norm-default" else "reproduced"
    assert judge(CLAIM[claim], world(), "quick").word == wanted


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("strong-remedies", worse("skips", 9e5)),
        ("weak-remedies", worse("layer norm", 9e5)),
        ("centering-alone", worse("centered inputs", 1e5)),
        ("batch-norm-first", worse("skips", 20.0)),
        ("remedies-add", worse("all", 100.0)),
        ("outliers", worse("batch norm", 50.0)),
        ("weight-norm-default", lambda s: {"start": {**spectrum(1e6, 5), "values": [1.0, 0.11]}}
         if s.get("remedy") == "weight norm" else {}),
        ("predicts-descent", lambda s: {"loss": 1 / SIZES.get(s.get("remedy"), 1) + s["seed"] % 2 * 1e-4}),
        ("words-sgd", lambda s: {"ratios": {"SGD": 0.5 + s["seed"] / 500}}),
        ("words-adaptive", lambda s: {"ratios": {"AdaGrad": 0.9 + s["seed"] / 500, "Adam": 0.5 + s["seed"] / 500}}),
        ("words-condition", lambda s: {"word_conditions": {"plain": 50.0 + s["seed"], "scaled": 10.0}}),
    ],
)  # fmt: skip
def test_all_claims_can_fail(claim, change):
    assert judge(CLAIM[claim], world(change), "quick").word == "not reproduced"


def test_effects_by_hand():
    rows = Rows([{"remedy": name, "start": {"condition": size}, "loss": size} for name, size in SIZES.items()])
    assert gains(rows, ["skips", "layer norm"]) == {"skips": 1000, "layer norm": 100}
    assert batch_lead(rows) == 20
    assert predicts(rows) == pytest.approx(1)
    pair = [{"seed": 1, "remedy": name, "start": {"values": [1.0, value]}} for name, value in
            (("none", 0.5), ("weight norm", 0.5005))]  # fmt: skip
    assert same_spectrum(Rows(pair)).holds
    pair[1]["start"]["values"][1] = 0.502
    assert not same_spectrum(Rows(pair)).holds
    with pytest.raises(IncompleteError):
        gains(Rows([], missing=[{"remedy": "none"}]), ["skips"])


def test_no_verdict_where_seeds_disagree():
    wild = world(lambda s: {"ratios": {"SGD": 0.1 + 0.2 * (s["seed"] % 3)}} if s["kind"] == WORDS else {})
    assert judge(CLAIM["words-sgd"], wild, "quick").word == "no verdict"


def test_the_same_setting_gives_the_same_record():
    s = {**SMALL, "remedy": "weight norm, data start"}
    first = task(s)
    assert first == task(s) == json.loads(json.dumps(first, allow_nan=False))
    assert not s.keys() & first.keys()
    assert first["loss"] == min(first["losses"]) or first["loss"] == pytest.approx(min(first["losses"]), abs=1e-6)
    assert task({**s, "seed": 4})["start"] != first["start"]
    assert "loss" not in task({**s, "steps": 0})


def test_remedies_start_from_the_same_weights():
    X = torch.rand(10, 8)
    nets = {name: network({**SMALL, "remedy": name}, X, 3) for name in ("none", "skips", "layer norm")}
    first = [next(p for p in net.parameters() if p.ndim == 2) for net in nets.values()]
    assert all(torch.equal(first[0], other) for other in first)


def test_inputs():
    data = Data("odd", np.array([[0, 300, 7], [0, 100, 9], [0, 200, 11]]), np.array([0, 1, 0]), 2)
    assert float(inputs(data, "none").abs().max()) == 1
    assert inputs(data, "centered inputs").mean(dim=0).abs().max() < 1e-7
    std = inputs(data, "standardized inputs")
    assert std[:, 0].tolist() == [0, 0, 0]
    torch.testing.assert_close(std.std(dim=0, correction=0)[1:], torch.ones(2))


def test_descent_that_diverges_counts_as_guessing():
    X, y = torch.randn(20, 8), torch.arange(20) % 3
    net = network({**SMALL, "remedy": "He start"}, X, 3)
    assert descend(net, X, y, 1e20, 5)[0] == pytest.approx(math.log(3))


def test_words_by_a_loop_of_sgd():
    s = {"n": 40, "words": 20, "length": 5, "epochs": 1, "batch": 10, "seed": 2}
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (40, 8)).astype(float), rng.integers(0, 2, 40).astype(float)
    loss, found = word_weights("SGD", 0.5, torch.from_numpy(X), torch.from_numpy(y), s)
    w = np.zeros(8)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(derive(2, "batches"))).numpy()
    for k in range(4):
        b = order[10 * k : 10 * k + 10]
        p = 1 / (1 + np.exp(-X[b] @ w))
        w = w - 0.5 * X[b].T @ (p - y[b]) / 10
    np.testing.assert_allclose(found, w, atol=1e-12)
    z = X @ w
    assert loss == pytest.approx(float(np.mean(np.log1p(np.exp(z)) - y * z)))
    record = run_words(s)
    assert json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("kind", ["one feature, two classes", "repeated rows", "huge integers", "constant"])
def test_odd_data_of_a_user(tmp_path, kind):
    rng = np.random.default_rng(1)
    X = {"one feature, two classes": rng.random((40, 1)), "repeated rows": np.repeat(rng.random((4, 3)), 10, axis=0),
         "huge integers": rng.integers(-(10**9), 10**9, (40, 2)), "constant": np.zeros((40, 2))}[kind]  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(40) % 2)
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    settings = [s for s in own.settings("smoke") if s["kind"] == NETWORK]
    made = Rows([{**s, **own.task(s)} for s in settings], fields=settings[0])
    json.dumps(made.present, allow_nan=False)
    assert len(LESSON.figures(made)[0].rows) == len(REMEDIES)


def test_own_data_takes_as_many_examples_as_fit():
    s = EXPERIMENT.settings("quick")[0]
    many = Data("many", np.zeros((500, 3), np.float32), np.arange(500) % 100, 100)
    assert own_data(s, many)["n"] == 20
    assert own_data({**s, "kind": WORDS}, many) is None
    with pytest.raises(TrueriskError, match="too many features"):
        own_data(s, Data("wide", np.zeros((30, 200_000), np.float32), np.arange(30) % 10, 10))


def test_smoke(smoke_rows):
    rows = smoke_rows(EXPERIMENT.name)
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    found = {row["remedy"]: row["start"] for row in rows if row["kind"] == NETWORK}
    assert found["batch norm"]["condition"] < found["none"]["condition"]
    assert found["none"]["values"] == found["weight norm"]["values"]


def test_figures_show_the_numbers_of_the_rows():
    rows = world()
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    sizes = {(r["remedy"], r["seed"]): r["condition"] for r in found["condition"].rows}
    of = {(r["remedy"], r["seed"]): r["start"]["condition"] for r in rows if r["kind"] == NETWORK}
    assert sizes == of
    assert set(ORDER) == set(REMEDIES)
    assert len(found["speed"].rows) == 50
    assert {r["part"] for r in found["words"].rows} == set(range(1, 11))
    assert {r["depth"] for r in found["depths"].rows} == {1, 2, 4, 8, 16}
    assert len(found["numbers"].rows) == len(REMEDIES)
    nothing = LESSON.figures(Rows([], missing=EXPERIMENT.settings("quick")))
    assert all(not exhibit.rows for exhibit in nothing)


def test_the_picture_walks_down():
    record = LESSON.demo(EXPERIMENT.settings("smoke")[0])
    (figure,) = LESSON.pictures(record)
    ends = {name: walk[-1] for name, walk in record["paths"].items()}
    assert abs(ends["condition number 2"][0]) < 0.01 < abs(ends["condition number 30"][0])
    assert len(figure.rows) == 42
    assert LESSON.pictures({}) == []
