"""Plain and residual networks of any depth that differ in nothing but their shortcuts.

``deep_mlp`` has layers of one width; ``deep_convnet`` is a thin version of the networks with 18 and 34 layers of He et
al. (2016, "Deep residual learning for image recognition", Table 1). Shortcuts have no weights (their option A: skip
pixels, pad channels with zeros), so that the plain network and the residual one have equally many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.nets.normalization import normalized

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
STARTS = ("default", "he", "xavier")
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}  # per stage, of two layers each; published


class Skip(nn.Module):
    """x + branch(x)."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.branch(x)
        return out


def deep_mlp(
    input_shape: Sequence[int],
    classes: int,
    depth: int,
    width: int,
    activation: str = "relu",
    norm: str = "none",
    start: str = "he",
    skips: bool = False,
) -> nn.Module:
    """``depth`` hidden layers of ``width`` units, each a linear map, ``norm``, and ``activation``; then a linear map.

    ``skips`` adds each hidden layer's input to its output, from the second on. ``start``: "he" has variance 2 / fan_in
    (He et al. 2015), "xavier" 2 / (fan_in + fan_out) (Glorot and Bengio 2010), both with biases 0; "default" is
    torch's: weights and biases uniform, of variance 1 / (3 fan_in).

    >>> sum(p.numel() for p in deep_mlp((1, 8, 8), 10, depth=6, width=16).parameters())
    2570
    """
    if depth < 1 or width < 1:
        raise TrueriskError(f"depth is {depth} and width {width}, but both must be at least 1; give more layers.")
    if activation not in ACTIVATIONS:
        raise TrueriskError(f"the activation is {activation!r}, but must be one of {', '.join(ACTIVATIONS)}.")
    layers: list[nn.Module] = [nn.Flatten()]
    fan_in = math.prod(input_shape)
    for k in range(depth):
        layer = nn.Sequential(normalized(norm, begin(nn.Linear(fan_in, width), start)), ACTIVATIONS[activation]())
        layers.append(Skip(layer) if skips and k else layer)
        fan_in = width
    return nn.Sequential(*layers, begin(nn.Linear(fan_in, classes), start))


def begin(layer: Any, start: str) -> Any:
    """The layer with initial weights of ``start`` ("default", "he", or "xavier"), drawn from torch's generator."""
    if start not in STARTS:
        raise TrueriskError(f"the start is {start!r}, but must be one of {', '.join(STARTS)}.")
    if start == "he":
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    elif start == "xavier":
        nn.init.xavier_normal_(layer.weight)
    if start != "default" and layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Block(nn.Module):
    """Two convolutions of 3 x 3, each with its normalization, and ReLU; with a shortcut around both or without."""

    def __init__(self, fan_in: int, channels: int, stride: int, norm: str, residual: bool) -> None:
        super().__init__()
        self.first = normalized(norm, conv3x3(fan_in, channels, stride))
        self.second = normalized(norm, conv3x3(channels, channels))
        self.stride, self.added, self.residual = stride, channels - fan_in, residual

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(F.relu(self.first(x)))
        if self.residual:
            near = x[:, :, :: self.stride, :: self.stride]
            out = out + F.pad(near, (0, 0, 0, 0, 0, self.added))
        return F.relu(out)


def deep_convnet(
    input_shape: Sequence[int],
    classes: int,
    depth: int = 18,
    width: int = 8,
    residual: bool = True,
    norm: str = "batch",
) -> nn.Module:
    """A convolution, ``depth`` - 2 more in blocks of two, the mean over the image, and a linear map.

    Four stages have ``width``, 2, 4 and 8 times ``width`` channels; each but the first halves the image. For other
    depths than 18 and 34 the blocks are divided as evenly as can be.

    >>> nets = [deep_convnet((1, 8, 8), 10, depth=34, width=4, residual=r) for r in (True, False)]
    >>> [sum(p.numel() for p in net.parameters()) for net in nets]
    [83686, 83686]
    """
    if len(input_shape) != 3:
        raise TrueriskError(f"inputs have shape {tuple(input_shape)}, but must be images; use deep_mlp for tables.")
    if depth < 4 or depth % 2:
        raise TrueriskError(f"depth is {depth}, but must be an even number from 4 on: two layers, and blocks of two.")
    layers: list[nn.Module] = [normalized(norm, conv3x3(input_shape[0], width)), nn.ReLU()]
    fan_in = width
    for stage, blocks in enumerate(stages(depth)):
        channels = width * 2**stage
        for k in range(blocks):
            layers.append(Block(fan_in, channels, 2 if k == 0 < stage else 1, norm, residual))
            fan_in = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), begin(nn.Linear(fan_in, classes), "he"))


def stages(depth: int) -> tuple[int, ...]:
    """Blocks per stage.

    >>> stages(34), stages(8), stages(4)
    ((3, 4, 6, 3), (1, 1, 1), (1,))
    """
    if depth in BLOCKS:
        return BLOCKS[depth]
    blocks = (depth - 2) // 2
    return tuple(len(part) for part in torch.arange(blocks).tensor_split(4) if len(part))


def convnet_of(input_shape: Sequence[int], classes: int, width: int, norm: str, layers: int = 4) -> nn.Module:
    """``layers`` convolutions of 3 x 3 with ``width`` channels, ``norm``, and ReLU; every second halves the image."""
    if len(input_shape) != 3:
        raise TrueriskError(f"inputs have shape {tuple(input_shape)}, but must be images; use deep_mlp for tables.")
    found: list[nn.Module] = []
    for k in range(layers):
        conv = conv3x3(width if k else input_shape[0], width, 2 if k % 2 else 1)
        found += [normalized(norm, conv), nn.ReLU()]
    return nn.Sequential(*found, nn.AdaptiveAvgPool2d(1), nn.Flatten(), begin(nn.Linear(width, classes), "he"))


def conv3x3(fan_in: int, channels: int, stride: int = 1) -> nn.Conv2d:
    layer: nn.Conv2d = begin(nn.Conv2d(fan_in, channels, 3, stride, 1), "he")
    return layer
