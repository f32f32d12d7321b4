"""The networks of Arpit et al. 2017, with layers of noise for their Section 5, and the SGD that trains them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.lab.experiment import Setting
from truerisk.nets import mlp
from truerisk.seeds import derive, seeded_globals
from truerisk.training import Plan


class GaussianNoise(nn.Module):
    """Adds independent Gaussian numbers in training, and nothing in eval mode."""

    def __init__(self, std: float) -> None:
        super().__init__()
        self.std = std

    def forward(self, x: Tensor) -> Tensor:
        return x + self.std * torch.randn_like(x) if self.training else x


def build(
    net: str,
    input_shape: Sequence[int],
    classes: int,
    hidden: Sequence[int],
    seed: int,
    at_input: nn.Module | None = None,
    after_relu: nn.Module | None = None,
) -> nn.Module:
    """``mlp`` with ReLU layers of the widths ``hidden``, or ``cnn``, the published convolutional network.

    ``at_input`` acts before the first layer, ``after_relu`` after every ReLU; they must not have weights.
    """
    if net not in ("mlp", "cnn"):
        raise TrueriskError(f"there is no network {net!r} in this experiment; choose mlp or cnn.")
    with seeded_globals(seed):
        plain = mlp(input_shape, classes, hidden) if net == "mlp" else cnn(input_shape, classes)
    return nn.Sequential(*_disturbed(plain, at_input, after_relu))


def cnn(input_shape: Sequence[int], classes: int) -> nn.Module:
    """Twice 200 filters of 5 x 5 and max-pooling over 3 x 3, then 384 and 192 units, batch norm before every ReLU."""
    sides = [((size - 4) // 3 - 4) // 3 for size in input_shape[1:]]
    if min(sides) < 1:
        raise TrueriskError(f"images of {input_shape[1]} x {input_shape[2]} pixels are too small for the cnn; use mlp.")
    layers: list[nn.Module] = []
    for channels in (input_shape[0], 200):
        layers += [nn.Conv2d(channels, 200, 5), nn.BatchNorm2d(200), nn.ReLU(), nn.MaxPool2d(3)]
    layers.append(nn.Flatten())
    for fan_in, units in ((200 * math.prod(sides), 384), (384, 192)):
        layers += [nn.Linear(fan_in, units), nn.BatchNorm1d(units), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(192, classes))


def _disturbed(plain: nn.Module, at_input: nn.Module | None, after_relu: nn.Module | None) -> Iterator[nn.Module]:
    if at_input is not None:
        yield at_input
    for layer in plain.children():
        yield layer
        if after_relu is not None and isinstance(layer, nn.ReLU):
            yield after_relu


def halving_sgd(setting: Setting, weight_decay: float = 0.0) -> Plan:
    """SGD with momentum 0.9 at a constant rate, or one that is halved every ``halve_every`` epochs."""
    halve = setting["halve_every"]
    return Plan(
        epochs=setting["epochs"],
        batch_size=setting["batch"],
        optimizer="sgd",
        lr=setting["lr"],
        momentum=0.9,
        weight_decay=weight_decay,
        schedule="step" if halve else "constant",
        step_every=halve or 1,
        step_factor=0.5,
        seed=derive(setting["seed"], "training"),
    )
