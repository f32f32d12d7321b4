"""All of ``tighten`` on a network of the size of ResNet-50, in units of one pass over its weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.timing import Row, in_turns
from truerisk import Gaussian, find_symmetry, tighten

REPEATS = 7


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 with batch norm, and a shortcut (He et al. 2016)."""

    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            *_conv(inner, width, 1), nn.ReLU(), *_conv(width, width, 3, stride), nn.ReLU(), *_conv(width, out, 1)
        )
        same = stride == 1 and inner == out
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv(inner, out, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def _conv(inner: int, out: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inner, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out)]


def resnet50() -> nn.Module:
    layers, inner = [*_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for number in range(blocks):
            layers.append(Bottleneck(inner, width, 2 if width > 64 and number == 0 else 1))
            inner = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000))


def rows() -> list[Row]:
    torch.manual_seed(0)
    net = resnet50()
    free = _compare("no batch-norm mean, all channels free", net)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
    return [free, _compare("batch-norm means, which hold what enters them", net)]


def _compare(what: str, net: nn.Module) -> Row:
    symmetry = find_symmetry(net, torch.zeros(1, 3, 64, 64))
    posterior, prior = Gaussian.around(net, 0.01), Gaussian.zero(net, 0.1)
    weights = list(posterior.mean.values())
    found = tighten(posterior, prior, symmetry)
    ours, theirs = in_turns(
        lambda: tighten(posterior, prior, symmetry), lambda: sum((w * w).sum() for w in weights), REPEATS
    )
    passes = f"{ours / theirs:.0f} passes over {posterior.size:,} weights, {found.passes:.1f} over the edges"
    note = f"costs {passes}; {str(found).splitlines()[0]}"
    return Row(f"all of tighten, ResNet-50, {what}", "one pass sum((w*w).sum()), float64", ours, theirs, note)
