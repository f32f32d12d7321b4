"""What a pass costs: counted from the network and the shape of its inputs, the same on every machine."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from truerisk.nets.evaluate import as_input, precision

ROWS = 2


def products(module: nn.Module, X: np.ndarray) -> int:
    """Multiplications of a pass for one example; a kernel counts at each of its positions. 0 if it does not run.

    >>> products(nn.Linear(64, 10), np.zeros((2, 64), np.float32))
    640
    """
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), counter:
            module(as_input(X[:ROWS], precision(module)))
    except Exception:  # a network that does not run is refused elsewhere, with a sentence of its own
        return 0
    return counter.get_total_flops() // (2 * len(X[:ROWS]))  # a product and a sum are two operations


def steps(module: nn.Module) -> int:
    """Layers that a pass calls one after the other, at least 1: what a pass costs however small the layers are."""
    return max(1, sum(not any(layer.children()) for layer in module.modules()))
