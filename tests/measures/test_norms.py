"""Norms and distances against loops over single weights."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from measures import plain
from measures.cases import CASES, build
from measures.subjects import X, labelled, subject
from torch import nn

from truerisk.measures import MEASURES, NotDefined, Subject


def value(name: str, case: str) -> float:
    return MEASURES[name](subject(case)).value


@pytest.mark.parametrize("case", CASES)
def test_norms(case):
    ws = plain.weights(build(case))
    entries = [float(x) for w in ws for x in w.flatten()]
    rows = [row for w in ws for row in plain.matrix(w)]
    assert value("frobenius-sum", case) == pytest.approx(sum(x * x for x in entries), rel=1e-12)
    assert value("unit-norm-sum", case) == pytest.approx(sum(math.sqrt(sum(row**2)) for row in rows), rel=1e-12)
    assert value("largest-unit", case) == pytest.approx(max(sum(abs(row)) for row in rows), rel=1e-12)
    assert value("largest-weight", case) == pytest.approx(max(abs(x) for x in entries), rel=1e-12)
    ranks = [plain.frobenius(w) ** 2 / plain.spectral(w) ** 2 for w in ws]
    assert value("stable-ranks", case) == pytest.approx(sum(ranks), rel=1e-10)
    assert list(MEASURES["stable-ranks"](subject(case)).layers.values()) == pytest.approx(ranks, rel=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_distances(case):
    moves = [w - w0 for w, w0 in zip(plain.weights(build(case)), plain.weights(build(case, 1)), strict=True)]
    assert value("distance-frobenius", case) == pytest.approx(sum(plain.frobenius(w) ** 2 for w in moves), rel=1e-12)
    assert value("distance-spectral", case) == pytest.approx(sum(plain.spectral(w) ** 2 for w in moves), rel=1e-10)


@pytest.mark.parametrize("case", ["convnet", "residual"])
def test_operator_norms_in_place_of_reshaped_kernels(case):
    """Operators of the tests are small, so the certified norm is the exact one."""
    example = torch.from_numpy(X[:1]).double()
    ws, maps = plain.weights(build(case)), plain.operators(build(case), example)
    ranks = [plain.frobenius(w) ** 2 / plain.spectral(a) ** 2 for w, a in zip(ws, maps, strict=True)]
    assert value("stable-ranks-operator", case) == pytest.approx(sum(ranks), rel=1e-8)
    before = plain.operators(build(case, 1), example)
    moves = [plain.spectral(a - b) ** 2 for a, b in zip(maps, before, strict=True)]
    assert value("distance-operator", case) == pytest.approx(sum(moves), rel=1e-8)


def test_vectors_of_all_parameters_hold_biases():
    module, init = build("mlp"), build("mlp", 1)
    entries = [float(x) for p in module.parameters() for x in p.detach().flatten()]
    before = [float(x) for p in init.parameters() for x in p.detach().flatten()]
    assert value("l2-norm", "mlp") == pytest.approx(math.sqrt(sum(x * x for x in entries)), rel=1e-12)
    distance = math.sqrt(sum((x - y) ** 2 for x, y in zip(entries, before, strict=True)))
    assert value("distance-l2", "mlp") == pytest.approx(distance, rel=1e-12)


@pytest.mark.parametrize(("name", "same"), [("l2-norm", "frobenius-sum"), ("distance-l2", "distance-frobenius")])
def test_without_biases_they_say_nothing_of_their_own(name, same):
    with pytest.raises(NotDefined, match=same):
        value(name, "mlp without biases")


def test_identity_weights():
    """Closed form: three 64 x 64 identities have Frobenius norm 8, spectral norm 1, stable rank 64."""
    module = nn.Sequential(
        nn.Flatten(), *[step for _ in range(3) for step in (nn.Linear(64, 64, bias=False), nn.ReLU())]
    )
    for part in module:
        if isinstance(part, nn.Linear):
            part.weight.data = torch.eye(64)
    found = Subject(module.double(), replace(labelled(module.double()), classes=64))
    for name, expected in {
        "frobenius-sum": 192.0,
        "stable-ranks": 192.0,
        "unit-norm-sum": 192.0,
        "largest-unit": 1.0,
    }.items():
        assert MEASURES[name](found).value == pytest.approx(expected, rel=1e-12)


def test_parameters_outside_of_layers_are_a_reason():
    """The gain of a layer norm is in no layer: a norm of layers would miss it."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.LayerNorm(8), nn.Linear(8, 3)).double()
    found = Subject(module, labelled(module))
    for name in ("frobenius-sum", "stable-ranks", "spectral-product", "tail-exponent", "frobenius-mean"):
        with pytest.raises(NotDefined, match=r"2\.weight is in none"):
            MEASURES[name](found)
    assert np.isfinite(MEASURES["l2-norm"](found).value)


def test_a_layer_of_zeros_is_a_reason():
    module = build("mlp")
    module[3].weight.data.zero_()
    with pytest.raises(NotDefined, match="all zero"):
        MEASURES["stable-ranks"](Subject(module, labelled(module)))


def test_shared_layers_count_once_in_sums_and_twice_in_products():
    shared = nn.Linear(64, 64, bias=False)
    module = nn.Sequential(nn.Flatten(), shared, nn.ReLU(), shared, nn.Linear(64, 3, bias=False)).double()
    found = Subject(module, labelled(module))
    w, v = (part.weight.detach().numpy() for part in (shared, module[4]))
    assert MEASURES["frobenius-sum"](found).value == pytest.approx(plain.frobenius(w) ** 2 + plain.frobenius(v) ** 2)
    assert MEASURES["spectral-product"](found).value == pytest.approx(plain.spectral(w) ** 4 * plain.spectral(v) ** 2)


class Projected(nn.Module):
    """A random projection that is never trained, then a layer that is."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("projection", torch.randn(8, 64, generator=torch.Generator().manual_seed(0)))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(nn.functional.linear(x.flatten(1), self.projection).relu())


def test_fixed_layers_count_in_products_only():
    module = Projected().double()
    found = Subject(module, labelled(module))
    w, v = module.projection.numpy(), module.head.weight.detach().numpy()
    assert MEASURES["frobenius-sum"](found).value == pytest.approx(plain.frobenius(v) ** 2)
    assert MEASURES["frobenius-product"](found).value == pytest.approx(
        plain.frobenius(v) ** 2 * plain.frobenius(w) ** 2
    )
