"""Margins, loss and entropy against loops over examples; the bugs of public code."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from measures import plain
from measures.cases import CASES, build
from measures.subjects import X, labelled, subject
from torch import nn

from truerisk.data import Data
from truerisk.measures import MEASURES, NotDefined, Subject
from truerisk.measures.families.margins import gamma


def logits(case: str) -> np.ndarray:
    with torch.no_grad():
        return build(case)(torch.from_numpy(X).double()).numpy()


@pytest.mark.parametrize("case", CASES)
def test_against_loops(case):
    out, y = logits(case), subject(case).data.y
    margins = sorted(plain.margins(out, y))
    assert margins[2] < 0 < margins[3]  # three labels are wrong on purpose
    expected = {"low-margin": margins[5], "inverse-margin": margins[5] ** -2, "median-margin": margins[29]}
    losses, entropies = [], []
    for row, label in zip(out, y, strict=True):
        total = sum(math.exp(x) for x in row)
        p = [math.exp(x) / total for x in row]
        losses.append(-math.log(p[label]))
        entropies.append(sum(q * math.log(q) for q in p))
    expected |= {"cross-entropy": sum(losses) / 60, "negative-output-entropy": sum(entropies) / 60}
    for name, number in expected.items():
        assert MEASURES[name](subject(case)).value == pytest.approx(number, rel=1e-9)


def one_hot(logits: np.ndarray, labels: np.ndarray) -> Subject:
    """A network that returns given logits: the i-th input is the i-th unit vector."""
    count, classes = logits.shape
    module = nn.Linear(count, classes, bias=False).double()
    module.weight.data = torch.from_numpy(logits.T.copy())
    return Subject(module, Data("rows", np.eye(count), labels, classes))


def test_wrong_examples_have_negative_margins():
    """Public code takes the absolute value, and a network that is wrong on all examples looks sure of itself."""
    found = one_hot(np.tile([0.0, 5.0], (20, 1)), np.zeros(20, int))
    assert MEASURES["low-margin"](found).value == -5
    with pytest.raises(NotDefined, match="one example in ten is wrong"):
        MEASURES["inverse-margin"](found)
    with pytest.raises(NotDefined, match="-5"):
        MEASURES["spectral-product-over-margin"](found)


def test_the_label_is_no_rival_of_itself():
    """Public code subtracts the largest logit of all classes: 0 for every example that is right."""
    assert gamma(one_hot(np.tile([3.0, 1.0, 2.0], (20, 1)), np.zeros(20, int))) == 1


@pytest.mark.parametrize(("count", "place"), [(1, 0), (9, 0), (10, 0), (19, 0), (20, 1), (100, 9)])
def test_percentile_of_few_examples(count, place):
    """Public code asks for the 0th smallest of fewer than ten margins and fails."""
    rows = np.stack([np.arange(count, 0, -1.0), np.zeros(count)], axis=1)
    assert gamma(one_hot(rows, np.zeros(count, int))) == sorted(rows[:, 0])[place]


def test_a_tie_is_no_margin():
    with pytest.raises(NotDefined, match="0:"):
        gamma(one_hot(np.zeros((20, 2)), np.zeros(20, int)))


def test_sure_answers_have_no_entropy():
    found = one_hot(np.tile([1e4, 0.0], (20, 1)), np.zeros(20, int))
    assert MEASURES["negative-output-entropy"](found).value == 0
    guess = one_hot(np.zeros((20, 2)), np.zeros(20, int))
    assert MEASURES["negative-output-entropy"](guess).value == pytest.approx(-math.log(2))


def test_labels_do_not_enter_the_entropy():
    module = build("mlp")
    data = labelled(module)
    other = Data("other", data.X, (data.y + 1) % 3, 3)
    first, second = (MEASURES["negative-output-entropy"](Subject(module, d)).value for d in (data, other))
    assert first == second
