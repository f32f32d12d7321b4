"""The search for critical samples against linear classifiers, for which the answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from truerisk.measures import critical_samples
from truerisk.measures.critical_samples import critical_ratio, search

RADIUS = 0.2


@pytest.fixture
def linear():
    torch.manual_seed(0)
    return nn.Linear(10, 2).double(), torch.randn(400, 10, dtype=torch.float64)


def _generator(seed=1):
    return torch.Generator().manual_seed(seed)


def _reach(module, X):
    """(margin, the most that a box of radius 1 can take from it): for two classes, |w.x + b| and ||w||_1."""
    difference = module.weight[0] - module.weight[1]
    return (X @ difference + module.bias[0] - module.bias[1]).abs().detach(), difference.abs().sum().item()


def test_only_points_with_a_critical_sample_are_called_critical(linear):
    module, X = linear
    _, found = search(module, X, RADIUS, 30, _generator())
    margin, reach = _reach(module, X)
    assert (margin[found] <= RADIUS * reach).all()
    # where two thirds of the reach are enough, thirty steps of a walk that drifts to the corner must find one
    assert found[margin <= 0.67 * RADIUS * reach].all()
    assert 0.1 < found.double().mean() < 0.9


def test_end_points_stay_in_the_box_and_have_another_class(linear):
    module, X = linear
    ends, found = search(module, X, RADIUS, 10, _generator())
    assert (ends - X).abs().max() <= RADIUS * (1 + 1e-12)
    torch.testing.assert_close(module(ends).argmax(1) != module(X).argmax(1), found)


def test_without_steps_or_radius_nothing_is_critical(linear):
    module, X = linear
    assert not search(module, X, RADIUS, 0)[1].any()
    assert not search(module, X, 0.0, 5)[1].any()


def test_it_finds_more_than_noise_alone(linear):
    """The gradient must point away from the predicted class: a search downhill would find less than random points."""
    module, X = linear
    generator = _generator(2)
    _, found = search(module, X, RADIUS, 10, generator)
    classes = module(X).argmax(1)
    blind = torch.zeros(len(X), dtype=torch.bool)
    for _ in range(10):
        corner = RADIUS * torch.randn(X.shape, generator=generator, dtype=X.dtype).sign()
        blind |= module(X + corner).argmax(1) != classes
    assert found.sum() > 1.2 * blind.sum() > 0


def test_weights_get_no_gradient(linear):
    module, X = linear
    search(module, X, RADIUS, 3)
    assert module.weight.grad is None


def test_the_ratio_is_a_mean_over_parts(linear, monkeypatch):
    module, X = linear
    monkeypatch.setattr(critical_samples, "AT_ONCE", 150)
    generator = _generator()
    counts = [search(module, some, RADIUS, 5, generator)[1].sum() for some in (X[:150], X[150:300], X[300:])]
    assert critical_ratio(module, X, RADIUS, 5, _generator()) == pytest.approx(float(sum(counts)) / 400)
