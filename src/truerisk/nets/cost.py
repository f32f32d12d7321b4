"""What a pass costs: counted from the network and the shape of its inputs, the same on every machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
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
        with torch.no_grad(), _unfused(), counter:
            module(as_input(X[:ROWS], precision(module)))
    except Exception:  # a network that does not run is refused elsewhere, with a sentence of its own
        return 0
    return counter.get_total_flops() // (2 * len(X[:ROWS]))  # a product and a sum are two operations


@contextmanager
def _unfused() -> Iterator[None]:
    """Without kernels that do several operations at once: machines differ in them, and they cannot be counted."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), ExitStack() as stack:
            warnings.filterwarnings("ignore", "TF32 acceleration")  # of graphics cards, whatever is set
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def steps(module: nn.Module) -> int:
    """Layers that a pass calls one after the other, at least 1: what a pass costs however small the layers are."""
    return max(1, sum(not any(layer.children()) for layer in module.modules()))
