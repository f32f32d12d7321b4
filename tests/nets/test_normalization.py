"""Normalizations against loops: standardized weights, starts from data, and what a scale of weights changes."""

import math

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets.normalization import (
    KINDS,
    groups,
    normalized,
    rescale_weights,
    standardize_weights,
    start_from_data,
    weight_normalized,
)


def standardized(weight, scaled):
    """One number at a time."""
    rows = []
    for row in weight.flatten(1).tolist():
        mean = sum(row) / len(row)
        variance = sum((w - mean) ** 2 for w in row) / len(row)
        own = [(w - mean) / math.sqrt(variance + 1e-5) for w in row]
        gain = math.sqrt(2 / (1 - 1 / math.pi)) / math.sqrt(len(row)) if scaled else 1.0
        rows.append([gain * w for w in own])
    return torch.tensor(rows).view_as(weight)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("make", [lambda: nn.Linear(7, 4), lambda: nn.Conv2d(2, 5, 3)])
def test_standardized_weights(make, scaled):
    torch.manual_seed(0)
    layer = make()
    expected = standardized(layer.weight.detach(), scaled)
    standardize_weights(layer, scaled)
    torch.testing.assert_close(layer.weight.detach(), expected)
    assert sum(p.numel() for p in layer.parameters()) == expected.numel() + len(expected) * (1 + scaled)


def test_scaled_standardization_keeps_the_variance_behind_a_relu():
    torch.manual_seed(0)
    layer = standardize_weights(nn.Linear(400, 300, bias=False), scaled=True)
    with torch.no_grad():
        x = torch.randn(2000, 400).relu()
        out = layer((x - x.mean()) / x.std() * math.sqrt(0.5 * (1 - 1 / math.pi)))  # as a ReLU passes on: variance .34
    assert float(out.var()) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("layer", [nn.Linear(5, 8), nn.Conv2d(3, 8, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_have_gradients_and_one_place_for_each_channel(kind, layer):
    import copy

    torch.manual_seed(0)
    part = normalized(kind, copy.deepcopy(layer))
    x = torch.randn(6, 5) if isinstance(layer, nn.Linear) else torch.randn(6, 3, 5, 5)
    out = part(x)
    assert out.shape[:2] == (6, 8)
    out.square().sum().backward()
    assert all(p.grad is not None for p in part.parameters())


def test_activations_are_normalized_over_what_the_kind_says():
    torch.manual_seed(0)
    x = torch.randn(16, 3, 6, 6)
    for kind, dims in (("batch", (0, 2, 3)), ("layer", (1, 2, 3))):
        out = normalized(kind, nn.Conv2d(3, 8, 3))(x).detach()
        assert out.mean(dim=dims).abs().max() < 1e-5
        torch.testing.assert_close(out.var(dim=dims, correction=0), torch.ones(8 if kind == "batch" else 16), atol=1e-3,
                                   rtol=0)  # fmt: skip
    grouped = normalized("group", nn.Conv2d(3, 8, 3))(x).detach().unflatten(1, (4, 2))
    assert grouped.mean(dim=(2, 3, 4)).abs().max() < 1e-5


@pytest.mark.parametrize("shape", [(40, 6), (20, 2, 5, 5)])
def test_a_start_from_data_standardizes_every_unit(shape):
    torch.manual_seed(0)
    make = (lambda a, b: nn.Linear(a, b)) if len(shape) == 2 else (lambda a, b: nn.Conv2d(a, b, 3, padding=1))
    net = nn.Sequential(normalized("weight", make(shape[1], 8)), nn.ReLU(), normalized("weight", make(8, 5)))
    x = 3 * torch.randn(shape) + 2
    start_from_data(net, x)
    assert net.training
    with torch.no_grad():
        for out in (net[0](x), net(x)):
            units = out.transpose(0, 1).flatten(1)
            assert units.mean(dim=1).abs().max() < 1e-4
            torch.testing.assert_close(units.std(dim=1, correction=0), torch.ones(len(units)), atol=1e-4, rtol=0)


def test_units_without_spread_and_networks_without_weight_norm():
    net = normalized("weight", nn.Linear(3, 2))
    start_from_data(net, torch.ones(5, 3))  # the same input five times
    assert all(p.isfinite().all() for p in net.parameters())
    with pytest.raises(TrueriskError, match="has no weight norm"):
        start_from_data(nn.Linear(3, 2), torch.ones(5, 3))


@pytest.mark.parametrize("kind", ["batch", "layer", "group", "standardized", "scaled"])
def test_norms_ignore_the_scale_of_weights(kind):
    torch.manual_seed(0)
    part = normalized(kind, nn.Linear(30, 64))
    with torch.no_grad():
        linear = part if kind == "scaled" else part[0]
        if linear.bias is not None:
            linear.bias.zero_()
        x = torch.randn(50, 30)
        before = part(x)
        rescale_weights(part, 8.0)
        torch.testing.assert_close(part(x), before, atol=2e-2, rtol=2e-2)  # up to eps


def test_rescaling_multiplies_what_the_layer_computes():
    torch.manual_seed(0)
    for kind in ("none", "weight"):
        layer = normalized(kind, nn.Linear(4, 3, bias=False))
        x = torch.randn(5, 4)
        before = layer(x).detach()
        rescale_weights(layer, 2.0)
        torch.testing.assert_close(layer(x).detach(), 2 * before)
    assert len(list(weight_normalized(layer))) == 1


def test_refusals():
    for call in (lambda: normalized("spectral", nn.Linear(3, 2)), lambda: normalized("batch", nn.ReLU()),
                 lambda: standardize_weights(nn.Linear(1, 3))):  # fmt: skip
        with pytest.raises(TrueriskError):
            call()
    assert [groups(c) for c in (32, 4, 9, 5)] == [4, 2, 3, 1]
