"""The experiment `takeaways`: effects by hand, costs and shifts against plain code, verdicts, figures, a smoke run."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.lab.experiments.takeaways import (
    ADVICE,
    BASE,
    CLAIMS,
    EXPERIMENT,
    RECIPES,
    cost_ratio,
    gain,
    per_doubling,
    task,
    train_error,
)
from truerisk.lab.figure import Figure, Table
from truerisk.lab.lessons.takeaways import ALONE, CHANGES, DOUBLED, LESSON, NAMES
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.takeaway_runs import build, run, shifted
from truerisk.lab.verdict import judge
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {**BASE, "recipe": "baseline", "data": "digits", "n": 80, "n_test": 60, "width": 8, "epochs": 3, "seed": 3}
ERRORS = {
    "baseline": 0.5, "wide": 0.49, "narrow": 0.6, "deep": 0.9, "skips": 0.5, "scaled": 0.6, "robust": 0.5,
    "large-batches": 0.6, "small-batches": 0.5, "small-rate": 0.6, "anneal": 0.45, "stop": 0.49, "adam": 0.55,
    "decay": 0.5, "l2": 0.52, "longer": 0.5, "shift": 0.4, "augment": 0.3, "dropout": 0.45, "noise": 0.7,
}  # fmt: skip
COSTS = {"wide": 8.0, "stop": 0.5, "longer": 4.0, "augment": 4.0, "dropout": 4.0}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(trained=0.6, costs=COSTS, **errors):
    """Rows of the quick grid, in which each recipe has the given error."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        name, wiggle = s["recipe"], 0.0005 * (7 * s["seed"] % 3)
        record = {
            "test_error": {**ERRORS, **errors}[name] + wiggle * (1 + list(RECIPES).index(name) % 4),
            "train_error": trained + wiggle if name in ("narrow", "noise") else 0.1,
            "cost": 1000.0 * costs.get(name, 1.0) * (1 + wiggle if name == "stop" else 1),
            "epochs_used": 1,
            "diverged": False,
        }
        made.append({**s, **record})
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


def test_effects_by_hand():
    runs = Rows(
        [
            {"recipe": "baseline", "test_error": 0.5, "cost": 10.0, "train_error": 0.0},
            {"recipe": "augment", "test_error": 0.38, "cost": 80.0, "train_error": 0.1},
            {"recipe": "stop", "test_error": 0.52, "cost": 6.0, "train_error": 0.3},
        ]
    )
    assert gain(runs, "augment") == pytest.approx(0.12)
    assert per_doubling(runs, "augment") == pytest.approx(0.04), "eight times the cost are three doublings"
    assert gain(runs, "stop") == pytest.approx(-0.02)
    assert cost_ratio(runs, "stop") == pytest.approx(0.6)
    assert train_error(runs, "stop") == 0.3
    with pytest.raises(IncompleteError, match="nothing is doubled"):
        per_doubling(runs, "stop")


@pytest.mark.parametrize(
    ("claim", "given", "word"),
    [
        ("augment", {}, "reproduced"),
        ("augment", {"augment": 0.49}, "not reproduced"),
        ("augment", {"augment": 0.4595}, "no verdict"),
        ("augment", {"costs": {}}, "no verdict"),
        ("longer", {}, "reproduced"),
        ("longer", {"longer": 0.4}, "not reproduced"),
        ("dropout", {}, "reproduced"),
        ("dropout", {"dropout": 0.55}, "not reproduced"),
        ("wide", {}, "reproduced"),
        ("wide", {"wide": 0.55}, "not reproduced"),
        *((name, {}, "reproduced") for name in ("shift", "skips", "robust", "small-batches", "large-rate", "anneal")),
        *((name, {ADVICE[name][0]: 0.95}, "not reproduced") for name in ("shift", "skips", "robust", "anneal")),
        ("small-batches", {"small-batches": 0.6}, "not reproduced"),
        ("large-rate", {"small-rate": 0.5}, "not reproduced"),
        ("stop", {}, "reproduced"),
        ("stop", {"stop": 0.55}, "not reproduced"),
        ("stop-saves", {}, "reproduced"),
        ("stop-saves", {"costs": {}}, "not reproduced"),
        ("decay", {}, "reproduced"),
        ("decay", {"decay": 0.56}, "not reproduced"),
        ("decoupled", {}, "reproduced"),
        ("decoupled", {"l2": 0.4}, "not reproduced"),
        ("narrow-untrained", {}, "reproduced"),
        ("narrow-untrained", {"trained": 0.1}, "not reproduced"),
        ("noise-untrained", {}, "reproduced"),
        ("noise-untrained", {"trained": 0.1}, "not reproduced"),
    ],
)
def test_verdicts(claim, given, word):
    assert judge(CLAIM[claim], world(**given), "quick").word == word


def test_recipes_differ_from_their_controls_in_the_advice_alone():
    own = {name: {**BASE, **recipe} for name, recipe in RECIPES.items()}
    changed = {
        advice: {field for field in BASE if own[recipe][field] != own[control][field]}
        for advice, (recipe, control) in ADVICE.items()
    }
    assert changed["augment"] == {"shift", "epochs"}
    assert changed["decoupled"] == {"optimizer", "decay"}
    assert changed["skips"] == {"norm", "skip", "lr"}
    assert changed["stop"] == {"stop"}
    assert all(fields for fields in changed.values())
    assert {*ADVICE} == {*CHANGES} >= {*NAMES}


@pytest.mark.parametrize("recipe", ["baseline", "skips", "stop", "shift", "dropout", "decay", "robust"])
def test_a_task_repeats_itself(recipe):
    s = {**SMALL, **RECIPES[recipe], "recipe": recipe, "epochs": 3}
    first = task(s)
    assert json.loads(json.dumps(first, allow_nan=False)) == task(s)
    assert not s.keys() & first.keys()
    assert first != task({**s, "seed": 4})


def test_costs_layer_by_layer():
    """Six operations for each weight of a linear layer, example, and epoch; validation takes two more."""
    weights = 64 * 8 + 8 * 8 + 8 * 10
    assert run(SMALL)["cost"] == 6 * weights * 80 * 3
    assert run({**SMALL, "norm": True, "skip": True})["cost"] == 6 * weights * 80 * 3
    stopped = run({**SMALL, "stop": True})
    assert stopped["cost"] == stopped["epochs_used"] * weights * (6 * 64 + 2 * 16)


def test_early_stopping_waits_and_goes_back():
    """With a rate of nearly 0 the validation error never falls again: ten epochs of patience after the first."""
    record = run({**SMALL, "stop": True, "lr": 1e-12, "epochs": 50})
    assert record["epochs_used"] == 11


def test_sgd_with_annealing_in_a_few_lines():
    s = {**SMALL, "anneal": True, "lr": 0.5, "batch": 40}
    from truerisk.lab.samples import samples

    train, test = samples("digits", 80, 60, derive(3, "examples"))
    X, Z = (data.X.reshape(len(data), -1).astype(np.float64) for data in (train, test))
    X, Z = X - X.mean(axis=0), Z - X.mean(axis=0)
    X, Z = (torch.from_numpy((part / np.sqrt(np.square(X).mean())).astype(np.float32)) for part in (X, Z))
    torch.manual_seed(derive(3, "weights and noise"))
    net = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 10))
    y, step = torch.from_numpy(train.y), 0
    for _ in range(3):
        for batch in torch.randperm(80).split(40):
            slopes = torch.autograd.grad(nn.functional.cross_entropy(net(X[batch]), y[batch]), list(net.parameters()))
            for p, slope in zip(net.parameters(), slopes, strict=True):
                p.data -= 0.25 * (1 + math.cos(math.pi * step / 6)) * slope
            step += 1
    error = float((net(Z).argmax(1).numpy() != test.y).mean())
    assert run(s)["test_error"] == pytest.approx(error, abs=1.5 / 60), "rounding may move an example"


def test_blocks_and_shifts():
    net = build({**BASE, "width": 6, "depth": 3, "skip": True}, 4, 2).eval()
    x = torch.randn(5, 4)
    first, second, third, last = net
    hidden = torch.relu(first.inside[0](x))
    for block in (second, third):
        hidden = hidden + torch.relu(block.inside[0](hidden))
    assert torch.allclose(net(x), last(hidden)), "the first layer changes the width, so it has no skip"
    assert any(isinstance(m, nn.BatchNorm1d) for m in build({**BASE, "norm": True}, 4, 2).modules())
    line = torch.arange(7.0).expand(50, -1)
    moved = shifted(line, 2, (7,))
    assert {tuple(row.tolist()) for row in moved} == {tuple(np.roll(np.arange(7.0), by)) for by in range(-2, 3)}
    image = torch.arange(25.0).reshape(1, -1)
    assert shifted(image, 1, (1, 5, 5)).shape == (1, 25)
    assert shifted(image, 0, (1, 5, 5)) is image


def test_smoke(rows):
    assert {verdict.reason for verdict in EXPERIMENT.judge(rows, "smoke")} == {"smoke"}
    hero, table, stuck, everything = LESSON.figures(rows)
    assert isinstance(table, Table)
    assert all(isinstance(figure, Figure) for figure in (hero, stuck, everything))
    gone = LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke")))
    assert not any(figure.rows for figure in gone)


def test_figures_show_the_numbers_of_the_runs():
    hero, table, stuck, everything = LESSON.figures(world())
    value = {(r["name"], r["seed"]): (r["value"], r["kind"]) for r in hero.rows}
    run_of = {(r["recipe"], r["seed"]): r["test_error"] for r in world()}
    for seed in range(20, 25):
        fall = run_of["baseline", seed] - run_of["augment", seed]
        assert value[NAMES["augment"], seed] == (pytest.approx(fall / 2), DOUBLED)
        assert value[NAMES["shift"], seed][1] == value[NAMES["stop"], seed][1] == ALONE
    assert len({name for name, _ in value}) == len(NAMES)
    longer = next(line for line in table.rows if line[0] == CHANGES["longer"])
    assert longer[-1] == "4"
    assert "to" in longer[3]
    assert {r["name"] for r in stuck.rows} == {"baseline", "8 units", "80% dropout", "8 layers", "8 layers, skips"}
    assert len({r["at"] for r in everything.rows}) == len(RECIPES) - 5, "scaled features and what does not train is out"


def test_pictures_show_shifts():
    setting = EXPERIMENT.settings("smoke")[0]
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(setting)
    (picture,) = LESSON.pictures(record)
    assert len(picture.strips[0].tiles) == 4
    signals = {"signals": [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]}
    assert len(LESSON.pictures(signals)[0].rows) == 8
    assert LESSON.pictures({}) == []


@pytest.mark.parametrize("kind", ["one feature, two classes", "repeated rows", "huge integers", "constant"])
def test_odd_data_of_a_user(tmp_path, kind):
    rng = np.random.default_rng(1)
    X = {"one feature, two classes": rng.random((60, 1)), "repeated rows": np.repeat(rng.random((6, 3)), 10, axis=0),
         "huge integers": rng.integers(-(10**9), 10**9, (60, 2)), "constant": np.ones((60, 2))}[kind]  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(60) % (2 if "two" in kind else 3))
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    settings = own.settings("smoke")
    assert not any(s["shift"] for s in settings), "a table has no shifts"
    found = Rows([{**s, **own.task(s)} for s in settings], fields=settings[0])
    assert LESSON.figures(found)[0].rows
    assert LESSON.pictures(LESSON.demo(settings[0]))
