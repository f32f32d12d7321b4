"""Networks as pieces of polynomials, and the bounds that count."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from measures.cases import build
from torch import nn

from truerisk.bounds import Questions
from truerisk.data import Data
from truerisk.measures import NotDefined, Subject, measure
from truerisk.measures.classical.pieces import pieces

DELTA = 0.05


def slow_margins(module, data):
    with torch.no_grad():
        logits = module(torch.from_numpy(data.X).double()).numpy()
    rows = range(len(data))
    return np.array([logits[i, data.y[i]] - max(np.delete(logits[i], data.y[i])) for i in rows])


def test_questions_of_an_mlp(images):
    found = pieces(Subject(build("mlp"), images))
    assert found.questions == (Questions(12, 780, 1), Questions(9, 897, 2))
    assert (found.output.degree, found.output.count, found.output.levels) == (3, 927, 2)
    assert found.constant
    assert not pieces(Subject(build("mlp without biases"), images)).constant


def test_questions_of_a_convnet(images):
    """Weights once, units at every place: 4 channels of 6 x 6, pooled by 2 to 3 x 3, 5 channels of 3 x 3."""
    found = pieces(Subject(build("convnet"), images))
    first, second = 4 * 9 + 4, 4 * 9 * 5 + 5
    assert found.questions == (
        Questions(4 * 36, first, 1),
        Questions(4 * 9 * 6, first, 1),  # a maximum of four asks six questions
        Questions(45, first + second, 2),
    )
    assert found.output.levels == 1 + 2 + 1  # and counts as two ReLUs
    assert found.output.count == first + second + 45 * 3 + 3


def test_questions_of_a_residual_network(images):
    found = pieces(Subject(build("residual"), images))
    stem, block = 6 * 9 + 6, 6 * 6 * 9 + 6
    counts = [stem, stem + block, stem + 2 * block, stem + 3 * block, stem + 4 * block]
    assert [q.weights for q in found.questions] == counts
    assert [q.degree for q in found.questions] == [1, 2, 3, 4, 5]
    assert all(q.tests == 6 * 16 for q in found.questions)
    assert found.output.levels == 5


class Odd(nn.Module):
    """Operations that polynomials and path norms follow, or must not."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x):
        h = F.relu(self.first(x))
        if self.kind == "gain":
            h = h * self.gain
        elif self.kind == "shift":
            h = h + self.gain
        elif self.kind == "half":
            h = h / 2
        elif self.kind == "inverse":
            h = 1 / (h + 1)
        elif self.kind == "square":
            h = h * h
        elif self.kind == "softmax":
            h = h.softmax(1)
        return self.second(h)


@pytest.mark.parametrize(("kind", "degree", "count"), [("gain", 3, 30), ("shift", 2, 30), ("half", 2, 26), ("", 2, 26)])
def test_weights_outside_layers_count(kind, degree, count):
    data = Data("d", np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2, 2)
    output = pieces(Subject(Odd(kind).double(), data)).output
    assert (output.degree, output.count) == (degree, count)


@pytest.mark.parametrize("kind", ["inverse", "square", "softmax"])
def test_what_is_no_polynomial_is_refused(kind):
    data = Data("d", np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2, 2)
    with pytest.raises(NotDefined, match="linear layers, ReLUs and max-pools"):
        pieces(Subject(Odd(kind).double(), data))


def test_float_count(images):
    for dtype, bits in [(torch.float32, 32), (torch.float64, 64)]:
        found = measure(build("mlp").to(dtype), images, only=["float-count"]).bounds["float-count"]
        assert found.parts["bits"] == 927 * bits
        price = 927 * bits * math.log(2) + math.log(1 / DELTA)
        assert found.value == pytest.approx(found.parts["training_error"] + math.sqrt(price / 120), rel=1e-12)
    residual = build("residual")
    stored = sum(t.numel() * t.element_size() for t in residual.state_dict().values())
    assert measure(residual, images, only=["float-count"]).bounds["float-count"].parts["bits"] == 8 * stored


def test_vc_by_hand(images):
    found = measure(build("mlp"), images, only=["vc"]).bounds["vc"]
    steps = [(12 * 60, 780, 1), (9 * 60, 897, 2), (2 * 60, 927, 3)]
    logs = sum(
        asked * math.log(2)
        if asked < weights
        else min(asked * math.log(2), math.log(2) + weights * math.log(2 * math.e * asked * degree / weights))
        for asked, weights, degree in steps
    )
    error = np.mean(slow_margins(build("mlp"), images) <= 0)
    twin = error + math.sqrt(2 * logs / 60) + math.sqrt(math.log(1 / DELTA) / 120)
    assert found.value == pytest.approx(twin, rel=1e-10)
    dimension = 3 + (780 + 897 + 907) * math.log2(4 * math.e * 33 * math.log2(2 * math.e * 33))  # R = 12 + 18 + 3
    assert found.parts["vc_dimension"] == pytest.approx(dimension, rel=1e-12)
