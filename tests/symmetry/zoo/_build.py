"""Random weights and inputs, and the few layers that several families share."""

import math

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def finish(module: nn.Module, seed: int) -> nn.Module:
    """In float64 and eval mode, all weights random: at a bias of 0 or a gain of 1, a wrong rescaling goes unseen."""
    torch.manual_seed(seed)
    module.double().eval()
    with torch.no_grad():
        for part in module.modules():
            for name, weight in part.named_parameters(recurse=False):
                if weight.ndim > 1:
                    weight.normal_(std=1 / math.sqrt(weight[0].numel()))
                elif name == "weight":  # the gain of a norm, the slope of a PReLU
                    weight.uniform_(0.5, 1.5)
                else:
                    weight.normal_(std=0.5)
            if isinstance(part, _BatchNorm):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
    return module


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def tokens(batch: int, length: int, vocabulary: int) -> Tensor:
    """Token ids among which each one occurs."""
    assert batch * length >= vocabulary
    return (torch.randperm(batch * length) % vocabulary).reshape(batch, length)


def conv_bn(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(c_in, c_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(c_out)]


def head(width: int, classes: int = 4) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


class Plus(nn.Module):
    """x + body(x)."""

    def __init__(self, *body: nn.Module):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


class Scale(nn.Module):
    """x times a parameter of this shape (layer scale)."""

    def __init__(self, *shape: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(shape))

    def forward(self, x):
        return x * self.scale


class Permute(nn.Module):
    def __init__(self, *order: int):
        super().__init__()
        self.order = order

    def forward(self, x):
        return x.permute(self.order)


class Mean(nn.Module):
    def __init__(self, *axes: int):
        super().__init__()
        self.axes = axes

    def forward(self, x):
        return x.mean(self.axes)
