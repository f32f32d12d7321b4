"""Training objectives against the bounds they come from, and their gradients against differences."""

import math

import numpy as np
import pytest
import torch

from truerisk import bounds
from truerisk.errors import TrueriskError
from truerisk.pacbayes import OBJECTIVES
from truerisk.pacbayes.objectives import (
    P_MIN,
    TRAINING_DELTA,
    bounded_cross_entropy,
    kl_form,
    objective,
    quadratic,
    tempered,
    thiemann,
)

POINTS = [(0.0, 0.0, 100), (0.02, 30.0, 1000), (0.3, 5.0, 50), (0.1, 2000.0, 60_000), (0.45, 0.3, 10_000)]


def scalar(value):
    return torch.tensor(float(value), dtype=torch.float64)


def slow_cross_entropy(logits, y, p_min):
    total = 0.0
    for row, label in zip(logits.tolist(), y.tolist(), strict=True):
        top = max(row)
        p = math.exp(row[label] - top) / sum(math.exp(v - top) for v in row)
        total += min(-math.log(p) if p > 0 else math.inf, math.log(1 / p_min)) / math.log(1 / p_min)
    return total / len(y)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 200.0])
@pytest.mark.parametrize("p_min", [1e-4, 1e-2, 0.3])
def test_bounded_cross_entropy_slow_twin(scale, p_min):
    rng = np.random.default_rng(0)
    logits, y = torch.from_numpy(scale * rng.standard_normal((60, 4))), torch.from_numpy(rng.integers(0, 4, 60))
    value = float(bounded_cross_entropy(logits, y, p_min))
    assert value == pytest.approx(slow_cross_entropy(logits, y, p_min), rel=1e-12)
    assert 0.0 <= value <= 1.0 + 1e-12  # a mean of ones may round up


def test_bounded_cross_entropy_reaches_both_ends():
    y = torch.tensor([0, 1])
    sure = torch.tensor([[1e3, 0.0], [0.0, 1e3]])
    assert float(bounded_cross_entropy(sure, y)) == 0.0
    assert float(bounded_cross_entropy(sure, 1 - y)) == pytest.approx(1.0, abs=1e-6)
    assert float(bounded_cross_entropy(torch.zeros(2, 2), y)) == pytest.approx(math.log(2) / math.log(1 / P_MIN))


@pytest.mark.parametrize(("risk", "kl", "n"), POINTS)
def test_objectives_are_the_bounds(risk, kl, n):
    pairs = [(quadratic, bounds.quadratic), (thiemann, bounds.thiemann)]
    for mine, theirs in pairs:
        value = float(mine(scalar(risk), scalar(kl), n))
        assert value == pytest.approx(theirs(risk, kl, n, TRAINING_DELTA, clip=False), rel=1e-9)
    value = float(kl_form(scalar(risk), scalar(kl), n))
    assert value == pytest.approx(bounds.pac_bayes_kl(risk, kl, n, TRAINING_DELTA), rel=1e-9)
    assert float(tempered(scalar(risk), scalar(kl), n, 3.0)) == pytest.approx(risk * math.log(1e4) + 3 * kl / n)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(("risk", "kl", "n"), POINTS[1:])
def test_gradients_are_differences(name, risk, kl, n):
    function = OBJECTIVES[name]
    r, k = scalar(risk).requires_grad_(), scalar(kl).requires_grad_()
    function(r, k, n).backward()
    for argument, index, step in ((r, 0, 1e-6), (k, 1, 1e-5 * max(1.0, kl))):
        ends = []
        for sign in (1, -1):
            at = [risk, kl]
            at[index] += sign * step
            ends.append(float(function(scalar(at[0]), scalar(at[1]), n)))
        slope = (ends[0] - ends[1]) / (2 * step)
        assert float(argument.grad) == pytest.approx(slope, rel=1e-4, abs=1e-10)
        assert float(argument.grad) > 0


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("risk", [0.0, 1.0])
def test_gradients_are_finite_at_the_ends(name, risk):
    r, k = torch.tensor(risk, requires_grad=True), torch.tensor(0.0, requires_grad=True)
    OBJECTIVES[name](r, k, 1000).backward()
    assert math.isfinite(float(r.grad))
    assert math.isfinite(float(k.grad))


def test_names():
    assert objective("kl") is kl_form
    with pytest.raises(TrueriskError, match="quadratic"):
        objective("best")
