"""The experiment `optimizers`: effects by hand, equal losses, plain reference code, verdicts, figures, a smoke run."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.lab import optimizer_runs
from truerisk.lab.experiments.optimizers import (
    ARMS,
    CLAIMS,
    EXPERIMENT,
    PACED,
    RATES,
    at_target,
    difference,
    error_above_median,
    order,
    ratio,
    saved_by_patience,
    slowdown,
    task,
)
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.optimizers import ADAPTIVE, LESSON, NAMES, VALLEY
from truerisk.lab.optimizer_runs import examples, run
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge
from truerisk.training.loop import DivergedError
from truerisk.training.optimizers import OPTIMIZERS

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {
    "data": "digits", "n": 80, "n_test": 60, "hidden": [16], "batch": 20, "check": 1, "every": 5, "most": 300,
    "arm": "plain", "noise": 0.0, "spread": 1, "target": 0.2, "optimizer": "momentum", "lr": 0.05, "pace": "tuned",
    "seed": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(**given):
    """Rows of the quick grid with the given numbers; L-BFGS has the fewest updates."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        wiggle = 1 + 0.02 * (7 * s["seed"] % 3)
        name, scaled = s["optimizer"], s["arm"] == "scaled"
        updates = {"l-bfgs": 10, "momentum": 300 if scaled else 60}.get(name, 100 if scaled else 50)
        updates = given.get("updates", {}).get(name, updates) * wiggle
        error = {"l-bfgs": 0.12, "momentum": 0.09}.get(name, 0.06 + 0.001 * list(NAMES).index(name))
        error = given.get("errors", {}).get(name, error) * wiggle + (0.02 if s["pace"] == "tuned" else 0.02 - SAVED)
        early = updates * (given.get("slow", 5) if s["arm"] == "random" else 0.5)
        record = {
            "levels": [0.1, s["target"]] if s["target"] < 0.1 else [0.1],
            "updates": [early, updates] if s["target"] < 0.1 else [early],
            "passes": [1.0, updates * given.get("work", 1) * (10 if name == "l-bfgs" else 1)],
            "test_errors": [0.5, error] if s["target"] < 0.1 else [0.9],
            "reached": given.get("reached", True),
            "sharpness": given.get("sharp", 0.03) * wiggle if name == "l-bfgs" else 0.01,
            "distance": 3.0,
            "initial_norm": 2.0,
            "diverged": False,
        }
        made.append({**s, **record})
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


SAVED = 0.01
SAME = dict.fromkeys(NAMES, 0.05)
RISING = {name: 10 * (k + 1) for k, name in enumerate(NAMES)}


def test_effects_by_hand():
    def one(name, updates, error, **more):
        return {
            "optimizer": name, "updates": [1, updates], "test_errors": [0.9, error], "levels": [0.1, 0.01],
            "passes": [0.1, 2 * updates], "sharpness": error, "reached": True, **more,
        }  # fmt: skip

    runs = Rows([one("a", 10, 0.09), one("b", 20, 0.05), one("c", 30, 0.06), one("d", 40, 0.08)])
    assert at_target(runs, "b", "updates") == 20
    assert error_above_median(runs) == pytest.approx(0.09 - 0.06)
    assert order(runs) == pytest.approx(1 - 6 * (9 + 1 + 1 + 1) / (4 * 15))
    assert ratio(runs, "passes", "b", "a") == pytest.approx(2)
    assert difference(runs, "a", "d") == pytest.approx(0.01)
    with pytest.raises(IncompleteError, match="no order"):
        order(Rows([one("a", 10, 0.05), one("b", 20, 0.05)]))
    paces = Rows([one("a", 10, 0.09, pace="tuned"), one("a", 99, 0.04, pace="slow")])
    assert saved_by_patience(paces) == pytest.approx(0.05)
    arms = Rows([one("a", 10, 0.1, arm="plain"), {**one("a", 9, 0.9, arm="random"), "updates": [7, 9]}])
    assert slowdown(arms) == 7
    with pytest.raises(IncompleteError, match="did not reach"):
        at_target(Rows([one("a", 10, 0.1, reached=False)]), "a", "updates")
    with pytest.raises(IncompleteError, match="was not reached"):
        slowdown(Rows([one("a", 10, 0.1, arm="plain"), {**one("a", 9, 0.9, arm="random"), "levels": [1.0]}]))


@pytest.mark.parametrize(
    ("claim", "given", "word"),
    [
        ("fewest-updates-scaled", {}, "reproduced"),
        ("fewest-updates-scaled", {"errors": SAME}, "not reproduced"),
        ("fewest-updates-scaled", {"reached": False}, "no verdict"),
        ("fewest-updates-plain", {}, "reproduced"),
        ("fewest-updates-plain", {"errors": {"l-bfgs": 0.01}}, "not reproduced"),
        ("no-order", {}, "reproduced"),
        ("no-order", {"updates": RISING, "errors": {name: k / 1000 for name, k in RISING.items()}}, "not reproduced"),
        ("slow-errs-less", {}, "reproduced"),
        ("wilson", {}, "not reproduced"),
        ("wilson", {"errors": {"adam": 0.2}}, "reproduced"),
        ("adam-scaled-error", {}, "reproduced"),
        ("adam-scaled-error", {"errors": SAME}, "not reproduced"),
        ("adam-plain", {}, "reproduced"),
        ("adam-plain", {"updates": {"adam": 500}}, "not reproduced"),
        ("adam-scaled", {}, "reproduced"),
        ("adam-scaled", {"updates": {"adam": 500}}, "not reproduced"),
        ("k-fac-scaled", {"updates": {"k-fac": 500}}, "not reproduced"),
        ("shampoo-scaled", {"updates": {"shampoo": 500}}, "not reproduced"),
        ("l-bfgs-work", {"updates": {"l-bfgs": 20}}, "no verdict"),
        ("l-bfgs-work", {"updates": {"l-bfgs": 90}}, "reproduced"),
        ("l-bfgs-work", {}, "not reproduced"),
        ("l-bfgs-sharpness", {}, "reproduced"),
        ("l-bfgs-sharpness", {"sharp": 0.01}, "not reproduced"),
        ("random-slower", {}, "reproduced"),
        ("random-slower", {"slow": 0.5}, "not reproduced"),
    ],
)
def test_verdicts(claim, given, word):
    assert judge(CLAIM[claim], world(**given), "quick").word == word


def test_every_optimizer_is_there():
    assert tuple(RATES) == tuple(NAMES) == OPTIMIZERS
    assert {s["optimizer"] for s in EXPERIMENT.settings("quick") if s["arm"] == "random"} == {*PACED, "l-bfgs"}
    for s in EXPERIMENT.settings("medium"):
        column = list(ARMS).index(s["arm"])
        tuned = RATES[s["optimizer"]][1][column]
        assert s["lr"] == pytest.approx(tuned if s["pace"] == "tuned" else tuned / 10)


@pytest.mark.parametrize("name", ["momentum", "l-bfgs", "k-fac", "shampoo"])
def test_a_task_repeats_itself_at_equal_loss(name):
    s = {**SMALL, "optimizer": name, "lr": {"l-bfgs": 1.0}.get(name, 0.05)}
    first = task(s)
    assert json.loads(json.dumps(first, allow_nan=False)) == task(s)
    assert not s.keys() & first.keys()
    assert first["reached"]
    assert first["levels"] == [1.0, 0.5, 0.2]
    assert first["loss"] == pytest.approx(0.2, rel=1e-3), "the loss is the target, not somewhere below it"
    assert first["updates"] == sorted(first["updates"])
    assert first["updates"] != task({**s, "seed": 4})["updates"]


def test_sgd_in_a_few_lines():
    """Updates until the loss is first below the target, and gradients of single examples, counted apart."""
    s = {**SMALL, "optimizer": "sgd", "lr": 0.3}
    train, _ = examples(s)
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    torch.manual_seed(optimizer_runs.derive(3, "weights"))
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    order_of = torch.Generator().manual_seed(optimizer_runs.derive(3, "batches"))
    updates, start = 0, torch.cat([p.detach().flatten() for p in net.parameters()])
    while True:
        for batch in torch.randperm(80, generator=order_of).split(20):
            for p, slope in zip(
                net.parameters(),
                torch.autograd.grad(nn.functional.cross_entropy(net(X[batch]), y[batch]), list(net.parameters())),
                strict=True,
            ):
                p.data -= 0.3 * slope
            updates += 1
            if float(nn.functional.cross_entropy(net(X), y).detach()) <= 0.2:
                break
        else:
            continue
        break
    record = task(s)
    assert record["updates"][-1] == updates
    assert record["passes"][-1] == pytest.approx(updates * 20 / 80)
    end = torch.cat([p.detach().flatten() for p in net.parameters()])
    assert record["initial_norm"] == pytest.approx(float(start.norm()), rel=1e-5)
    assert record["distance"] == pytest.approx(float((end - start).norm()), rel=0.05), "at most one update apart"


def test_scaled_features_keep_their_mean_square():
    plain, scaled = (examples({**SMALL, "spread": spread})[0].X for spread in (1, 100))
    assert np.square(plain).mean() == pytest.approx(1, rel=1e-5)
    assert np.square(scaled).mean() == pytest.approx(1, rel=1e-5)
    assert np.abs(plain.mean(axis=0)).max() < 1e-5
    used = plain.std(axis=0) > 1e-3
    factors = scaled.std(axis=0)[used] / plain.std(axis=0)[used]
    assert 20 < factors.max() / factors.min() <= 100.1
    noisy = examples({**SMALL, "noise": 1.0})[0]
    assert (noisy.y != examples(SMALL)[0].y).mean() > 0.7


def test_runs_that_do_not_arrive(monkeypatch):
    short = run({**SMALL, "most": 2})
    assert (short["reached"], short["diverged"], short["levels"]) == (False, False, [])
    assert run({**SMALL, "lr": 1e30}) == {"diverged": True}

    def diverge(*_):
        raise DivergedError("no")

    monkeypatch.setattr(optimizer_runs, "take_step", diverge)
    assert run(SMALL) == {"diverged": True}
    monkeypatch.setattr(optimizer_runs, "take_step", lambda *_: (0, 1))
    assert not run({**SMALL, "optimizer": "l-bfgs"})["reached"], "a converged L-BFGS ends the run"


def test_smoke(rows):
    assert {verdict.reason for verdict in EXPERIMENT.judge(rows, "smoke")} == {"smoke"}
    assert len(LESSON.figures(rows)) == 7
    assert all(not figure.rows for figure in LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))))


def test_figures_show_the_numbers_of_the_runs():
    hero, along, updates, work, pace, sharpness, distance = LESSON.figures(world())
    assert all(isinstance(figure, Figure) and figure.rows for figure in LESSON.figures(world()))
    mine = [r for r in hero.rows if r["family"] == "L-BFGS" and r["panel"].startswith("features scaled")]
    mean = math.exp(np.mean([math.log(10 * (1 + 0.02 * (7 * seed % 3))) for seed in range(20, 25)]))
    assert [r["at"] for r in mine] == [pytest.approx(mean)] * 5
    assert len({r["at"] for r in hero.rows if r["family"] == ADAPTIVE and r["panel"] == "plain features"}) == 5
    assert {r["level"] for r in along.rows} == {0.1, 0.01}
    assert {r["panel"] for r in updates.rows} == {"plain features", "features scaled by 1 to 100", "random labels"}
    assert max(r["work"] for r in work.rows if r["name"] == "L-BFGS") == pytest.approx(104)
    assert {r["rate"] for r in pace.rows} == {"fastest rate", "a tenth of it"}
    assert {r["travel"] for r in distance.rows} == {1.5}
    assert max(r["sharpness"] for r in sharpness.rows) == pytest.approx(0.03 * 1.04)


def test_pictures_walk_down_a_valley():
    setting = EXPERIMENT.settings("smoke")[0]
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(setting)
    (walks,) = LESSON.pictures(record)
    assert {row["name"] for row in walks.rows} == {NAMES[name] for name in VALLEY}
    heights = {name: [x * x / 2 + 50 * y * y for x, y in places] for name, places in record["walks"].items()}
    assert all(height[-1] < 0.6 * height[0] for height in heights.values())
    assert LESSON.pictures({}) == []


@pytest.mark.parametrize("kind", ["one feature, two classes", "repeated rows", "huge integers", "constant"])
def test_odd_data_of_a_user(tmp_path, kind):
    rng = np.random.default_rng(1)
    X = {"one feature, two classes": rng.random((60, 1)), "repeated rows": np.repeat(rng.random((6, 3)), 10, axis=0),
         "huge integers": rng.integers(-(10**9), 10**9, (60, 2)), "constant": np.ones((60, 2))}[kind]  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(60) % (2 if "two" in kind else 3))
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    chosen = [s for s in own.settings("smoke") if s["optimizer"] in ("adam", "k-fac", "l-bfgs", "shampoo")]
    found = Rows([{**s, **own.task({**s, "most": 10})} for s in chosen], fields=chosen[0])
    assert all(figure is not None for figure in LESSON.figures(found))
