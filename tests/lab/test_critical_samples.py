"""Effects on curves of critical samples and of errors."""

from __future__ import annotations

import pytest

from truerisk.lab import Above, IncompleteError, Rows
from truerisk.lab.experiments.critical_samples import (
    CLAIMS,
    final_on_noise,
    fit_at_best,
    lost_after_best,
    rise,
    times_real_data,
)
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
