"""Dropout as an average: each mask is a smaller network, and all of them share their weights.

Srivastava et al. 2014 train such an ensemble and approximate its average by a single pass with scaled weights (eval
mode of `torch.nn.Dropout`). The average itself can be estimated by Monte Carlo: mean probabilities over random masks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.seeds import derive

ROWS = 10_000  # inputs computed at once


def dropout_mlp(input_shape: Sequence[int], classes: int, hidden: Sequence[int], p: float = 0.5) -> nn.Sequential:
    """Fully connected ReLU network that drops each hidden unit with probability ``p`` in training.

    >>> dropout_mlp((1, 8, 8), 10, (100,))[3]
    Dropout(p=0.5, inplace=False)
    """
    layers: list[nn.Module] = [nn.Flatten()]
    fan_in = math.prod(input_shape)
    for fan_out in hidden:
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU(), nn.Dropout(p)]
        fan_in = fan_out
    return nn.Sequential(*layers, nn.Linear(fan_in, classes))


def masked_probabilities(module: nn.Module, inputs: np.ndarray, masks: int, seed: int) -> np.ndarray:
    """Class probabilities of ``masks`` networks, each with one random mask for all inputs: (masks, inputs, classes).

    The mask of a network is the same for every input, so each row of the result is one network. Everything but dropout
    is in eval mode. Modules must drop single units of vectors: `torch.nn.Dropout` after a linear layer.

    >>> net = dropout_mlp((2,), 3, (8,))
    >>> found = masked_probabilities(net, np.zeros((4, 2), np.float32), masks=5, seed=0)
    >>> found.shape, bool(np.allclose(found.sum(axis=2), 1, atol=1e-6))
    ((5, 4, 3), True)
    """
    drops = [part for part in module.modules() if isinstance(part, nn.Dropout)]
    if not drops:
        raise TrueriskError("the network has no torch.nn.Dropout, so it has no masks; add one, or use dropout_mlp.")
    if not (isinstance(masks, int) and masks >= 1):
        raise TrueriskError(f"masks is {masks!r}, but must be an integer of at least 1; try masks=100.")
    module.eval()
    X = torch.as_tensor(np.asarray(inputs, np.float32))
    found = []
    for k in range(masks):
        handles = [drop.register_forward_hook(_OneMask(drop.p, derive(seed, k, i))) for i, drop in enumerate(drops)]
        try:
            with torch.no_grad():
                parts = [module(part).softmax(dim=1) for part in X.split(ROWS)]
        finally:
            for handle in handles:
                handle.remove()
        found.append(torch.cat(parts).numpy())
    return np.stack(found)


class _OneMask:
    """A hook that drops the same units for every input; those that stay are scaled by 1 / (1 - p), as in training."""

    def __init__(self, p: float, seed: int) -> None:
        self.p, self.seed = p, seed

    def __call__(self, module: nn.Module, args: object, output: torch.Tensor) -> torch.Tensor:
        keep = torch.rand(output.shape[1:], generator=torch.Generator().manual_seed(self.seed)) >= self.p
        return output * keep / (1 - self.p) if self.p < 1 else output * 0
