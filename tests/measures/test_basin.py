"""Noise in proportion to the weights, against a plain loop; no rescaling of hidden units changes it."""

import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.measures.basin import basin_radius, errors_under_noise
from truerisk.training.full_batch import one_of, stacked_weights

LEVELS = [0.0, 0.3, 1.0, 3.0]


def network():
    return one_of(stacked_weights([2, 8, 3], seeds=[1]), 0)


def points():
    X = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    into, bias, out, last = network()
    return X, ((X @ into + bias).relu() @ out + last).argmax(1)


def test_against_a_loop():
    weights, (X, y) = network(), points()
    found = errors_under_noise(weights, X, y, LEVELS, draws=7, seed=5)
    generator = torch.Generator().manual_seed(5)
    noise = [torch.randn((7, *part.shape), generator=generator) for part in weights]
    for level, error in zip(LEVELS, found, strict=True):
        wrong = 0
        for k in range(7):
            into, bias, out, last = (part + level * part * drawn[k] for part, drawn in zip(weights, noise, strict=True))
            wrong += int((((X @ into + bias).relu() @ out + last).argmax(1) != y).sum())
        assert error == wrong / (7 * 40)
    assert found[0] == 0 < found[1] < found[3]


def test_a_rescaled_twin_has_the_same_basin():
    into, bias, out, last = network()
    factor = torch.linspace(0.25, 4, 8).exp2()  # powers would be exact; these are not
    twin = [into * factor, bias * factor, out / factor[:, None], last]
    X, y = points()
    a, b = (errors_under_noise(each, X, y, LEVELS, draws=50) for each in ([into, bias, out, last], twin))
    assert a == pytest.approx(b, abs=2 / (50 * 40))  # ties of rounding


def test_radius():
    assert basin_radius([0.0, 0.1, 0.2], [0.02, 0.02, 0.22]) == pytest.approx(0.15)
    assert basin_radius([0.0, 0.1, 0.2], [0.0, 0.01, 0.02]) == 0.2  # never reached: at least the largest level
    with pytest.raises(TrueriskError, match="rising levels"):
        basin_radius([0.1, 0.1], [0.0, 0.5])
    with pytest.raises(TrueriskError, match="at least one"):
        errors_under_noise(network(), *points(), LEVELS, draws=0)
