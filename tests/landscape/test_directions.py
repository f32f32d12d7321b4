"""Normalizations against plain loops, and which of them follow a rescaling."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.landscape import NORMALIZATIONS, normalized, random_direction, weights_of


def centers() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4)).double()
    return weights_of(net)


def slow_filter(z: torch.Tensor, w: torch.Tensor, biases: bool) -> torch.Tensor:
    """d_ij / ||d_ij|| * ||w_ij||, filter by filter, number by number."""
    found = torch.zeros_like(w)
    if w.ndim == 1:
        for k in range(len(w)):
            found[k] = math.copysign(abs(float(w[k])), float(z[k])) if biases else 0.0
        return found
    for j in range(len(w)):
        own = math.sqrt(sum(float(v) ** 2 for v in z[j].flatten()))
        theirs = math.sqrt(sum(float(v) ** 2 for v in w[j].flatten()))
        found[j] = z[j] / own * theirs
    return found


def test_filters_against_a_plain_loop():
    center = centers()
    noise = {name: torch.randn(w.shape, dtype=torch.float64) for name, w in center.items()}
    for how, biases in (("filter", True), ("filter-weights", False)):
        found = normalized(noise, center, how)
        for name, w in center.items():
            torch.testing.assert_close(found[name], slow_filter(noise[name], w, biases), rtol=1e-12, atol=1e-14)


def test_other_normalizations():
    center = centers()
    noise = {name: torch.randn(w.shape, dtype=torch.float64) for name, w in center.items()}
    each = normalized(noise, center, "elementwise")
    assert all(torch.equal(each[name], noise[name] * w.abs()) for name, w in center.items())
    plain = normalized(noise, center, "none")
    size = math.sqrt(sum(float((d**2).sum()) for d in plain.values()))
    assert size == pytest.approx(math.sqrt(sum(float((w**2).sum()) for w in center.values())))
    ratios = {float((plain[name] / noise[name]).mean()) for name in center}
    assert max(ratios) == pytest.approx(min(ratios))


def test_noise_goes_by_name_number_and_seed():
    center = centers()
    one, same = random_direction(center, 3, 1), random_direction(center, 3, 1)
    assert all(torch.equal(one[name], same[name]) for name in center)
    assert not torch.equal(one["0.weight"], random_direction(center, 3, 2)["0.weight"])
    assert not torch.equal(one["0.weight"], random_direction(center, 4, 1)["0.weight"])
    assert torch.equal(one["4.weight"], random_direction({"4.weight": center["4.weight"]}, 3, 1)["4.weight"])


def factors(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Of a network with 3 inputs, 4 hidden units, 2 outputs: what its two matrices are multiplied by."""
    c = torch.tensor([2.0, 2.0, 2.0, 2.0] if kind == "layer" else [0.5, 2.0, 4.0, 8.0], dtype=torch.float64)
    return c[:, None].expand(4, 3), (1 / c)[None, :].expand(2, 4)


@pytest.mark.parametrize(
    ("how", "kind", "follows"),
    [
        ("filter", "layer", (True, True)),
        ("filter", "unit", (True, False)),  # rows that enter a unit follow; rows of the next layer mix their factors
        ("filter-weights", "layer", (True, True)),
        ("filter-weights", "unit", (True, False)),
        ("elementwise", "unit", (True, True)),
        ("elementwise", "layer", (True, True)),
        ("none", "layer", (False, False)),
    ],
)
def test_which_directions_follow_a_rescaling(how, kind, follows):
    """A direction follows if each entry of the twin's is the network's times the factor of its weight."""
    torch.manual_seed(1)
    center = {"U": torch.randn(4, 3, dtype=torch.float64), "V": torch.randn(2, 4, dtype=torch.float64)}
    both = dict(zip("UV", factors(kind), strict=True))
    before = random_direction(center, 0, 0, how)
    after = random_direction({name: both[name] * w for name, w in center.items()}, 0, 0, how)
    found = tuple(bool(torch.allclose(after[n], both[n] * before[n], rtol=1e-12, atol=0)) for n in "UV")
    assert found == follows


def test_refusals():
    with pytest.raises(TrueriskError, match="must be one of filter, filter-weights, elementwise, none"):
        normalized({}, {}, "rows")
    with pytest.raises(TrueriskError, match="0 trainable parameters"):
        weights_of(nn.ReLU())
    with pytest.raises(TrueriskError, match="weights that would move are 0"):
        random_direction({"w": torch.zeros(2, 2)}, 0)
    frozen = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    frozen[0].requires_grad_(False)
    assert list(weights_of(frozen)) == ["1.weight", "1.bias"]
    assert len(NORMALIZATIONS) == 4
