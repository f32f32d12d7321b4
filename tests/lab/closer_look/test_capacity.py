"""Bookkeeping of runs that never fit their training set, and the verdicts that rest on it."""

from __future__ import annotations

import pytest

from truerisk.lab.closer_look.capacity import CAPACITY_CLAIMS, capacity_task, steps_to_fit
from truerisk.lab.rows import Rows

CLAIMS = {claim.name: claim for claim in CAPACITY_CLAIMS}


def _row(noise, width, n, fitted, last, level=None, test_error=0.1):
    level = (0.0 if noise == "real" else 1.0) if level is None else level
    return {"part": "capacity", "noise": noise, "level": level, "width": width, "n": n, "fitted_step": fitted,
            "last_step": last, "test_error": test_error}  # fmt: skip


def _rows(narrow):
    """Real data takes twice as long at width 8 as at 32; random inputs as long as ``narrow`` says."""
    times = {
        "real": ((20, 20), (10, 10), (8, 8)),
        "randX": (narrow, (20, 20), (10, 10)),
        "randY": ((90, 90), (30, 30), (10, 10)),
    }
    places = ((8, 100), (32, 100), (32, 50))
    return Rows(
        _row(noise, *place, *steps) for noise, some in times.items() for place, steps in zip(places, some, strict=True)
    )


def test_a_run_that_never_fits_counts_with_its_limit_and_is_flagged():
    rows = Rows([_row("real", 8, 100, 20, 20), _row("real", 8, 100, None, 60)])
    assert steps_to_fit(rows) == (40, False)
    assert steps_to_fit(rows.where(fitted_step=20)) == (20, True)


@pytest.mark.parametrize(
    ("narrow", "seen", "said"),
    [((52, 52), True, "2.6 times on random inputs"), ((44, 44), False, "2.2 times on random inputs"),
     ((None, 60), True, "at least 3.0 times on random inputs")],
)  # fmt: skip
def test_capacity_verdicts(narrow, seen, said):
    outcome = CLAIMS["capacity-time"].check(_rows(narrow))
    assert outcome.seen is seen
    assert said in outcome.measured
    assert "2.0 times on real data" in outcome.measured


def test_size_verdict_compares_fewest_and_most_examples():
    outcome = CLAIMS["size-time"].check(_rows((52, 52)))
    assert outcome.seen
    assert (
        outcome.measured
        == "the time rises 1.2 times on real data, 2.0 times on random inputs and 3.0 times on random labels"
    )


@pytest.mark.parametrize(("noisy", "seen"), [(0.3, True), (0.1, False)])
def test_capacity_needed_compares_the_middle_width_with_the_best(noisy, seen):
    rows = [_row("real", 32, 50, 8, 8)]
    for noise in ("real", "randX", "randY"):
        level, middle = (0.0, 0.1) if noise == "real" else (0.4, noisy)
        rows += [_row(noise, 32, 100, 9, 9, level, middle), _row(noise, 64, 100, 9, 9, level, 0.1)]
    assert CLAIMS["capacity-needed"].check(Rows(rows)).seen is seen


def test_a_run_with_too_few_epochs_is_not_reached():
    setting = {"data": "digits", "n": 100, "n_test": 50, "width": 4, "batch": 50, "lr": 0.05, "halve_every": None,
               "epochs": 2, "noise": "randY", "level": 1.0, "seed": 0}  # fmt: skip
    record = capacity_task(setting)
    assert record["fitted_step"] is None
    assert record["last_step"] == 4
    assert record["train_error"] > 0
