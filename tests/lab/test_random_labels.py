"""`random-labels`: effects on runs made by hand, verdicts that can go both ways, the smoke grid."""

import json

import numpy as np
import pytest

from truerisk.data import Data, load
from truerisk.lab import SCALES, Above, IncompleteError, Rows
from truerisk.lab.experiments import random_labels as lab
from truerisk.lab.experiments.random_labels import EXPERIMENT, PUBLISHED, own_data, task, treated
from truerisk.lab.figure import Figure, Table
from truerisk.lab.lessons.random_labels import LESSON
from truerisk.lab.samples import samples
from truerisk.lab.verdict import judge

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
SEEDS = range(5)


def run(treatment, p=0.0, seed=0, model="mlp-1x512", **record):
    """A run in which everything published is seen; seeds differ a little."""
    setting = {"data": "digits", "n": 1000, "n_test": 500, "seed": seed, "model": model, "treatment": treatment, "p": p}
    counts = {"published_parameters": PUBLISHED[model][1], "parameters": 100, "classes": 10}
    errors = {"train_error": 0.0, "test_error": 0.02 + 0.88 * p + 0.002 * seed, "fitted": True}
    return {**setting, **counts, **errors, "steps": round(100 * (1 + 1.5 * p)) + seed, **record}


def published(seed=0):
    labels = [run("true labels", 0.0, seed), *(run("corrupted labels", p, seed) for p in (0.25, 0.5, 0.75))]
    noise = (run(name, seed=seed, test_error=0.9) for name in ("random pixels", "Gaussian pixels"))
    return [*labels, run("random labels", 1.0, seed), run("shuffled pixels", seed=seed), *noise]


def seeds(change=None, treatment=None):
    rows = [row for seed in SEEDS for row in published(seed)]
    return [{**row, **(change or {})} if row["treatment"] == treatment else row for row in rows]


def word(name, rows):
    verdict = judge(CLAIMS[name], Rows(rows), "quick")
    return verdict.reason or verdict.word


def test_effects_are_the_numbers_that_they_should_be():
    runs = Rows(published())
    labels = runs.where(treatment=["true labels", "corrupted labels", "random labels"])
    random = runs.where(treatment="random labels")
    assert lab.training_accuracy(Rows([run("true labels", train_error=0.25)])) == 0.75
    assert lab.above_chance(random) == pytest.approx(0.0)
    some = Rows([run("random labels", 1.0, test_error=0.3, classes=2, n_test=100)])
    assert lab.above_chance(some) == pytest.approx(4)  # 20 points; one standard deviation is sqrt(0.25 / 100)
    assert lab.error_change(runs, "random labels") == pytest.approx(0.88)
    assert lab.error_change(runs, "shuffled pixels") == 0
    assert lab.slowdown(runs) == 2.5
    assert lab.longer_than_noise(runs) == {"random pixels": 2.5, "Gaussian pixels": 2.5}
    assert lab.rises(labels) == pytest.approx(
        dict.fromkeys(("0% to 25%", "25% to 50%", "50% to 75%", "75% to 100%"), 0.22)
    )


def test_rises_do_not_depend_on_the_order_of_runs():
    rows = [run("corrupted labels", p, test_error=error) for p, error in ((0.5, 0.3), (0.25, 0.4), (0.75, 0.35))]
    assert lab.rises(Rows(rows)) == pytest.approx({"25% to 50%": -0.1, "50% to 75%": 0.05})


@pytest.mark.parametrize(
    ("steps", "expected"),
    # five levels without ties: 1 - 6 sum of squared differences of ranks / (5 x 24)
    [((1, 2, 3, 4, 5), 1.0), ((10, 20, 30, 50, 40), 0.9), ((5, 4, 3, 2, 1), -1.0), ((7, 7, 7, 7, 7), 0.0)],
)
def test_rank_correlation_of_levels_and_steps(steps, expected):
    rows = [run("corrupted labels", p, steps=count) for p, count in zip(lab.LEVELS, steps, strict=True)]
    assert lab.rank_of_steps(Rows(rows)) == pytest.approx(expected)


def test_steps_of_labels_that_were_not_fitted_are_a_lower_limit():
    rows = Rows([run("true labels", steps=100), run("random labels", 1.0, steps=300, fitted=False)])
    assert lab.slowdown(rows) == Above(3.0)
    slow = Rows([run("true labels", fitted=False), run("random labels", 1.0)])
    with pytest.raises(IncompleteError, match="did not fit true labels"):
        lab.slowdown(slow)


def test_all_claims_are_reproduced_where_everything_is_as_published():
    found = {name: word(name, seeds()) for name in CLAIMS}
    assert found.pop("parameters") == "exact"
    assert set(found.values()) == {"reproduced"}


@pytest.mark.parametrize(
    ("name", "treatment", "change"),
    [
        ("parameters", "true labels", {"published_parameters": 1_209_867}),
        ("fits-everything", "Gaussian pixels", {"train_error": 0.015}),
        ("chance", "random labels", {"test_error": 0.85}),
        ("chance", "random labels", {"test_error": 0.95}),
        ("generalizes", "true labels", {"test_error": 0.75}),
        ("slower-with-corruption", "true labels", {"steps": 600}),
        ("random-slower", "true labels", {"steps": 600}),
        ("small-factor", "random labels", {"steps": 600}),
        ("small-factor", "random labels", {"steps": 600, "fitted": False}),
        ("test-error-rises", "random labels", {"test_error": 0.6}),
        ("pixels-faster", "random pixels", {"steps": 400}),
        ("permutation", "shuffled pixels", {"test_error": 0.07}),
        ("permutation", "true labels", {"test_error": 0.07}),  # shuffling that helps
    ],
)
def test_each_claim_can_fail(name, treatment, change):
    assert word(name, seeds(change, treatment)) == "not reproduced"


@pytest.mark.parametrize(("n_test", "points"), [(500, 4.02), (2000, 2.01), (10_000, 0.9)])
def test_the_limits_of_chance_follow_the_size_of_the_test_set(n_test, points):
    def off(share):
        return Rows([run("random labels", 1.0, test_error=0.9 - share * points / 100, n_test=n_test)])

    low, high = lab.above_chance(off(0.99)), lab.above_chance(off(1.01))
    assert low < CLAIMS["chance"].wants.high == 3 < high


def test_no_verdict_where_the_runs_leave_it_open():
    assert word("small-factor", seeds({"fitted": False}, "random labels")) == "straddles"  # 2.5 or any more
    assert word("random-slower", seeds({"fitted": False}, "random labels")) == "reproduced"
    assert word("small-factor", seeds({"fitted": False}, "true labels")) == "incomplete"
    assert word("chance", published()) == "one seed"
    assert word("chance", seeds({"diverged": True}, "random labels")) == "diverged"


def test_a_missing_run_leaves_its_claims_without_a_verdict():
    *rows, last = seeds()
    gone = Rows(rows, missing=[{key: last[key] for key in ("data", "model", "treatment", "p", "seed", "n", "n_test")}])
    found = {name: judge(claim, gone, "quick") for name, claim in CLAIMS.items()}
    assert last["treatment"] == "Gaussian pixels"
    assert found["fits-everything"].reason == found["pixels-faster"].reason == "incomplete"
    assert found["chance"].word == "reproduced"


@pytest.mark.parametrize("scale", SCALES)
def test_names_of_treatments_and_levels_agree(scale):
    for setting in EXPERIMENT.settings(scale):
        assert (setting["p"] == 1) == (setting["treatment"] == "random labels")
        assert (0 < setting["p"] < 1) == (setting["treatment"] == "corrupted labels")


def test_smoke_tries_every_effect_and_draws_every_figure(smoke_rows):
    rows = smoke_rows("random-labels")
    for verdict in EXPERIMENT.judge(rows, "smoke"):
        assert verdict.reason == "smoke"
        assert verdict.cells or verdict.claim.name == "parameters"  # the effects found numbers
    exhibits = LESSON.figures(rows)
    assert [type(exhibit) for exhibit in exhibits] == [Figure] * 5 + [Table]
    assert all(exhibit.rows for exhibit in exhibits)
    assert {name for figure in exhibits[:5] for name in figure.claims} <= set(CLAIMS)
    assert len(exhibits[-1].rows) == len(EXPERIMENT.settings("smoke"))
    assert all(len(line) == len(exhibits[-1].columns) for line in exhibits[-1].rows)


def test_records_are_small_plain_json_and_do_not_repeat_the_setting(smoke_rows):
    rows = smoke_rows("random-labels")
    for setting in EXPERIMENT.settings("smoke"):
        record = {k: v for k, v in rows.where(**setting).present[0].items() if k not in setting}
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        assert len(record["curve_steps"]) == len(record["curve_train_error"]) <= 60
        assert record["curve_steps"][-1] == record["steps"]
        assert record["curve_train_error"][-1] == record["train_error"]


def test_figures_leave_out_runs_that_diverged(smoke_rows):
    rows = Rows({**row, "diverged": row["treatment"] == "random labels"} for row in smoke_rows("random-labels"))
    shown = exhibits(rows)
    assert {row["p"] for row in shown["test-error"].rows} == {0.0, 0.25, 0.5, 0.75}
    assert {row["treatment"] for row in shown["errors"].rows} == {"true labels"}
    assert "random labels" not in {line[2] for line in shown["accuracies"].rows}


def exhibits(rows):
    return {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}


def drawn(rows):
    """Runs made by hand, with the learning curves that figures need."""
    return Rows({**row, "curve_steps": [0, row["steps"]], "curve_train_error": [0.9, 0.0]} for row in rows)


def test_errors_on_training_images_and_on_new_ones():
    rows = exhibits(drawn(seeds()))["errors"].rows
    assert len(rows) == 2 * 2 * len(SEEDS)  # true and random labels, training images and new ones
    found = {(row["treatment"], row["measured on"]): row for row in rows if row["seed"] == 3}
    assert {key: row["error"] for key, row in found.items()} == pytest.approx(
        {
            ("true labels", "training images"): 0.0,
            ("true labels", "new images"): 0.026,
            ("random labels", "training images"): 0.0,
            ("random labels", "new images"): 0.906,
        }
    )
    assert {key[1]: row["counted on"] for key, row in found.items()} == {"training images": 1000, "new images": 500}


def test_one_network_of_each_family_has_a_panel(smoke_rows):
    shown = exhibits(smoke_rows("random-labels"))
    names = {name: list(dict.fromkeys(row["network"] for row in shown[name].rows)) for name in ("errors", "treatments")}
    assert names["errors"] == ["MLP 1x512", "Inception (small)"]
    assert names["treatments"] == ["MLP 1x512", "AlexNet (small)", "Inception (small)"]


def test_learning_curves_stand_on_common_steps_and_stay_at_zero_once_fitted():
    rows = exhibits(drawn(published()))["learning-curves"].rows
    assert len(rows) == 5 * 61  # levels of corruption
    true = {row["step"]: row["error"] for row in rows if row["p"] == 0}
    assert max(true) == 250  # the steps that random labels took
    assert true[0] == 0.9
    assert [true[step] for step in true if step >= 100] == pytest.approx([0.0] * 37)
    assert np.interp(50, list(true), list(true.values())) == pytest.approx(0.45)


def test_a_curve_ends_where_training_ended_without_fitting():
    slow = drawn([run("true labels", steps=400), run("random labels", 1.0, steps=100, fitted=False, train_error=0.5)])
    rows = exhibits(slow)["learning-curves"].rows
    assert max(row["step"] for row in rows if row["p"] == 1) == 100


def test_time_to_fit_is_relative_to_true_labels_of_the_same_seed():
    rows = exhibits(drawn(seeds()))["time-to-fit"].rows
    assert "true labels" not in {row["examples"] for row in rows}
    found = {row["seed"]: row["ratio"] for row in rows if row["examples"] == "50% corrupted labels"}
    assert found == pytest.approx({seed: (175 + seed) / (100 + seed) for seed in SEEDS})


def test_figures_of_nothing_are_empty():
    assert all(not exhibit.rows for exhibit in LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))))


def test_pictures_show_the_training_images_of_a_run():
    setting = {**EXPERIMENT.settings("quick")[0], "n": 200}
    record = LESSON.demo(setting)
    assert record == json.loads(json.dumps(LESSON.demo(setting), allow_nan=False))
    [images] = LESSON.pictures(record)
    tiles = {strip.label: strip.tiles for strip in images.strips}
    assert list(tiles) == ["true labels", "shuffled pixels", "random labels", "random pixels", "Gaussian pixels"]
    assert [tile.under for tile in tiles["true labels"]] == list("0123456789")
    assert not any(tile.wrong for name in tiles if name != "random labels" for tile in tiles[name])
    train, _ = treated({**setting, "treatment": "random labels", "p": 1.0})
    plain, _ = treated(setting)
    first = [int(np.flatnonzero(plain.y == label)[0]) for label in range(10)]
    assert [tile.under for tile in tiles["random labels"]] == [str(label) for label in train.y[first]]
    assert [tile.wrong for tile in tiles["random labels"]] == (train.y[first] != plain.y[first]).tolist()
    assert tiles["random labels"][0].pixels == tiles["true labels"][0].pixels
    for name in ("shuffled pixels", "random pixels"):  # other places, the same grays
        assert tiles[name][0].pixels != tiles["true labels"][0].pixels
        assert sorted(np.ravel(tiles[name][0].pixels)) == sorted(np.ravel(tiles["true labels"][0].pixels))


def test_vectors_have_no_pictures():
    record = LESSON.demo({**EXPERIMENT.settings("smoke")[0], "data": "moons"})
    assert LESSON.pictures(record) == LESSON.pictures({}) == []


def test_a_task_is_a_function_of_its_setting():
    setting = {**EXPERIMENT.settings("smoke")[0], "epochs": 2, "seed": 0}
    assert task(setting) == task(setting)
    assert task(setting) != task({**setting, "seed": 1})


def test_examples_are_treated_then_whitened():
    setting = {"data": "digits", "n": 100, "n_test": 50, "seed": 4, "p": 1.0, "treatment": "random labels"}
    plain, plain_test = samples("digits", 100, 50, 4)
    train, test = treated(setting)
    flat = plain.X.reshape(100, -1).astype(np.float64)
    white = (flat - flat.mean(1, keepdims=True)) / np.maximum(flat.std(1, keepdims=True), 1 / 8)
    assert np.allclose(train.X.reshape(100, -1), white, atol=1e-5)
    assert np.array_equal(test.y, plain_test.y)
    assert np.mean(train.y != plain.y) > 0.7  # 90% on average, with a standard deviation of 3 points


def _own(data, scale="quick"):
    found = (own_data(setting, data) for setting in EXPERIMENT.settings(scale))
    return [setting for setting in found if setting is not None]


def _images(side, channels=1, n=60):
    return Data("images", np.zeros((n, channels, side, side), np.float32), np.arange(n) % 3, classes=3)


def test_own_vectors_have_fully_connected_networks_and_labels_only():
    found = _own(load("moons"))
    assert {setting["model"] for setting in found} == {"mlp-1x512", "mlp-3x512"}
    assert {setting["treatment"] for setting in found} == {"true labels", "corrupted labels", "random labels"}


@pytest.mark.parametrize("side", [7, 8])
def test_own_images_have_every_treatment_and_the_networks_that_take_them(side):
    found, quick = _own(_images(side)), EXPERIMENT.settings("quick")
    assert {setting["treatment"] for setting in found} == {setting["treatment"] for setting in quick}
    models = {setting["model"] for setting in quick if side >= 8 or setting["model"].startswith("mlp")}
    assert {setting["model"] for setting in found} == models
    assert {setting["n"] + setting["n_test"] for setting in found} == {60}


@pytest.mark.parametrize("scale", SCALES)
def test_no_own_setting_twice(scale):
    found = [json.dumps({**setting, "data": "mine"}, sort_keys=True) for setting in _own(_images(28), scale)]
    assert len(set(found)) == len(found) > 0


def test_a_run_on_vectors_fits_its_labels():
    setting = next(s for s in _own(load("mnist1d"), "smoke") if s["treatment"] == "random labels")
    record = task({**setting, "data": "mnist1d", "seed": 0})
    assert record["fitted"]
    assert record["parameters"] == 40 * 512 + 512 + 512 * 10 + 10
