"""The search for critical samples against linear classifiers, for which the answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from truerisk.lab.closer_look.critical import _patterns_first, search
from truerisk.lab.rows import Rows

RADIUS = 0.2


@pytest.fixture
def linear():
    torch.manual_seed(0)
    return nn.Linear(10, 2).double(), torch.randn(400, 10, dtype=torch.float64)


def _reach(module, X):
    """(margin, the most that a box of radius 1 can take from it): for two classes, |w.x + b| and ||w||_1."""
    difference = module.weight[0] - module.weight[1]
    return (X @ difference + module.bias[0] - module.bias[1]).abs().detach(), difference.abs().sum().item()


def test_only_points_with_a_critical_sample_are_called_critical(linear):
    module, X = linear
    _, critical = search(module, X, RADIUS, 30, torch.Generator().manual_seed(1))
    margin, reach = _reach(module, X)
    assert (margin[critical] <= RADIUS * reach).all()
    # where two thirds of the reach are enough, thirty steps of a walk that drifts to the corner must find one
    assert critical[margin <= 0.67 * RADIUS * reach].all()
    assert 0.1 < critical.double().mean() < 0.9


def test_end_points_stay_in_the_box_and_show_what_is_claimed(linear):
    module, X = linear
    ends, critical = search(module, X, RADIUS, 10, torch.Generator().manual_seed(1))
    assert (ends - X).abs().max() <= RADIUS * (1 + 1e-12)
    changed = module(ends).argmax(1) != module(X).argmax(1)
    torch.testing.assert_close(changed, critical)


def test_without_steps_or_radius_nothing_is_critical(linear):
    module, X = linear
    assert not search(module, X, RADIUS, 0)[1].any()
    assert not search(module, X, 0.0, 5)[1].any()


def test_it_beats_noise_alone(linear):
    """The gradient must point away from the predicted class: a search downhill would find less than random points."""
    module, X = linear
    generator = torch.Generator().manual_seed(2)
    _, critical = search(module, X, RADIUS, 10, generator)
    classes = module(X).argmax(1)
    blind = torch.zeros(len(X), dtype=torch.bool)
    for _ in range(10):
        corner = RADIUS * torch.randn(X.shape, generator=generator, dtype=X.dtype).sign()
        blind |= module(X + corner).argmax(1) != classes
    assert critical.sum() > 1.2 * blind.sum() > 0


def test_weights_get_no_gradient(linear):
    module, X = linear
    search(module, X, RADIUS, 3)
    assert module.weight.grad is None


@pytest.mark.parametrize(("test_error", "seen"), [([0.9, 0.2, 0.4], True), ([0.9, 0.4, 0.2], False)])
def test_patterns_first_asks_for_a_peak_before_the_fit(test_error, seen):
    row = {"part": "critical samples", "noise": "randY", "train_error": [0.9, 0.5, 0.0], "test_error": test_error}
    assert _patterns_first(Rows([{**row, "level": 0.4}, {**row, "level": 0.8}])).seen is seen
