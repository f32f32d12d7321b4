"""The Rademacher estimate by training on random signs."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from measures.cases import CASES, build
from torch import nn

import truerisk
from truerisk.data import Data
from truerisk.measures import MEASURES, NotDefined, Subject, measure
from truerisk.measures.families import rademacher
from truerisk.seeds import derive
from truerisk.training import Plan

LONG = Plan(epochs=100, batch_size=20, lr=0.1, schedule="constant")


def test_as_many_inputs_as_points_agree_with_any_signs():
    """Ten points in general position in R^12 are separated in every way by a linear classifier: exactly 1."""
    data = Data("few", np.random.default_rng(0).standard_normal((10, 12)), np.arange(10) % 2, 2)
    assert rademacher.correlations(nn.Linear(12, 2), data, LONG, draws=2, seed=0) == [1.0, 1.0]


def test_a_constant_classifier_agrees_with_the_majority():
    """Inputs that are all 0 leave the bias alone: the best it can do is |mean of the signs|."""
    data = Data("none", np.zeros((9, 3)), np.arange(9) % 2, 2)
    for draw, found in enumerate(rademacher.correlations(nn.Linear(3, 2), data, LONG, draws=2, seed=1)):
        signs = np.random.default_rng(derive(1, "signs", draw)).choice([-1, 1], size=9)
        assert found == pytest.approx(abs(signs.mean()))


def best_line(X: np.ndarray, signs: np.ndarray) -> float:
    """The largest agreement of a half-plane with the signs, over all lines close to two of the points."""
    best = abs(float(signs.sum()))
    for i in range(len(X)):
        for j in range(i):
            normal = np.array([X[i, 1] - X[j, 1], X[j, 0] - X[i, 0]])
            side = np.sign(X @ normal - X[i] @ normal)
            for a in (-1, 1):
                for b in (-1, 1):
                    side[i], side[j] = a, b  # a line can be turned so that the two lie on any side
                    best = max(best, abs(float(side @ signs)))
    return best / len(X)


def test_training_never_exceeds_the_supremum():
    """Twelve points of the plane and affine classifiers, where the supremum is found by looking at all lines."""
    data = Data("plane", np.random.default_rng(3).standard_normal((12, 2)), np.arange(12) % 2, 2)
    found = rademacher.correlations(nn.Linear(2, 2), data, LONG, draws=4, seed=2)
    suprema = []
    for draw in range(4):
        signs = np.random.default_rng(derive(2, "signs", draw)).choice([-1, 1], size=12)
        suprema.append(best_line(data.X.astype(float), signs))
    assert all(f <= s + 1e-12 for f, s in zip(found, suprema, strict=True))
    assert np.mean(found) > 0.25 * np.mean(suprema)
    assert max(suprema) < 1


@pytest.mark.parametrize("name", CASES)
def test_all_cases_and_their_rescalings(name, images, monkeypatch):
    """It trains from scratch, so that the weights at hand, and how they are scaled, do not matter."""
    monkeypatch.setattr(rademacher, "PLAN", replace(rademacher.PLAN, epochs=2))
    monkeypatch.setattr(rademacher, "DRAWS", 2)
    entry = MEASURES["random-sign-correlation"]
    net = build(name)
    before = copy.deepcopy(net.state_dict())
    found = entry(Subject(net, images))
    value = found.value
    assert -1 <= value <= 1
    each = rademacher.correlations(net, images, rademacher.PLAN, 2, derive(0, "rademacher"))
    assert value == pytest.approx(np.mean(each))
    assert found.error == pytest.approx(abs(each[0] - each[1]) / 2)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    sym = truerisk.find_symmetry(net, torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    assert entry.invariant
    assert entry(Subject(sym.rescale(net, sym.random(std=1.0, seed=0)), images)).value == value
    assert entry(Subject(net, images, seed=1)).value != value


def test_it_is_left_out_unless_asked_for(images):
    assert MEASURES["random-sign-correlation"].cost == "training"
    assert "random-sign-correlation" not in measure(build("linear"), images).values


def test_what_cannot_be_trained_from_scratch(images):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(3, 64))

        def forward(self, x):
            return x.flatten(1) @ self.w.T

    with pytest.raises(NotDefined, match="from scratch"):
        MEASURES["random-sign-correlation"](Subject(Own(), images))
