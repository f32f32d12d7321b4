"""The experiment `double-descent`: sweeps against plain numpy, effects on curves made by hand, and the page."""

import json

import numpy as np
import pytest

from truerisk.data import load
from truerisk.data.dataset import Data
from truerisk.lab import descent, feature_sweep
from truerisk.lab.effect import Above
from truerisk.lab.experiments.double_descent import (
    CLAIMS,
    EXPERIMENT,
    MEDIAN,
    PUBLISHED,
    STRENGTHS,
    own_data,
    task,
)
from truerisk.lab.feature_sweep import directions, median_bandwidth, over_features
from truerisk.lab.lessons.double_descent import LESSON
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.samples import samples
from truerisk.lab.twenty_points import POINTS, curve_rows, dot_rows, fit_rows
from truerisk.lab.verdict import judge
from truerisk.nets.random_features import random_features
from truerisk.report.lab.figures import at_start
from truerisk.report.lab.keys import DOT
from truerisk.report.lab.linked import drawables
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
BASE = {
    "data": "digits", "sweep": "features", "kind": "fourier", "n": 60, "n_validation": 40, "n_test": 200,
    "bandwidth": 1.0, "noise": 0.2, "ridge": "none", "ratios": [0.5, 0.9, 1, 1.1, 3], "seed": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


# ---- the task ------------------------------------------------------------------------------------------------------


def by_hand(s, count):
    """One number of features in a few lines of numpy: training and test outputs, labels, and the readout."""
    from truerisk.data.treatments import corrupt_labels

    both, test = samples(s["data"], s["n"] + s["n_validation"], s["n_test"], derive(s["seed"], "examples"))
    train = corrupt_labels(both, s["noise"], derive(s["seed"], "noise")).take(np.arange(s["n"]))
    phi = random_features(64, count, derive(s["seed"], "features"), s["kind"], s["bandwidth"])
    inputs, new = phi(train.X), phi(test.X)
    readout = np.linalg.pinv(inputs, rcond=1e-12) @ np.eye(10)[train.y]
    return inputs @ readout, new @ readout, train, test, readout


@pytest.mark.parametrize("kind", ["fourier", "relu"])
def test_a_sweep_is_the_pseudoinverse_of_every_size(kind):
    s = {**BASE, "kind": kind}
    record = task(s)
    assert record["counts"] == [30, 54, 60, 66, 180]
    for i, count in enumerate(record["counts"]):
        fitted, new, train, test, readout = by_hand(s, count)
        assert record["test_error"][i] == pytest.approx(np.mean(new.argmax(1) != test.y), abs=1 / 200)
        assert record["train_error"][i] == pytest.approx(np.mean(fitted.argmax(1) != train.y), abs=1 / 60)
        assert record["test_squared"][i] == pytest.approx(((new - np.eye(10)[test.y]) ** 2).sum(1).mean(), rel=1e-4)
        missed = ((fitted - np.eye(10)[train.y]) ** 2).sum(1).mean()
        assert record["train_squared"][i] == pytest.approx(missed, rel=1e-4, abs=1e-12)
        assert record["norm"][i] == pytest.approx(np.linalg.norm(readout), rel=1e-4)


def test_validation_examples_choose_the_ridge(monkeypatch):
    s = {**BASE, "ridge": "tuned", "ratios": [0.5, 1, 4]}
    chosen, each = task(s), {}
    for strength in STRENGTHS:
        monkeypatch.setattr("truerisk.lab.experiments.double_descent.STRENGTHS", (strength,))
        each[strength] = task(s)
    for i, strength in enumerate(chosen["strength"]):
        assert chosen["norm"][i] == each[strength]["norm"][i]
    assert len(set(chosen["strength"])) < len(STRENGTHS)
    without = task({**BASE, "ratios": [1]})
    assert chosen["test_squared"][1] < without["test_squared"][0] / 10


def test_parts_of_a_sweep_have_the_same_numbers():
    """The published sweep runs as three tasks: features of a smaller part are the first of a larger one."""
    whole, part = task({**BASE, "ratios": [0.5, 1, 1.5, 4]}), task({**BASE, "ratios": [1, 1.5]})
    for name in ("test_squared", "norm"):
        assert part[name] == pytest.approx(whole[name][1:3], rel=1e-5)


def test_features_that_are_not_kept_give_the_same_record(monkeypatch):
    kept = task(BASE)
    monkeypatch.setattr(feature_sweep, "HELD", 0)
    again = task(BASE)
    assert again["test_squared"] == pytest.approx(kept["test_squared"], rel=1e-5)
    assert again["counts"] == kept["counts"]


def test_more_examples_for_the_same_features():
    s = {**BASE, "sweep": "examples", "n_validation": 0, "width": 20, "ratios": [0.5, 1, 3]}
    record = task(s)
    assert record["sizes"] == [10, 20, 60]
    assert record["train_squared"][0] < 1e-12 < record["train_squared"][2]
    fitted = by_hand({**s, "n": 60}, 20)[0]
    _, _, train, _, _ = by_hand({**s, "n": 60}, 20)
    assert record["train_error"][2] == pytest.approx(np.mean(fitted.argmax(1) != train.y), abs=1 / 60)


def test_the_same_setting_gives_the_same_record():
    s = {**BASE, "ridge": "tuned"}
    assert task(s) == task(s)
    assert json.loads(json.dumps(task(s), allow_nan=False)) == task(s)
    assert not s.keys() & task(s).keys()
    assert task({**s, "seed": 1}) != task(s)


@pytest.mark.parametrize("data", ["digits", "dead"])
def test_directions_bound_the_rank(data):
    train = load("digits").take(np.arange(100))
    if data == "dead":  # a negative input is off in half of the units and on in the others: two directions at most
        train = Data("dead", -np.ones((30, 1), np.float32) * np.arange(1, 31)[:, None], np.arange(30) % 2, classes=2)
    phi = random_features(int(np.prod(train.input_shape)), 150, seed=1)
    counts = [1, 20, 90, 150]
    for count, bound in zip(counts, directions(phi, train, counts), strict=True):
        rank = np.linalg.matrix_rank(phi.block(train.X, 0, count))
        assert rank <= bound <= count
        assert bound - rank <= (0 if data == "dead" else 0.05 * len(train)) or rank == len(train)
    assert directions(random_features(64, 9, 0, "fourier"), load("digits").take(np.arange(5)), [3, 9]) == [3, 9]


def test_the_bandwidth_is_half_the_median_distance():
    X = np.array([[0.0], [0.0], [1.0], [4.0]], np.float32)
    assert median_bandwidth(Data("x", X, np.array([0, 1, 0, 1]), classes=2)) == np.median([1, 4, 1, 4, 3]) / 2
    assert median_bandwidth(Data("x", 0 * X, np.array([0, 1, 0, 1]), classes=2)) == 1.0


# ---- effects -------------------------------------------------------------------------------------------------------


def run(**lists):
    return {"n": 100, "seed": 0, "counts": [50, 95, 100, 105, 110, 400], **lists}


def test_the_peak_is_compared_with_all_other_places():
    values = [1.0, 6.0, 8.0, 2.0, 4.0, 0.5]
    assert descent.peak_at_threshold(Rows([run(test_squared=values)])) == 2.0
    assert descent.peak_at_threshold(Rows([run(norm=values)]), field="norm") == 2.0
    shifted = run(test_squared=[1.0, 6.0, 8.0, 2.0, 40.0, 0.5], directions=[40, 80, 85, 92, 98, 300])
    assert descent.peak_at_threshold(Rows([shifted])) == pytest.approx(0.2)
    assert descent.peak_at_threshold(Rows([shifted]), along="directions") == 5.0
    with pytest.raises(IncompleteError, match="no directions within 5% of n = 100"):
        descent.peak_at_threshold(Rows([{**shifted, "directions": [0] * 6}]), along="directions")


def test_parts_are_put_together():
    errors = [0.3, 0.5, 0.9, 0.6, 0.4, 0.1]
    whole = run(test_error=errors)
    parts = [{**whole, "counts": whole["counts"][a:b], "test_error": errors[a:b]} for a, b in ((4, 6), (0, 4))]
    for effect, value in ((descent.second_descent, 0.2), (descent.first_descent_wins, -0.2), (descent.rise, 0.6)):
        assert effect(Rows([whole])) == pytest.approx(value)
        assert effect(Rows(parts)) == pytest.approx(value)


def sized(**lists):
    return {"n": 100, "width": 20, "sweep": "examples", "seed": 0, "sizes": [10, 20, 40, 80], **lists}


def test_more_data_hurt_where_the_error_rises():
    assert descent.more_data_hurt(Rows([sized(test_error=[0.3, 0.8, 0.4, 0.2])])) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("errors", "fitted"),
    [
        ([0.0, 0.0, 0.05, 0.15], 3.0),  # halfway between 2N and 4N
        ([0.0, 0.2, 0.1, 0.3], 2.0),  # the largest n counts
        ([0.2, 0.3, 0.4, 0.5], 0.25),  # between no example and N/2
        ([0.0, 0.0, 0.0, 0.1], Above(4.0)),
    ],
)
def test_effective_complexity(errors, fitted):
    found = descent.effective_complexity(Rows([sized(train_error=errors)]))
    assert found == (fitted if isinstance(fitted, Above) else pytest.approx(fitted))


def test_interpolation_in_both_sweeps():
    features = run(sweep="features", train_squared=[0.2, 0.01, 1e-25, 1e-25, 1e-25, 1e-25])
    examples = sized(train_squared=[1e-25, 1e-25, 0.1, 0.2])
    assert descent.fits_from_n_on(Rows([features, examples])).holds
    assert not descent.fits_from_n_on(Rows([{**features, "train_squared": [0.2, 0.01, 1e-3, 0, 0, 0]}])).holds
    assert not descent.fits_from_n_on(Rows([{**examples, "train_squared": [0, 0, 1e-20, 0.2]}])).holds


def world(peak=1.0, tail=0.02, first=0.1, ridge=0.0, hurt=0.5, fitted=3.0, relu_tail=0.02, at=1.0):
    """Rows of the quick grid with a peak of this factor at this N / n, and errors of so much before and after it."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        wobble = 1 + 0.01 * (s["seed"] % 4)
        if s["sweep"] == "features":
            counts = [round(ratio * s["n"]) for ratio in s["ratios"]]
            end = tail if s["kind"] == "fourier" else relu_tail
            errors = [first * wobble if c < s["n"] else end * wobble for c in counts]
            if s["ridge"] == "tuned":
                errors = [0.1 + ridge * wobble * (c > s["n"]) for c in counts]
            squared = [peak * wobble if abs(c / s["n"] - at) < 0.02 else 1.0 for c in counts]
            record = {"counts": counts, "test_error": errors, "test_squared": squared, "norm": squared}
            zero = [0.1 * (c < s["n"]) for c in counts]
            record |= {"train_squared": zero, "train_error": zero, "directions": counts}
        else:
            sizes = [round(ratio * s["width"]) for ratio in s["ratios"]]
            errors = [0.2 + hurt * wobble * (size == s["width"]) for size in sizes]
            trained = [0.1 * size / (fitted * wobble * s["width"]) for size in sizes]
            record = {"sizes": sizes, "test_error": errors, "train_error": trained, "norm": sizes}
            record |= {"train_squared": [0.1 * (size > s["width"]) for size in sizes], "test_squared": errors}
        made.append({**s, **record})
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


@pytest.mark.parametrize(
    ("claim", "found", "word"),
    [
        ("peak-at-threshold", {"peak": 30}, "reproduced"),
        ("peak-at-threshold", {"peak": 30, "at": 1.4}, "not reproduced"),
        ("peak-at-threshold", {"peak": 1}, "no verdict"),
        ("norm-peaks", {"peak": 30}, "reproduced"),
        ("norm-peaks", {"peak": 30, "at": 0.5}, "not reproduced"),
        ("relu-peak-at-rank", {"peak": 30}, "reproduced"),
        ("relu-peak-at-rank", {"peak": 30, "at": 0.9}, "not reproduced"),
        ("second-descent", {}, "reproduced"),
        ("second-descent", {"relu_tail": 0.1}, "not reproduced"),
        ("second-descent", {"relu_tail": 0.09}, "no verdict"),
        ("ridge-removes-peak", {"ridge": 0.01}, "reproduced"),
        ("ridge-removes-peak", {"ridge": 0.2}, "not reproduced"),
        ("noise-second-descent", {}, "reproduced"),
        ("noise-second-descent", {"tail": 0.2}, "not reproduced"),
        ("relu-noise-favors-few", {"relu_tail": 0.2}, "reproduced"),
        ("relu-noise-favors-few", {"relu_tail": 0.05}, "not reproduced"),
        ("more-data-hurt", {}, "reproduced"),
        ("more-data-hurt", {"hurt": 0.05}, "not reproduced"),
        ("effective-complexity", {}, "reproduced"),
        ("effective-complexity", {"fitted": 1.1}, "not reproduced"),
        ("interpolates", {}, "exact"),
    ],
)
def test_verdicts(claim, found, word):
    assert judge(CLAIM[claim], world(**found), "quick").word == word


def test_the_grids():
    """Places near the threshold that could refute its place, and the published numbers of features."""
    ratios = EXPERIMENT.settings("quick")[0]["ratios"]
    assert {0.8, 0.9, 0.93, 0.95, 0.98, 1, 1.02, 1.05, 1.07, 1.1, 1.2} <= set(ratios)
    published = [0.5, 1, 1.5, 2, 2.5, 3, *range(4, 15), 20, 40, 60]
    assert {10 * ratio for part in PUBLISHED for ratio in part} >= set(published)
    for scale in EXPERIMENT.grids:
        for s in EXPERIMENT.settings(scale):
            if s["sweep"] != "features":
                assert max(s["ratios"]) * s["width"] <= s["n"]


# ---- a user's own data ---------------------------------------------------------------------------------------------


def odd(case):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((90, 3)).astype(np.float32), np.arange(90) % 3
    if case == "one feature":
        X = X[:, :1]
    elif case == "integers, two classes":
        X, y = rng.integers(0, 1000, (90, 5)), np.arange(90) % 2
    elif case == "repeated rows":
        X = np.tile(X[:18], (5, 1))
    elif case == "huge":
        X = X * np.float32(1e18)
    elif case == "constant":
        X = np.ones_like(X)
    elif case == "few":
        X, y = X[:30], y[:30] % 2
    elif case == "images":
        X = rng.integers(0, 255, (90, 1, 6, 6)).astype(np.uint8)
    return X, y


@pytest.mark.parametrize(
    "case", ["one feature", "integers, two classes", "repeated rows", "huge", "constant", "few", "images"]
)
def test_odd_data(tmp_path, case):
    X, y = odd(case)
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    settings = own.settings("smoke")
    assert {s["bandwidth"] for s in settings} == {MEDIAN}
    made = [{**s, **task(s)} for s in settings]
    assert all(np.isfinite(value) for row in made for value in row["test_squared"] + row["norm"])
    found = Rows(made, fields={name for s in settings for name in s})
    assert all(verdict.reason != "broken" for verdict in own.judge(found, "smoke"))
    [descent_] = [figure for figure in LESSON.figures(found) if figure.name == "descent"]
    assert [rule.label for rule in descent_.rules] == ["N = n"]  # how well guessing does is not known here


def test_own_data_keep_examples_for_all_parts():
    digits = load("digits")
    for s in EXPERIMENT.settings("quick") + EXPERIMENT.settings("paper")[:3]:
        fitted = own_data(s, digits)
        assert fitted["n"] + fitted["n_validation"] + fitted["n_test"] <= len(digits)
        if s["sweep"] != "features":
            assert max(round(ratio * fitted["width"]) for ratio in fitted["ratios"]) <= fitted["n"]
    few = digits.take(np.arange(30))
    assert {own_data(s, few) is None for s in EXPERIMENT.settings("quick") if s["sweep"] == "capacity"} == {True, False}


# ---- the page ------------------------------------------------------------------------------------------------------


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [v.claim.name for v in verdicts if not v.cells and not v.detail] == []
    figures = LESSON.figures(rows)
    names = ["descent", "squared", "norm", "kinds", "independent", "examples", "complexity"]
    assert [figure.name for figure in figures] == names
    for figure in figures:
        assert figure.rows
        assert set(figure.claims) <= set(CLAIM)


def test_figures_show_the_numbers_of_the_runs():
    made = world(peak=30, fitted=2.6)
    descent_, squared, norm, kinds, independent, examples, complexity = LESSON.figures(made)
    first = next(s for s in made if s["kind"] == "fourier" and s["ridge"] == "none" and s["noise"] == 0)
    shown = {
        row["ratio"]: row["error"]
        for row in descent_.rows
        if row["seed"] == first["seed"] and row["curve"] == "test error" and row["panel"] == "digits, true labels"
    }
    assert shown == {c / 500: e for c, e in zip(first["counts"], first["test_error"], strict=True)}
    assert {row["curve"] for row in descent_.rows} == {"test error", "test error, tuned ridge", "training error"}
    assert max(row["error"] for row in squared.rows) == pytest.approx(30 * 1.03)
    assert {row["ridge"] for row in norm.rows} == {"no ridge", "tuned ridge"}
    assert {row["name"] for row in kinds.rows} == {"Fourier features", "ReLU features"}
    assert len({row["seed"] for row in independent.rows}) == 1
    assert {row["panel"] for row in examples.rows} == {
        "digits, true labels",
        "digits, 20% of labels replaced",
        "digits, random labels",
    }
    mine = [row for row in complexity.rows if row["seed"] == 20 and row["labels"] == "digits, 20% of labels replaced"]
    assert {row["width"]: row["fitted"] for row in mine} == pytest.approx(
        {N: 2.6 * N for N in (50, 100, 200, 300, 400)}
    )
    line = [row for row in complexity.rows if row["labels"] == "as many examples as features"]
    assert all(row["fitted"] == row["width"] for row in line)
    assert {(rule.value, rule.upright) for rule in descent_.rules} == {(0.9, False), (1.0, True)}


def test_scales_without_other_kinds_have_fewer_figures():
    settings = EXPERIMENT.settings("paper")
    made = Rows([{**s, **_record(s)} for s in settings], fields=settings[0])
    assert [figure.name for figure in LESSON.figures(made)] == ["descent", "squared", "norm"]
    words = {claim.name: judge(claim, made, "paper").word for claim in EXPERIMENT.speaking("paper")}
    assert words == {
        "peak-at-threshold": "reproduced",
        "second-descent": "reproduced",
        "norm-peaks": "reproduced",
        "interpolates": "exact",
    }


def _record(s):
    counts = [round(ratio * s["n"]) for ratio in s["ratios"]]
    wobble = 1 + 0.01 * s["seed"]
    peak = [9 * wobble if c == s["n"] else 1.0 for c in counts]
    errors = [0.15 * wobble if c < s["n"] else 0.05 for c in counts]
    zero = [0.1 * (c < s["n"]) for c in counts]
    return {"counts": counts, "test_error": errors, "train_error": zero, "test_squared": peak, "train_squared": zero,
            "norm": peak, "directions": counts}  # fmt: skip


def test_missing_runs_leave_gaps():
    settings = EXPERIMENT.settings("quick")
    fields = {name for s in settings for name in s}
    assert [figure.rows for figure in LESSON.figures(Rows([], missing=settings, fields=fields))] == [[], [], []]
    whole = world(peak=30)
    gone = Rows(whole.present[1:], missing=settings[:1], fields=fields)
    assert len(LESSON.figures(gone)) == 7
    assert judge(CLAIM["peak-at-threshold"], gone, "quick").word == "no verdict"


def test_twenty_points():
    """Curves meet all points from N = 20 on without a ridge; noisy points have a peak there, and a calm tail."""
    record = LESSON.demo(EXPERIMENT.settings("quick")[0])
    assert len(json.dumps(record, allow_nan=False)) < 400_000
    assert record == LESSON.demo(EXPERIMENT.settings("paper")[0])
    fits, curve, dots = fit_rows(record), curve_rows(record), dot_rows(record)
    assert [row["y"] for row in fits if "noise" not in row] == record["truth"]  # shown in every state
    fits = [row for row in fits if "noise" in row]
    assert max(abs(row["y"]) for row in fits) <= 3
    for noise in (False, True):
        points = [dot for dot in dots if (dot["noise"], dot["ridge"]) == (noise, False)]
        assert len(points) == POINTS
        line = [r for r in fits if (r["noise"], r["ridge"], r["features"]) == (noise, False, 2000)]
        near = np.interp([p["x"] for p in points], [r["x"] for r in line], [r["y"] for r in line])
        assert np.abs(near - [p["y"] for p in points]).max() < 0.05
    found = {(r["noise"], r["ridge"], r["count"]): r["test_error"] for r in curve}
    assert found[True, False, 20] > 10 * found[True, False, 2000]
    assert found[True, False, 20] > 10 * found[True, True, 20]


def test_the_hero_moves_the_fit_and_its_place_on_both_curves():
    record = LESSON.demo(EXPERIMENT.settings("quick")[0])
    [linked] = LESSON.pictures(record)
    assert linked.name == LESSON.hero
    fit, error, norm = drawables(linked)
    assert fit.slides[fit.start % len(fit.slides)] == str(POINTS)  # it starts at the threshold, with noise
    for drawn, name in ((error, "test_error"), (norm, "norm")):
        [dot] = [row for row in drawn.of(DOT) if at_start(row, drawn)]
        [place] = [f for f in record["fits"] if (f["features"], f["noise"], f["ridge"]) == (POINTS, True, False)]
        assert (dot["x"], dot["y"]) == (POINTS, place[name])
    assert LESSON.pictures({}) == []


def test_validation_is_not_read_without_ridges():
    train, test = samples("digits", 40, 50, seed=1)
    phi = random_features(64, 80, 0, "fourier")
    assert over_features(phi, [20, 80], train, test)["strength"] == [0.0, 0.0]
