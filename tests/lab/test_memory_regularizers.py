"""Adversarial batches, where a curve reaches a memory, and the comparison of regularizers there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from truerisk.lab import IncompleteError, Rows, load
from truerisk.lab.experiments.memory_regularizers import (
    CLAIMS,
    advantage,
    adversarial,
    change_of_accuracy,
    curve_of,
    grid,
    kept,
    memory_at,
)
from truerisk.lab.lessons.memory_regularizers import LESSON
from truerisk.lab.networks import build
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}
GOOD = {"dropout": (0.3, 0.96), "input noise": (0.1, 0.9), "dropout and adversarial": (0.2, 0.97)}
BAD = {"dropout": (0.5, 0.9), "input noise": (0.1, 0.98), "dropout and adversarial": (0.2, 0.8)}


def _rows(points, plain=1.0):
    """(memory, accuracy) of each regularizer at strength 0.85; ``plain`` memory and accuracy 0.96 without one."""
    rows = []
    for name, (memory, accuracy) in {"none": (plain, 0.96), **points}.items():
        for noise, trained in (("randY", memory), ("real", 1.0)):
            rows += [
                {"regularizer": name, "strength": 0.85 if name in points else 0.0, "noise": noise, "seed": seed,
                 "n": 500, "n_test": 1000, "train_accuracy": trained, "best_accuracy": accuracy}
                for seed in range(20, 25)
            ]  # fmt: skip
    return Rows(rows)


def test_adversarial_batches_move_the_given_share_within_the_box():
    torch.manual_seed(0)
    module = build("mlp", (1, 4, 4), 3, [8], seed=1, after_relu=nn.Dropout(0.5)).train()
    X = torch.randn(2000, 1, 4, 4)
    changed = adversarial(module, 0.3, 0.1, 2)(X)
    assert module.training
    assert all(p.grad is None for p in module.parameters())
    assert (changed - X).abs().max() <= 0.1 + 1e-6
    moved = (changed != X).flatten(1).any(1).double().mean().item()
    assert abs(moved - 0.3) < 0.05  # binomial deviation 0.01: 5 sigma


def test_kept_is_where_a_straight_line_meets_the_memory():
    assert kept([(1.0, 0.9), (0.6, 0.8), (0.4, 0.6)], 0.5) == pytest.approx(0.7)
    assert kept([(1.0, 0.9), (0.5, 0.8), (0.4, 0.6)], 0.5) == pytest.approx(0.8)
    assert kept([(1.0, 0.9), (0.4, 0.8), (1.0, 0.7), (0.1, 0.2)], 0.4) == pytest.approx(0.8)  # the first one
    assert kept([(0.5, 0.9), (0.4, 0.8)], 0.6) == 0.9  # without any regularizer
    with pytest.raises(ValueError, match="no strength"):
        kept([(1.0, 0.9), (0.8, 0.8)], 0.5)


def test_a_curve_runs_from_none_to_the_greatest_strength():
    rows = [
        {"regularizer": name, "strength": strength, "noise": noise, "train_accuracy": memory, "best_accuracy": accuracy}
        for name, strength, memory, accuracy in (
            ("dropout", 0.9, 0.2, 0.8), ("none", 0.0, 1.0, 0.95), ("dropout", 0.5, 0.7, 0.9), ("input noise", 1, 0, 0),
        )
        for noise in ("real", "randY")
    ]  # fmt: skip
    assert curve_of(Rows(rows), "dropout") == [(1.0, 0.95), (0.7, 0.9), (0.2, 0.8)]


def test_advantages_at_half_the_memory():
    runs = _rows(GOOD).where(seed=20)
    dropout = 0.96
    noise = 0.96 - 0.06 * 0.5 / 0.9  # a straight line from (1, 0.96) to (0.1, 0.9)
    both = 0.96 + 0.01 * 0.5 / 0.8
    assert advantage(runs, "dropout", ("dropout and adversarial",)) == pytest.approx({"input noise": dropout - noise})
    found = advantage(runs, "dropout and adversarial")
    assert found == pytest.approx({"dropout": both - dropout, "input noise": both - noise})


def test_a_rival_that_never_halves_the_memory_is_compared_at_its_lowest():
    runs = _rows({"dropout": (0.2, 0.88), "input noise": (0.8, 0.95)}).where(seed=20)
    assert advantage(runs, "dropout") == pytest.approx({"input noise": (0.96 - 0.08 * 0.2 / 0.8) - 0.95})


def test_no_number_where_the_regularizer_itself_never_halves_the_memory():
    rows = _rows({**GOOD, "dropout": (0.6, 0.96)})
    with pytest.raises(IncompleteError, match=r"dropout never halves the memory .* 60\.0%"):
        advantage(rows.where(seed=20), "dropout")
    assert judge(CLAIM["dropout-best"], rows, "quick").reason == "incomplete"
    assert judge(CLAIM["dropout-adversarial"], rows, "quick").word == "reproduced"  # dropout is only a rival there


def test_the_chosen_dropout_against_none():
    runs = _rows(GOOD).where(seed=20, regularizer=["none", "dropout"])
    assert memory_at(runs, 0.0) == 1.0
    assert memory_at(runs, 0.85) == 0.3
    assert change_of_accuracy(runs) == pytest.approx(0.0)


def test_verdicts():
    assert {judge(claim, _rows(GOOD), "quick").word for claim in CLAIMS} == {"reproduced"}
    bad = {claim.name: judge(claim, _rows(BAD, plain=0.8), "quick").word for claim in CLAIMS}
    assert bad == {**dict.fromkeys(CLAIM, "not reproduced"), "dropout-memory": "no verdict"}  # 50% is its threshold
    much = _rows({"dropout": (0.6, 0.96)})
    assert judge(CLAIM["dropout-memory"], much, "quick").word == "not reproduced"


def test_the_chosen_dropout_is_in_every_grid_and_unregularized_networks_are_trained_once():
    for scale in ("smoke", "quick", "medium", "paper"):
        runs = [run for run in grid(scale) if run["seed"] == 20]
        chosen = [run["noise"] for run in runs if (run["regularizer"], run["strength"]) == ("dropout", 0.85)]
        plain = [run["noise"] for run in runs if run["strength"] == 0]
        assert chosen == plain == ["real", "randY"]


def test_paths_start_without_a_regularizer_and_go_through_means():
    rows = _rows(GOOD)
    other = Rows({**row, "train_accuracy": row["train_accuracy"] + 0.01 * (row["seed"] - 22)} for row in rows)
    figure = next(figure for figure in LESSON.figures(other) if figure.name == "regularizers")
    path = [(row["memory"], row["error"]) for row in figure.rows if row["regularizer"] == "input noise"]
    assert path == [pytest.approx((1.0, 0.04)), pytest.approx((0.1, 0.1))]
    assert {row["regularizer"] for row in figure.rows} == set(GOOD)


def test_figures_read_memory_from_random_labels_and_learning_from_real_data():
    figures = {figure.name: figure for figure in LESSON.figures(_rows(GOOD))}
    found = {(row["strength"], row["on"]): row["accuracy"] for row in figures["dropout"].rows}
    memory, learning = "memory of random labels", "test accuracy on true labels"
    assert found == {(0.0, memory): 1.0, (0.0, learning): 0.96, (0.85, memory): 0.3, (0.85, learning): 0.96}
    more = {row["rival"]: row["more"] for row in figures["advantage"].rows if row["own"] == "dropout"}
    assert more == pytest.approx({"input noise": 0.06 * 0.5 / 0.9})


def test_no_advantage_is_drawn_where_the_memory_is_never_halved():
    figures = {figure.name: figure for figure in LESSON.figures(_rows({**GOOD, "dropout": (0.6, 0.96)}))}
    assert {row["own"] for row in figures["advantage"].rows} == {"dropout and adversarial"}


def test_pictures_show_stronger_and_stronger_disturbance():
    record = LESSON.demo(load("memory-regularizers").settings("smoke")[0])
    for strip in record["strips"]:
        plain = torch.tensor(strip["tiles"][0]["pixels"], dtype=torch.float64)
        degrees = [tile["degree"] for tile in strip["tiles"]]
        assert degrees == sorted(degrees)
        assert degrees[0] == 0
        changes = [float((torch.tensor(tile["pixels"]) - plain).abs().mean()) for tile in strip["tiles"]]
        assert changes[0] == 0 < changes[1] < changes[-1]
