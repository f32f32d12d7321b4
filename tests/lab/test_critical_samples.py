"""Effects on curves of critical samples and of errors."""

from __future__ import annotations

import pytest

from truerisk.lab import Above, IncompleteError, Rows, load
from truerisk.lab.experiments.critical_samples import (
    CLAIMS,
    final_on_noise,
    fit_at_best,
    lost_after_best,
    rise,
    times_real_data,
)
from truerisk.lab.lessons.critical_samples import LESSON, RADII, SIDE
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}
PEAK, LATE = [0.9, 0.2, 0.4], [0.9, 0.4, 0.2]  # test errors: best before the end, and at the end


def _rows(real, inputs, labels, test_error=PEAK):
    """Curves of critical samples for each kind of data, and of errors for partly random labels."""
    rows = []
    for seed in range(20, 25):
        for noise, level, curve in (("real", 0.0, real), ("randX", 1.0, inputs), ("randY", 1.0, labels)):
            rows.append({"noise": noise, "level": level, "seed": seed, "critical": curve})
        for level in (0.4, 0.8):
            errors = {"train_error": [0.9, 0.5, 0.0], "test_error": test_error}
            rows.append({"noise": "randY", "level": level, "seed": seed, "critical": labels, **errors})
    return Rows({**row, "n": 500, "n_test": 500} for row in rows)


def _pure(*curves):
    return _rows(*curves).where(seed=20, level=[0.0, 1.0])


def test_ratios_and_rises():
    runs = _pure([0.0, 0.3, 0.2], [0.0, 0.5, 0.6], [0.0, 0.3, 0.8])
    assert times_real_data(runs) == pytest.approx({"random inputs": 3, "random labels": 4})
    assert final_on_noise(runs) == {"random inputs": 0.6, "random labels": 0.8}
    assert rise(runs) == pytest.approx({"random inputs": 0.1, "random labels": 0.5})  # from the second look on


def test_none_on_real_data_is_fewer_than_one():
    found = times_real_data(_pure([0.0, 0.1, 0.0], [0.0, 0.5, 0.6], [0.0, 0.3, 0.8]))
    assert found["random inputs"] == Above(pytest.approx(0.6 * 500))


def test_none_on_noise_has_no_ratio():
    with pytest.raises(IncompleteError, match="random labels, so the radius is too small"):
        times_real_data(_pure([0.0, 0.1, 0.1], [0.0, 0.5, 0.6], [0.0, 0.3, 0.0]))


def test_the_best_epoch():
    runs = _rows([0, 0, 0], [0, 0, 0], [0, 0, 0]).where(seed=20, level=0.4)
    assert fit_at_best(runs) == 0.5
    assert lost_after_best(runs) == pytest.approx(0.2)


def test_verdicts():
    paper = _rows([0.1, 0.2, 0.2], [0.1, 0.5, 0.8], [0.1, 0.5, 0.9])
    assert {judge(claim, paper, "quick").word for claim in CLAIMS} == {"reproduced"}
    alike = _rows([0.1, 0.02, 0.02], [0.1, 0.01, 0.03], [0.1, 0.03, 0.03], LATE)
    assert {judge(claim, alike, "quick").word for claim in CLAIMS} == {"not reproduced"}


def test_one_kind_of_noise_is_not_enough():
    found = judge(CLAIM["critical-noise"], _rows([0.1, 0.3, 0.3], [0.1, 0.5, 0.9], [0.1, 0.3, 0.3]), "quick")
    assert (found.word, found.decisive.rival) == ("not reproduced", "random labels")


def test_figures_unroll_the_curves_of_each_run():
    rows = _rows([0.1, 0.2, 0.2], [0.1, 0.5, 0.8], [0.1, 0.5, 0.9])
    errors = {"train_error": [0.9, 0.5, 0.0], "test_error": PEAK}
    full = Rows({**errors, **row, "steps": [0, 10, 20]} for row in rows)
    ratios, patterns, mixtures = LESSON.figures(full)
    assert [row["ratio"] for row in ratios.rows if (row["data"], row["seed"]) == ("random inputs", 20)] == [
        0.1,
        0.5,
        0.8,
    ]
    assert {row["data"] for row in ratios.rows} == {"real data", "random inputs", "random labels"}
    unseen = [row for row in patterns.rows if (row["on"], row["level"], row["seed"]) == ("unseen examples", 0.4, 20)]
    assert [row["accuracy"] for row in unseen] == pytest.approx([0.1, 0.8, 0.6])
    assert [row["step"] for row in unseen] == [0, 10, 20]
    assert list(dict.fromkeys(row["labels"] for row in mixtures.rows)) == [
        f"{share} random labels" for share in ("0%", "40%", "80%", "100%")
    ]


def test_pictures_show_neighbors_in_another_class():
    record = LESSON.demo(load("critical-samples").settings("smoke")[0])
    neighbors = [one for found in record["neighbors"].values() for one in found]
    assert any(one["classes"][0] != one["classes"][1] for one in neighbors)
    for one in neighbors:
        assert one["reach"] == RADII[-1] or one["classes"][0] != one["classes"][1]
    assert all(len(shares) == len(RADII) and shares[0] <= shares[-1] for shares in record["shares"].values())
    images, plane, _ = LESSON.pictures(record)
    assert len(plane.rows) == 2 * SIDE**2
    assert {(dot["x"], dot["y"]) for dot in plane.dots} == {(0, 0), (1, 0), (0, 1)}
    assert [tile.wrong for tile in images.strips[0].tiles] == [
        one["classes"][0] != one["true"] for one in record["neighbors"]["real"]
    ]
