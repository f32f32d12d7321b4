"""Differences of Gini coefficients, ratios of class sensitivities, and what the matrix of classes holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from truerisk.lab import Rows
from truerisk.lab.experiments import loss_sensitivity
from truerisk.lab.experiments.loss_sensitivity import CLAIMS, gini_gap, grid, off_diagonal, sharing, task
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}


def _rows(real, noise, unique_real, unique_noise, shared_real, shared_noise):
    rows = []
    for seed in range(20, 25):
        own = 1 + 0.01 * (seed - 22)
        for kind, plain, unique, shared in (
            ("real", real, unique_real, shared_real),
            ("randX", noise, unique_noise, shared_noise),
        ):
            base = {"noise": kind, "seed": seed}
            rows += [
                {**base, "by": "examples", "labels": "true classes", "gini": [0.0, plain * own]},
                {**base, "by": "examples", "labels": "one class per example", "gini": [0.0, unique * own]},
                {**base, "by": "classes", "labels": "true classes", "off_diagonal": shared * own},
            ]
    return Rows(rows)


def test_effects_on_one_seed():
    runs = _rows(0.6, 0.4, 0.5, 0.45, 0.9, 0.6).where(seed=22)
    assert gini_gap(runs.where(by="examples", labels="true classes")) == pytest.approx(0.2)
    assert gini_gap(runs.where(by="examples", labels="one class per example")) == pytest.approx(0.05)
    assert sharing(runs.where(by="classes")) == pytest.approx(1.5)


def test_verdicts():
    paper = _rows(0.6, 0.4, 0.5, 0.3, 0.9, 0.6)
    assert [judge(claim, paper, "quick").word for claim in CLAIMS] == ["reproduced"] * 3
    same = _rows(0.5, 0.45, 0.3, 0.5, 0.9, 0.9)
    assert [judge(claim, same, "quick").word for claim in CLAIMS] == ["not reproduced"] * 3


def test_off_diagonal_ratio():
    assert off_diagonal(np.ones((4, 4))) == pytest.approx(1)
    assert off_diagonal(np.eye(4)) == 0


def test_row_i_column_j_is_the_sensitivity_of_class_i_to_examples_of_class_j(monkeypatch):
    """The influence is replaced by numbers that name their group and example."""
    setting = next(run for run in grid("smoke") if run["by"] == "classes")

    def named(X, y, weights, batches, lr, marks, groups):
        found = torch.zeros(len(marks), 10, *X.shape)
        found[..., 0] = 100 * torch.arange(10)[:, None] + y
        return found

    monkeypatch.setattr(loss_sensitivity, "influence", named)
    matrix = np.array(task(setting)["class_sensitivity"])
    np.testing.assert_allclose(matrix, 100 * np.arange(10)[:, None] + np.arange(10))


def test_only_the_figure_has_random_labels():
    assert [run["seed"] for run in grid("quick") if run["noise"] == "randY"] == [20]
