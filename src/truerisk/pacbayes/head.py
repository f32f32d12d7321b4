"""Networks of which only the last linear layer is random: what comes before it is computed once.

A learnt prior may fix all layers but the last (they saw only the prior's examples). Then the network is a linear layer
on fixed features, and a Gaussian over its weights is trained, drawn and certified at the price of a linear model.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk import progress
from truerisk.errors import TrueriskError
from truerisk.nets.evaluate import as_input, precision
from truerisk.pacbayes.gaussian import Gaussian, trainable

ROWS = 500  # images at once
SAME = 1e-4  # relative difference of outputs that float32 rounding explains


@dataclass(frozen=True)
class Head:
    """The last linear layer of ``module``, called ``name`` there."""

    module: nn.Module
    name: str

    def features(self, X: np.ndarray) -> np.ndarray:
        """What enters the last layer, in float32; refused unless the layer's output is the network's output."""
        layer, caught = self.module.get_submodule(self.name), []
        handle = layer.register_forward_pre_hook(lambda _, args: caught.append(args[0].detach()))
        parts = []
        try:
            with progress.bar("computing features", total=len(X)) as advance, torch.no_grad():
                for start in range(0, len(X), ROWS):
                    caught.clear()
                    out = self.module(as_input(X[start : start + ROWS], precision(self.module)))
                    parts.append(self._only(caught, out))
                    advance(len(out))
        finally:
            handle.remove()
        return torch.cat(parts).numpy()

    def _only(self, caught: list[Tensor], out: Tensor) -> Tensor:
        linear = self.linear()
        if len(caught) == 1 and caught[0].ndim == 2:
            mine = F.linear(caught[0], linear.weight, linear.bias)
            if mine.shape == out.shape and bool(((mine - out).abs() <= SAME * out.abs().max()).all()):
                return caught[0]
        raise TrueriskError(
            f"the network's output is not simply what its last linear layer ({self.name}) gives; use --random all."
        )

    def linear(self) -> nn.Linear:
        layer = self.module.get_submodule(self.name)
        assert isinstance(layer, nn.Linear)
        return layer

    def restrict(self, gaussian: Gaussian) -> Gaussian:
        """The same distribution over the layer alone."""
        cut = len(self.name) + 1 if self.name else 0
        parts = ({n[cut:]: t for n, t in tensors.items()} for tensors in (gaussian.mean, gaussian.std))
        return Gaussian(copy.deepcopy(self.linear()), *parts)

    def extend(self, gaussian: Gaussian) -> Gaussian:
        """The inverse of ``restrict``."""
        prefix = f"{self.name}." if self.name else ""
        parts = ({prefix + n: t for n, t in tensors.items()} for tensors in (gaussian.mean, gaussian.std))
        return Gaussian(self.module, *parts)


def find_head(gaussian: Gaussian) -> Head | None:
    """The head of a network of which only that is random; None for all others."""
    module = gaussian.module
    if len(trainable(module)) == len(list(module.parameters())):
        return None
    linear = [name for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    if not linear:
        return None
    inside = {f"{linear[-1]}.{n}" if linear[-1] else n for n, _ in module.get_submodule(linear[-1]).named_parameters()}
    return Head(module, linear[-1]) if set(gaussian.mean) == inside else None
