"""Thin deep networks with and without skip connections, alike in all else (He et al. 2016; Li et al. 2018).

A block computes relu(F(h) + h) with skips and relu(F(h)) without; F is layer, batch norm, ReLU, layer, batch norm.
Layers are dense, or 3 x 3 convolutions on images that the first layer has made smaller. Both kinds have the same
weights and the same initialization: the skips alone differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError

SIDE = 8  # pixels of a convolutional network's maps, about


class SkipBlock(nn.Module):
    """Two layers with batch norm; with ``skips``, their input is added before the last ReLU."""

    def __init__(self, width: int, skips: bool, images: bool) -> None:
        super().__init__()
        self.skips = skips
        self.first, self.second = _layer(width, images), _layer(width, images)

    def forward(self, h: Tensor) -> Tensor:
        out = self.second(torch.relu(self.first(h)))
        return torch.relu(out + h) if self.skips else torch.relu(out)


def skip_network(
    input_shape: Sequence[int], classes: int, blocks: int, width: int, *, skips: bool, convolutional: bool = False
) -> nn.Module:
    """A network of 2 * blocks + 2 layers with ``width`` units (channels) in each.

    >>> net = skip_network((1, 8, 8), 10, blocks=10, width=4, skips=True)
    >>> net(torch.zeros(3, 1, 8, 8)).shape, sum(isinstance(m, nn.Linear) for m in net.modules())
    (torch.Size([3, 10]), 22)
    """
    if blocks < 1 or width < 1:
        raise TrueriskError(f"there are {blocks} blocks of width {width}, but both must be at least 1; try 10 and 32.")
    if convolutional and len(input_shape) != 3:
        raise TrueriskError(f"convolutions need images, but inputs have shape {tuple(input_shape)}; use dense layers.")
    body = [SkipBlock(width, skips, convolutional) for _ in range(blocks)]
    if convolutional:
        stride = max(1, min(input_shape[1:]) // SIDE)
        first: list[nn.Module] = [
            nn.Conv2d(input_shape[0], width, stride + 2, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        ]  # fmt: skip
        return nn.Sequential(*first, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))
    dense = nn.Linear(math.prod(input_shape), width, bias=False)
    return nn.Sequential(nn.Flatten(), dense, nn.BatchNorm1d(width), nn.ReLU(), *body, nn.Linear(width, classes))


def _layer(width: int, images: bool) -> nn.Module:
    if images:
        return nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
    return nn.Sequential(nn.Linear(width, width, bias=False), nn.BatchNorm1d(width))
