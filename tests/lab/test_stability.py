"""The experiment `stability`: its effects by hand, its verdicts, what the runs measure, odd data, and its page."""

import json
import math

import numpy as np
import pytest

from truerisk.bounds import needed_stability, sgd_convex, uniform_stability
from truerisk.data import Data, shuffle
from truerisk.errors import TrueriskError
from truerisk.lab.experiments.stability import CLAIMS, CONVEX, CONVEX_RATES, EXPERIMENT, RATES, own_data, task
from truerisk.lab.lessons.stability import BOUND, LESSON, MEASURED, NEEDED
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.twin_bounds import estimated, in_theorem, lipschitz, proven, smoothness
from truerisk.lab.twin_effects import DECAYS, RANDOM, at, convex_bound, halved_gap, same_length
from truerisk.lab.twin_runs import prepared
from truerisk.lab.verdict import judge
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {
    "arm": "network", "data": "digits", "n": 40, "n_test": 50, "twins": 4, "hidden": [8], "batch_size": 10,
    "radius": 8.0, "labels": "true", "rates": [0.04, 0.02], "decays": [0.0, 0.1], "epochs": 3, "seed": 0,
}  # fmt: skip
EPOCHS = [1, 2, 3, 5, 7, 10, 14, 20]


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def row(s, change):
    """A run in which everything is as claimed: distances and gaps grow with the sum of the steps."""
    wobble = 1 + 0.01 * ((7 * s["seed"] + s["n"]) % 5)
    watched = EPOCHS if s["epochs"] == 20 else [e for e in (*EPOCHS, 150) if e < s["epochs"]] + [s["epochs"]]
    length = np.outer(s["rates"], watched)
    random = s["labels"] == RANDOM
    reach = length / s["batch_size"]
    smaller = np.array([1 - 12 * decay if decay < 0.05 else 0.5 for decay in s["decays"]])[:, None]
    slope, early = lipschitz(s["radius"]), np.array([4.5, *[20.0] * (len(watched) - 1)])
    ce = slope * 2 * slope * reach / early if not s["hidden"] else length
    made = {
        "distance": (8 if random else 1) * length * wobble,
        "apart": 2 * slope * reach / 3 if not s["hidden"] else length,
        "reach": reach,
        "worst_ce": ce * wobble,
        "worst": np.full(length.shape, 0.9 * wobble) if s["hidden"] else 2 * slope * reach * slope / 4 / 9,
        "gap_ce": length**0.7 * smaller * wobble,
        "gap": np.full(length.shape, 0.8 if random else 0.1) * wobble,
        "by_twins": np.full(length.shape, 0.8 if random else 0.1),
        "train_loss": np.full(length.shape, 0.2),
        "train_error": 0 * length,
        "test_error": 0 * length + 0.1,
        "slope": 0 * length + 10,
        "smoothness": 0 * length + 2,
        "layers": np.full((len(s["rates"]), 3 if s["hidden"] else 2), 0.1),
    }
    made |= {name: np.asarray(values) for name, values in change(s, made).items()}
    return {**s, "epochs_watched": watched, **{name: v.tolist() for name, v in made.items()}, "diverged": False}


def world(change=lambda s, made: {}, scale="quick"):
    settings = EXPERIMENT.settings(scale)
    return Rows([row(s, change) for s in settings], fields={name for s in settings for name in s})


# ---- effects and verdicts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIM)
def test_all_claims_can_be_reproduced(claim):
    assert judge(CLAIM[claim], world(), "quick").word == ("exact" if claim == "convex-bound" else "reproduced")


def wobbling(s):
    return 1 + 0.01 * (s["seed"] % 4)


def powers(base, made):
    """1 for the first arm, a factor ``base`` more for each further one."""
    return base ** np.arange(len(made["gap_ce"]))[:, None]


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("distance-halves", lambda s, m: {"distance": m["distance"] ** 0.3}),
        ("gap-halves", lambda s, m: {"gap_ce": m["gap_ce"] ** 0.2 * wobbling(s)}),
        ("length-decides", lambda s, m: {"gap_ce": m["gap_ce"] * wobbling(s) * (np.array(s["rates"]) / 0.02)[:, None]}),
        ("decay-lowers-gap", lambda s, m: {"gap_ce": 0 * m["gap_ce"] + powers(wobbling(s), m)}),
        ("decay-keeps-distance", lambda s, m: {"distance": m["distance"] * powers(2 * wobbling(s), m)}),
        ("convex-bound", lambda s, m: {"apart": 10 * m["apart"]}),
        ("convex-bound", lambda s, m: {"worst": 10 * m["worst"]}),
        ("tight-early", lambda s, m: {"worst_ce": m["worst_ce"] / 2}),
        ("loose-late", lambda s, m: {"worst_ce": m["worst_ce"] * 4}),
        ("random-labels-less-stable", lambda s, m: {"distance": m["distance"] ** 0 + 0.1 * wobbling(s)}),
        ("twins-measure-gap", lambda s, m: {"by_twins": m["by_twins"] / 2}),
        ("no-uniform-bound", lambda s, m: {"worst": m["worst"] / 5}),
        ("too-unstable", lambda s, m: {"worst": m["worst"] / 1000}),
    ],
)  # fmt: skip
def test_all_claims_can_fail(claim, change):
    assert judge(CLAIM[claim], world(change), "quick").word == "not reproduced"


def test_no_verdict_where_a_gap_is_not_positive_or_a_run_diverged():
    negative = judge(CLAIM["gap-halves"], world(lambda s, m: {"gap_ce": -m["gap_ce"]}), "quick")
    assert (negative.word, negative.reason) == ("no verdict", "incomplete")
    for claim in ("distance-halves", "decay-keeps-distance", "random-labels-less-stable", "tight-early"):
        same = judge(CLAIM[claim], world(lambda s, m: dict.fromkeys(("distance", "worst_ce"), 0 * m["reach"])), "quick")
        assert (same.word, same.reason) == ("no verdict", "incomplete")  # all replaced examples are repeated rows
    wild = Rows([{**r, "diverged": r["seed"] == 21} for r in world()], fields=world().fields)
    assert judge(CLAIM["distance-halves"], wild, "quick").reason == "diverged"
    some = Rows(world().present[1:], missing=world().present[:1], fields=world().fields)
    assert judge(CLAIM["distance-halves"], some, "quick").word == "no verdict"


def test_effects_by_hand():
    gaps = [[8.0, 12.0, 20.0], [4.0, 9.0, 16.0], [2.0, 5.0, 10.0], [1.0, 2.0, 4.0]]
    run = {"rates": [0.08, 0.04, 0.02, 0.01], "epochs_watched": [5, 10, 20], "gap_ce": gaps, "diverged": False}
    assert halved_gap(Rows([run])) == {"0.04 to 0.02": 10 / 16, "0.02 to 0.01": 0.4}
    assert same_length(Rows([run])) == {"0.04 for 10 epochs": 10 / 9, "0.08 for 5 epochs": 10 / 8}
    with pytest.raises(IncompleteError, match=r"no rates 0\.5 after epoch 20"):
        at(run, "gap_ce", rates=0.5)
    with pytest.raises(IncompleteError, match="2 runs match"):
        halved_gap(Rows([run, run]))


# ---- what the theorems say -----------------------------------------------------------------------------------------


def test_constants_of_softmax_regression_hold_for_random_weights_and_are_nearly_reached():
    rng, radius = np.random.default_rng(0), 1.7
    most = {"slope": 0.0, "curvature": 0.0, "bounded": 0.0}
    for size in np.geomspace(0.01, 100, 60):
        for x in (rng.normal(size=4), rng.normal(size=4)):
            x = np.r_[x / np.linalg.norm(x) * radius, 1.0]
            scores = size * rng.normal(size=(3, 5)) @ x
            scores[2] -= 1e3 * (size > 1)  # two classes that compete
            p = np.exp(scores - scores.max())
            p /= p.sum()
            curvature = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1] * (x @ x)
            slopes = [np.linalg.norm(p - np.eye(3)[c]) * np.linalg.norm(x) for c in range(3)]
            most["slope"] = max(most["slope"], *slopes)
            most["bounded"] = max(most["bounded"], *(p[c] * slopes[c] for c in range(3)))
            most["curvature"] = max(most["curvature"], curvature)
    slope, beta = lipschitz(radius), smoothness(radius)
    assert 0.99 * slope < most["slope"] <= slope * (1 + 1e-12)
    assert 0.9 * beta < most["curvature"] <= beta * (1 + 1e-12)
    assert 0.9 * slope / 4 < most["bounded"] <= slope / 4 * (1 + 1e-12)


def test_the_proven_bound_of_a_run_is_that_of_the_library(rows):
    for run in rows.where(arm="softmax"):
        assert in_theorem(run)
        steps = run["epochs"] * run["n"] // run["batch_size"]
        for k, rate in enumerate(run["rates"]):
            wanted = sgd_convex([rate] * steps, lipschitz(run["radius"]), smoothness(run["radius"]), run["n"])
            assert proven(run)["worst_ce"][k, -1] == pytest.approx(wanted, rel=1e-5)
    assert not in_theorem({"radius": 1.0, "rates": [2.0], "decays": [0.1]})


def test_the_estimated_bound_is_the_best_start_of_the_recursion():
    run = {"n": 50, "batch_size": 5, "rates": [0.1], "epochs_watched": [1, 2], "slope": [[1.0, 3.0]],
           "smoothness": [[4.0, 2.0]]}  # fmt: skip
    for found, epochs, slope in zip(estimated(run, 0), (1, 2), (1.0, 3.0), strict=True):
        options = []
        for start in range(10 * epochs + 1):
            distance = 0.0
            for _ in range(10 * epochs - start):
                distance = 1.4 * distance + 2 * 0.1 * slope / 50
            options.append(min(1.0, start * 5 / 50) + slope * distance)
        assert found == pytest.approx(min(options), rel=1e-9)


def test_the_check_of_the_theorem_notices_steps_that_are_too_large():
    fine = [r for r in world() if r["arm"] in CONVEX]
    assert convex_bound(Rows(fine)).holds
    assert not convex_bound(Rows([{**fine[0], "rates": [9.0] * 5}])).holds


# ---- the task ------------------------------------------------------------------------------------------------------


def test_the_same_setting_gives_the_same_record():
    first = task(SMALL)
    assert first == task(SMALL) == json.loads(json.dumps(first, allow_nan=False))
    assert not SMALL.keys() & first.keys()
    assert np.shape(first["distance"]) == (2, 3)
    assert task({**SMALL, "seed": 1})["distance"] != first["distance"]
    assert task({**SMALL, "rates": [1e200, 1e200]}) == {"diverged": True}


def test_numbers_of_a_record_against_plain_loops():
    """Two networks trained one by one, on sets that differ in one example: losses counted example by example."""
    s = {**SMALL, "twins": 1, "rates": [0.04], "decays": [0.0], "hidden": []}
    sets, found = prepared(s), task(s)
    i = shuffle(40, derive(0, "positions"))[0]

    def fit(X, y):
        W, b = np.zeros((X.shape[1], 10)), np.zeros(10)
        for epoch in range(3):
            order = np.random.default_rng(derive(derive(0, "order"), "epoch", epoch)).permutation(40)
            for batch in np.array_split(order, 4):
                P = np.exp(X[batch] @ W + b)
                P /= P.sum(axis=1, keepdims=True)
                D = (P - np.eye(10)[y[batch]]) / 10
                W, b = W - 0.04 * X[batch].T @ D, b - 0.04 * D.sum(axis=0)
        return lambda x: np.exp(x @ W + b) / np.exp(x @ W + b).sum(axis=-1, keepdims=True)

    X, y = sets.X.copy(), sets.y.copy()
    X[i], y[i] = sets.X_new[0], sets.y_new[0]
    one, two = fit(sets.X, sets.y), fit(X, y)
    inputs = np.concatenate([sets.X_test, sets.X[i][None], sets.X_new])
    last = {
        name: values[0][-1] for name, values in found.items() if isinstance(values, list) and name != "epochs_watched"
    }
    assert last["worst"] == pytest.approx(np.abs(one(inputs) - two(inputs)).max(), rel=1e-5)
    assert last["worst_ce"] == pytest.approx(np.abs(np.log(one(inputs)) - np.log(two(inputs))).max(), rel=1e-5)
    new, old = one(sets.X_test)[np.arange(50), sets.y_test], one(sets.X)[np.arange(40), sets.y]
    assert last["gap"] == pytest.approx(old.mean() - new.mean(), rel=1e-4)
    assert last["gap_ce"] == pytest.approx(np.log(old).mean() - np.log(new).mean(), rel=1e-4)
    assert last["by_twins"] == pytest.approx(one(sets.X[i])[sets.y[i]] - two(sets.X[i])[sets.y[i]], rel=1e-4)
    assert last["train_error"] == pytest.approx(np.mean(one(sets.X).argmax(1) != sets.y), abs=1e-6)


@pytest.mark.parametrize("radius", [1.0, 8.0])
def test_inputs_lie_in_a_ball_whatever_the_training_set(radius):
    sets = prepared({**SMALL, "radius": radius})
    for X in (sets.X, sets.X_new, sets.X_test):
        assert np.linalg.norm(X, axis=1).max() <= radius * (1 + 1e-6)
    longer = prepared({**SMALL, "radius": radius, "twins": 9})
    np.testing.assert_array_equal(longer.X[:40], sets.X)  # the map of an input does not depend on the others
    assert (prepared({**SMALL, "labels": RANDOM}).y != sets.y).mean() > 0.6


# ---- a user's own data ---------------------------------------------------------------------------------------------


def tables():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    return {
        "integers": Data("integers", rng.integers(0, 9, (90, 4)), y, 2),
        "one feature": Data("one", rng.standard_normal((90, 1)), y, 2),
        "repeated rows": Data("repeated", np.repeat(np.eye(3), 30, axis=0), np.repeat([0, 1, 1], 30), 2),
        "huge": Data("huge", 1e30 * rng.standard_normal((90, 3)), y, 2),
        "all alike": Data("flat", np.ones((90, 3)), y, 2),
    }


@pytest.mark.parametrize("name", tables())
def test_odd_data_have_records_and_figures(name, tmp_path):
    data = tables()[name]
    np.savez(tmp_path / "mine.npz", X=data.X, y=data.y)
    made = []
    for s in EXPERIMENT.settings("smoke"):
        fitted = {**(own_data(s, data) or {**s, "n": 40}), "data": str(tmp_path / "mine.npz"), "n_test": 20}
        assert fitted["n"] + fitted["twins"] + fitted["n_test"] <= 90
        made.append({**fitted, **task({**fitted, "epochs": min(fitted["epochs"], 4)})})
    json.dumps(made, allow_nan=False)
    rows = Rows(made, fields=made[0])
    assert LESSON.figures(rows)
    assert convex_bound(rows.where(arm=CONVEX)).holds
    assert LESSON.pictures(LESSON.demo(made[0])) == []  # tables have no images


def test_own_data_has_the_sizes_that_there_are():
    few = Data("few", np.zeros((100, 2)), np.arange(100) % 2, 2)
    kept = [own_data(s, few) for s in EXPERIMENT.settings("quick")]
    assert {s["arm"] for s in kept if s} == {"network", "decay", "labels", "softmax", "softmax-decay"}
    assert {s["seed"] for s in kept if s} == {20, 21, 22}
    assert all(s["n"] + s["twins"] + s["n_test"] <= 100 for s in kept if s)
    with pytest.raises(TrueriskError, match="must have at least 60"):
        own_data(EXPERIMENT.settings("quick")[0], Data("tiny", np.zeros((30, 2)), np.arange(30) % 2, 2))


# ---- the page ------------------------------------------------------------------------------------------------------


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [verdict.claim.name for verdict in verdicts if not verdict.cells and not verdict.detail] == []
    assert convex_bound(rows.where(arm=CONVEX)).holds


def test_figures_show_the_numbers_of_the_rows():
    runs = world()
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(runs)}
    assert list(found) == [
        "distance", "gap", "length", "theorems", "labels", "identity", "needed", "decay", "layers", "numbers"
    ]  # fmt: skip
    net = next(r for r in runs if r["arm"] == "network" and r["seed"] == 27)
    at_rate = {(r["arm"], r["epoch"]): r["value"] for r in found["distance"].rows if r["seed"] == 27}
    assert at_rate[0.04, 10] == net["distance"][RATES.index(0.04)][EPOCHS.index(10)]
    shown = {(r["arm"], r["length"]) for r in found["length"].rows}
    assert (0.02, 0.02 * 20) in shown
    soft = next(r for r in runs if r["arm"] == "softmax" and r["seed"] == 21)
    cases = {(r["what"], r["epoch"]): r["value"] for r in found["theorems"].rows
             if r["seed"] == 21 and r["case"].startswith("softmax")}  # fmt: skip
    k = CONVEX_RATES.index(0.5)
    assert cases[MEASURED, 20] == soft["worst"][k][-1]
    assert cases[BOUND, 20] == pytest.approx(0.5 * 2.0 * 2 * soft["reach"][k][-1])  # L/4 = 1/2, 2 L = 4
    needs = {r["n"]: r["value"] for r in found["needed"].rows if r["who"] == NEEDED}
    assert needs == {n: needed_stability(0.0, n, 0.05) for n in (125, 250, 500, 1000)}
    decayed = {(r["decay"], r["of"]): r["value"] for r in found["decay"].rows if r["seed"] == 22}
    assert decayed["0.03", "gap in cross-entropy"] == pytest.approx(1 - 12 * DECAYS[-1])
    table = found["numbers"].rows
    assert [line[0] for line in table] == ["125", "250", "500", "1,000"]
    sizes = next(r for r in runs if r["arm"] == "softmax-sizes" and r["n"] == 1000)
    bound = uniform_stability(0.2, float(proven(sizes)["worst"][0, -1]), 1000, 0.05)
    assert float(table[-1][-1]) == math.ceil(1000 * bound) / 1000


def test_gaps():
    nothing = Rows([], missing=EXPERIMENT.settings("quick"))
    assert all(not exhibit.rows for exhibit in LESSON.figures(nothing))
    assert LESSON.pictures({}) == []
    wild = Rows([{**s, "diverged": True} for s in EXPERIMENT.settings("quick")])
    assert all(not exhibit.rows for exhibit in LESSON.figures(wild))


def test_pictures_show_what_matters_most_first():
    record = LESSON.demo(EXPERIMENT.settings("smoke")[0])
    json.dumps(record, allow_nan=False)
    (images,) = LESSON.pictures(record)
    most, least = ([tile.under.rsplit(" ", 3) for tile in strip.tiles] for strip in images.strips)

    def lost(words):
        return float(words[1]) - float(words[3].rstrip("%"))

    assert lost(most[0]) >= lost(most[-1]) >= max(map(lost, least))
    assert lost(most[0]) > 10
