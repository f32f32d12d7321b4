"""The networks of Arpit et al. 2017, with room for the noise of their section 5, and how they are trained."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.lab.experiment import Setting
from truerisk.seeds import derive, seeded_globals
from truerisk.training.plan import Plan


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
    *,
    dropout: float = 0.0,
    hidden_noise: float = 0.0,
    input_dropout: float = 0.0,
    input_noise: float = 0.0,
) -> nn.Module:
    """``mlp`` with ReLU layers of the widths ``hidden``, or ``cnn``, the published convolutional network.

    Dropout and noise come after every ReLU (hidden) or before the first layer (input).
    """
    with seeded_globals(seed):
        first = _disturbed(input_dropout, input_noise)
        if net == "mlp":
            return nn.Sequential(*first, *_mlp(input_shape, classes, hidden, dropout, hidden_noise))
        if net == "cnn":
            return nn.Sequential(*first, *_cnn(input_shape, classes, dropout, hidden_noise))
    raise TrueriskError(f"there is no network {net!r} in this experiment; choose mlp or cnn.")


def plan_of(setting: Setting, weight_decay: float = 0.0) -> Plan:
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


def _disturbed(dropout: float, noise: float) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Dropout(dropout)] if dropout else []
    return [*layers, GaussianNoise(noise)] if noise else layers


def _mlp(
    input_shape: Sequence[int], classes: int, hidden: Sequence[int], dropout: float, noise: float
) -> list[nn.Module]:
    widths = [math.prod(input_shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU(), *_disturbed(dropout, noise)]
    return [*layers, nn.Linear(widths[-1], classes)]


def _cnn(input_shape: Sequence[int], classes: int, dropout: float, noise: float) -> list[nn.Module]:
    """Twice 200 filters of 5 x 5 and max-pooling over 3 x 3, then 384 and 192 units, batch norm before every ReLU."""
    layers: list[nn.Module] = []
    channels = input_shape[0]
    for _ in range(2):
        layers += [nn.Conv2d(channels, 200, 5), nn.BatchNorm2d(200), nn.ReLU(), *_disturbed(dropout, noise)]
        layers.append(nn.MaxPool2d(3))
        channels = 200
    side = [((size - 4) // 3 - 4) // 3 for size in input_shape[1:]]
    if min(side) < 1:
        raise TrueriskError(f"images of {input_shape[1]} x {input_shape[2]} pixels are too small for the cnn; use mlp.")
    layers.append(nn.Flatten())
    width = 200 * math.prod(side)
    for units in (384, 192):
        layers += [nn.Linear(width, units), nn.BatchNorm1d(units), nn.ReLU(), *_disturbed(dropout, noise)]
        width = units
    return [*layers, nn.Linear(width, classes)]
