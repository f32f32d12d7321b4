"""The experiment `network-descent`: curves by hand, its networks, its verdicts, its page, and a smoke run."""

import json

import numpy as np
import pytest

from truerisk.data import corrupt_labels, load
from truerisk.data.dataset import from_arrays
from truerisk.lab.descent_curves import (
    below_first_minimum,
    change_by_data,
    crossing,
    harm_of_reuse,
    highest,
    late_fall,
    late_rise,
    peak_place,
    reused_rise,
    rise_by_noise,
    second_descent,
)
from truerisk.lab.descent_runs import _examples
from truerisk.lab.experiments.network_descent import CLAIMS, EXPERIMENT, NOISE, SPOILED, WIDTH, own_data, task
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.network_descent import LESSON, NOISY, TRAINING, TRUE
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.samples import samples
from truerisk.lab.verdict import judge
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
WIDE = {"kind": "widths", "data": "mnist1d", "n": 100, "n_test": 200, "epochs": 30, "batch_size": 20, "lr": 0.05,
        "noise": NOISE, "width": 12, "seed": 3}  # fmt: skip
REUSE = {"kind": "reuse", "data": "digits", "n": 60, "n_test": 200, "epochs": 40, "batch_size": 20, "lr": 0.02,
         "noise": 0.0, "widths": [2, 4, 7, 12, 20], "seed": 3}  # fmt: skip


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


# ---- curves --------------------------------------------------------------------------------------------------------


def test_the_first_descent_is_not_a_peak():
    assert highest([0.9, 0.5, 0.6, 0.55, 0.2]) == (2, pytest.approx(0.1))
    assert highest([0.9, 0.5, 0.2]) == (0, 0)
    assert highest([0.3, 0.5, 0.1, 0.35]) == (3, pytest.approx(0.25))  # above the smallest error so far


@pytest.mark.parametrize("top", [14.0, 16.0, 22.0])
def test_the_peak_of_a_parabola_is_found(top):
    widths = [2, 4, 8, 16, 32, 64]
    errors = [0.9, 0.2, *(0.5 - 0.01 * np.log(w / top) ** 2 for w in widths[2:])]
    assert peak_place(widths, errors) == pytest.approx(top)


def test_the_place_of_a_peak_without_neighbors():
    assert peak_place([4, 8, 16], [0.9, 0.5, 0.2]) == 4  # no peak
    assert peak_place([4, 8, 16], [0.5, 0.4, 0.6]) == 16  # still rising
    assert 8 <= peak_place([4, 8, 16, 32], [0.5, 0.1, 0.6, 0.6]) <= 32


def test_a_crossing_is_where_errors_stay_low():
    assert crossing([4, 16, 64], [0.5, 0.2, 0.0], 0.1) == pytest.approx(32)
    assert crossing([4, 16, 64], [0.0, 0.2, 0.0], 0.1) == pytest.approx(32)  # one that fits by luck does not count
    assert crossing([4, 16, 64], [0.05, 0.02, 0.0], 0.1) == 4
    assert crossing([4, 16, 64], [0.5, 0.4, 0.3], 0.1) == 64


def test_effects_by_hand():
    noisy = [{"width": w, "test_error": e, "noise": 0.15} for w, e in ((64, 0.35), (4, 0.6), (16, 0.5), (8, 0.4))]
    true = [{"width": w, "test_error": e, "noise": 0.0} for w, e in ((4, 0.5), (8, 0.4), (16, 0.42), (64, 0.3))]
    assert second_descent(Rows(noisy)) == pytest.approx(0.15)
    assert below_first_minimum(Rows(noisy)) == pytest.approx(0.05)
    assert rise_by_noise(Rows([*true, *noisy])) == pytest.approx(0.1 - 0.02)
    assert change_by_data(Rows([{"n": 800, "test_error": 0.3}, {"n": 200, "test_error": 0.25}])) == pytest.approx(0.05)
    curve = Rows([{"test_errors": [0.5, 0.1, 0.3, 0.2]}])
    assert late_rise(curve) == pytest.approx(0.1)
    assert late_fall(curve) == pytest.approx(0.1)
    assert late_fall(Rows([{"test_errors": [0.9, 0.5, 0.2]}])) == 0
    grown = {"sizes": [0.1, 0.3, 0.9, 1.1], "reused": [0.5, 0.2, 0.3, 0.9], "fresh": [0.9, 0.1, 0.2, 0.9]}
    assert reused_rise(Rows([grown])) == pytest.approx(0.1)  # nothing above the threshold counts
    assert harm_of_reuse(Rows([grown])) == pytest.approx(0.1)  # nothing far below it


def test_a_curve_that_only_falls_has_no_second_descent():
    falling = Rows([{"width": w, "test_error": 0.8 / w, "seed": 1} for w in (1, 2, 4)])
    assert second_descent(falling) == 0
    assert below_first_minimum(falling) == 0


def test_an_effect_needs_all_runs():
    with pytest.raises(IncompleteError):
        rise_by_noise(Rows([{"noise": 0.0, "width": 2, "test_error": 0.1}], missing=[{"noise": 0.15, "width": 2}]))


# ---- verdicts ------------------------------------------------------------------------------------------------------

FOUND = {"peak": 0.1, "end": 0.4, "clean": 0.0, "at": 40, "data": 0.02, "late": 0.1, "again": 0.0, "reuse": 0.03,
         "bump": 0.0}  # fmt: skip


def world(scale="quick", **changes):
    """Rows of a grid with a peak of this height at this width, and so on; seeds differ a little."""
    f, made = {**FOUND, **changes}, []
    for s in EXPERIMENT.settings(scale):
        wobble = 0.002 * ((7 * s["seed"]) % 5)
        record = {"diverged": False}
        if s["kind"] == "reuse":
            sizes = [w / 66 for w in s["widths"]]
            fresh = [0.1] * len(sizes)
            record |= {"sizes": sizes, "fresh": fresh, "fresh_train": fresh, "reused_train": fresh}
            record["reused"] = [0.1 + (f["reuse"] + wobble + f["bump"] * (size > 0.5)) * (size < 1) for size in sizes]
        else:
            near = np.exp(-3 * np.log(s["width"] / f["at"]) ** 2) * (1 + 5 * wobble)
            error = f["end"] + 0.1 / s["width"] + near * (f["peak"] if s["noise"] else f["clean"])
            error += f["data"] * (s["n"] in (800, 4000)) * (s["kind"] == "samples") * (1 + 5 * wobble)
            curve = [0.5, 0.2, 0.2 + f["late"] + f["again"] + wobble, 0.2 + f["late"]]
            record |= {"train_error": max(0.0, 0.5 - s["width"] / 80), "test_error": float(error), "at": [1, 2, 3, 4]}
            record |= {"train_errors": [0.5, 0.4, 0.2, 0.1], "test_errors": curve, "weights": 1}
            if s["kind"] == "epochs":
                record["test_error"] = curve[-1]
        made.append({**s, **record})
    return Rows(made, fields={name for s in EXPERIMENT.settings(scale) for name in s})


@pytest.mark.parametrize(
    ("claim", "scale", "found", "word"),
    [
        ("second-descent", "quick", {}, "reproduced"),
        ("second-descent", "quick", {"peak": 0.03}, "not reproduced"),
        ("second-descent", "quick", {"peak": 0.048}, "no verdict"),
        ("peak-at-threshold", "quick", {}, "reproduced"),
        ("peak-at-threshold", "quick", {"at": 12}, "not reproduced"),
        ("peak-width", "medium", {"at": 50}, "reproduced"),
        ("peak-width", "medium", {"at": 20}, "not reproduced"),
        ("noise-makes-the-peak", "quick", {}, "reproduced"),
        ("noise-makes-the-peak", "quick", {"clean": 0.1}, "not reproduced"),
        ("clean-no-peak", "medium", {"clean": 0.01}, "reproduced"),
        ("clean-no-peak", "medium", {"clean": 0.1}, "not reproduced"),
        ("below-first-minimum", "quick", {"at": 40}, "reproduced"),
        ("below-first-minimum", "quick", {"at": 300, "peak": 0.5}, "not reproduced"),
        ("more-data-hurts", "quick", {}, "reproduced"),
        ("more-data-hurts", "medium", {"data": -0.02}, "not reproduced"),
        ("epochs-rise", "quick", {}, "reproduced"),
        ("epochs-rise", "quick", {"late": 0.01}, "not reproduced"),
        ("epochs-second-descent", "quick", {"again": 0.05}, "reproduced"),
        ("epochs-second-descent", "quick", {}, "not reproduced"),
        ("reuse-has-peak", "quick", {"bump": 0.1}, "reproduced"),
        ("reuse-has-peak", "quick", {}, "not reproduced"),
        ("reuse-raises-errors", "quick", {}, "reproduced"),
        ("reuse-raises-errors", "quick", {"reuse": -0.01}, "not reproduced"),
    ],
)
def test_verdicts(claim, scale, found, word):
    assert judge(CLAIM[claim], world(scale, **found), scale).word == word


def test_reuse_is_judged_with_and_without_noise():
    cells = judge(CLAIM["reuse-raises-errors"], world(), "quick").cells
    assert [(cell.name, len(cell.values)) for cell in cells] == [("noise 0%", 5), ("noise 10%", 5)]


# ---- tasks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [WIDE, REUSE], ids=["widths", "reuse"])
def test_a_task_repeats_itself(setting):
    first = task(setting)
    assert first == task(setting)
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert not setting.keys() & first.keys()
    assert first != task({**setting, "seed": 4})


def test_a_wide_network_learns_and_is_watched():
    record = task({**WIDE, "width": 64, "epochs": 60})
    assert record["at"][0] == 1
    assert record["at"][-1] == 60
    assert record["at"] == sorted(set(record["at"]))
    assert record["train_errors"][-1] == record["train_error"] < 0.1 < record["train_errors"][0]
    assert record["test_errors"][-1] == record["test_error"] < 0.85  # chance is 0.9
    assert record["weights"] == 41 * 64 + 65 * 64 + 65 * 10


def test_examples_are_centered_scaled_and_nested():
    s = {**WIDE, "data": "digits", "kind": "samples", "pool": 80, "noise": SPOILED}
    X, targets, X_test, y_test = _examples({**s, "n": 40})
    train, test = samples("digits", 80, 200, derive(3, "examples"))
    flat = train.X.reshape(80, -1)[:40].astype(float)
    scale = np.sqrt(np.mean(np.sum((flat - flat.mean(0)) ** 2, axis=1)) / 64)
    np.testing.assert_allclose(X, (flat - flat.mean(0)) / scale, atol=1e-5)
    np.testing.assert_allclose(X_test, (test.X.reshape(200, -1) - flat.mean(0)) / scale, atol=1e-5)
    assert np.array_equal(targets.argmax(1), corrupt_labels(train, SPOILED, derive(3, "label noise")).y[:40])
    assert (targets.argmax(1) != train.y[:40]).any()
    assert np.array_equal(_examples({**s, "n": 80})[3], y_test)  # more examples, the same test


def test_test_labels_are_never_replaced():
    assert np.array_equal(_examples(WIDE)[3], _examples({**WIDE, "noise": 0.0})[3])


def test_above_the_threshold_all_networks_start_fresh():
    record = task(REUSE)
    above = [size >= 1 for size in record["sizes"]]
    assert above == [False, False, False, True, True]
    assert record["sizes"] == [(65 * h + 11 * h - h + 10) / 600 for h in REUSE["widths"]]
    for name in ("", "_train"):
        pairs = list(zip(record[f"reused{name}"], record[f"fresh{name}"], strict=True))
        assert pairs[0][0] == pairs[0][1]  # the narrowest has nothing to reuse
        assert all(a == b for (a, b), over in zip(pairs, above, strict=True) if over)
    assert record["reused"][1:3] != record["fresh"][1:3]


def test_a_run_that_diverges_says_so():
    assert task({**REUSE, "lr": 1e9}) == {"diverged": True}


# ---- a user's own data ---------------------------------------------------------------------------------------------


def test_own_data_sweep_widths_with_as_many_steps():
    digits = load("digits")
    found = [own_data(s, digits) for s in EXPERIMENT.settings("quick")]
    kept = [s for s in found if s is not None]
    assert {s["kind"] for s in kept} == {"widths"}
    assert kept[0]["n"] + kept[0]["n_test"] <= len(digits)
    assert kept[0]["epochs"] * -(-kept[0]["n"] // 100) == pytest.approx(30 * 200, rel=0.01)


@pytest.mark.parametrize(
    "odd",
    [
        lambda rng: (rng.integers(0, 9, (40, 3)), np.arange(40) % 2),  # integers, two classes
        lambda rng: (np.repeat(rng.random((8, 5)), 5, axis=0), np.repeat(np.arange(8) % 4, 5)),  # repeated rows
        lambda rng: (rng.random((40, 1)) * 1e30, np.arange(40) % 3),  # one feature, huge values
        lambda rng: (np.ones((40, 4)), np.arange(40) % 2),  # nothing to tell examples apart
    ],
)
def test_odd_data_have_a_page(tmp_path, odd):
    X, y = odd(np.random.default_rng(0))
    data = from_arrays(X.astype(np.float32), y, name="odd", classes=int(y.max()) + 1)
    np.savez(tmp_path / "odd.npz", X=data.X, y=data.y)
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "odd.npz"))
    made = [{**s, **own.task({**s, "epochs": 10})} for s in own.settings("smoke")]
    assert not any(row["diverged"] for row in made)
    assert all(np.isfinite(row["test_error"]) for row in made)
    exhibits = LESSON.figures(Rows(made))
    assert [exhibit.name for exhibit in exhibits] == ["widths", "plane"]


# ---- the page ------------------------------------------------------------------------------------------------------


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [v.claim.name for v in verdicts if not v.cells and not v.detail] == []
    names = [figure.name for figure in LESSON.figures(rows)]
    assert names == ["widths", "plane", "reuse", "samples", "complexity", "epochs"]
    for figure in LESSON.figures(rows):
        assert isinstance(figure, Figure)
        assert set(figure.claims) <= set(CLAIM)


def test_the_hero_shows_the_errors_and_the_threshold():
    hero = LESSON.figures(world())[0]
    runs = [row for row in world() if row["kind"] == "widths"]
    shown = {(r["on"], r["width"], r["seed"]): r["error"] for r in hero.rows}
    for run in runs:
        assert shown[NOISY if run["noise"] else TRUE, run["width"], run["seed"]] == run["test_error"]
    assert len(shown) == len(runs) + len(runs) // 2  # training errors on noisy labels only
    assert shown[TRAINING, 4, 20] == 0.45
    [threshold] = hero.rules  # the training error is (40 - width) / 80
    assert threshold.upright
    assert 28 < threshold.value < 40
    hard = Rows({**row, "train_error": 0.5} for row in world() if row["kind"] == "widths")
    assert LESSON.figures(hard)[0].rules == []


def test_other_figures_show_their_runs():
    rows = world()
    plane, reuse, some, complexity, epochs = LESSON.figures(rows)[1:]
    assert len(plane.rows) == 0  # these runs end before the first epoch that is shown
    later = Rows({**row, "at": [10, 20, 30, 40]} for row in rows if row["kind"] == "widths")
    cells = {(r["width"], r["epoch"]): r["test_error"] for r in LESSON.figures(later)[1].rows}
    noisy = [r for r in later if r["noise"] and r["width"] == 8]
    assert cells[8, 30] == pytest.approx(np.mean([r["test_errors"][2] for r in noisy]))
    assert {r["start"] for r in reuse.rows} == {"weights of the next smaller network", "fresh weights"}
    assert len(reuse.rows) == 2 * 11 * 10
    assert {r["width"] for r in some.rows} == {WIDTH}
    assert {(r["seed"], bool(r["noise"])) for r in complexity.rows} == {(20, True)}
    assert {r["width"] for r in complexity.rows} == {4, 6, 8, 12, WIDTH}
    assert max(r["error"] for r in epochs.rows if r["on"] == TRAINING) == 0.5


def test_published_numbers_stand_next_to_ours_at_their_size():
    figures = {figure.name: figure for figure in LESSON.figures(world("medium"))}
    dots = {(dot["labels"], dot["width"]): dot["error"] for dot in figures["published"].dots}
    assert len(dots) == 34
    assert dots[NOISY, 47] == pytest.approx(0.5405)
    assert dots[TRUE, 300] == pytest.approx(0.3725)
    noisy = [error for (labels, _), error in sorted(dots.items()) if labels == NOISY]
    assert highest(noisy)[1] == pytest.approx(0.0681, abs=1e-4)  # as the claim quotes it
    assert "published" not in {figure.name for figure in LESSON.figures(world())}


def test_figures_stand_without_runs():
    found = LESSON.figures(Rows([], missing=EXPERIMENT.settings("quick")))
    assert [figure.name for figure in found] == ["widths"]
    assert found[0].rows == []


def test_pictures_show_how_wide_networks_fit_flipped_labels():
    setting = EXPERIMENT.settings("smoke")[0]
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record)) == record
    [moons] = LESSON.pictures(record)
    assert moons.slider.field == "width"
    classes = {(r["width"], r["x"], r["y"]): r["moon"] for r in moons.rows}
    ticks = [sorted({r[name] for r in moons.rows}) for name in ("x", "y")]

    def missed(width):
        """Training examples that lie in a cell of another class."""
        x, y = ([min(some, key=lambda tick: abs(tick - dot[name])) for dot in moons.dots]
                for name, some in zip("xy", ticks, strict=True))  # fmt: skip
        return sum(classes[width, a, b] != dot["moon"] for a, b, dot in zip(x, y, moons.dots, strict=True))

    assert missed(3) >= record["flipped"] / 2 > 0
    assert missed(200) <= missed(3) / 2
    assert LESSON.pictures({}) == []
