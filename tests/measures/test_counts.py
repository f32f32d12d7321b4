"""Sizes against the formulas by hand."""

from __future__ import annotations

import math

import pytest
import torch
from measures.cases import CASES
from measures.subjects import labelled, subject
from torch import nn

from truerisk.measures import MEASURES, NotDefined, Subject


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_those_of_the_folded_network(case):
    sizes = {
        "mlp": 927,
        "mlp without biases": 804,
        "linear": 195,
        "convnet": 40 + 185 + 138,
        "residual": 60 + 4 * 330 + 21,
    }
    assert MEASURES["parameters"](subject(case)).value == sizes[case]


def formula(weights: list[int], units: list[int]) -> float:
    r = sum((i + 1) * k for i, k in enumerate(units))
    bar = sum(weights)  # W times the average depth of a weight
    return len(units) + bar * math.log2(4 * math.e * r * math.log2(2 * math.e * r))


def test_dimension_of_chains():
    mlp = formula([780, 780 + 117, 780 + 117 + 30], [12, 9, 3])
    assert MEASURES["vc-dimension"](subject("mlp")).value == pytest.approx(mlp, rel=1e-12)
    assert MEASURES["vc-dimension"](subject("linear")).value == pytest.approx(formula([195], [3]), rel=1e-12)


def test_a_channel_is_a_unit_at_each_of_its_places():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3, bias=False)).double()
    found = MEASURES["vc-dimension"](Subject(module, labelled(module)))
    assert found.value == pytest.approx(formula([20, 20 + 216], [72, 3]), rel=1e-12)


def test_layers_that_are_fixed_before_the_first_trained_one_are_input():
    class Projected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("projection", torch.ones(8, 64))
            self.head = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(nn.functional.linear(x.flatten(1), self.projection).relu())

    module = Projected().double()
    assert MEASURES["vc-dimension"](Subject(module, labelled(module))).value == pytest.approx(formula([27], [3]))


@pytest.mark.parametrize("case", ["convnet", "residual"])
def test_others_are_a_reason(case):
    with pytest.raises(NotDefined, match="chain"):
        MEASURES["vc-dimension"](subject(case))
