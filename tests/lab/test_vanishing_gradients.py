"""The experiment `vanishing-gradients`: effects by hand, verdicts, odd data, a smoke run, and its page."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from truerisk.data import load
from truerisk.lab.depth_effects import LONG, TRAINED, per_layer, plain_gap, removed_gap, residual_gap
from truerisk.lab.depth_runs import ARMS, CELLS, counted, learned, remembered, run_gradients, tensors
from truerisk.lab.experiments.vanishing_gradients import CLAIMS, EXPERIMENT, own_data, task
from truerisk.lab.lessons.vanishing_gradients import LESSON
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge
from truerisk.nets.deep import deep_mlp
from truerisk.seeds import derive, seeded_globals

CLAIM = {claim.name: claim for claim in CLAIMS}
RATE = {**dict.fromkeys(ARMS, 1.0), "ReLU, Xavier": 0.7, "ReLU, He, batch norm": 1.2, "sigmoid, Xavier": 0.1,
        "tanh, small start": 0.5, "ReLU, small start": 0.4}  # fmt: skip
LOSS = dict(zip(TRAINED, (2.3, 1.5, 0.05), strict=True))


def row(s, **changed):
    wobble = 1 + 0.01 * (s["seed"] % 5)
    if s["kind"] == "gradients":
        ratios = [RATE[s["arm"]] ** (depth - 1) * wobble for depth in s["depths"]]
        made = {"weights": ratios, "signals": ratios}
    elif s["kind"] == "deep":
        made = {"loss": LOSS[s["arm"]] * wobble ** len(s["arm"]), "train_error": 0.5, "diverged": False}
    elif s["kind"] == "plain":
        error = {(18, False): 0.1, (34, False): 0.7, (18, True): 0.1, (34, True): 0.05}[
            s["depth"], s["residual"]
        ] * wobble
        made = {"loss": error, "train_error": error, "test_error": error, "reach": 50 * wobble, "diverged": False}
    elif s["kind"] == "state":
        log = {"tanh": -6.0, "LSTM": -1.0}.get(s["cell"], 0.0) * wobble
        made = {"times": [16, 32, 64], "logs": [log / 2, log, 2 * log]}
    else:
        made = {"test_error": (0.5 if s["cell"] == "tanh" else 0.01) * wobble}
    return {**s, **made, **changed}


def world(change=lambda s: {}, scale="quick"):
    settings = EXPERIMENT.settings(scale)
    return Rows([row(s, **change(s)) for s in settings], fields={name for s in settings for name in s})


def kind(name, make):
    return lambda s: make(s, 1 + s["seed"] / 500) if s["kind"] == name else {}


@pytest.mark.parametrize("claim", CLAIM)
def test_all_claims_can_be_reproduced(claim):
    assert judge(CLAIM[claim], world(), "quick").word == "reproduced"


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("small-starts-vanish", kind("gradients", lambda s, w: {"weights": [w] * 5})),
        ("scaled-starts-keep", kind("gradients", lambda s, w: {"signals": [1e-9 * w] * 5})),
        ("xavier-halves", kind("gradients", lambda s, w: {"signals": [w] * 5})),
        ("batch-norm-explodes", kind("gradients", lambda s, w: {"signals": [w] * 5})),
        ("skips-restore", kind("gradients", lambda s, w: {"weights": [w ** len(s["arm"])] * 5})),
        ("he-start-learns", kind("deep", lambda s, w: {"loss": 2 * w if s["arm"] == TRAINED[0] else 2.0})),
        ("norm-and-skips-learn", kind("deep", lambda s, w: {"loss": 2 * w ** len(s["arm"])})),
        ("plain-degrades", kind("plain", lambda s, w: {"train_error": 0.5 * w - s["depth"] / 100})),
        ("residual-gains", kind("plain", lambda s, w: {"train_error": s["depth"] / 100 * w})),
        ("shortcuts-close-gap", kind("plain", lambda s, w: {"train_error": s["depth"] / 100 * w})),
        ("not-vanishing", kind("plain", lambda s, w: {"reach": 0.01 * w})),
        ("state-vanishes", kind("state", lambda s, w: {"logs": [0, -0.1 * w, 0]})),
        ("longer-memory", kind("state", lambda s, w: {"logs": [0, -0.1 * w * len(s["cell"]), 0]})),
        ("gates-remember", kind("memory", lambda s, w: {"test_error": 0.4 * w})),
    ],
)
def test_all_claims_can_fail(claim, change):
    assert judge(CLAIM[claim], world(change), "quick").word == "not reproduced"


def test_a_run_that_diverged_gives_no_verdict():
    wild = judge(CLAIM["plain-degrades"], world(kind("plain", lambda s, w: {"diverged": s["depth"] == 34})), "quick")
    assert (wild.word, wild.reason) == ("no verdict", "diverged")


def test_effects_by_hand():
    errors = {(18, False): 0.2, (34, False): 0.6, (18, True): 0.05, (34, True): 0.04}
    rows = Rows([{"depth": d, "residual": r, "train_error": e} for (d, r), e in errors.items()])
    assert plain_gap(rows) == pytest.approx(0.4)
    assert residual_gap(rows) == pytest.approx(-0.01)
    assert removed_gap(rows) == pytest.approx(0.41)
    assert per_layer(Rows([{"depths": [2, 5], "signals": [1.0, 16.0]}])) == pytest.approx(2)


def test_signals_against_a_plain_chain_rule():
    """A tanh network without biases, one layer at a time."""
    s = {"kind": "gradients", "data": "digits", "n": 9, "side": 14, "width": 6, "depths": [3], "arm": "tanh, Xavier",
         "seed": 5}  # fmt: skip
    found = run_gradients(s)
    X, y = tensors(learned(s, 1)[0])
    with seeded_globals(derive(5, "initial weights", 3)):
        net = deep_mlp(X.shape[1:], int(y.max()) + 1, 3, 6, **ARMS["tanh, Xavier"]).double()
    W = [m.weight.detach() for m in net.modules() if isinstance(m, torch.nn.Linear)]
    h = [X.double().flatten(1)]
    for w in W[:-1]:
        h.append(torch.tanh(h[-1] @ w.T))
    p = (h[-1] @ W[-1].T).softmax(1) - F.one_hot(y, len(W[-1]))
    g3 = p @ W[-1] / 9
    d3 = g3 * (1 - h[3] ** 2)
    g2 = d3 @ W[2]
    d2 = g2 * (1 - h[2] ** 2)
    g1 = d2 @ W[1]
    assert found["signals"][0] == pytest.approx(float(g1.norm() / g3.norm()), rel=1e-4)
    assert found["weights"][0] == pytest.approx(float((d2.T @ h[1]).norm() / (d3.T @ h[2]).norm()), rel=1e-4)


def test_batch_norm_explodes_at_the_rate_of_wide_networks():
    s = {"kind": "gradients", "data": "digits", "n": 200, "side": 14, "width": 128, "depths": [24],
         "arm": "ReLU, He, batch norm", "seed": 1}  # fmt: skip
    assert run_gradients(s)["signals"][0] ** (1 / 23) == pytest.approx(math.sqrt(math.pi / (math.pi - 1)), rel=0.03)


def test_sequences():
    x, y = remembered(50, 7, torch.Generator().manual_seed(0))
    assert x.shape == (50, 7, 2)
    assert torch.equal((x[:, 0, 0] > 0).long(), y)
    assert x[:, 0, 1].tolist() == [1.0] * 50
    assert not x[:, 1:, 1].any()


def test_errors_are_those_of_training_mode():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    X, y = 5 + torch.randn(20, 3), torch.arange(20) % 2
    logits = net[1]((X - X.mean(0)) / (X.var(0, correction=0) + 1e-5).sqrt()).detach()
    loss, error = counted(net, X, y)
    assert loss == pytest.approx(float(F.cross_entropy(logits, y)), rel=1e-5)
    assert error == float((logits.argmax(1) != y).double().mean())


@pytest.mark.parametrize("name", ["gradients", "deep", "plain", "state", "memory"])
def test_the_same_setting_gives_the_same_record(name):
    s = next(s for s in EXPERIMENT.settings("smoke") if s["kind"] == name)
    first = task(s)
    assert first == task(s) == json.loads(json.dumps(first, allow_nan=False))
    assert task({**s, "seed": 3}) != first
    assert not (first.keys() - {"diverged"}) & s.keys()


def test_a_rate_that_is_too_large_is_a_run_that_diverged():
    for name in ("deep", "plain"):
        s = next(s for s in EXPERIMENT.settings("smoke") if s["kind"] == name)
        assert task({**s, "lr": 1e30}) == {"diverged": True}


@pytest.mark.parametrize("odd", ["one feature", "repeated rows", "huge integers"])
def test_odd_data_of_a_user(tmp_path, odd):
    rng = np.random.default_rng(1)
    X = {"one feature": rng.random((60, 1)), "repeated rows": np.repeat(rng.random((6, 3)), 10, axis=0),
         "huge integers": rng.integers(-(10**9), 10**9, (60, 2))}[odd]  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(60) % 2)
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    settings = own.settings("smoke")
    assert {s["kind"] for s in settings} == {"gradients", "deep"}
    made = Rows([{**s, **own.task(s)} for s in settings], fields={name for s in settings for name in s})
    json.dumps(made.present, allow_nan=False)
    assert LESSON.figures(made)[0].rows


def test_images_of_a_user_have_convolutions():
    digits = load("digits")
    kept = [own_data(s, digits) for s in EXPERIMENT.settings("quick")]
    assert {s["kind"] for s in kept if s} == {"gradients", "deep", "plain"}
    assert all(("n_test" in s) == (s["kind"] == "plain") for s in kept if s)


def test_smoke(smoke_rows):
    rows = smoke_rows(EXPERIMENT.name)
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert all(verdict.cells for verdict in verdicts)


def test_figures_show_the_numbers_of_the_rows():
    rows = world()
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    at = {(r["arm"], r["depth"], r["seed"]): r["ratio"] for r in found["signals"].rows}
    assert at["ReLU, batch norm", 16, 21] == pytest.approx(1.2**15 * 1.01)
    plain = {(r["net"], r["layers"], r["seed"]): r["train_error"] for r in found["plain"].rows}
    assert plain["plain", "34 layers", 20] == pytest.approx(0.7)
    assert plain["with shortcuts", "34 layers", 20] == pytest.approx(0.05)
    assert {r["cell"] for r in found["state"].rows} == set(CELLS)
    assert {r["size"] for r in found["state"].rows if r["cell"] == "LSTM" and r["time"] == 32 and r["seed"] == 30} == {
        0.1
    }
    assert {r["steps_name"] for r in found["memory"].rows} == {"10 steps", f"{LONG} steps"}
    nothing = LESSON.figures(Rows([], missing=EXPERIMENT.settings("quick")))
    assert all(not exhibit.rows for exhibit in nothing)


def test_the_picture_has_every_layer():
    record = LESSON.demo(EXPERIMENT.settings("smoke")[0])
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(EXPERIMENT.settings("smoke")[0])
    (figure,) = LESSON.pictures(record)
    assert {r["layer"] for r in figure.rows} == set(range(1, 21))
    assert all(sizes[-1] == 1 for sizes in record["layers"].values())
    assert record["layers"]["sigmoid, Xavier"][0] < 1e-8 < record["layers"]["ReLU, He"][0]
    assert LESSON.pictures({}) == []
