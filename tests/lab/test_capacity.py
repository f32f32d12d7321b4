"""Ratios of times with runs that never fit their training set, and gains from width."""

from __future__ import annotations

import pytest

from truerisk.lab import Above, IncompleteError, Rows, load
from truerisk.lab.experiments.capacity import (
    CLAIMS,
    gain_on_real_data,
    gains_beyond_real_data,
    grid,
    relative_slowdown,
    task,
)
from truerisk.lab.lessons.capacity import LESSON
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}
PLACES = {"narrow": (8, 100), "middle": (16, 100), "wide": (32, 100), "few": (16, 50)}  # width, n


def _runs(late=(), seed=20, **steps):
    """Steps to fit at each place, by default 10; ``late`` are (noise, place) that stopped at their limit."""
    rows = []
    for noise, level in (("real", 0.0), ("randX", 1.0)):
        for place, (width, n) in PLACES.items():
            rows.append({
                "noise": noise, "level": level, "width": width, "n": n, "seed": seed,
                "steps": steps.get(f"{noise}_{place}", 10), "fitted": (noise, place) not in late,
            })  # fmt: skip
    return Rows(rows)


def _accuracies(real, inputs, labels, seed=20):
    """(accuracy at the middle width, of the widest network) for each kind of noise, on 1,000 examples."""
    rows = [{"noise": "real", "level": 0.0, "width": 16, "n": 50, "test_error": 0.5}]
    for (noise, level), both in zip(
        (("real", 0.0), ("randX", 0.4), ("randY", 0.4)), (real, inputs, labels), strict=True
    ):
        for width, accuracy in zip((16, 32), both, strict=True):
            rows.append({"noise": noise, "level": level, "width": width, "n": 100, "test_error": 1 - accuracy})
    return Rows({**row, "seed": seed, "n_test": 1000} for row in rows)


def _all_seeds(make, *args, **options):
    return Rows(row for seed in range(20, 25) for row in make(*args, **options, seed=seed))


def test_slowdowns_are_ratios_of_ratios():
    runs = _runs(randX_narrow=60, randX_wide=20, real_narrow=30, real_wide=15)
    assert relative_slowdown(runs, "width") == pytest.approx((60 / 20) / (30 / 15))
    runs = _runs(randX_middle=80, randX_few=10, real_middle=20, real_few=10)
    assert relative_slowdown(runs, "n") == pytest.approx((80 / 10) / (20 / 10))


@pytest.mark.parametrize("late", [("randX", "narrow"), ("real", "wide")])
def test_a_limit_in_the_numerator_gives_a_number_above(late):
    assert relative_slowdown(_runs(late=[late], randX_narrow=60), "width") == Above(6)


@pytest.mark.parametrize("late", [("randX", "wide"), ("real", "narrow")])
def test_a_limit_in_the_denominator_gives_no_number(late):
    with pytest.raises(IncompleteError, match="not fitted within their epochs at width"):
        relative_slowdown(_runs(late=[late, ("randX", "narrow")]), "width")
    rows = _all_seeds(_runs, late=[late], randX_narrow=60)
    assert judge(CLAIM["capacity-time"], rows, "quick").reason == "incomplete"


def test_verdicts_on_time():
    slow = _all_seeds(_runs, late=[("randX", "narrow")], randX_narrow=60, randX_middle=30)
    assert judge(CLAIM["capacity-time"], slow, "quick").word == "reproduced"
    assert judge(CLAIM["size-time"], slow, "quick").word == "reproduced"
    even = _all_seeds(_runs)
    assert judge(CLAIM["capacity-time"], even, "quick").word == "not reproduced"
    assert judge(CLAIM["size-time"], even, "quick").word == "not reproduced"


def test_gains_compare_the_middle_width_with_the_widest():
    runs = _accuracies((0.96, 0.97), (0.9, 0.95), (0.7, 0.75))
    assert gain_on_real_data(runs) == pytest.approx(0.01)
    assert gains_beyond_real_data(runs) == pytest.approx({"random inputs": 0.04, "random labels": 0.04})


def test_verdicts_on_accuracy():
    needed = _all_seeds(_accuracies, (0.97, 0.97), (0.9, 0.95), (0.7, 0.75))
    assert judge(CLAIM["enough-for-real-data"], needed, "quick").word == "reproduced"
    assert judge(CLAIM["not-enough-for-noise"], needed, "quick").word == "reproduced"
    one_only = _all_seeds(_accuracies, (0.9, 0.95), (0.9, 0.95), (0.7, 0.8))
    assert judge(CLAIM["enough-for-real-data"], one_only, "quick").word == "not reproduced"
    found = judge(CLAIM["not-enough-for-noise"], one_only, "quick")
    assert (found.word, found.decisive.rival) == ("not reproduced", "random inputs")


def test_a_run_with_too_few_epochs_is_not_fitted():
    setting = {"data": "digits", "n": 100, "n_test": 50, "width": 4, "batch": 50, "lr": 0.05, "halve_every": None,
               "epochs": 2, "noise": "randY", "level": 1.0, "seed": 0}  # fmt: skip
    record = task(setting)
    assert not record["fitted"]
    assert record["steps"] == 4
    assert record["train_error"] > 0


def test_runs_for_figures_alone_have_one_seed():
    runs = grid("quick")
    assert {run["seed"] for run in runs if run["width"] in (32, 64) or run["n"] in (250, 500)} == {20}
    assert {run["seed"] for run in runs if run["width"] == 256 and run["level"] < 1} == set(range(20, 25))


def test_figures_show_times_and_mark_runs_at_their_limit(smoke_rows):
    rows = smoke_rows("capacity")
    figures = {figure.name: figure for figure in LESSON.figures(rows)}
    figure = figures["time-by-width"]
    wanted = {(row["noise"], row["width"]): row["steps"] for row in rows if row["n"] == 120 and row["level"] in (0, 1)}
    assert {(row["noise"], row["width"]): row["steps"] for row in figure.rows} == wanted
    assert [rule.value for rule in figure.rules] == [30 * 3]  # epochs times batches of 50
    assert all(row["steps"] == 90 for row in figure.rows if not row["fitted"])
    assert all(not row["fitted"] for row in figures["time-by-n"].dots)
    assert {row["width"] for row in figures["time-by-n"].rows} == {16}
    assert {row["level"] for row in figures["capacity-accuracy"].rows} == {0.0, 0.4}
    for row in figures["fitted"].rows:
        assert row["fitted_share"] == 1 - row["train_error"]


def test_pictures_show_three_kinds_and_how_they_are_fitted():
    record = LESSON.demo(load("capacity").settings("smoke")[0])
    real, inputs, labels = (strip["tiles"] for strip in record["strips"])
    assert [tile["label"] for tile in real] == [tile["label"] for tile in inputs]
    assert [tile["pixels"] for tile in real] == [tile["pixels"] for tile in labels]
    assert [one["label"] != other["label"] for one, other in zip(real, labels, strict=True)] == [
        tile["wrong"] for tile in labels
    ]
    assert all(len(curve["at"]) == len(curve["errors"]) for curve in record["curves"])
    assert {(curve["kind"], curve["units"]) for curve in record["curves"]} == {
        (kind, units) for kind in ("real", "randX", "randY") for units in (16, 256)
    }
