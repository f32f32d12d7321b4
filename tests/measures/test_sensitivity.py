"""Sensitivity to inputs: plain loops, explicit Jacobians, and a linear network whose critical samples are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from measures.cases import CASES, build
from torch import nn

from truerisk.data import Data
from truerisk.measures import MEASURES, NotDefined, Subject
from truerisk.measures.perturbation import part


def value(subject, name):
    return MEASURES[name](subject).value


@pytest.mark.parametrize("name", CASES)
def test_against_a_loop_over_examples(name, images):
    subject = Subject(build(name), images, rows=25)  # fewer than 50: all of them are in
    X, y = subject.sample
    slopes = []
    for i in range(25):
        x = X[i : i + 1].clone().requires_grad_()
        slopes.append(torch.autograd.grad(F.cross_entropy(subject.module(x), y[i : i + 1]), x)[0].flatten().tolist())
    ones = [sum(abs(v) for v in slope) for slope in slopes]
    assert value(subject, "loss-sensitivity") == pytest.approx(sum(ones) / 25)
    twos = [math.sqrt(sum(v * v for v in slope)) for slope in slopes]
    assert value(subject, "input-gradient-norm") == pytest.approx(sum(twos) / 25)
    spread = sum(abs(a - b) for a in ones for b in ones) / (2 * 25 * sum(ones))
    assert value(subject, "loss-sensitivity-gini") == pytest.approx(spread)


def test_no_gini_without_sensitivity():
    net = nn.Linear(3, 2, bias=False).double()
    net.weight.data.zero_()
    with pytest.raises(NotDefined, match="zero"):
        MEASURES["loss-sensitivity-gini"](Subject(net, Data("ones", np.ones((50, 3)), np.arange(50) % 2, 2)))


def test_jacobian_norm_against_the_explicit_jacobian(images):
    """Unbiased before the root: the mean over 40 seeds is within 4 standard errors (false alarms: 1 in 16,000)."""
    module = build("mlp")
    data = Data("few", images.X[:20], images.y[:20], 3)
    X = torch.from_numpy(data.X).double()
    exact = np.mean(
        [
            float(torch.autograd.functional.jacobian(lambda x: module(x).softmax(1), X[i : i + 1]).square().sum())
            for i in range(20)
        ]
    )
    found = np.array([value(Subject(module, data, seed=seed), "jacobian-norm") ** 2 for seed in range(40)])
    assert abs(found.mean() - exact) < 4 * found.std(ddof=1) / math.sqrt(40)
    assert found.std(ddof=1) < 0.5 * exact


def test_critical_samples_of_a_linear_network():
    """One is critical if its margin is at most r ||w_0 - w_1||_1. The search finds the clear ones, and no more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    net = nn.Linear(4, 2, bias=False).double()
    net.weight.data = torch.from_numpy(rng.normal(size=(2, 4)))
    subject = Subject(net, Data("cloud", X, np.arange(500) % 2, 2))
    some, _ = part(subject, 0.2)
    w = (net.weight[0] - net.weight[1]).detach()
    reach = 0.1 * X.std(ddof=1) * float(w.abs().sum())
    margin = (some @ w).abs()
    found = value(subject, "critical-sample-ratio")
    assert float((margin <= 0.8 * reach).double().mean()) <= found <= float((margin <= reach).double().mean())
    assert found > 0.02


def test_no_critical_samples_far_from_the_boundary():
    X = np.concatenate([np.full((30, 2), 5.0), np.full((30, 2), -5.0)]) + 0.1 * np.arange(60)[:, None] / 60
    net = nn.Linear(2, 2, bias=False).double()
    net.weight.data = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]).double()
    assert value(Subject(net, Data("two", X, np.repeat([0, 1], 30), 2)), "critical-sample-ratio") == 0
