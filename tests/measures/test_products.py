"""Products of norms against the formulas of Jiang et al., written out in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from measures import plain
from measures.cases import CASES, build
from measures.subjects import X, labelled, subject
from torch import nn

from truerisk.measures import MEASURES, NotDefined, Subject


def expected(case: str) -> dict[str, float]:
    """Every product of the case, straight from the formulas (not in logarithms)."""
    module, example = build(case), torch.from_numpy(X[:1]).double()
    ws = plain.weights(module)
    moves = [w - w0 for w, w0 in zip(ws, plain.weights(build(case, 1)), strict=True)]
    with torch.no_grad():
        gamma = plain.gamma(module(torch.from_numpy(X).double()).numpy(), subject(case).data.y)
    d = len(ws)
    found = {}
    norms = {"spectral": [plain.spectral(w) for w in ws], "frobenius": [plain.frobenius(w) for w in ws]}
    if any(w.ndim > 2 for w in ws):
        norms["operator"] = [plain.spectral(a) for a in plain.operators(module, example)]
    for name, each in norms.items():
        product = math.prod(each) ** 2
        found[f"{name}-product"] = product
        found[f"{name}-product-over-margin"] = product / gamma**2
        found[f"{name}-mean"] = d * product ** (1 / d)
        found[f"{name}-mean-over-margin"] = d * (product / gamma**2) ** (1 / d)
        if name != "frobenius":
            around = [plain.frobenius(w) ** 2 / n**2 for w, n in zip(moves, each, strict=True)]
            origin = [plain.frobenius(w) ** 2 / n**2 for w, n in zip(ws, each, strict=True)]
            found[f"{name}-main-init"] = product * sum(around) / gamma**2
            found[f"{name}-main-origin"] = product * sum(origin) / gamma**2
    largest = max(math.sqrt(sum(x**2)) for x in X.reshape(len(X), -1).astype(float))
    widths = sum(math.sqrt(len(w)) * (w.shape[2] if w.ndim == 4 else 1) for w in ws)
    factor = (84 * largest * widths + math.sqrt(math.log(4 * 8**2 * d))) ** 2
    for around in ("init", "origin"):
        main = found[f"spectral-main-{around}"] * gamma**2
        found[f"spectral-bound-{around}"] = (factor * main + math.log(60 / 0.05)) / gamma**2
    rows = [plain.matrix(w) for w in ws]
    found["largest-unit-product-over-margin"] = math.prod(max(abs(w).sum(1)) for w in rows) / gamma
    groups = [(((abs(w) ** 3).sum(1) ** (1 / 3)) ** 1.5).sum() ** (1 / 1.5) for w in rows]
    found["group-product-over-margin"] = math.prod(groups) / gamma
    found["trace-product-over-margin"] = math.prod(np.linalg.svd(w, compute_uv=False).sum() for w in rows) / gamma
    return found


@pytest.mark.parametrize("case", CASES)
def test_against_formulas(case):
    numbers = expected(case)
    entries = {name: entry for name, entry in MEASURES.items() if entry.family == "products"}
    defined = {name for name in entries if case in ("convnet", "residual") or not name.startswith("operator")}
    assert set(numbers) == defined
    for name, number in numbers.items():
        found = entries[name](subject(case))
        assert found.value == pytest.approx(number, rel=1e-7), name
        assert found.log == pytest.approx(math.log(number), abs=1e-7), name


@pytest.mark.parametrize("case", ["mlp", "linear"])
def test_without_convolutions_the_operator_set_says_so(case):
    for name in ("operator-product", "operator-mean-over-margin", "operator-main-init"):
        with pytest.raises(NotDefined, match="no layer is a convolution"):
            MEASURES[name](subject(case))


def test_a_reshaped_kernel_is_not_the_map():
    """On 2 x 2 images every pixel is the sum of all four: norm 4. The reshaped kernel has norm 3, a circle 9."""
    convolution = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    convolution.weight.data.fill_(1.0)
    head = nn.Linear(4, 3, bias=False)
    head.weight.data = torch.eye(3, 4)
    module = nn.Sequential(nn.AvgPool2d(4), convolution, nn.Flatten(), head).double()
    found = Subject(module, labelled(module))
    assert MEASURES["spectral-product"](found).value == pytest.approx(9.0, rel=1e-12)
    assert MEASURES["operator-product"](found).value == pytest.approx(16.0, rel=1e-8)


def test_deep_networks_do_not_overflow():
    """60 layers that stretch a direction no input has by 1e6: the product is 1e720, its logarithm is exact."""
    steps: list[nn.Module] = [nn.Flatten()]
    for depth in range(60):
        layer = nn.Linear(64, 64, bias=False)
        layer.weight.data = torch.diag(torch.tensor([1.0] * 63 + [1e6 if depth else 0.0]))
        steps += [layer, nn.ReLU()]
    head = nn.Linear(64, 3, bias=False)
    head.weight.data = torch.eye(3, 64)
    module = nn.Sequential(*steps, head).double()
    product = MEASURES["spectral-product"](Subject(module, labelled(module)))
    assert product.value == math.inf
    assert product.log == pytest.approx(2 * 59 * math.log(1e6), rel=1e-12)
