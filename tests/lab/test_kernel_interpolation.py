"""The experiment `kernel-interpolation`: effects on rows made by hand, verdicts, and a smoke run of everything."""

import json

import pytest

from truerisk.lab import Claim, Rows, kernel_solve
from truerisk.lab.experiments import kernel_interpolation as lab
from truerisk.lab.experiments.kernel_interpolation import EXPERIMENT
from truerisk.lab.lessons.kernel_interpolation import LESSON, SHOWN
from truerisk.lab.verdict import judge

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
SEEDS = range(20, 25)


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def run(error, seed=20, **fields):
    common = {"data": "digits", "n": 1000, "n_test": 797, "kernel": "gaussian", "noise": 0.0, "ridge": "none"}
    return {**common, "seed": seed, "test_error": error, **fields}


def word(name, rows, scale="quick"):
    return judge(CLAIMS[name], Rows(rows), scale).word


def seeded(make, seeds=SEEDS):
    """Rows of several seeds, whose errors differ a little."""
    return [row for i, seed in enumerate(seeds) for row in make(1 + 0.01 * i, seed)]


def test_effects_of_rows_made_by_hand():
    assert lab.error(Rows([run(0.1)])) == 0.1
    both = [run(0.03), run(0.02, ridge="validated")]
    assert lab.ridge_gain(Rows(both)) == pytest.approx(0.01)
    assert lab.patch_gain(Rows([run(0.5), run(0.3, kernel="patches")])) == pytest.approx(0.2)
    assert lab.kernel_ratio(Rows([run(0.3), run(0.1, kernel="laplacian")])) == pytest.approx(3)


@pytest.mark.parametrize(("error", "found"), [(0.01, "reproduced"), (0.03, "not reproduced"), (0.02, "no verdict")])
def test_low_error_on_digits(error, found):
    assert word("low-error-digits", seeded(lambda times, seed: [run(error * times, seed)])) == found


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("mnist", 0.0124, 0.017),
        ("cifar-pixels", 0.46, 0.49),
        ("cifar-patches", 0.17, 0.2),
        ("cifar-patches-ridge", 0.15, 0.12),
    ],
)
def test_published_errors_have_a_tolerance(name, inside, outside):
    where = CLAIMS[name].where

    def made(error):
        return [run(error + 1e-5 * seed, seed, n_test=10_000, **where) for seed in range(3)]

    assert word(name, made(inside), "paper") == "reproduced"
    assert word(name, made(outside), "paper") == "not reproduced"


@pytest.mark.parametrize(
    ("name", "most"), [("ridge-digits", 0.005), ("ridge-mnist", 0.002), ("ridge-mnist-whole", 0.002)]
)
def test_a_ridge_may_not_help(name, most):
    how = {**CLAIMS[name].where, "n_test": 10_000}

    def made(gain):
        return seeded(
            lambda times, seed: [
                run(0.03, seed, **how),
                run(0.03 - gain * times, seed, **how, ridge="validated"),
            ]
        )

    assert word(name, made(most - 0.001)) == "reproduced"
    assert word(name, made(most + 0.001)) == "not reproduced"


def test_a_ridge_on_part_of_mnist_needs_no_run_on_all_of_it():
    how = {**CLAIMS["ridge-mnist"].where, "n_test": 10_000}
    both = seeded(lambda times, seed: [run(0.03, seed, **how), run(0.03 * times, seed, **how, ridge="validated")])
    whole = [{**run(0.0, seed, **how), "n": 60_000} for seed in range(3)]
    assert judge(CLAIMS["ridge-mnist"], Rows(both, missing=whole), "medium").word == "reproduced"


@pytest.mark.parametrize(("gain", "found"), [(0.02, "reproduced"), (-0.01, "not reproduced"), (0.06, "not reproduced")])
def test_a_ridge_helps_patches_a_little(gain, found):
    how = {"data": "cifar-10", "kernel": "patches", "n_test": 10_000}

    def made(times, seed):
        return [run(0.2, seed, **how), run(0.2 - gain * times, seed, **how, ridge="validated")]

    assert word("ridge-patches", seeded(made), "medium") == found


@pytest.mark.parametrize(("gain", "found"), [(0.2, "reproduced"), (0.1, "not reproduced")])
def test_patches_help(gain, found):
    how = {"data": "cifar-10", "n_test": 10_000}

    def made(times, seed):
        return [run(0.5, seed, **how), run(0.5 - gain * times, seed, **how, kernel="patches")]

    assert word("patches-help", seeded(made), "medium") == found


def test_noise_must_hurt_the_gaussian_kernel_more_at_every_level():
    def made(ratio):
        return seeded(
            lambda times, seed: [
                row
                for noise, factor in ((0.2, 4.0), (0.5, ratio))
                for row in (
                    run(0.1 * factor * times, seed, noise=noise),
                    run(0.1, seed, noise=noise, kernel="laplacian"),
                )
            ]
        )

    assert word("laplacian-digits", made(2.5)) == "reproduced"
    assert word("laplacian-digits", made(1.5)) == "not reproduced"


def test_one_unfitted_label_refutes_interpolation(rows):
    claim = CLAIMS["any-labels"]
    assert judge(claim, rows, "quick").word == "exact"
    spoiled = Rows([{**row, "train_error": 0.01} if row["ridge"] == "none" else row for row in rows])
    assert judge(claim, spoiled, "quick").word == "not reproduced"
    gone = Rows(rows.present[1:], missing=[EXPERIMENT.settings("smoke")[0]])
    assert judge(claim, gone, "quick").reason == "incomplete"


def test_smoke_verdicts(rows):
    verdicts = {verdict.claim.name: verdict for verdict in EXPERIMENT.judge(rows, "smoke")}
    assert {verdict.reason for verdict in verdicts.values()} == {"smoke"}
    # Claims about digits are evaluated; those about data that a smoke run does not load have no cells.
    assert {name for name, verdict in verdicts.items() if verdict.cells} == {
        "low-error-digits",
        "ridge-digits",
        "laplacian-digits",
    }
    json.dumps(rows.present, allow_nan=False)


def test_runs_that_claims_name_have_all_seeds():
    many = [Rows([setting]) for setting in EXPERIMENT.settings("quick") if setting["seed"] > 20]
    named = [claim.where for claim in EXPERIMENT.claims if isinstance(claim, Claim) and "quick" in claim.scales]
    assert many
    assert all(any(len(row.where(**where)) for where in named) for row in many)
    assert {row.present[0]["kernel"] for row in many} == {"gaussian", "laplacian"}


@pytest.mark.parametrize("scale", EXPERIMENT.grids)
def test_tuning_leaves_held_out_examples_and_patches_can_interpolate(scale):
    for setting in EXPERIMENT.settings(scale):
        assert 2 * setting["tuning"] <= setting["n"]
        # Each filter has eight features; fewer features than examples could not interpolate.
        assert setting["kernel"] != "patches" or 8 * setting["filters"] > setting["n"]


def test_same_setting_same_record():
    setting = EXPERIMENT.settings("smoke")[-1]  # patches with a ridge, on noisy labels
    assert (setting["kernel"], setting["ridge"], setting["noise"]) == ("patches", "validated", 0.2)
    assert EXPERIMENT.task(setting) == EXPERIMENT.task(setting)


def test_test_labels_change_nothing_but_the_test_error(monkeypatch):
    setting = next(s for s in EXPERIMENT.settings("smoke") if s["ridge"] == "validated")
    record = EXPERIMENT.task(setting)
    original = kernel_solve.samples

    def relabeled(*args):
        train, test = original(*args)
        test = test.take(range(len(test)))  # samples are shared between runs: change a copy
        object.__setattr__(test, "y", (test.y + 1) % 10)
        return train, test

    monkeypatch.setattr(kernel_solve, "samples", relabeled)
    changed = EXPERIMENT.task(setting)
    assert changed["test_error"] != record["test_error"]
    assert {**changed, "test_error": 0} == {**record, "test_error": 0}


def test_bandwidths_come_from_true_labels_and_ridges_from_given_ones(monkeypatch):
    seen = []

    def spy(kernels, small, held_out, classes, ridges=()):
        seen.append((small[1].tolist(), len(ridges)))
        return original(kernels, small, held_out, classes, ridges)

    original = kernel_solve.tune
    monkeypatch.setattr(kernel_solve, "tune", spy)
    how = {"data": "digits", "n": 100, "n_test": 50, "tuning": 50, "seed": 0, "kernel": "gaussian"}
    for noise, ridge in ((0.0, "none"), (1.0, "none"), (1.0, "validated")):
        EXPERIMENT.task({**how, "noise": noise, "ridge": ridge})
    (true, no_ridge), (plain, _), (noisy, ridges) = seen
    assert plain == true != noisy
    assert no_ridge == 0 < ridges


# ---- the lesson ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record():
    return json.loads(json.dumps(LESSON.demo(EXPERIMENT.settings("smoke")[0]), allow_nan=False))


def test_figures(rows):
    hero, kernels, ridges, details = LESSON.figures(rows)
    assert LESSON.hero == hero.name
    exact = rows.where(ridge="none")
    shown = {(mark["who"], mark["noise"]): mark["test_error"] for mark in hero.rows}
    assert shown["Gaussian, training", 0.2] == 0
    assert shown["Laplacian, new", 0.2] == exact.where(kernel="laplacian", noise=0.2).one("test_error")
    assert len(shown) == 6  # patches are left to the next figure
    assert len(kernels.rows) == len(exact)
    assert len(ridges.rows) == len(details.rows) == len(rows)
    assert all(len(cells) == len(details.columns) for cells in details.rows)
    assert LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke")))  # gaps are allowed


def test_claims_of_figures_exist(rows, record):
    exhibits = [*LESSON.figures(rows), *LESSON.pictures(record)]
    assert {name for exhibit in exhibits for name in getattr(exhibit, "claims", ())} <= CLAIMS.keys()


def test_the_demo_fits_wrong_labels_and_marks_them(record):
    assert record == json.loads(json.dumps(LESSON.demo(EXPERIMENT.settings("smoke")[0])))
    found = record["images"]
    assert found["missed"] == {"gaussian": 0, "laplacian": 0}
    images, curves = LESSON.pictures(record)
    training, *answers = images.strips
    assert [tile.wrong for tile in training.tiles] == [
        a != b for a, b in zip(found["given"], found["true"], strict=True)
    ]
    assert 0 < sum(tile.wrong for tile in training.tiles) < SHOWN
    assert [len(strip.tiles) for strip in answers] == [SHOWN, SHOWN]
    assert "fit all given labels" in images.caption
    assert LESSON.pictures({}) == []
    assert len(curves.dots) == 12


def test_the_curves_pass_through_their_labels(record):
    curves = record["curves"]
    assert curves["labels"].count(1.0) == 7  # six on the right and a wrong one on the left
    for one in curves["outputs"]:
        for place, label in zip(curves["places"], curves["labels"], strict=True):
            near = min(range(len(curves["grid"])), key=lambda i: abs(curves["grid"][i] - place))
            assert one["outputs"][near] == pytest.approx(label, abs=0.1)


def test_data_that_are_not_images_have_no_strips():
    setting = {**EXPERIMENT.settings("smoke")[0], "data": "mnist1d"}
    assert LESSON.demo(setting)["images"] == {}
