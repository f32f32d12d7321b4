"""Slow twins of weight-based measures: plain numpy, one weight after the other, nothing of truerisk."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn


def weights(module: nn.Module) -> list[np.ndarray]:
    """The weights of all linear and convolutional layers in order, each batch norm multiplied into the one before."""
    found: list[np.ndarray] = []
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            found.append(part.weight.detach().numpy().copy())
        elif isinstance(part, nn.BatchNorm2d):
            for channel in range(part.num_features):
                gain = float(part.weight.detach()[channel]) / math.sqrt(float(part.running_var[channel]) + part.eps)
                found[-1][channel] *= gain
    return found


def matrix(weight: np.ndarray) -> np.ndarray:
    return weight.reshape(len(weight), -1)


def spectral(weight: np.ndarray) -> float:
    """The largest eigenvalue of W W^T, by its root."""
    w = matrix(weight)
    return math.sqrt(max(np.linalg.eigvalsh(w @ w.T)))


def frobenius(weight: np.ndarray) -> float:
    return math.sqrt(sum(float(x) ** 2 for x in weight.flatten()))


def operators(module: nn.Module, example: torch.Tensor) -> list[np.ndarray]:
    """Each layer as the matrix that it is, one column for each entry of what enters; batch norm multiplied in."""
    entering: dict[nn.Module, tuple[int, ...]] = {}
    handles = [
        part.register_forward_hook(lambda part, args, out: entering.__setitem__(part, tuple(args[0].shape[1:])))
        for part in module.modules()
        if isinstance(part, nn.Linear | nn.Conv2d)
    ]
    with torch.no_grad():
        module(example)
    for handle in handles:
        handle.remove()
    found = []
    for part, weight in zip(entering, weights(module), strict=True):
        if isinstance(part, nn.Linear):
            found.append(weight)
            continue
        shape = entering[part]
        columns = []
        for place in range(math.prod(shape)):
            x = torch.zeros(math.prod(shape), dtype=torch.float64)
            x[place] = 1.0
            y = nn.functional.conv2d(
                x.reshape(1, *shape),
                torch.from_numpy(weight),
                None,
                part.stride,
                part.padding,
                part.dilation,
                part.groups,
            )
            columns.append(y.flatten().numpy())
        found.append(np.stack(columns, axis=1))
    return found


def margins(logits: np.ndarray, labels: np.ndarray) -> list[float]:
    return [
        float(row[label]) - max(float(x) for c, x in enumerate(row) if c != label)
        for row, label in zip(logits, labels, strict=True)
    ]


def gamma(logits: np.ndarray, labels: np.ndarray) -> float:
    ordered = sorted(margins(logits, labels))
    return ordered[max(1, len(ordered) // 10) - 1]
