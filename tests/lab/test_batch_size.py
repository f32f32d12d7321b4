"""The experiment `batch-size`: effects by hand, verdicts, runs against plain code, twins, odd data, and figures."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from truerisk.lab import batch_runs
from truerisk.lab.batch_runs import PLACES, as_module, batch_norm_convnet, cross_entropy, examples, rescaled_twin
from truerisk.lab.experiments.batch_size import (
    CLAIMS,
    EXPERIMENT,
    FACTORS,
    adaptive_ratio,
    copies_exact,
    copy_ratio,
    error_gap,
    rise_ratio,
    sharpness_range,
    sharpness_ratio,
    task,
)
from truerisk.lab.figure import Figure, Linked, Table
from truerisk.lab.lessons.batch_size import EPOCHS, LESSON, SAME, SCALED
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge
from truerisk.nets import mlp, outputs
from truerisk.training.swift import answers, uniform_weights

CLAIM = {claim.name: claim for claim in CLAIMS}
SMOKE = EXPERIMENT.settings("smoke")
BY_KIND = {s["kind"]: s for s in reversed(SMOKE) if s.get("net") != "convnet"}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(scale="quick", **given):
    """Rows of a grid in which every run has the given numbers; seeds differ a little."""
    made = []
    for s in EXPERIMENT.settings(scale):
        wiggle = 1 + 0.01 * (7 * s["seed"] % 3)
        scaled = s.get("rate") == "scaled"
        gap = given.get("scaled_gap" if scaled else "gap", 0.0 if scaled else 0.05) * wiggle
        sharp = given.get("scaled_sharp" if scaled else "sharp", 1.0 if scaled else 3.0) * wiggle
        if s["kind"] == "batches":
            count = len(s["batches"])
            record = {
                "test_errors": [0.3] * (count - 1) + [0.3 + gap],
                "train_errors": [0.0] * count,
                "train_losses": [0.02] * count,
                "keskar": [1.0] * (count - 1) + [sharp],
                "adaptive": [0.1] * (count - 1) + [0.1 * given.get("adaptive", sharp) * wiggle],
                "epochs_run": [3] * count,
                "line_at": list(PLACES),
                "line_train": [0.5] * 24 + [0.5 * given.get("rise", 4.0) * wiggle],
                "line_test": [0.5] * 25,
                "line_errors": [0.1] * 25,
            }
        elif s["kind"] == "copies":
            twice = given.get("full" if s["batch"] is None else "sgd", 2.0 if s["batch"] is None else 1.0)
            record = {"processed": [1000.0, 1000 * twice * (wiggle if s["batch"] else 1), 4000.0]}
        else:
            steep = [1.0] * 8 + [given.get("twin", 3000.0) * wiggle]
            record = {
                "keskar": steep,
                "adaptive": [0.1] * 8 + [0.1 + given.get("moved", 0.0)],
                "output_change": [given.get("outputs", 1e-15)] * 9,
                "test_errors": [0.1] * 8 + [0.1 + given.get("twin_error", 0.0)],
                "section_at": [-1.0, 0.0, 1.0],
                "sections": [[1.0, 0.1, 1.0]] * 9,
                "line_at": list(PLACES),
                "line_train": [0.5] * 25,
            }
        made.append({**s, **record, "diverged": given.get("diverged", False)})
    return Rows(made, fields={name for s in EXPERIMENT.settings(scale) for name in s})


def test_effects_by_hand():
    runs = Rows([{"test_errors": [0.2, 0.9, 0.25], "keskar": [2.0, 9.0, 5.0], "adaptive": [0.2, 1.0, 0.1],
                  "line_train": [0.5, 9.0, 2.0], "processed": [100.0, 150.0, 900.0]}])  # fmt: skip
    assert error_gap(runs) == pytest.approx(0.05)
    assert sharpness_ratio(runs) == 2.5
    assert adaptive_ratio(runs) == 0.5
    assert rise_ratio(runs) == 4.0
    assert copy_ratio(runs) == 1.5
    assert sharpness_range(runs) == 4.5
    whole = {"copies": [1, 2, 4], "processed": [70.0, 140.0, 280.0]}
    assert copies_exact(Rows([whole])).holds
    assert not copies_exact(Rows([whole, {**whole, "processed": [70.0, 141.0, 280.0]}])).holds


@pytest.mark.parametrize(
    ("claim", "given", "word"),
    [
        ("error-gap", {}, "reproduced"),
        ("error-gap", {"gap": -0.05}, "not reproduced"),
        ("error-gap", {"gap": 0.0}, "no verdict"),
        ("gap-at-equal-loss", {}, "reproduced"),
        ("gap-at-equal-loss", {"gap": -0.05}, "not reproduced"),
        ("sharper", {}, "reproduced"),
        ("sharper", {"sharp": 1.0}, "not reproduced"),
        ("sharper", {"sharp": 1.19}, "no verdict"),
        ("sharper", {"diverged": True}, "no verdict"),
        ("sharper-adaptive", {}, "reproduced"),
        ("sharper-adaptive", {"adaptive": 0.5}, "not reproduced"),
        ("line-rises", {}, "reproduced"),
        ("line-rises", {"rise": 1.0}, "not reproduced"),
        ("scaled-sharpness", {}, "reproduced"),
        ("scaled-sharpness", {"scaled_sharp": 3.0}, "not reproduced"),
        ("scaled-gap", {"scaled_gap": 0.001}, "reproduced"),
        ("scaled-gap", {"scaled_gap": 0.05}, "not reproduced"),
        ("copies-full-batch", {}, "exact"),
        ("copies-full-batch", {"full": 2.1}, "not reproduced"),
        ("copies-sgd", {}, "reproduced"),
        ("copies-sgd", {"sgd": 2.0}, "not reproduced"),
        ("twin-sharpness", {}, "reproduced"),
        ("twin-sharpness", {"twin": 10.0}, "not reproduced"),
        ("twin-function", {}, "exact"),
        ("twin-function", {"outputs": 0.1}, "not reproduced"),
        ("twin-function", {"moved": 0.01}, "not reproduced"),
        ("twin-function", {"twin_error": 0.1}, "not reproduced"),
    ],
)
def test_verdicts(claim, given, word):
    assert judge(CLAIM[claim], world(**given), "quick").word == word


@pytest.mark.parametrize(
    ("claim", "given", "word"),
    [
        ("convnet-gap", {}, "reproduced"),
        ("convnet-gap", {"gap": -0.05}, "not reproduced"),
        ("convnet-sharper", {}, "reproduced"),
        ("convnet-sharper", {"sharp": 0.5}, "not reproduced"),
        ("convnet-line", {}, "reproduced"),
        ("convnet-line", {"rise": 0.5}, "not reproduced"),
    ],
)
def test_verdicts_on_convolutions(claim, given, word):
    assert judge(CLAIM[claim], world("medium", **given), "medium").word == word


@pytest.mark.parametrize("kind", ["batches", "copies", "twins"])
def test_a_task_repeats_itself(kind):
    s = {**BY_KIND[kind], "seed": 3, "n": 60, "n_test": 40}
    s |= {"factors": [1.0, 10.0], "epochs": 3} if kind == "twins" else {}
    first = task(s)
    assert json.loads(json.dumps(first, allow_nan=False)) == task(s)
    assert not s.keys() & first.keys()
    assert len(json.dumps(first)) < 8000
    other = task({**s, "seed": 4})
    assert other != first


def test_a_run_in_a_few_lines():
    """The first batch size of a run with a fixed number of epochs, by torch."""
    s = {**BY_KIND["batches"], "seed": 3, "epochs": 2}
    assert s["stop"] == "epochs"
    train, test = examples(s)
    record = task(s)
    assert float(np.abs(train.X).max()) == 1.0
    net = mlp(train.input_shape, 10, [64, 64])
    from truerisk.seeds import derive

    with torch.no_grad():
        for own, part in zip(net.parameters(), uniform_weights([64, 64, 64, 10], derive(3, "weights")), strict=True):
            own.copy_(torch.from_numpy(part.T.copy()))
    optimizer = torch.optim.SGD(net.parameters(), lr=s["lr"], momentum=0.9)
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    for epoch in range(2):
        order = np.random.default_rng(derive(derive(3, "order"), "epoch", epoch)).permutation(len(X))
        for rows in np.array_split(order, math.ceil(len(X) / s["batches"][0])):
            optimizer.zero_grad()
            F.cross_entropy(net(X[rows]), y[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        loss = float(F.cross_entropy(net(X), y))
        error = float((net(torch.from_numpy(test.X)).argmax(1).numpy() != test.y).mean())
    assert record["train_losses"][0] == pytest.approx(loss, rel=1e-3)
    assert record["test_errors"][0] == pytest.approx(error, abs=0.02)
    small, large = (record["line_train"][PLACES.index(t)] for t in (0.0, 1.0))
    assert small == pytest.approx(record["train_losses"][0], rel=1e-3)
    assert large == pytest.approx(record["train_losses"][-1], rel=1e-3)


def test_equal_losses_are_equal(rows):
    for row in rows.where(kind="batches", stop="loss"):
        assert all(loss <= 0.02 for loss in row["train_losses"])
    never = {**next(s for s in SMOKE if s.get("stop") == "loss"), "epochs": 1}
    assert task(never) == {"diverged": True}


def test_a_scaled_rate_is_in_proportion(monkeypatch):
    rates = []

    def watched(weights, X, targets, **how):
        rates.append((how["batch_size"], how["lr"]))
        return iter([1])

    monkeypatch.setattr(batch_runs, "sgd_epochs", watched)
    s = {**BY_KIND["batches"], "rate": "scaled", "batches": [6, 20, 500], "lr": 0.01}
    for batch in s["batches"]:
        batch_runs._plain(s, examples(s)[0], batch)
    assert [batch for batch, _ in rates] == [6, 20, 120], "a batch has no more than all examples"
    assert [rate / batch for batch, rate in rates] == pytest.approx([0.01 / 6] * 3)


def test_twins_by_hand():
    weights = uniform_weights([5, 4, 3, 2], seed=0)
    X = np.random.default_rng(0).normal(size=(20, 5))
    net = mlp((5,), 2, [4, 3]).double()
    with torch.no_grad():
        for own, part in zip(net.parameters(), weights, strict=True):
            own.copy_(torch.from_numpy(part.T.astype(np.float64)))
    for factor in (0.01, 7.0):
        twin = rescaled_twin(net, factor, X)
        W, b, V, *rest = (part.detach() for part in twin.parameters())
        assert torch.allclose(W, factor * torch.from_numpy(weights[0].T.astype(np.float64)))
        assert torch.allclose(b, factor * torch.from_numpy(weights[1].astype(np.float64)))
        assert torch.allclose(V, torch.from_numpy(weights[2].T.astype(np.float64)) / factor)
        assert torch.equal(rest[-1], net[-1].bias)
        assert torch.allclose(outputs(twin, X), outputs(net, X))


def test_small_parts():
    weights = [part.astype(np.float64) for part in uniform_weights([3, 4, 2], seed=1)]
    X, y = np.random.default_rng(0).normal(size=(9, 3)), np.arange(9) % 2
    logits = answers(weights, X)
    by_hand = np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(logits, y, strict=True)])
    assert cross_entropy(weights, X, y) == pytest.approx(by_hand)

    class Shape:
        input_shape, classes = (3,), 2

    assert torch.allclose(outputs(as_module(weights, Shape, torch.float64), X), torch.from_numpy(logits))
    net = batch_norm_convnet((3, 32, 32), 10)
    assert sum(p.numel() for p in net.parameters()) == 448 + 32 + 4640 + 64 + 18496 + 128 + 10250
    assert net.training


def test_copies_of_a_full_batch_change_nothing_but_work():
    record = task({**BY_KIND["copies"], "seed": 1})
    assert record["processed"][1:] == [2 * record["processed"][0], 4 * record["processed"][0]]


@pytest.mark.parametrize("kind", ["one feature", "repeated rows", "huge integers"])
def test_odd_data_of_a_user(tmp_path, kind):
    rng = np.random.default_rng(1)
    X = {"one feature": rng.random((60, 1)), "repeated rows": np.repeat(rng.random((6, 3)), 10, axis=0),
         "huge integers": rng.integers(-(10**9), 10**9, (60, 2))}[kind]  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(60) % 2)
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    settings = [{**s, "epochs": min(s["epochs"], 30)} for s in own.settings("smoke")]
    assert all(s.get("net") != "convnet" for s in settings)
    found = Rows([{**s, **own.task(s)} for s in settings], fields={name for s in settings for name in s})
    assert any(not row["diverged"] for row in found)
    assert LESSON.figures(found)
    assert LESSON.pictures(LESSON.demo(settings[0]))


def test_smoke(rows):
    assert {verdict.reason for verdict in EXPERIMENT.judge(rows, "smoke")} == {"smoke"}
    figures = LESSON.figures(rows)
    names = ["one-function", "line", "sharpness", "errors", "effect-sizes", "copies", "twins", "to-itself"]
    assert [figure.name for figure in figures] == names
    assert all(figure.rows for figure in figures if isinstance(figure, Figure | Table))
    assert all(panel.rows for panel in figures[0].figures)
    assert isinstance(figures[0], Linked)
    empty = LESSON.figures(Rows([], missing=SMOKE))
    assert not any(figure.rows for figure in empty if isinstance(figure, Figure | Table))


def test_figures_show_the_numbers_of_the_runs():
    hero, line, sharpness, errors, table, copies, twins, itself = LESSON.figures(world(gap=0.05))
    section, keskar, error = hero.figures
    assert [row["loss"] for row in section.rows if row["factor"] == 10.0] == [1.0, 0.1, 1.0]
    assert [row["at"] for row in keskar.rows] == FACTORS
    assert keskar.rows[-1]["keskar"] / keskar.rows[0]["keskar"] >= 3000
    assert {row["error"] for row in error.rows} == {0.1}
    assert {row["way"] for row in line.rows} == {SAME, SCALED}
    one = [r for r in sharpness.rows if r["way"] == SAME and r["where"] == "digits, Keskar" and r["seed"] == 21]
    assert [(r["batch"], round(r["ratio"], 2)) for r in one] == [(10, 1.0), (30, 1.0), (100, 3.0)]
    at_end = {r["error"] for r in errors.rows if r["way"] == EPOCHS and r["batch"] == 100 and r["seed"] == 21}
    assert at_end == {0.3 + 0.05}
    gaps = {(row[0], row[1]): row[2:] for row in table.rows}
    assert gaps["digits", EPOCHS][0] == "5.05"
    assert float(gaps["digits", EPOCHS][2]) > 50
    assert {row["work"] for row in copies.rows if row["way"] == "full batch" and row["copy"] == "2"} == {2.0}
    assert {row["ratio"] for row in twins.rows if row["measure"] == "adaptive sharpness"} == {1.0}
    assert len(itself.rows) == 5 * 25


def test_the_picture_has_one_full_step_per_epoch():
    record = LESSON.demo({"seed": 0})
    assert record == LESSON.demo({"seed": 0})
    assert len(record["paths"]["full batch"]) == 1 + 6
    assert len(record["paths"]["batches of 10"]) == 1 + 6 * 20
    (figure,) = LESSON.pictures(record)
    counts = [sum(row["epochs"] == 1 and row["way"] == way for row in figure.rows) for way in record["paths"]]
    assert counts == [2, 21]
