"""The experiment `nonconvex`: effects by hand, verdicts, equal units against automatic gradients, figures, pictures."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from truerisk.data.toy import generate_toy
from truerisk.lab.effect import Above
from truerisk.lab.experiments.nonconvex import (
    CLAIMS,
    EXPERIMENT,
    FAR,
    NARROW,
    NOISE,
    WIDE,
    closed_form,
    descent_formula,
    far_over_near,
    fitted,
    never_leaves,
    share_at_minimum,
    sooner,
    spread,
    spread_ratio,
    task,
    units_sooner,
)
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.nonconvex import INDEPENDENT, LESSON, MEASURED
from truerisk.lab.nonconvex_pictures import BATCHES, DRAWN, SHOWN, STARTS, VALLEY
from truerisk.lab.nonconvex_runs import FAST, RATES, WAYS, train_equal
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge
from truerisk.nets.two_weights import example_points, two_weights
from truerisk.seeds import derive
from truerisk.training.paths import OPTIMIZERS, descent_leaves_after

CLAIM = {claim.name: claim for claim in CLAIMS}
SMOKE = EXPERIMENT.settings("smoke")
BY_KIND = {s["kind"]: s for s in SMOKE}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(**given):
    """Rows of the quick grid with the given numbers; seeds differ a little."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        wiggle = 1 + 0.004 * (7 * s["seed"] % 3)
        if s["kind"] == "surface":
            reached = [round(share * wiggle * s["starts"]) for share in (given.get("one", 0.375), 0.6, 0.85,
                                                                         given.get("eight", 0.976), 0.99)]  # fmt: skip
            record = {"product": 1.94866, "minimum": given.get("minimum", 0.20938), "plateau": 5.6855,
                      "foretold": s["starts"] - given.get("surprises", 0), "at_minimum": reached,
                      "elsewhere": [given.get("between", 0)] * 5}  # fmt: skip
        elif s["kind"] == "starts":
            wide = s["width"] == WIDE
            some = given.get("wide", 0.001) if wide else given.get("narrow", 0.2)
            record = {"losses": [0.1 * k for k in range(1, 17)], "first_loss": 2.3, "spread": some * wiggle,
                      "fitted": given.get("fit", 1.0) if wide else given.get("narrow_fit", 0.0), "train_error": 0.1,
                      "diverged": False}  # fmt: skip
        elif s["kind"] == "plane":
            steps = {name: [given.get(name, 50)] * 6 for name in (*OPTIMIZERS, FAST)}
            steps["gradient descent"] = [round(150 * wiggle)] * 6
            steps[FAST] = [given.get("fast", 20)] * 6
            steps["Adam"] = [20, 20, round(20 * wiggle * 10), 20, 20, given.get("adam", 210)]
            record = {"offsets_drawn": list(FAR), "left": steps,
                      "closed_form": [given.get("formula", round(150 * wiggle))] * 6}  # fmt: skip
        else:
            left = {"gradient descent": given.get("slow", 4000), "momentum": round(1000 * wiggle),
                    FAST: given.get("fast_units", 600), "SGD": None}  # fmt: skip
            apart = given.get("apart", 0.0) if s["noise"] == 0 else 0.5
            record = {"losses": {way: [0.5, 0.05] for way in WAYS}, "apart": {way: [apart, apart] for way in WAYS},
                      "largest": {way: given.get("moved", 0.0) for way in WAYS}, "left": left,
                      "at": [0, 100]}  # fmt: skip
        made.append({**s, **record})
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


def test_effects_by_hand():
    surface = Rows([{"units": [1, 8], "at_minimum": [30, 97], "starts": 100}])
    assert share_at_minimum(surface, units=8) == 0.97
    pair = Rows([{"width": NARROW, "spread": 0.2, "fitted": 0.1}, {"width": WIDE, "spread": 0.01, "fitted": 0.9}])
    assert spread(pair) == 0.01
    assert spread_ratio(pair) == 20
    assert (fitted(pair, width=NARROW), fitted(pair, width=WIDE)) == (0.1, 0.9)
    plane = Rows([{"offsets": [0.1, 1e-3, 1e-6], "left": {"a": [5, 60, 90], "b": [5, 20, 30]}}])
    assert sooner(plane, slow="a", quick_one="b") == 3
    assert far_over_near(plane, name="a") == 1.5
    units = {"steps": 6000, "left": {"a": 900, "b": 300, "c": None}}
    assert units_sooner(Rows([units]), slow="a", quick_one="b") == 3
    assert units_sooner(Rows([units]), slow="c", quick_one="b") == Above(20.0)
    with pytest.raises(IncompleteError, match="has not left the saddle"):
        units_sooner(Rows([units]), slow="a", quick_one="c")


@pytest.mark.parametrize(
    ("claim", "given", "word"),
    [
        ("closed-form", {}, "exact"),
        ("closed-form", {"surprises": 1}, "not reproduced"),
        ("closed-form", {"between": 1}, "not reproduced"),
        ("closed-form", {"minimum": 0.3}, "not reproduced"),
        ("three-eighths", {}, "reproduced"),
        ("three-eighths", {"one": 0.5}, "not reproduced"),
        ("three-eighths", {"one": 0.35}, "no verdict"),
        ("units-help", {}, "reproduced"),
        ("units-help", {"eight": 0.8}, "not reproduced"),
        ("similar-ends", {}, "reproduced"),
        ("similar-ends", {"wide": 0.3}, "not reproduced"),
        ("narrow-ends", {}, "reproduced"),
        ("narrow-ends", {"narrow": 0.002}, "not reproduced"),
        ("wide-fits", {}, "reproduced"),
        ("wide-fits", {"fit": 0.25}, "not reproduced"),
        ("narrow-fails", {}, "reproduced"),
        ("narrow-fails", {"narrow_fit": 1.0}, "not reproduced"),
        ("descent-formula", {}, "exact"),
        ("descent-formula", {"formula": 7}, "not reproduced"),
        ("momentum-leaves", {}, "reproduced"),
        ("momentum-leaves", {"momentum": 140}, "not reproduced"),
        ("adam-ignores-distance", {}, "reproduced"),
        ("adam-ignores-distance", {"adam": 900}, "not reproduced"),
        ("equal-units", {}, "exact"),
        ("equal-units", {"apart": 1e-17}, "not reproduced"),
        ("equal-units", {"moved": 1e-300}, "not reproduced"),
        ("units-momentum", {}, "reproduced"),
        ("units-momentum", {"slow": None}, "reproduced"),
        ("units-momentum", {"slow": 900}, "not reproduced"),
        ("units-rate", {}, "reproduced"),
        ("units-rate", {"fast_units": 3000}, "not reproduced"),
    ],
)
def test_verdicts(claim, given, word):
    assert judge(CLAIM[claim], world(**given), "quick").word == word


@pytest.mark.parametrize("fast", [20, 100])
def test_verdicts_on_a_larger_rate(fast):
    steps = [{**row, "left": {**row["left"], "momentum": [50 + row["seed"] % 3] * 6}} if row["kind"] == "plane" else row
             for row in world(fast=fast)]  # fmt: skip
    found = Rows(steps, fields={name for s in EXPERIMENT.settings("quick") for name in s})
    assert judge(CLAIM["rate-leaves"], found, "quick").word == ("reproduced" if fast == 20 else "not reproduced")


@pytest.mark.parametrize("kind", ["surface", "starts", "plane", "equal"])
def test_a_task_repeats_itself(kind):
    s = {**BY_KIND[kind], "seed": 3, "steps": 20}
    first = task(s)
    assert json.loads(json.dumps(first, allow_nan=False)) == task(s)
    assert not s.keys() & first.keys()
    assert len(json.dumps(first)) < 8000
    assert kind == "equal" or task({**s, "seed": 4}) != first


@pytest.mark.parametrize("way", WAYS)
def test_equal_units_against_automatic_gradients(way):
    """A few steps with torch's gradients and optimizer, from the same noisy units."""
    data = generate_toy("moons", 40, 7, noise=0.1)
    steps, seed = 30, 5
    losses, apart, largest = train_equal(data.X, data.y, "equal", 0.1, way, steps, seed)
    rate, momentum, batch = WAYS[way]
    rng, order = (np.random.default_rng(derive(seed, purpose)) for purpose in ("units", "order"))
    one = rng.normal(0.0, 1.0, (4, 1))
    one[-1] /= 8
    w = torch.tensor(np.repeat(one, 8, axis=1) + 0.1 * rng.normal(0.0, 1.0, (4, 8)), requires_grad=True)
    c = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    X, y = torch.from_numpy(data.X).double(), torch.from_numpy(data.y).double()

    def loss(rows):
        logits = torch.tanh(X[rows] @ w[:2] + w[2]) @ w[3] + c
        return F.binary_cross_entropy_with_logits(logits, y[rows])

    optimizer = torch.optim.SGD([w, c], lr=rate, momentum=momentum)
    found = []
    for step in range(steps + 1):
        if step % 10 == 0:
            found.append((float(loss(slice(None)).detach()), float((w.amax(1) - w.amin(1)).max().detach())))
        rows = slice(None) if batch is None else order.choice(40, batch, replace=False)
        optimizer.zero_grad()
        loss(rows).backward()
        optimizer.step()
    assert losses == pytest.approx([value for value, _ in found], rel=1e-9)
    assert apart == pytest.approx([gap for _, gap in found], rel=1e-9)
    assert largest == pytest.approx(float(w.abs().max().detach()), rel=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_equal_units_stay_equal_to_the_last_bit(way):
    data = generate_toy("moons", 50, 3, noise=0.1)
    losses, apart, largest = train_equal(data.X, data.y, "equal", 0.0, way, 400, 2)
    assert set(apart) == {0.0}
    assert losses[-1] < losses[0], "it learns all the same"
    assert largest > 0
    assert train_equal(data.X, data.y, "zero", 0.0, way, 400, 2)[1:] == ([0.0] * 41, 0.0)
    assert max(train_equal(data.X, data.y, "equal", 1e-12, way, 20, 2)[1]) > 0, "the claim can fail"


def test_exact_checks_by_hand():
    run = {"start": "equal", "ways": ["a"], "apart": {"a": [0.0, 0.0]}, "largest": {"a": 2.0}}
    zero = {**run, "start": "zero", "largest": {"a": 0.0}}
    assert never_leaves(Rows([run, zero])).holds
    assert not never_leaves(Rows([run, {**zero, "largest": {"a": 1e-9}}])).holds
    good = {"starts": 5, "foretold": 5, "elsewhere": [0], "n": 30, "product": 1.94866, "minimum": 0.20938,
            "plateau": 5.6855}  # fmt: skip
    assert closed_form(Rows([good])).holds
    assert not closed_form(Rows([{**good, "product": 2.0}])).holds
    assert descent_formula(Rows([{"left": {"gradient descent": [3, 4]}, "closed_form": [3, 4]}])).holds


def test_the_plane_knows_its_formula(rows):
    for run in rows.where(kind="plane"):
        assert run["closed_form"] == [
            descent_leaves_after(y, 1.0, RATES["gradient descent"]) for y in run["offsets_drawn"]
        ]
        assert set(run["left"]) == {*OPTIMIZERS, FAST}


def test_random_labels_are_random_and_true_ones_are_not():
    s = {**BY_KIND["starts"], "data": "digits", "epochs": 30, "width": 32, "seed": 1}
    true, drawn = task({**s, "labels": "true"}), task({**s, "labels": "random"})
    assert np.mean(true["losses"]) < 0.5 * np.mean(drawn["losses"])
    assert task({**s, "lr": 1e30}) == {"diverged": True}


def test_smoke(rows):
    assert {verdict.reason for verdict in EXPERIMENT.judge(rows, "smoke")} == {"smoke"}
    figures = LESSON.figures(rows)
    assert [figure.name for figure in figures] == ["fitted", "end-losses", "units", "steps", "equal", "apart"]
    assert all(isinstance(figure, Figure) and figure.rows for figure in figures)
    assert all(not figure.rows for figure in LESSON.figures(Rows([], missing=SMOKE)))


def test_figures_show_the_numbers_of_the_runs():
    share, ends, units, steps, equal, apart = LESSON.figures(world())
    assert {row["fitted"] for row in share.rows if row["width"] == WIDE} == {1.0}
    assert len(ends.rows) == 16 * 7 * 3, "all starts of one seed"
    measured = {row["count"]: row["share"] for row in units.rows if row["way"] == MEASURED and row["seed"] == 21}
    assert measured[1] == pytest.approx(0.375, abs=0.004)
    assert {row["share"] for row in units.rows if row["way"] == INDEPENDENT and row["count"] == 8} == {1 - 0.625**8}
    assert {row["far"] for row in steps.rows} == set(FAR)
    assert not any(row["optimizer"] == "Nesterov" for row in steps.rows)
    assert {row["panel"] for row in equal.rows} == {"hidden units exactly equal", f"noise of {NOISE:g} on the weights"}
    assert {row["apart"] for row in apart.rows} == {0.5}


def test_pictures():
    record = LESSON.demo({"seed": 1})
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo({"seed": 2}), "the points are the lecture's"
    hero, surface, stochastic, saddle = LESSON.pictures(record)
    net = two_weights(*example_points())
    loss, trails = hero.figures
    for row in [loss.rows[0], loss.rows[500], loss.rows[-1]]:
        assert row["loss"] == pytest.approx(float(net.loss(row["w1"], row["w2"])), rel=1e-3)
    valley = [row for row in trails.rows if row["path"] == VALLEY]
    assert all(row["w1"] * row["w2"] == pytest.approx(net.product, rel=1e-3) for row in valley)
    for name, start in STARTS.items():
        walk = record["descents"][name]
        end = float(net.loss(*walk[-1][1:]))
        assert walk[0] == [0, *start]
        assert ("arrives" in name) == bool(net.reaches_valley(*map(np.array, start))) == (end < 0.3)
    assert {row["step"] for row in trails.rows} == set(SHOWN)
    assert {row["batch"] for row in stochastic.rows} == set(BATCHES)
    assert len(surface.dots) == 25
    assert {row["optimizer"] for row in saddle.rows} == set(DRAWN)
    assert max(abs(row["y"]) for row in saddle.rows) <= 1.5
    assert LESSON.pictures({}) == []


@pytest.mark.parametrize("kind", ["one feature", "repeated rows", "huge integers", "zeros"])
def test_odd_data_of_a_user(tmp_path, kind):
    rng = np.random.default_rng(1)
    X = {"one feature": rng.random((60, 1)), "repeated rows": np.repeat(rng.random((6, 3)), 10, axis=0),
         "huge integers": rng.integers(-(10**9), 10**9, (60, 2)), "zeros": np.zeros((60, 2))}[kind]  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=np.arange(60) % 2)
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    settings = own.settings("smoke")
    assert {s["kind"] for s in settings} == {"starts"}
    found = Rows([{**s, **own.task(s)} for s in settings], fields={name for s in settings for name in s})
    figures = LESSON.figures(found)
    assert [figure.name for figure in figures] == ["fitted", "end-losses"]
    assert all(figure.rows for figure in figures)
