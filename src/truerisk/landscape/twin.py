"""A rescaled twin: other weights, the same function, so whatever differs between two surfaces is not in the function.

Multiply what enters each hidden unit by exp(u) and divide what leaves it by exp(u), with u ~ N(0, std^2). Paths of
checkpoints are rescaled by the same factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.landscape.directions import Direction
from truerisk.nets import outputs
from truerisk.nets.evaluate import as_input, precision
from truerisk.seeds import derive
from truerisk.symmetry import find_symmetry

SAME = 1e-3  # relative change of an output that rounding may explain in float32, after many layers
HALVINGS = 6  # of the spread, until the function stays
ROWS = 200  # examples on which outputs are compared


@dataclass(frozen=True)
class Twin:
    """``module`` computes the same function; ``factors`` are those of each weight, ``change`` is what rounding did."""

    module: nn.Module
    factors: Direction
    channels: int  # that can be rescaled
    std: float
    change: float  # largest change of an output, relative to the largest output

    def carried(self, weights: Mapping[str, Tensor]) -> Direction:
        """Weights (a checkpoint, a direction) rescaled by the factors of the twin."""
        return {name: (w.double() * self.factors.get(name, 1.0)).to(w.dtype) for name, w in weights.items()}


def rescaled_twin(module: nn.Module, X: np.ndarray, std: float = 1.0, seed: int = 0) -> Twin | str:
    """A twin of a network in eval mode, or the reason why there is none.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> twin = rescaled_twin(net, np.ones((5, 2), np.float32))
    >>> twin.channels, bool(torch.allclose(twin.module(torch.ones(1, 2)), net(torch.ones(1, 2)), atol=1e-5))
    (3, True)
    """
    if not 0 < std < float("inf"):
        raise TrueriskError(f"the spread of the factors is {std:g}, but must be a positive number; try --std 1.")
    try:
        symmetry = find_symmetry(module, as_input(X[:1], precision(module)))
    except TrueriskError as error:
        return str(error)
    if not symmetry.dim:
        return "no hidden unit of this network can be rescaled without changing its function."
    log_scales = symmetry.random(1.0, derive(seed, "landscape", "twin"))
    before = outputs(module, X[:ROWS]).double()
    scale = before.abs().max().clamp_min(1e-300)
    for halving in range(HALVINGS):
        spread = std / 2**halving
        try:
            other = symmetry.rescale(module, spread * log_scales)
        except TrueriskError:  # weights overflow
            continue
        change = float((outputs(other, X[:ROWS]).double() - before).abs().max() / scale)
        if change <= SAME:
            factors = dict(symmetry.factors(spread * log_scales).items())
            return Twin(other.eval(), factors, symmetry.dim, spread, change)
    return "rescaling changes its outputs by more than rounding explains, however small the factors are."
