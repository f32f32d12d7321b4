"""The experiment `mystery`: effects by hand, verdicts, training against a plain loop, odd data, its page."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from truerisk.data import load
from truerisk.errors import TrueriskError
from truerisk.lab import mystery_runs
from truerisk.lab.experiments.mystery import (
    CLAIMS,
    EXPERIMENT,
    LOOKS,
    MEASURED,
    STOPPING,
    agreement,
    effect,
    own_data,
    task,
)
from truerisk.lab.figure import Table
from truerisk.lab.lessons.mystery import LESSON, SUSPECTS
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}
HOW = {"data": "digits", "n": 64, "n_valid": 30, "n_test": 100, "seed": 3, "steps": {"small": 40, "large": 40}}
HOW |= {"activation": "relu", "depth": 2, "width": 16, "batches": "small", "start": 1.0, "norm": "none"}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def row(s, moves):
    """A run whose gap is 20 points, plus half of each factor's move at its level; the bound follows the gap."""
    wobble = 0.001 * ((5 * s["seed"] + sum(s["signs"].values())) % 3)
    made = {"diverged": False, "rate": 0.1, "path": {}}
    for name, sign in LOOKS.items():
        signs = {**s["signs"], STOPPING: sign}
        gap = 0.2 + 0.0004 * (s["seed"] % 3) * signs["start"] + sum(move * signs[f] / 2 for f, move in moves.items())
        logs = {own: 3 * gap + wobble for own in MEASURED if own not in ("bound", "parameters")}
        logs["parameters"] = 5.0 - 3 * gap
        made[name] = {"train_error": 0.0, "test_error": gap, "gap": gap, "bound": math.exp(gap), "logs": logs}
    return {**s, **made}


def world(scale="quick", **moves):
    settings = EXPERIMENT.settings(scale)
    return Rows([row(s, moves) for s in settings], fields={name for s in settings for name in s})


# ---- effects and verdicts ------------------------------------------------------------------------------------------


def test_an_effect_is_found_whatever_the_others_do():
    made = world("medium", depth=-0.03, start=0.05, stopping=-0.02).where(seed=21)
    found = {name: effect(made, name, "gap") for name in SUSPECTS}
    wanted = dict.fromkeys(SUSPECTS, 0.0) | {"depth": -0.03, "start": 0.05, "stopping": -0.02}
    assert found == pytest.approx(wanted, abs=2e-3)
    assert effect(made, "depth", "bound") == pytest.approx(-0.03, abs=2e-3)


@pytest.mark.parametrize(
    ("move", "word"), [(-0.02, "reproduced"), (0.02, "not reproduced"), (0.0, "not reproduced"), (-0.01, "no verdict")]
)
def test_verdicts(move, word):
    assert judge(CLAIM["gap-start"], world(start=move), "quick").word == word


def test_measures_follow_the_gap_or_do_not():
    made = world(start=-0.03, width=-0.02, activation=0.01)
    for name in ("certificate-follows", "sharpness-follows", "curvature-follows", "norms-follow", "counting-fails"):
        assert judge(CLAIM[name], made, "quick").word != "not reproduced"
    assert agreement(made.where(seed=20), "parameters") < 0
    for one in made:
        for look in LOOKS:
            one[look]["bound"] = math.exp(1 - one[look]["gap"])
    assert judge(CLAIM["certificate-follows"], made, "quick").word == "not reproduced"


def test_depth_says_nothing_at_quick_scale():
    with pytest.raises(IncompleteError, match="depth does not change"):
        effect(world(), "depth", "gap")
    assert "gap-depth" not in {claim.name for claim in EXPERIMENT.speaking("quick")}


def test_a_measure_without_value_gives_no_number():
    made = world().where(seed=20)
    made.present[0]["end"]["logs"]["hessian-trace"] = None
    with pytest.raises(IncompleteError, match="trace of the Hessian has no value"):
        effect(made, "start", "hessian-trace")
    for one in made:
        one["end"]["logs"]["parameters"] = 1.0
    with pytest.raises(IncompleteError, match="the same for all networks"):
        agreement(made, "parameters")


# ---- one run -------------------------------------------------------------------------------------------------------


def plain(setting, stable):
    """A plain loop: the same batches, momentum, and falling rate; the weights at the end."""
    train, _, _ = mystery_runs.examples(setting)
    network = mystery_runs.build(setting, train)
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    steps, moves = 40, [torch.zeros_like(p) for p in network.parameters()]
    order = mystery_runs.batches(len(train), 16, mystery_runs.derive(setting["seed"], "batches"))
    for i in range(steps):
        rows = next(order)
        slopes = torch.autograd.grad(F.cross_entropy(network(X[rows]), y[rows]), list(network.parameters()))
        rate = stable / 16 * min(1.0, 2 * (1 - i / steps))
        with torch.no_grad():
            for weight, move, slope in zip(network.parameters(), moves, slopes, strict=True):
                move.mul_(0.9).add_(slope)
                weight -= rate * move
    return network


def test_training_is_what_it_says(monkeypatch):
    monkeypatch.setattr(mystery_runs, "TARGET", -1.0)  # to the last step
    train, valid, _ = mystery_runs.examples(HOW)
    ends, path = mystery_runs.trained(mystery_runs.build(HOW, train), HOW, train, valid, 0.5)
    for mine, theirs in zip(ends["end"].parameters(), plain(HOW, 0.5).parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)
    assert path["step"] == list(range(1, 41))
    errors = ends["stopped"](torch.from_numpy(valid.X)).argmax(1).numpy() != valid.y
    assert float(np.mean(errors)) == min(path["valid"])


def test_training_ends_at_the_target_loss(monkeypatch):
    train, valid, _ = mystery_runs.examples(HOW)
    monkeypatch.setattr(mystery_runs, "TARGET", 2.0)
    _, path = mystery_runs.trained(mystery_runs.build(HOW, train), HOW, train, valid, 1.0)
    assert path["loss"][-1] <= 2.0
    assert all(loss > 2.0 for loss in path["loss"][:-1])


def test_the_stable_rate_is_the_largest_that_does_not_raise_the_loss():
    train, _, _ = mystery_runs.examples(HOW)
    network = mystery_runs.build({**HOW, "start": 3.0}, train)
    found = mystery_runs.stable_rate(network, train, 7)
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)

    def rises(rate):
        net = mystery_runs.build({**HOW, "start": 3.0}, train)
        optimizer, losses = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9), []
        for rows in itertools.islice(mystery_runs.batches(len(train), 256, 7), 12):
            loss = F.cross_entropy(net(X[rows]), y[rows])
            losses.append(float(loss.detach()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return not np.isfinite(losses).all() or max(losses[1:]) > losses[0]

    assert not rises(found)
    assert found == 1.0 or rises(2 * found)


def test_examples_are_disjoint_and_batches_are_whole():
    train, valid, test = mystery_runs.examples(HOW)
    everything = np.concatenate([part.X.reshape(len(part), -1) for part in (train, valid, test)])
    assert (len(train), len(valid), len(test)) == (64, 30, 100)
    assert len(np.unique(everything, axis=0)) == len(everything)
    some = list(itertools.islice(mystery_runs.batches(10, 4, 0), 4))
    assert [len(rows) for rows in some] == [4, 4, 4, 4]
    assert len(set(torch.cat(some[:2]).tolist())) == 8
    assert len(next(mystery_runs.batches(3, 16, 0))) == 3


def test_initial_weights_scale_with_start():
    train, _, _ = mystery_runs.examples(HOW)
    small, large = (mystery_runs.build({**HOW, "start": start}, train) for start in (1.0, 2.0))
    for a, b in zip(small.parameters(), large.parameters(), strict=True):
        assert torch.equal(2 * a, b)
    wide = mystery_runs.build({**HOW, "width": 4096, "activation": "tanh"}, train)
    assert float(wide[1].weight.detach().var()) == pytest.approx(1 / 64, rel=0.02)  # sd of the ratio: 0.3%


def test_the_bound_is_the_best_of_both_noises(monkeypatch):
    train, _, _ = mystery_runs.examples(HOW)
    network = mystery_runs.build(HOW, train).eval()
    both = mystery_runs.bound(network, train)
    single = []
    for sigma in mystery_runs.SIGMAS:  # each keeps its half of delta
        monkeypatch.setattr(mystery_runs, "SIGMAS", (sigma,))
        monkeypatch.setattr(mystery_runs, "DELTA", 0.025)
        single.append(mystery_runs.bound(network, train))
    assert both == min(single)


def test_the_same_setting_gives_the_same_record(rows):
    setting = EXPERIMENT.settings("smoke")[0]
    record = task(setting)
    assert record == {name: rows.present[0][name] for name in record}
    assert not record["diverged"]
    assert record["stopped"]["logs"].keys() == {*mystery_runs.MEASURES}


@pytest.mark.parametrize("classes", [2, 3])
def test_odd_data(classes, tmp_path):
    """Integers, few examples, one feature."""
    generator = np.random.default_rng(0)
    path = str(tmp_path / "odd.npz")
    np.savez(path, X=generator.integers(0, 50, (40, 1)), y=np.arange(40) % classes)
    data = load(path)
    setting = own_data({**HOW, "n": 500, "n_valid": 250, "n_test": 100}, data)
    assert setting["n"] + setting["n_valid"] + setting["n_test"] <= 40
    assert setting["n_valid"] >= 6
    record = task({**setting, "data": path})
    assert 0 <= record["end"]["test_error"] <= 1


# ---- the page ------------------------------------------------------------------------------------------------------


def test_figures_show_the_effects():
    made = world("medium", start=-0.03)
    gap, _errors, certificate, networks, table = LESSON.figures(made)
    shown = [one["effect"] for one in gap.rows if one["suspect"] == SUSPECTS["start"]]
    assert shown == pytest.approx([effect(made.where(seed=s), "start", "gap") for s in (20, 21, 22)])
    moved = [one["effect"] for one in certificate.rows if one["suspect"] == SUSPECTS["start"]]
    assert moved == pytest.approx([math.exp(value) for value in shown])
    assert len(networks.rows) == len(made)
    assert isinstance(table, Table)
    assert [line[0] for line in table.rows] == list(SUSPECTS.values())


def test_missing_and_diverged_runs_show_nothing_false():
    whole = world()
    gone = Rows(whole.present[1:], whole.present[:1], whole.fields)
    seeds = {one["seed"] for one in LESSON.figures(gone)[0].rows}
    assert seeds == {21, 22, 23, 24}
    assert judge(CLAIM["gap-start"], gone, "quick").word == "no verdict"
    wild = Rows([{**one, "diverged": True} for one in whole], fields=whole.fields)
    assert LESSON.figures(wild) == []
    with pytest.raises(TrueriskError, match="diverged"):
        effect(wild.where(seed=20), "start", "gap")
