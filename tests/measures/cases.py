"""Networks that every measure is tried on: one list for all tests."""

from __future__ import annotations

import itertools

import torch
from torch import nn


class Residual(nn.Module):
    """A user's network: convolutions, batch norm, two residual blocks, a linear layer."""

    def __init__(self, width: int = 6, classes: int = 3) -> None:
        super().__init__()
        conv = nn.Conv2d(1, width, 3, stride=2, padding=1, bias=False)
        self.stem = nn.Sequential(conv, nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.ModuleList([self._block(width), self._block(width)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, classes)

    @staticmethod
    def _block(width: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return self.head(self.pool(x).flatten(1))


def mlp(*widths: int, bias: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convnet(classes: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU(),
        nn.Flatten(), nn.Linear(45, classes),
    )  # fmt: skip


def build(name: str, seed: int = 0) -> nn.Module:
    """One of CASES in float64, with batch-norm statistics and biases that are not those of an initialization."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = CASES[name]().double()
    for tensor in [b for b in module.buffers() if b.is_floating_point()] + [
        p for n, p in module.named_parameters() if n.endswith("bias")
    ]:
        tensor.data = tensor.abs() + 0.2 * torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype)
    return module.eval()


CASES = {
    "mlp": lambda: mlp(64, 12, 9, 3),
    "mlp without biases": lambda: mlp(64, 12, 3, bias=False),
    "linear": lambda: mlp(64, 3),
    "convnet": convnet,
    "residual": Residual,
}
