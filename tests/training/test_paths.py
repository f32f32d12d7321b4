"""Paths of optimizers against their published updates, written out one coordinate at a time."""

import math

import numpy as np
import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.training.paths import OPTIMIZERS, descent_leaves_after, first_beyond, growth, path, saddle

LR, STEPS, M = 0.05, 12, 0.9


def slow(name, w, slope):
    """One coordinate; ``slope`` is its derivative."""
    found, v, s, d = [w], 0.0, 0.0, 0.0
    for k in range(1, STEPS + 1):
        g = slope(w)
        if name == "gradient descent":
            w -= LR * g
        elif name == "momentum":
            v = M * v + g
            w -= LR * v
        elif name == "Nesterov":
            v = M * v + g
            w -= LR * (g + M * v)
        elif name == "AdaGrad":
            s += g * g
            w -= LR * g / (math.sqrt(s) + 1e-10)
        elif name == "RMSProp":
            s = 0.99 * s + 0.01 * g * g
            w -= LR * g / (math.sqrt(s) + 1e-8)
        elif name == "AdaDelta":
            s = 0.9 * s + 0.1 * g * g
            step = math.sqrt(d + 1e-6) / math.sqrt(s + 1e-6) * g
            d = 0.9 * d + 0.1 * step * step
            w -= LR * step
        else:
            v, s = 0.9 * v + 0.1 * g, 0.999 * s + 0.001 * g * g
            w -= LR * (v / (1 - 0.9**k)) / (math.sqrt(s / (1 - 0.999**k)) + 1e-8)
        found.append(w)
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_by_its_formula(name):
    found = path(saddle(2.0, 0.5), [1.0, 0.01], name, LR, STEPS)
    assert found[:, 0] == pytest.approx(slow(name, 1.0, lambda x: 4.0 * x), rel=1e-6)
    assert found[:, 1] == pytest.approx(slow(name, 0.01, lambda y: -1.0 * y), rel=1e-6)


@pytest.mark.parametrize("name", ["momentum", "Adam"])
def test_many_starts_are_many_paths(name):
    starts = [(1.0, 0.1), (0.5, -0.2), (2.0, 1e-4)]
    together = path(saddle(), starts, name, LR, 9)
    assert together.shape == (10, 3, 2)
    for k, start in enumerate(starts):
        assert np.array_equal(together[:, k], path(saddle(), start, name, LR, 9))


@pytest.mark.parametrize(("name", "momentum"), [("gradient descent", 0.0), ("momentum", 0.9)])
def test_growth_is_that_of_late_steps(name, momentum):
    walk = path(saddle(1.0, 0.7), [0.0, 1e-9], name, LR, 300)[:, 1]
    assert walk[-1] / walk[-2] == pytest.approx(growth(LR, 0.7, momentum), rel=1e-9)
    assert growth(LR, momentum=0.9) < growth(LR / (1 - 0.9)), "momentum is never faster than the larger rate"
    assert growth(1e-6, momentum=0.9) - 1 == pytest.approx(growth(1e-5) - 1, rel=1e-3)


@pytest.mark.parametrize("y", [0.5, -1e-3, 1e-6, 2.0])
def test_the_formula_counts_steps(y):
    count, now = 0, abs(y)
    while not now > 1.0:
        now, count = now * (1 + 2 * LR), count + 1
    assert descent_leaves_after(y, 1.0, LR) == count
    assert first_beyond(path(saddle(), [1.0, y], "gradient descent", LR, 200)[:, 1], 1.0) == count


def test_the_ridge_is_never_left():
    for name in OPTIMIZERS:
        assert not path(saddle(), [1.0, 0.0], name, LR, 50)[:, 1].any()
    with pytest.raises(TrueriskError, match="off the ridge"):
        descent_leaves_after(0.0, 1.0, LR)


def test_divergence_and_refusals():
    walk = path(lambda w: (w**4).sum(), [10.0], "gradient descent", 1.0, 20)
    assert np.isfinite(walk[0]).all()
    assert np.isnan(walk[-1]).all()
    with pytest.raises(TrueriskError, match="must be one of gradient descent"):
        path(saddle(), [1.0, 1.0], "sgd", LR, 3)
    with pytest.raises(TrueriskError, match="must be positive"):
        path(saddle(), [1.0, 1.0], "Adam", 0.0, 3)
    assert float(saddle(3.0, 2.0)(torch.tensor([1.0, 1.0]))) == 1.0
