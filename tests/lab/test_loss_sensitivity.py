"""Differences of Gini coefficients, ratios of class sensitivities, and what the matrix of classes holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from truerisk.lab import Rows, load
from truerisk.lab.experiments import loss_sensitivity
from truerisk.lab.experiments.loss_sensitivity import CLAIMS, gini_gap, grid, off_diagonal, sharing, task
from truerisk.lab.lessons.loss_sensitivity import LESSON
from truerisk.lab.verdict import judge
from truerisk.training.unrolled import gini

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


def test_squares_are_relative_to_the_diagonal():
    """Means over seeds of matrices with a mean diagonal of 1; what lies off it agrees with the claim's number."""
    matrices = {20: np.array([[2.0, 1.0], [3.0, 4.0]]), 21: np.array([[10.0, 2.0], [0.0, 10.0]])}
    rows = Rows(
        {"by": "classes", "noise": "real", "seed": seed, "class_sensitivity": matrix.tolist(),
         "off_diagonal": off_diagonal(matrix)}
        for seed, matrix in matrices.items()
    )  # fmt: skip
    figures = {figure.name: figure for figure in LESSON.figures(rows)}
    found = {(row["of"], row["to"]): row["relative"] for row in figures["class-sensitivity"].rows}
    assert found == pytest.approx({(0, 0): 5 / 6, (0, 1): (1 / 3 + 0.2) / 2, (1, 0): 0.5, (1, 1): 7 / 6})
    assert (found[0, 1] + found[1, 0]) / 2 == pytest.approx(np.mean([off_diagonal(m) for m in matrices.values()]))
    assert figures["gini"].rows == []


def test_gini_is_drawn_over_the_share_of_training():
    rows = Rows([{"by": "examples", "noise": "real", "labels": "true classes", "seed": 20, "steps": [5, 20],
                  "gini": [0.1, 0.4]}])  # fmt: skip
    figure = LESSON.figures(rows)[0]
    assert [(row["share"], row["coefficient"]) for row in figure.rows] == [(0.25, 0.1), (1.0, 0.4)]


def test_pictures_show_who_matters_most_and_least():
    record = LESSON.demo(load("loss-sensitivity").settings("smoke")[0])
    for kind in record["kinds"].values():
        most, least = ([one["times"] for one in kind[which]] for which in ("most", "least"))
        assert most == sorted(most, reverse=True)
        assert least == sorted(least)
        assert least[-1] < 1 < most[-1]
        assert kind["carried"][0] == 0
        assert kind["carried"][-1] == pytest.approx(1)
        assert all(share >= place for share, place in zip(kind["carried"], kind["places"], strict=True))
        # twice the area between the curve and the diagonal, up to the steps of 100 examples
        area = np.trapezoid(kind["carried"], kind["places"])
        norms = np.diff(kind["carried"])
        assert 2 * area - 1 == pytest.approx(gini(norms), abs=0.02)
