"""Worst-case sharpness: formulas, closed forms for linear networks, all corners of small boxes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from measures.cases import build
from measures.test_flatness import flat
from measures.test_searched import taught
from torch import nn

from truerisk.data import Data
from truerisk.measures import MEASURES, Subject


def value(subject, name):
    return MEASURES[name](subject).value


@pytest.fixture(scope="module")
def subject(images):
    module = build("mlp")
    return Subject(module, taught(module, images), build("mlp", 1), rows=55)


def test_forms_with_the_box(subject):
    w, w0 = flat(subject.module), flat(subject.init)
    alpha = value(subject, "sharpness") ** -0.5
    for name, size in {
        "sharpness-origin": math.fsum(a * a for a in w),
        "sharpness-init": math.fsum((a - b) ** 2 for a, b in zip(w, w0, strict=True)),
    }.items():
        expected = size * math.log(2 * len(w)) / (4 * alpha**2) + math.log(60 / 0.05) + 10
        assert value(subject, name) == pytest.approx(expected, rel=1e-12)


def test_magnitude_aware_forms(subject):
    w, w0 = flat(subject.module), flat(subject.init)
    alpha = value(subject, "sharpness-magnitude") ** -0.5
    for name, size in {
        "sharpness-magnitude-origin": math.fsum(a * a for a in w),
        "sharpness-magnitude-init": math.fsum((a - b) ** 2 for a, b in zip(w, w0, strict=True)),
    }.items():
        spread = alpha**2 + 4 * math.log(2 * len(w) / 0.05)
        total = 0.0
        for a, b in zip(w, w0, strict=True):
            total += math.log((1e-6 + spread * size / len(w)) / (1e-6 + alpha**2 * (a - b) ** 2)) / 4
        assert value(subject, name) == pytest.approx(total + math.log(60 / 0.05) + 10, rel=1e-10)


@pytest.fixture
def single():
    """(weights, x, subject): a linear network of two classes and one example, often repeated."""
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=(2, 5)), rng.normal(size=5)
    net = nn.Linear(5, 2, bias=False).double()
    net.weight.data = torch.from_numpy(w)
    return w, x, Subject(net, Data("one", np.tile(x, (60, 1)), np.zeros(60, dtype=int), 2))


def softplus(t):
    return math.log1p(math.exp(t))


def test_one_example_of_a_linear_network(single):
    """The loss is softplus(-margin), and the largest loss of the margin over box or ellipsoid is known."""
    w, x, subject = single
    margin = float((w[0] - w[1]) @ x)
    start = softplus(-margin)
    keskar = 1e-3 * float((np.abs(w) + 1) @ np.abs(x) @ np.ones(2))
    box = 0.01 * float(np.abs(w) @ np.abs(x) @ np.ones(2))
    ellipsoid = 0.5 * math.sqrt(float((w**2) @ (x**2) @ np.ones(2)))
    found = {name: value(subject, name) for name in MEASURES if "keskar" in name or "adaptive" in name}
    assert found["keskar-sharpness"] == pytest.approx(100 * (softplus(keskar - margin) - start) / (1 + start))
    assert found["adaptive-sharpness"] == pytest.approx(softplus(box - margin) - start)
    assert found["adaptive-sharpness-l2"] == pytest.approx(softplus(ellipsoid - margin) - start)


def corners(net, X, y, box):
    """The largest loss over all 2^P corners of |u_i| <= box_i."""
    best = -math.inf
    centre = net.weight.data.clone()
    for signs in itertools.product((-1.0, 1.0), repeat=centre.numel()):
        net.weight.data = centre + box * torch.tensor(signs).reshape(centre.shape)
        best = max(best, float(F.cross_entropy(net(X), y)))
    net.weight.data = centre
    return best


@pytest.mark.parametrize("seed", range(3))
def test_all_corners_of_a_small_linear_network(seed):
    """A convex loss has its maximum at a corner. The search finds nearly as much, and never more."""
    rng = np.random.default_rng(seed)
    net = nn.Linear(3, 3, bias=False).double()
    net.weight.data = torch.from_numpy(rng.normal(size=(3, 3)))
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 3, size=50)
    data = Data("cloud", X, y, 3)
    subject = Subject(net, data)
    net.requires_grad_(False)
    inputs, labels = torch.from_numpy(data.X).double(), torch.from_numpy(data.y)
    start = float(F.cross_entropy(net(inputs), labels))
    weight = net.weight.clone()
    exact = corners(net, inputs, labels, 0.01 * weight.abs()) - start
    assert 0.98 * exact <= value(subject, "adaptive-sharpness") <= exact * (1 + 1e-9)
    exact = 100 * (corners(net, inputs, labels, 1e-3 * (weight.abs() + 1)) - start) / (1 + start)
    assert 0.98 * exact <= value(subject, "keskar-sharpness") <= exact * (1 + 1e-9)


def test_no_slope_no_rise():
    """Outputs that do not depend on the weights: nothing rises, and nothing is divided by zero."""
    net = nn.Linear(2, 2, bias=False).double()
    subject = Subject(net, Data("zeros", np.zeros((50, 2)), np.arange(50) % 2, 2))
    for name in ("keskar-sharpness", "adaptive-sharpness", "adaptive-sharpness-l2"):
        assert value(subject, name) == 0
