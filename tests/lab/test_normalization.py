"""The experiment `normalization`: effects by hand, verdicts, odd data, a smoke run, and its page."""

import json
import math

import numpy as np
import pytest
import torch

from truerisk.data import load
from truerisk.errors import TrueriskError
from truerisk.lab.experiments.normalization import (
    BATCH,
    CLAIMS,
    DATA,
    EXPERIMENT,
    GROUP,
    LAYER,
    NONE,
    SCALED,
    SCALES,
    STANDARDIZED,
    best,
    error_gap,
    loss_ratio,
    own_data,
    rise,
    spread,
    task,
)
from truerisk.lab.lessons.normalization import LESSON
from truerisk.lab.normalization_runs import KINDS, build, counted
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}
LOSS = {**dict.fromkeys(KINDS, 0.2), BATCH: 0.05, DATA: 0.1, STANDARDIZED: 0.05}
ERROR = {**dict.fromkeys(KINDS, 0.08), BATCH: 0.03, SCALED: 0.035, LAYER: 0.06}


def row(s, **changed):
    wobble = 1 + 0.01 * (s["seed"] % 5)
    own = wobble ** (1 + len(s["norm"]) / 10)
    test = ERROR[s["norm"]] * own
    if s["net"] == "transformer":
        test = (0.05 if s["norm"] == LAYER else 0.09) * own
    train = 0.01 * own
    if s["kind"] == "scales":
        train = (0.9 if s["norm"] == NONE and s["scale"] != 1 else 0.05 * s["scale"] ** 0.5) * own
    if s["kind"] == "batches":
        test = {2: 0.2, 4: 0.15, 32: 0.05}[s["batch"]] * own if s["norm"] == BATCH else 0.08 * own
    loss = LOSS[s["norm"]] * own * (2 if s["lr"] == 0.05 else 1)
    made = {"loss": loss, "lost": False, "train_error": min(train, 0.95), "test_error": test, "batch_error": test,
            "path": [2.0, 1.0, 0.5]}  # fmt: skip
    return {**s, **made, **changed}


def world(change=lambda s: {}, scale="quick"):
    settings = EXPERIMENT.settings(scale)
    return Rows([row(s, **change(s)) for s in settings], fields={name for s in settings for name in s})


@pytest.mark.parametrize("claim", CLAIM)
def test_all_claims_can_be_reproduced(claim):
    assert judge(CLAIM[claim], world(), "quick").word == "reproduced"


def swapped(field, norm, size):
    return lambda s: {field: size * (1 + s["seed"] / 500)} if s["norm"] == norm else {}


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("scale-matters", lambda s: {"train_error": 0.1 + s["seed"] / 1000 * (s["scale"] > 1)}),
        ("batch-norm-steadier", lambda s: {"train_error": (0.1 if s["scale"] == 1 else 0.9) - s["seed"] / 2000}),
        ("batch-norm-faster", swapped("loss", BATCH, 0.9)),
        ("layer-norm-convolutions", swapped("test_error", BATCH, 0.3)),
        ("layer-norm-transformers", swapped("test_error", LAYER, 0.3)),
        ("batch-norm-transformers", swapped("test_error", LAYER, 0.3)),
        ("tiny-batches-hurt", lambda s: {"test_error": 0.1 + (s["batch"] > 2) * (0.1 + s["seed"] / 1000)}),
        ("group-norm-at-two", swapped("test_error", GROUP, 0.4)),
        ("group-norm-at-four", swapped("test_error", GROUP, 0.4)),
        ("data-start", swapped("loss", DATA, 0.9)),
        ("standardization-helps", swapped("loss", STANDARDIZED, 0.9)),
        ("no-activations-needed", swapped("test_error", SCALED, 0.3)),
    ],
)
def test_all_claims_can_fail(claim, change):
    assert judge(CLAIM[claim], world(change), "quick").word == "not reproduced"


def test_no_verdict_where_seeds_disagree():
    wild = world(lambda s: {"loss": 0.05 * 4 ** (s["seed"] % 3 - 1) * 4} if s["norm"] == BATCH else {})
    assert judge(CLAIM["batch-norm-faster"], wild, "quick").word == "no verdict"


def test_effects_by_hand():
    base = {"net": "convolutional", "norm": BATCH, "lr": 0.05, "loss": 0.5, "test_error": 0.2}
    rows = Rows([base, {**base, "lr": 0.2, "loss": 0.1, "test_error": 0.3}, {**base, "norm": NONE, "loss": 0.4,
                                                                            "test_error": 0.35}])  # fmt: skip
    assert best(rows, BATCH)["lr"] == 0.2  # by training loss, not by test error
    assert loss_ratio(rows, BATCH, NONE) == pytest.approx(4)
    assert error_gap(rows, BATCH, NONE) == pytest.approx(0.05)
    some = Rows([{"norm": NONE, "train_error": error} for error in (0.1, 0.9, 0.3)])
    assert spread(some, NONE) == pytest.approx(0.8)
    sizes = Rows([{"norm": BATCH, "batch": b, "test_error": e} for b, e in ((2, 0.3), (4, 0.1), (32, 0.2))])
    assert rise(sizes) == pytest.approx(0.2)


@pytest.mark.parametrize("norm", [BATCH, LAYER, GROUP, DATA, STANDARDIZED, SCALED])
def test_norms_start_as_the_same_function_at_every_scale(norm):
    torch.manual_seed(0)
    X = torch.randn(50, 1, 8, 8)
    s = {"net": "convolutional", "norm": norm, "width": 8, "seed": 1}
    outs = [build({**s, "scale": scale}, (1, 8, 8), 10, X).train()(X).detach() for scale in (1.0, 4.0)]
    torch.testing.assert_close(*outs, atol=0.02, rtol=0.05)  # up to the eps of norms
    plain = [build({**s, "norm": NONE, "scale": a}, (1, 8, 8), 10, X)(X).detach() for a in (1.0, 4.0)]
    assert float(plain[1].norm() / plain[0].norm()) == pytest.approx(4**4, rel=1e-3)


def test_outputs_that_are_not_numbers_are_errors():
    net = torch.nn.Linear(2, 2)
    X = torch.tensor([[math.nan, 1.0], [1.0, 1.0]])
    with torch.no_grad():
        net.weight.copy_(torch.eye(2))
        net.bias.copy_(torch.tensor([1.0, 0.0]))
    assert counted(net, X, torch.tensor([0, 0]))[1] == 0.5


@pytest.mark.parametrize("net", ["convolutional", "transformer"])
def test_the_same_setting_gives_the_same_record(net):
    s = next(s for s in EXPERIMENT.settings("smoke") if s["net"] == net and s["norm"] == BATCH)
    first = task(s)
    assert first == task(s) == json.loads(json.dumps(first, allow_nan=False))
    assert not first.keys() & s.keys()
    assert task({**s, "seed": 3}) != first


def test_a_network_that_breaks_has_a_record():
    s = {**EXPERIMENT.settings("smoke")[0], "norm": NONE, "lr": 1e30}
    found = task(s)
    assert found["lost"]
    assert found["loss"] == pytest.approx(math.log(10))
    json.dumps(found, allow_nan=False)


def test_own_data_are_images(tmp_path):
    settings = EXPERIMENT.settings("quick")
    digits = load("digits")
    kept = [s for s in (own_data(s, digits) for s in settings) if s]
    assert {s["seed"] for s in kept} == {20, 21, 22}
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "table.npz", X=rng.random((60, 3)), y=np.arange(60) % 2)
    with pytest.raises(TrueriskError, match="no run that makes sense"):
        on_own_data(EXPERIMENT, "smoke", str(tmp_path / "table.npz"))
    np.savez(tmp_path / "color.npz", X=rng.random((60, 3, 9, 12)).astype(np.float32), y=np.arange(60) % 2)
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "color.npz"))
    some = [
        s
        for s in own.settings("smoke")
        if s["kind"] == "rates" and s["lr"] in (0.05, 0.005) and s["norm"] in (BATCH, DATA)
    ]
    made = Rows([{**s, **own.task(s)} for s in some], fields=some[0])
    assert all(exhibit.title for exhibit in LESSON.figures(made))


def test_smoke(smoke_rows):
    rows = smoke_rows(EXPERIMENT.name)
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert all(verdict.cells for verdict in verdicts)


def test_figures_show_the_numbers_of_the_rows():
    rows = world()
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    assert {(r["norm"], r["scale"]) for r in found["scales"].rows} == {(n, s) for n in (NONE, BATCH) for s in SCALES}
    assert {r["lr"] for r in found["families"].rows} == {0.2}  # the smaller loss
    assert len(found["families"].rows) == 5 * len(KINDS)
    bars = {(r["net"], r["norm"], r["seed"]): r["test_error"] for r in found["architectures"].rows}
    assert bars["transformer", LAYER, 20] == pytest.approx(0.05)
    assert len(found["batches"].rows) == 30
    nothing = LESSON.figures(Rows([], missing=EXPERIMENT.settings("quick")))
    assert all(not exhibit.rows for exhibit in nothing)


def test_the_picture_shows_what_a_norm_holds():
    record = LESSON.demo(EXPERIMENT.settings("smoke")[0])
    spread_of = {norm: {s: float(np.std(v)) for s, v in scales.items()} for norm, scales in record["outputs"].items()}
    assert spread_of[NONE]["4.0"] > 50 * spread_of[NONE]["1.0"]
    for norm in (BATCH, DATA):
        assert spread_of[norm]["4.0"] == pytest.approx(spread_of[norm]["0.25"], rel=0.1)
    (figure,) = LESSON.pictures(record)
    assert {r["scale"] for r in figure.rows} == {0.25, 1.0, 4.0}
    assert LESSON.pictures({}) == []
