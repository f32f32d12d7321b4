r"""A width of the prior for each layer, chosen after training from a grid that was fixed before any data.

For one layer with N weights, means m and mu and standard deviations s and f sigma, the KL as a function of t = ln f is

    N t + A exp(-2t) / 2 + const,   A = sum over the weights of ((m - mu)^2 + s^2) / sigma^2:

convex, and least where exp(2t) = A / N. On the grid f = 2^(j/2), j = -12, ..., 12, the best point is a neighbour of
that minimum. Every layer has 25 widths to choose from, so K layers have 25^K priors, none of which depends on data;
whoever chooses among them pays by a union bound (Langford and Caruana 2001): each gets delta / 25^K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes.gaussian import Gaussian, trainable

REACH = 12  # half powers of two, up and down: factors from 1/64 to 64
POINTS = 2 * REACH + 1
MOST_LAYERS = 8  # 25^8 priors take delta to some 1e-13; ledgers end at 1e-15


def layer_groups(module: nn.Module, most: int = MOST_LAYERS) -> list[list[str]]:
    """The names of the trainable parameters, layer by layer; neighbours are tied where there are more than ``most``.

    >>> layer_groups(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2, bias=False)))
    [['0.weight', '0.bias'], ['2.weight']]
    """
    layers: dict[str, list[str]] = {}
    for name in trainable(module):
        layers.setdefault(name.rpartition(".")[0], []).append(name)
    together = np.array_split(np.arange(len(layers)), min(most, len(layers)))
    names = list(layers.values())
    return [[name for i in group for name in names[i]] for group in together]


def best_layer_scales(posterior: Gaussian, prior: Gaussian, layers: int) -> list[int]:
    """The index j of the best width 2^(j/2) for each of ``layers`` groups of layers."""
    posterior.refuse_without_kl(prior)
    indices = []
    for group in layer_groups(prior.module, layers):
        squares, count = [], 0
        for name in group:
            shift = (posterior.mean[name] - prior.mean[name]) / prior.std[name]
            ratio = posterior.std[name] / prior.std[name]
            squares.append(float((shift.square() + ratio.square()).sum()))
            count += shift.numel()
        indices.append(_nearest(math.fsum(squares), count))
    return indices


def with_layer_scales(prior: Gaussian, indices: Sequence[int]) -> Gaussian:
    """The prior with the width of each group multiplied by 2^(j/2); its means stay."""
    groups = layer_groups(prior.module, max(1, len(indices)))
    if len(groups) != len(indices) or any(not -REACH <= j <= REACH for j in indices):
        raise TrueriskError(
            f"these widths are for another network: {len(indices)} whole numbers from {-REACH} to {REACH} were given "
            f"for {len(groups)} groups of layers."
        )
    factors = {name: 2.0 ** (j / 2) for group, j in zip(groups, indices, strict=True) for name in group}
    return Gaussian(prior.module, prior.mean, {name: factors[name] * std for name, std in prior.std.items()})


def _nearest(squares: float, count: int) -> int:
    """The grid point with the least N t + A exp(-2t) / 2."""
    exact = math.log2(squares / count)  # 2 log2(f), which is j
    first = min(REACH, max(-REACH, math.floor(exact)))
    return min((first, min(REACH, first + 1)), key=lambda j: count * j * math.log(2) / 2 + squares * 2.0**-j / 2)
