"""The networks of Zhang et al. 2017 (arXiv 1611.03530), which fit random labels.

Their structure is fixed by the published numbers of parameters for 10 classes of 28x28 colour images: 1,387,786
(small AlexNet), 1,649,402 (small Inception, with and without batch norm), 1,209,866 and 1,735,178 (one and three
hidden layers of 512 units). The variants that end in "-small" have the same layers with fewer channels, for 8x8 images.

What the paper does not state is chosen here. The first weights are torch's, but in Inception they are He's (variance
2 / fan-in, no bias): with torch's the signal fades in twelve layers without batch norm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.nets.builtin import mlp


def small_alexnet(
    input_shape: Sequence[int],
    classes: int,
    channels: int = 64,
    dense: Sequence[int] = (384, 192),
    dropout: float = 0.0,
    kernel: int = 5,
) -> nn.Module:
    """Two times (convolution, ReLU, 3x3 max-pooling by 2, local response normalisation), then dense layers.

    ``dropout`` acts after the ReLU of each hidden dense layer.

    >>> sum(p.numel() for p in small_alexnet((3, 28, 28), 10).parameters())
    1387786
    """
    colours, *size = _image(input_shape)
    layers: list[nn.Module] = []
    fan_in = colours
    for _ in range(2):
        layers += [nn.Conv2d(fan_in, channels, kernel, padding=kernel // 2), nn.ReLU()]
        layers += [nn.MaxPool2d(3, stride=2, padding=1), _normalisation()]
        size = [(side + 1) // 2 for side in size]
        fan_in = channels
    layers.append(nn.Flatten())
    width = channels * size[0] * size[1]
    for units in dense:
        layers += [nn.Linear(width, units), nn.ReLU(), *_dropout(dropout)]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, classes))


class Concatenation(nn.Module):
    """Applies two modules to one image and puts their channels side by side."""

    def __init__(self, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.left(x), self.right(x)], dim=1)


class GlobalMean(nn.Module):
    """The mean of each channel over the image."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


def small_inception(input_shape: Sequence[int], classes: int, batch_norm: bool = True, width: float = 1.0) -> nn.Module:
    """A 3x3 convolution, ten blocks of two branches, the mean over the image, one dense layer.

    A block concatenates 1x1 and 3x3 convolutions; two of the ten halve the image instead, by a 3x3 convolution of
    stride 2 beside 3x3 max-pooling. ``width`` scales all numbers of channels. Batch norm has no weights of its own,
    so that it does not change the number of parameters.

    >>> sum(p.numel() for p in small_inception((3, 28, 28), 10).parameters())
    1649402
    """
    blocks: list[tuple[int, int] | int]
    blocks = [(32, 32), (32, 48), 80, (112, 48), (96, 64), (80, 80), (48, 96), 96, (176, 160), (176, 160)]
    fan_in, fan_out = _image(input_shape)[0], _scaled(96, width)
    layers: list[nn.Module] = [_convolution(fan_in, fan_out, 3, batch_norm)]
    fan_in = fan_out
    for block in blocks:
        if isinstance(block, int):
            new = _scaled(block, width)
            halves = nn.MaxPool2d(3, stride=2, padding=1)
            layers.append(Concatenation(_convolution(fan_in, new, 3, batch_norm, stride=2), halves))
            fan_in += new
        else:
            narrow, wide = (_scaled(channels, width) for channels in block)
            pair = _convolution(fan_in, narrow, 1, batch_norm), _convolution(fan_in, wide, 3, batch_norm)
            layers.append(Concatenation(*pair))
            fan_in = narrow + wide
    return _he(nn.Sequential(*layers, GlobalMean(), nn.Linear(fan_in, classes)))


def dropout_mlp(input_shape: Sequence[int], classes: int, hidden: Sequence[int], dropout: float = 0.0) -> nn.Module:
    """The fully connected ReLU network, with dropout after each hidden layer if asked for."""
    layers: list[nn.Module] = []
    for layer in mlp(input_shape, classes, hidden).children():
        layers += [layer, *(_dropout(dropout) if isinstance(layer, nn.ReLU) else [])]
    return nn.Sequential(*layers)


Builder = Callable[..., nn.Module]
CLASSICS: dict[str, tuple[Builder, dict[str, Any]]] = {
    "mlp-1x512": (dropout_mlp, {"hidden": (512,)}),
    "mlp-3x512": (dropout_mlp, {"hidden": (512, 512, 512)}),
    "alexnet": (small_alexnet, {}),
    "inception": (small_inception, {}),
    "inception-no-bn": (small_inception, {"batch_norm": False}),
    "alexnet-small": (small_alexnet, {"channels": 32, "kernel": 3}),
    "inception-small": (small_inception, {"width": 0.25}),
    "inception-small-no-bn": (small_inception, {"width": 0.25, "batch_norm": False}),
}


def classic(name: str, input_shape: Sequence[int], classes: int, **options: Any) -> nn.Module:
    """One of the networks by name; ``options`` go to its builder.

    >>> sum(p.numel() for p in classic("mlp-3x512", (3, 28, 28), 10).parameters())
    1735178
    """
    if name not in CLASSICS:
        raise TrueriskError(f"there is no classic network called {name!r}; there are {', '.join(CLASSICS)}.")
    builder, fixed = CLASSICS[name]
    return builder(input_shape, classes, **{**fixed, **options})


def _convolution(fan_in: int, fan_out: int, kernel: int, batch_norm: bool, stride: int = 1) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(fan_in, fan_out, kernel, stride=stride, padding=kernel // 2)]
    if batch_norm:
        layers.append(nn.BatchNorm2d(fan_out, affine=False))
    return nn.Sequential(*layers, nn.ReLU())


def _normalisation() -> nn.Module:
    """The constants of the small CIFAR-10 AlexNet of the time: x / (1 + 0.001/9 * sum of 9 squares)^0.75."""
    return nn.LocalResponseNorm(size=9, alpha=1e-3, beta=0.75, k=1.0)  # torch divides alpha by the size itself


def _dropout(rate: float) -> list[nn.Module]:
    return [nn.Dropout(rate)] if rate else []


def _scaled(channels: int, width: float) -> int:
    return max(1, round(channels * width))


def _he(network: nn.Module) -> nn.Module:
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network


def _image(input_shape: Sequence[int]) -> tuple[int, ...]:
    if len(input_shape) != 3:
        raise TrueriskError(
            f"a convolutional network needs images (channels, height, width), but the inputs have shape "
            f"{tuple(input_shape)}; use mlp-1x512 or mlp-3x512."
        )
    return tuple(input_shape)
