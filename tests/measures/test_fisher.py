"""Measures of the gradients of single examples: closed forms and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from measures.cases import CASES, build
from torch import nn

from truerisk.data import Data
from truerisk.measures import MEASURES, NotDefined, Subject


def value(subject, name):
    return MEASURES[name](subject).value


@pytest.mark.parametrize("name", CASES)
def test_against_a_loop_over_examples(name, images):
    subject = Subject(build(name), images, rows=20)
    X, y = subject.sample
    weights = list(subject.module.parameters())
    w = torch.cat([p.detach().flatten() for p in weights])
    rows = []
    for i in range(20):
        grads = torch.autograd.grad(F.cross_entropy(subject.module(X[i : i + 1]), y[i : i + 1]), weights)
        rows.append(torch.cat([g.flatten() for g in grads]))
    mean = sum(rows) / 20
    squares = [float(g @ g) for g in rows]
    depth = {"mlp": 3, "mlp without biases": 2, "linear": 1, "convnet": 3, "residual": 6}[name]
    assert value(subject, "gradient-norm") == pytest.approx(float(mean @ mean) ** 0.5)
    assert value(subject, "gradient-noise") == pytest.approx(sum(float((g - mean) @ (g - mean)) for g in rows) / 20)
    assert value(subject, "empirical-fisher-trace") == pytest.approx(sum(squares) / 20)
    assert value(subject, "m-coherence") == pytest.approx(400 * float(mean @ mean) / sum(squares))
    assert value(subject, "fisher-rao") == pytest.approx((depth + 1) ** 2 * sum(float(g @ w) ** 2 for g in rows) / 20)


def test_fisher_rao_of_a_homogeneous_network(images):
    """Two layers without biases: <w, g_i> = 2 <f, dl/df>, and dl/df = p - e_y for the cross-entropy."""
    subject = Subject(build("mlp without biases"), images)
    f = subject.logits
    slope = f.softmax(1) - F.one_hot(subject.labels, 3)
    expected = 3**2 * 2**2 * float((f * slope).sum(1).square().mean())
    assert value(subject, "fisher-rao") == pytest.approx(expected, rel=1e-10)


def linear(X, y, classes=2):
    net = nn.Linear(X.shape[1], classes, bias=False).double()
    net.weight.data.zero_()
    return Subject(net, Data("made", X, y, classes))


def test_coherence_of_equal_orthogonal_and_opposite_gradients():
    equal = linear(np.ones((50, 3)), np.zeros(50, dtype=int))
    assert value(equal, "m-coherence") == pytest.approx(50)
    assert value(equal, "gradient-noise") == pytest.approx(0, abs=1e-12)
    orthogonal = linear(np.eye(50), np.zeros(50, dtype=int))
    assert value(orthogonal, "m-coherence") == pytest.approx(1)
    opposite = linear(np.ones((50, 3)), np.arange(50) % 2)  # labels pull equal inputs both ways: below 1, as it may be
    assert value(opposite, "m-coherence") == pytest.approx(0, abs=1e-12)
    assert value(opposite, "gradient-norm") == pytest.approx(0, abs=1e-12)


def test_no_coherence_without_gradients():
    with pytest.raises(NotDefined, match="zero"):
        MEASURES["m-coherence"](linear(np.zeros((10, 3)), np.arange(10) % 2))


def test_layers_add_up(images):
    subject = Subject(build("convnet"), images)
    for name, power in (("gradient-noise", 1), ("empirical-fisher-trace", 1), ("gradient-norm", 2)):
        found = MEASURES[name](subject)
        assert sum(part**power for part in found.layers.values()) == pytest.approx(found.value**power)
