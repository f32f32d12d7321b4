"""Normalizations of layers: what is divided by a scale, activations or weights, and over which entries.

    batch         activations of a channel, over the batch and all pixels (Ioffe and Szegedy 2015)
    layer         activations of an example, over all channels and pixels (Ba, Kiros and Hinton 2016)
    group         activations of an example, over the channels of a group and all pixels (Wu and He 2018)
    weight        each unit's weights become g v / |v|, with g learned (Salimans and Kingma 2016)
    standardized  each unit's weights get mean 0 and norm 1 (Qiao et al. 2019); activations have group norm
    scaled        weights as before, times a learned gain; activations stay as they are (Brock et al. 2021)
    none          nothing

Reparametrized weights use ``torch.nn.utils.parametrize``, so that any layer with a ``weight`` can have them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

from truerisk.errors import TrueriskError

KINDS = ("none", "batch", "layer", "group", "weight", "standardized", "scaled")
GROUPS = 4  # of group norm, or as many as divide the channels
RELU_GAIN = math.sqrt(2 / (1 - 1 / math.pi))  # 1 / standard deviation of relu(z) for standard normal z


class WeightStandardization(nn.Module):
    """W[j] -> gain[j] (W[j] - mean) / sqrt(fan_in * (variance + eps)), for each output channel j.

    With ``gain`` it is the scaled weight standardization of Brock et al. (2021, "Characterizing signal propagation"),
    where the gain is learned from 1 and ``constant`` keeps the variance of what a ReLU passes on at 1. Without, the
    factor sqrt(fan_in) is left out and rows have variance 1, as in Qiao et al. (2019, equation 4): group norm removes
    the scale anyway.
    """

    def __init__(self, channels: int, gain: bool = False, constant: float = 1.0, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels)) if gain else None
        self.constant, self.eps = constant, eps

    def forward(self, weight: Tensor) -> Tensor:
        rows = weight.flatten(1)
        variance, mean = torch.var_mean(rows, dim=1, keepdim=True, correction=0)
        found = (rows - mean) / (variance + self.eps).sqrt()
        if self.gain is not None:
            found = found * (self.gain[:, None] * (self.constant / math.sqrt(rows.shape[1])))
        return found.view_as(weight)


def standardize_weights(layer: nn.Module, scaled: bool = False) -> nn.Module:
    """The layer with standardized weights, in place; ``scaled`` adds the learned gain of normalizer-free networks.

    >>> rows = standardize_weights(nn.Linear(50, 3)).weight.detach()
    >>> [round(abs(float(row.mean())), 4) for row in rows], [round(float(row.var(correction=0)), 2) for row in rows]
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    """
    weight = _weight(layer)
    if weight[0].numel() < 2:
        raise TrueriskError("each unit has one weight, which would become 0; standardize layers with more inputs.")
    own = WeightStandardization(len(weight), scaled, RELU_GAIN if scaled else 1.0)
    parametrize.register_parametrization(layer, "weight", own)
    return layer


def normalized(kind: str, layer: nn.Module) -> nn.Module:
    """The layer, then its normalization: a module to put before an activation function.

    The layer's bias is dropped where the next step subtracts a mean over its channel alone (batch norm).

    >>> [type(part).__name__ for part in normalized("batch", nn.Conv2d(3, 8, 3))]
    ['Conv2d', 'BatchNorm2d']
    """
    if kind not in KINDS:
        raise TrueriskError(f"the normalization is {kind!r}, but must be one of {', '.join(KINDS)}.")
    channels = len(_weight(layer))
    if kind == "weight":
        return weight_norm(layer)
    if kind in ("standardized", "scaled"):
        layer = standardize_weights(layer, scaled=kind == "scaled")
    if kind in ("none", "scaled"):
        return layer
    if kind == "batch":
        layer.register_parameter("bias", None)
        if isinstance(layer, nn.Linear):
            return nn.Sequential(layer, nn.BatchNorm1d(channels))
        return nn.Sequential(layer, nn.BatchNorm2d(channels))
    return nn.Sequential(layer, nn.GroupNorm(1 if kind == "layer" else groups(channels), channels))


def groups(channels: int) -> int:
    """The largest number of groups, at most 4, into which the channels can be divided, with two in each.

    >>> [groups(channels) for channels in (16, 6, 7, 2, 1)]
    [4, 3, 1, 1, 1]
    """
    return next(k for k in range(GROUPS, 0, -1) if channels % k == 0 and (k == 1 or channels >= 2 * k))


@torch.no_grad()
def start_from_data(module: nn.Module, X: Tensor) -> None:
    """Set gains and biases of weight-normalized layers from a batch (Salimans and Kingma 2016, equations 5 and 6).

    With t = v x / |v|, its mean m and standard deviation s over batch and pixels: g = 1 / s and b = -m / s, so that
    every unit starts with mean 0 and variance 1. Layers are set in the order in which the batch passes through them.
    """
    layers = list(weight_normalized(module))
    if not layers:
        raise TrueriskError("the network has no weight norm; apply torch.nn.utils.parametrizations.weight_norm first.")

    def standardize(layer: Any, _: object, out: Tensor) -> Tensor:
        shape = (1, -1, *(1 for _ in out.shape[2:]))
        bias = torch.zeros(out.shape[1]) if layer.bias is None else layer.bias
        plain = out - bias.view(shape)
        spread, mean = torch.std_mean(plain.transpose(0, 1).flatten(1), dim=1, correction=0)
        spread = torch.where(spread > 0, spread, 1.0)  # a unit that says the same of everything keeps its gain
        gain = layer.parametrizations.weight.original0
        gain /= spread.view(-1, *(1 for _ in gain.shape[1:]))
        if layer.bias is None:
            return plain / spread.view(shape)
        layer.bias.copy_(-mean / spread)
        return (plain - mean.view(shape)) / spread.view(shape)

    hooks = [layer.register_forward_hook(standardize) for layer in layers]
    training = module.training
    try:
        module.eval()
        module(X)
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()


def weight_normalized(module: nn.Module) -> Iterator[nn.Module]:
    """The layers whose weights are g v / |v|."""
    for layer in module.modules():
        if parametrize.is_parametrized(layer, "weight"):
            own = layer.parametrizations.weight  # type: ignore[union-attr]
            if any(type(each).__name__ == "_WeightNorm" for each in own):  # type: ignore[union-attr]
                yield layer


@torch.no_grad()
def rescale_weights(module: nn.Module, factor: float) -> None:
    """Multiply the weights of all linear and convolutional layers by a factor, whatever they are parametrized by.

    Of weight norm, v and g are both multiplied: a larger start, as for any other layer.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            own = getattr(layer, "parametrizations", None)
            raw = [layer.weight] if own is None else [getattr(own.weight, name) for name in _originals(own.weight)]
            for weight in raw:
                weight *= factor


def _originals(own: nn.Module) -> list[str]:
    return [name for name, _ in own.named_parameters(recurse=False)]


def _weight(layer: nn.Module) -> Tensor:
    if not isinstance(layer, nn.Linear | nn.Conv2d):
        raise TrueriskError(f"the layer is a {type(layer).__name__}, but must be a Linear or Conv2d layer.")
    return layer.weight
