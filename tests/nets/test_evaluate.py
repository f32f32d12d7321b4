"""Counting errors, against plain loops."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.nets import count_errors, evaluate, margins, predict_labels, tally


def slow_margin(row, label):
    others = [value for k, value in enumerate(row) if k != label]
    if any(math.isnan(value) for value in row):
        return math.nan
    return row[label] - max(others)


def slow_wrong(row, label):
    """Right only if the label's logit is larger than each other one."""
    return not all(row[label] > value for k, value in enumerate(row) if k != label)


def test_margins_slow_twin():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((200, 5))
    y = rng.integers(0, 5, 200)
    margin, scale = margins(torch.from_numpy(logits), torch.from_numpy(y))
    for i in range(200):
        assert float(margin[i]) == slow_margin(logits[i].tolist(), y[i])
        best = max(v for k, v in enumerate(logits[i].tolist()) if k != y[i])
        assert max(abs(logits[i, y[i]]), abs(best)) <= float(scale[i]) <= max(abs(v) for v in logits[i].tolist())


def test_margins_leaves_its_argument_alone():
    logits = torch.randn(4, 3)
    before = logits.clone()
    margins(logits, torch.tensor([0, 1, 2, 0]))
    assert torch.equal(logits, before)


@pytest.mark.parametrize(
    ("row", "label", "errors"),
    [
        ([1.0, 0.0], 0, 0),
        ([1.0, 0.0], 1, 1),
        ([1.0, 1.0], 0, 1),  # argmax would call this right
        ([0.0, 0.0, 0.0], 0, 1),
        ([-0.0, 0.0], 1, 1),
        ([math.nan, 0.0], 0, 1),
        ([math.nan, 0.0], 1, 1),
        ([0.0, 1.0, math.nan], 1, 1),
        ([math.inf, 0.0], 0, 0),
        ([math.inf, math.inf], 0, 1),
        ([math.inf, -math.inf], 1, 1),
        ([-math.inf, -math.inf], 0, 1),
        ([-math.inf, 0.0], 1, 0),
        ([5.0], 0, 0),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ties_and_nan_are_errors(row, label, errors, dtype):
    found = tally(torch.tensor([row], dtype=dtype), torch.tensor([label]))
    assert found.errors == errors
    assert found.sure <= found.answered <= found.errors


def test_near_ties_are_what_rounding_could_flip():
    logits = torch.tensor([[1.0, 1.0 - 1e-12], [1.0, 1.0 + 1e-12], [1.0, 0.999], [1.0, 1.0]], dtype=torch.float64)
    assert tally(logits, torch.zeros(4, dtype=torch.long))[:2] == (2, 3)
    logits = torch.tensor([[1.0, 1.0 - 1e-5], [1.0, 0.9]])
    assert tally(logits, torch.zeros(2, dtype=torch.long))[:2] == (0, 1)


def test_a_masked_class_makes_no_near_ties():
    """verify lets a claimed count differ by the near ties: -1e9 for a masked class must not make all answers such."""
    logits = torch.tensor([[5.0, 1.0, -1e9], [1.0, 5.0, -1e9]])
    assert tally(logits, torch.zeros(2, dtype=torch.long)) == (1, 0, 1, 1)


@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_count_errors_is_a_plain_loop(monkeypatch, rows, dtype):
    monkeypatch.setattr(evaluate, "ROWS", rows)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 4)).to(dtype)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((53, 3)).astype(np.float32), rng.integers(0, 4, 53)
    errors, labels = 0, []
    with torch.no_grad():
        for i in range(53):
            row = module(torch.tensor(X[i : i + 1], dtype=dtype))[0].tolist()
            errors += slow_wrong(row, y[i])
            labels.append(row.index(max(row)))
    assert 0 < errors < 53
    assert count_errors(module, X, y)[0] == errors
    assert predict_labels(module, X).tolist() == labels


def test_a_constant_network_is_always_wrong():
    module = nn.Linear(3, 2)
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    X = np.ones((5, 3), dtype=np.float32)
    assert count_errors(module, X, np.zeros(5, dtype=np.int64)) == (5, 5)


def test_counting_leaves_no_gradients_behind():
    module = nn.Linear(3, 2)
    count_errors(module, np.ones((5, 3), dtype=np.float32), np.zeros(5, dtype=np.int64))
    assert module.weight.grad is None
