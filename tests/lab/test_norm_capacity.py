"""The experiment `norm-capacity`: its effects by hand, its verdicts, odd data, a smoke run, and its page."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from truerisk.data import Data, load
from truerisk.errors import TrueriskError
from truerisk.lab.experiments.norm_capacity import (
    CLAIMS,
    EXPERIMENT,
    NOISY,
    OWN,
    RANDOM,
    RIVALS,
    TRUE,
    bound_ratio,
    ends,
    fewer_errors,
    fits,
    own_data,
    random_ratio,
    ratio,
    task,
)
from truerisk.lab.figure import Table
from truerisk.lab.lessons.norm_capacity import LESSON
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.two_layer_run import BOUND, OTHERS, learned, tensors, trained
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}
SMALL = {"data": "digits", "n": 60, "n_test": 100, "noise": 0.0, "reference": 16, "lr": 0.05, "epochs": 200, "seed": 0}


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def row(s, **changed):
    """A run in which the terms of 2019 fall with width, those of rivals rise, and errors fall."""
    wobble = 1 + 0.01 * ((7 * s["seed"] + s["width"]) % 5)
    size = wobble * (s["width"] / s["reference"]) ** 0.5
    random = 8 if s["noise"] == RANDOM else 1
    made = {
        **dict.fromkeys(("distance", "capacity", "impact", *OWN), random / size),
        **dict.fromkeys(RIVALS, size),
        "margin": 3.0,
        "weights": 74 * s["width"],
        "bounds": {BOUND: 40 / wobble, "vc": 60.0, **dict.fromkeys(OTHERS, 400.0)},
        "unit_capacities": [0.1 / size, 0.0],
        "reached": True,
        "trained_epochs": 50,
        "train_error": 0.0,
        "test_error": 0.03 + 0.02 / size,
        "diverged": False,
    }
    if "init" in s:  # the published directions are reversed
        made |= {"unit_wise": size, "spectral_frobenius": 1 / size}
    return {**s, **made, **changed}


def world(change=lambda s: {}, scale="quick"):
    made = [row(s, **change(s)) for s in EXPERIMENT.settings(scale)]
    return Rows(made, fields={name for s in EXPERIMENT.settings(scale) for name in s})


def wide(s):
    return s["width"] == 4096


# ---- effects and verdicts ------------------------------------------------------------------------------------------


def pair(**wide_run):
    base = {"reference": 16, "reached": True, "seed": 1}
    return Rows([{**base, "width": 16, "distance": 8.0, "test_error": 0.1},
                 {**base, "width": 512, "distance": 2.0, "test_error": 0.04, **wide_run}])  # fmt: skip


def test_effects_compare_the_narrowest_with_the_widest():
    assert ratio(pair(), {"distance": "far"}) == {"far": 0.25}
    assert fewer_errors(pair()) == pytest.approx(0.06)
    bounds = {BOUND: 10.0, **dict.fromkeys(OTHERS, 50.0), "vc": 1.0}
    assert set(bound_ratio(pair(bounds=bounds)).values()) == {5.0}


def test_only_widths_that_reached_the_target_are_compared():
    three = [*pair(), {**pair().present[1], "width": 4096, "distance": 99.0, "reached": False}]
    assert [run["width"] for run in ends(Rows(three))] == [16, 512]
    late = [{**pair().present[0], "reached": False}, {**pair().present[0], "width": 64}, pair().present[1]]
    assert [run["width"] for run in ends(Rows(late))] == [64, 512]
    below = [{**pair().present[0], "width": 8}, *pair()]
    assert [run["width"] for run in ends(Rows(below))] == [16, 512]
    for few in ([pair().present[0]], [pair().present[0], {**pair().present[1], "width": 32}], []):
        with pytest.raises(IncompleteError):
            ends(Rows(few))


def test_random_labels_are_compared_at_the_same_width():
    runs = [{"noise": noise, "reached": True, "unit_wise": size} for noise, size in ((TRUE, 5.0), (RANDOM, 40.0))]
    assert random_ratio(Rows(runs)) == 8
    with pytest.raises(IncompleteError):
        random_ratio(Rows([runs[0], {**runs[1], "reached": False, "unit_wise": None}]))


def test_fitting_means_every_label_and_the_target():
    good = {"reference": 16, "width": 16, "reached": True, "train_error": 0.0}
    assert fits(Rows([good, {**good, "width": 8, "train_error": 0.5}])).holds  # below the reference
    assert not fits(Rows([good, {**good, "train_error": 0.002}])).holds
    assert not fits(Rows([good, {**good, "reached": False}])).holds


@pytest.mark.parametrize("claim", CLAIM)
def test_all_claims_can_be_reproduced(claim):
    assert judge(CLAIM[claim], world(), "quick").word == ("exact" if claim == "fits" else "reproduced")


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("distance-falls", lambda s: {"distance": 1 + s["width"] * (1 + s["seed"] / 500)}),
        ("units-do-less", lambda s: {"impact": 1 + s["width"] * (1 + s["seed"] / 500)}),
        ("own-term-falls", lambda s: {"product": 1 + s["width"] * (1 + s["seed"] / 500)}),
        ("rivals-rise", lambda s: {"spectral_rows": (1 + s["seed"] / 500) / s["width"]}),
        ("errors-fall", lambda s: {"test_error": 0.1 + wide(s) * (0.1 + s["seed"] / 1000)}),
        ("smallest-bound", lambda s: {"bounds": {BOUND: 900 + s["seed"], **dict.fromkeys(OTHERS, 400.0)}}),
        ("random-labels-need-more", lambda s: {"unit_wise": 5 + s["seed"] / 50 * (s["noise"] == RANDOM)}),
        ("larger-start-reverses", lambda s: {"unit_wise": (1 + s["seed"] / 500) / s["width"]}),
        ("larger-start-reverses", lambda s: {"spectral_frobenius": (1 + s["seed"] / 500) * s["width"]}),
        ("fits", lambda s: {"train_error": 0.002 * wide(s)}),
    ],
)
def test_all_claims_can_fail(claim, change):
    assert judge(CLAIM[claim], world(change), "quick").word == "not reproduced"


def test_one_bad_arm_or_rival_is_enough():
    noisy = world(lambda s: {"distance": 1 + s["width"] + s["seed"]} if s["noise"] == NOISY else {})
    verdict = judge(CLAIM["distance-falls"], noisy, "quick")
    assert (verdict.word, verdict.decisive.name) == ("not reproduced", "noise 5%")
    assert [cell.name for cell in verdict.cells] == ["noise 0%", "noise 5%"]
    assert len(judge(CLAIM["rivals-rise"], world(), "quick").cells) == 2 * len(RIVALS)


def test_no_verdict_without_widths_to_compare():
    stopped = judge(CLAIM["distance-falls"], world(lambda s: {"reached": s["width"] == 16}), "quick")
    assert (stopped.word, stopped.reason) == ("no verdict", "incomplete")
    assert "too few widths reached" in stopped.detail
    wild = judge(CLAIM["distance-falls"], world(lambda s: {"diverged": wide(s)}), "quick")
    assert (wild.word, wild.reason) == ("no verdict", "diverged")


# ---- the task ------------------------------------------------------------------------------------------------------


def test_the_same_setting_gives_the_same_record():
    s = {**SMALL, "width": 32}
    first = task(s)
    assert first == task(s) == json.loads(json.dumps(first, allow_nan=False))
    assert not s.keys() & first.keys()
    assert first["reached"]
    assert first["train_error"] == 0 < first["test_error"] < 0.5  # chance is 0.9
    assert first["unit_wise"] > 0
    assert len(first["unit_capacities"]) == 32
    assert np.mean(first["unit_capacities"]) == pytest.approx(first["capacity"], rel=1e-3)
    assert task({**s, "seed": 1})["distance"] != first["distance"]


def test_wide_networks_record_quantiles_of_their_units():
    s = {**SMALL, "width": 200}
    train, _ = learned(s)
    start, end = trained(s, train)
    betas = (end.network.U - start.U).double().norm(dim=1)
    found = task(s)["unit_capacities"]
    assert len(found) == 60
    assert found == sorted(found)
    assert found[30] == pytest.approx(float(betas.quantile(30.5 / 60)), rel=1e-3)
    assert betas.min() <= found[0] <= found[-1] <= betas.max()


def test_training_ends_below_the_target_on_all_examples():
    s = {**SMALL, "width": 64}
    train, _ = learned(s)
    _, end = trained(s, train)
    X, y = tensors(train)
    assert float(F.cross_entropy(end.network(X), y)) < 0.0101


def test_noise_touches_training_labels_alone():
    (clean, test), (noisy, same) = (learned({**SMALL, "noise": noise}) for noise in (0.0, 1.0))
    assert (clean.X == noisy.X).all()
    assert (test.y == same.y).all()
    assert 0.6 < np.mean(clean.y != noisy.y) <= 1  # 0.9 on average


def test_larger_initial_weights():
    train, _ = learned({**SMALL, "width": 64})
    starts = [trained({**SMALL, "width": 64, "epochs": 1, **init}, train)[0] for init in ({}, {"init": "he"})]
    assert float(starts[1].U.var() / starts[0].U.var()) == pytest.approx(6, rel=0.1)
    (clean, _), (none, _) = (learned({**SMALL, "noise": noise}) for noise in (0.0, "none"))
    assert (clean.y == none.y).all()


def test_a_rate_that_is_too_large_is_a_run_that_diverged():
    assert task({**SMALL, "width": 16, "lr": 1e30}) == {"diverged": True}


def test_a_run_that_stops_early_has_no_terms_but_a_record():
    found = task({**SMALL, "width": 16, "epochs": 1})
    assert not found["reached"]
    assert found["unit_wise"] is None
    assert found["distance"] > 0


# ---- a user's own data ---------------------------------------------------------------------------------------------


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
        fitted = {**own_data(s, data), "data": str(tmp_path / "mine.npz"), "epochs": 20}
        assert fitted["n"] + fitted["n_test"] <= 60
        made.append({**fitted, **task(fitted)})
    json.dumps(made, allow_nan=False)
    assert LESSON.figures(Rows(made, fields=made[0]))
    assert LESSON.pictures(LESSON.demo(made[0])) == []  # tables have no images


def test_own_data_leaves_out_what_would_take_long():
    settings = EXPERIMENT.settings("quick")
    digits = load("digits")
    kept = [own_data(s, digits) for s in settings]
    assert {s["width"] for s in kept if s} == {2**k for k in range(3, 11)}
    assert {s["seed"] for s in kept if s} == {20, 21, 22}
    assert max(s["epochs"] for s in kept if s) == 500
    with pytest.raises(TrueriskError, match="all inputs are alike"):
        own_data(settings[0], Data("flat", np.ones((60, 3)), np.arange(60) % 2, 2))


# ---- the page ------------------------------------------------------------------------------------------------------


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [verdict.claim.name for verdict in verdicts if not verdict.cells and not verdict.detail] == []
    assert all(run["reached"] for run in rows)
    names = [exhibit.name for exhibit in LESSON.figures(rows)]
    assert names == [
        "terms", "errors", "terms-noise", "moves", "bounds", "terms-start", "random-labels", "units", "numbers"
    ]  # fmt: skip
    by_width = {run["width"]: run["distance"] for run in rows if run["noise"] == TRUE}
    assert by_width[256] < by_width[16]


def test_figures_show_the_numbers_of_the_rows():
    runs = world()
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(runs)}
    at = {(r["term"], r["width"], r["seed"]): r["relative"] for r in found["terms"].rows}
    of = {(r["width"], r["seed"]): r for r in runs if r["noise"] == TRUE}
    assert at["unit capacity (2019)", 4096, 21] == of[4096, 21]["unit_wise"] / of[16, 21]["unit_wise"]
    assert at["Frobenius (2015)", 1024, 24] == of[1024, 24]["frobenius"] / of[16, 24]["frobenius"]
    assert {relative for (_, width, _), relative in at.items() if width == 16} == {1.0}
    assert min(width for _, width, _ in at) == 16  # narrower networks need not fit
    errors = {(r["width"], r["seed"], r["on"], r["labels"]): r["error"] for r in found["errors"].rows}
    assert errors[64, 22, "new examples", "true labels"] == of[64, 22]["test_error"]
    assert {r["labels"] for r in found["random-labels"].rows} == {"true labels", "5% random labels", "random labels"}
    assert {r["width"] for r in found["random-labels"].rows} == {64, 1024}
    assert len([r for r in found["units"].rows if r["width"] == 64]) == 1  # the unit that never moved has no logarithm
    assert {r["by"] for r in found["bounds"].rows} >= {"VC dimension", "unit capacity (2019)"}
    assert isinstance(found["numbers"], Table)
    assert list(found["numbers"].columns) == ["term", "16 hidden units", "4,096 hidden units"]
    assert "grows by a factor of 256." in found["terms"].caption


def test_runs_that_stopped_early_are_not_in_the_fan():
    runs = world(lambda s: {"reached": s["width"] != 4096, "unit_wise": None if wide(s) else 1.0})
    terms = LESSON.figures(runs)[0]
    assert max(r["width"] for r in terms.rows) == 2048


def test_larger_initial_weights_stay_out_of_all_other_figures_and_claims():
    odd = world(lambda s: {"distance": 1e9, "train_error": 1.0, "test_error": 1.0} if "init" in s else {})
    for name in ("distance-falls", "errors-fall", "fits"):
        assert judge(CLAIM[name], odd, "quick").word in ("reproduced", "exact")
    found = {exhibit.name: exhibit for exhibit in LESSON.figures(odd)}
    assert max(r["error"] for r in found["errors"].rows) < 1
    assert max(r["size"] for r in found["moves"].rows) < 1e9
    start = {(r["term"], r["width"], r["seed"]): r["relative"] for r in found["terms-start"].rows}
    assert start["unit capacity (2019)", 4096, 30] > 10


def test_gaps():
    nothing = Rows([], missing=EXPERIMENT.settings("quick"))
    assert all(not exhibit.rows for exhibit in LESSON.figures(nothing))
    medium = LESSON.figures(world(scale="medium"))
    assert "random-labels" not in [exhibit.name for exhibit in medium]
    assert LESSON.pictures({}) == []


def test_pictures_show_large_moves_in_the_narrow_network_and_small_ones_in_the_wide():
    setting = EXPERIMENT.settings("smoke")[0]
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(setting)
    assert not record.keys() & setting.keys()
    (images,) = LESSON.pictures(record)
    narrow, wide_one, zoomed = (np.array([tile.pixels for tile in strip.tiles]) for strip in images.strips)
    assert narrow.shape == (10, 8, 8)
    assert narrow.std() > 4 * wide_one.std()
    assert zoomed.std() > 4 * wide_one.std()
    assert {float(tile.under) for tile in images.strips[1].tiles} == {float(t.under) for t in images.strips[2].tiles}
    assert record["fits"] == [60, 60]


def test_the_tiles_are_the_changes_of_weights():
    s = {**EXPERIMENT.settings("smoke")[0], "width": 16}
    train, _ = learned(s)
    start, end = trained(s, train)
    largest = sorted((end.network.U - start.U).norm(dim=1).tolist(), reverse=True)[:10]
    shown = [tile.under for tile in LESSON.pictures(LESSON.demo(s))[0].strips[0].tiles]
    assert shown == [f"{size:.2g}" for size in largest]
    assert torch.equal(start.U, trained(s, train)[0].U)
