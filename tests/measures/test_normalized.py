"""Margins measured against spectral complexity: formulas by hand, and true labels against random ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from measures import plain
from measures.cases import build, mlp
from measures.subjects import X, labelled, subject
from torch import nn

from truerisk.data import Data, load
from truerisk.measures import MEASURES, NotDefined, Subject
from truerisk.measures.families.normalized import normalized_margins


def complexity(ws: list[np.ndarray], references: list[np.ndarray]) -> float:
    """R_A of Bartlett et al. for matrices, with 1-Lipschitz functions between."""
    norms = [plain.spectral(w) for w in ws]
    terms = []
    for w, m, norm in zip(ws, references, norms, strict=True):
        rows = sum(math.sqrt(sum(float(x) ** 2 for x in row)) for row in w - m)
        terms.append((rows / norm) ** (2 / 3))
    return math.prod(norms) * sum(terms) ** 1.5


@pytest.mark.parametrize("case", ["mlp", "mlp without biases", "linear"])
def test_spectral_complexity(case):
    ws, before = plain.weights(build(case)), plain.weights(build(case, 1))
    found = subject(case)
    origin = complexity(ws, [0 * w for w in ws])
    assert MEASURES["spectral-complexity"](found).value == pytest.approx(origin, rel=1e-8)
    assert MEASURES["spectral-complexity-init"](found).value == pytest.approx(complexity(ws, before), rel=1e-8)
    length = math.sqrt(sum(float(x) ** 2 for x in X.flatten()))
    expected = [margin / (length * origin / 60) for margin in plain.margins(found.logits.numpy(), found.data.y)]
    assert normalized_margins(found).tolist() == pytest.approx(expected, rel=1e-8)
    assert MEASURES["median-normalized-margin"](found).value == pytest.approx(sorted(expected)[29], rel=1e-8)


def test_rows_are_units_that_leave():
    """||A^T||_{2,1} adds up rows of A. One unit with four weights of 1: 2; columns would give 4."""
    module = nn.Sequential(
        nn.AvgPool2d(4), nn.Flatten(), nn.Linear(4, 1, bias=False), nn.Linear(1, 3, bias=False)
    ).double()
    module[2].weight.data.fill_(1.0)
    module[3].weight.data = torch.tensor([[1.0], [0.0], [0.0]]).double()
    value = MEASURES["spectral-complexity"](Subject(module, labelled(module))).value
    # norms 2 and 1, rows 2 and 1; a mean over 4 x 4 windows has Lipschitz constant 1/4
    assert value == pytest.approx(0.25 * 2 * 1 * (1 + 1) ** 1.5, rel=1e-8)


def test_a_convolution_has_a_row_for_each_place():
    """A 1 x 1 kernel of 3 on 8 x 8 pixels is 3 times the identity: norm 3, rows 64 * 3."""
    module = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.Flatten(), nn.Linear(64, 3, bias=False)).double()
    module[0].weight.data.fill_(3.0)
    module[2].weight.data = torch.eye(3, 64).double()
    value = MEASURES["spectral-complexity"](Subject(module, labelled(module))).value
    assert value == pytest.approx(3 * (64 ** (2 / 3) + 3 ** (2 / 3)) ** 1.5, rel=1e-8)


def test_branches_are_a_reason():
    for name in ("spectral-complexity", "spectral-complexity-init", "median-normalized-margin"):
        with pytest.raises(NotDefined, match="chains"):
            MEASURES[name](subject("residual"))


def trained(random_labels: bool) -> Subject:
    """300 digits, fitted until the loss is below 0.01."""
    digits = load("digits")
    y = digits.y[:300].copy()
    if random_labels:
        y = np.random.default_rng(0).permutation(y)
    torch.manual_seed(0)
    module = mlp(64, 128, 64, 10)
    optimizer = torch.optim.Adam(module.parameters(), lr=3e-3)
    x, labels = torch.from_numpy(digits.X[:300]), torch.from_numpy(y)
    for _ in range(1_000):
        loss = F.cross_entropy(module(x), labels)
        if float(loss.detach()) < 0.01:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    else:
        pytest.fail("the network did not fit its labels")
    return Subject(module, Data("digits", digits.X[:300], y, 10))


def test_normalized_margins_tell_true_labels_from_random_ones():
    """Plain margins and sizes don't (Bartlett, Foster and Telgarsky 2017, figure 1)."""
    true, random = trained(False), trained(True)

    def ratio(name: str) -> float:
        return MEASURES[name](random).value / MEASURES[name](true).value

    assert ratio("parameters") == 1
    assert 0.5 < ratio("low-margin") < 2
    assert ratio("spectral-complexity") > 3
    assert ratio("median-normalized-margin") < 1 / 3
    assert ratio("median-margin-over-path-norm") < 1 / 3
