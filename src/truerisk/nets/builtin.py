"""The architectures that come with truerisk. Small on purpose: small networks certify best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets.cosine import cosnet, mirrored_cosnet
from truerisk.nets.naming import unknown
from truerisk.nets.residual import mirrored_resnet, resnet

LARGE_IMAGE, SMALLEST_IMAGE = 16, 4  # pixels


def mlp(input_shape: Sequence[int], classes: int, hidden: Sequence[int] = (100,)) -> nn.Module:
    """Fully connected ReLU network.

    >>> sum(p.numel() for p in mlp((1, 28, 28), 10, hidden=(100,)).parameters())
    79510
    """
    widths = [math.prod(input_shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


def convnet(input_shape: Sequence[int], classes: int, channels: Sequence[int] = (8, 16)) -> nn.Module:
    """Two strided 5x5 convolutions (3x3 on images under 16 pixels) and one linear layer.

    On MNIST with 8 and 16 channels it has 5,994 weights: few weights, few nats.

    >>> sum(p.numel() for p in convnet((1, 28, 28), 10).parameters())
    5994
    """
    if len(input_shape) != 3:
        raise TrueriskError(
            f"the built-in convnet needs images (channels, height, width), but the inputs have shape "
            f"{tuple(input_shape)}; use --model mlp."
        )
    kernel, stride = (5, 2) if min(input_shape[1:]) >= LARGE_IMAGE else (3, 1)
    layers: list[nn.Module] = []
    fan_in = input_shape[0]
    for fan_out in channels:
        layers += [nn.Conv2d(fan_in, fan_out, kernel, stride=stride), nn.ReLU()]
        fan_in = fan_out
    trunk = nn.Sequential(*layers, nn.Flatten())
    with torch.no_grad():
        features = trunk(torch.zeros(1, *input_shape)).shape[1]
    return nn.Sequential(*trunk, nn.Linear(features, classes))


def poolnet(input_shape: Sequence[int], classes: int, channels: Sequence[int] = (16, 32)) -> nn.Module:
    """3x3 convolutions that keep the size of the image, one max-pooling and one linear layer: for small images.

    >>> sum(p.numel() for p in poolnet((1, 8, 8), 10).parameters())
    9930
    """
    if len(input_shape) != 3 or min(input_shape[1:]) < SMALLEST_IMAGE:
        raise TrueriskError(
            f"the built-in poolnet needs images (channels, height, width) of {SMALLEST_IMAGE} pixels or more, but the "
            f"inputs have shape {tuple(input_shape)}; use --model mlp."
        )
    color, height, width = input_shape
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise([color, *channels]):
        layers += [nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.ReLU()]
    features = channels[-1] * (height // 2) * (width // 2)
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(features, classes))


def default_name(input_shape: Sequence[int], few_weights: bool = False) -> str:
    """The built-in network for inputs of this shape; ``few_weights``: for bounds that grow with their number.

    >>> default_name((1, 28, 28)), default_name((1, 8, 8)), default_name((40,))
    ('convnet:32-64', 'poolnet', 'mlp')
    >>> default_name((1, 28, 28), few_weights=True), default_name((1, 8, 8), few_weights=True)
    ('convnet', 'mlp')
    """
    pixels = min(input_shape[1:]) if len(input_shape) == 3 else 0
    if pixels >= LARGE_IMAGE:
        return "convnet" if few_weights else "convnet:32-64"
    return "poolnet" if pixels >= SMALLEST_IMAGE and not few_weights else "mlp"


# How each one is built, and its usual widths.
KINDS: dict[str, tuple[Callable[[Sequence[int], int, Sequence[int]], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (100,)),
    "convnet": (convnet, (8, 16)),
    "poolnet": (poolnet, (16, 32)),
    "cosnet": (cosnet, (16, 24, 32)),
    "mirrored-cosnet": (mirrored_cosnet, (16, 24, 32)),
    "resnet": (resnet, (64, 128, 256)),
    "mirrored-resnet": (mirrored_resnet, (64, 128, 256)),
}


def builtin(name: str, input_shape: Sequence[int], classes: int) -> nn.Module:
    """Build ``mlp``, ``mlp:600-600``, ``convnet:6-12``, ``resnet:32-64-128``, ... (widths after the colon)."""
    kind, _, widths = name.partition(":")
    try:
        sizes = [int(w) for w in widths.split("-")] if widths else None
    except ValueError:
        sizes = [0]
    if sizes is not None and min(sizes) < 1:
        raise TrueriskError(f"the widths in --model {name} must be whole numbers joined by '-', as in mlp:600-600.")
    if kind in KINDS:
        build, usual = KINDS[kind]
        return build(input_shape, classes, sizes or usual)
    raise unknown(name, list(KINDS))
