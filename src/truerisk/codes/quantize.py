"""From weights to whole numbers and back: the numbers that a code stores, and the weights that they stand for.

A tensor's weights are  background + step * q  with whole q, the step from a fixed grid, and a background that the
decoder knows: 0, or the tensor's own value in the start network. Steps are 1 or 1.5 times a power of two, so that
step * q is exact in float64 and the sum is rounded once, to float32: the same weights on every machine.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError

STEP_BITS = 5
STEPS = np.array([(1 + index % 2 / 2) * 2.0 ** (index // 2 - 10) for index in range(1 << STEP_BITS)])  # 2^-10 to 48


@dataclass(frozen=True)
class Rounded:
    """One tensor: ``step`` is an index into STEPS, ``on_start`` says which background, ``numbers`` has its shape."""

    step: int
    on_start: bool
    numbers: np.ndarray

    def weights(self, start: Tensor) -> Tensor:
        """The weights, in float32."""
        shift = STEPS[self.step] * self.numbers
        return torch.from_numpy((_background(start, self.on_start) + shift).astype(np.float32))


def coded(module: nn.Module) -> dict[str, Tensor]:
    """What a code tells about a network: its trainable parameters; the rest is that of the start network."""
    tensors = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    if not tensors:
        raise TrueriskError("the network has no trainable weights, so there is nothing to encode.")
    wrong = [name for name, t in tensors.items() if t.dtype != torch.float32]
    if wrong:
        raise TrueriskError(f"a code stores float32 weights, but {wrong[0]} is in {tensors[wrong[0]].dtype}; convert.")
    return tensors


def nearest_step(size: float) -> int:
    """The index of the step nearest to ``size``, by ratio.

    >>> [float(STEPS[nearest_step(s)]) for s in (0.24, 0.4, 1e-9, 1e9)]
    [0.25, 0.375, 0.0009765625, 48.0]
    """
    return int(np.abs(np.log2(STEPS) - np.log2(max(size, 1e-300))).argmin())


def rounded(weights: Tensor, start: Tensor, step: int, *, on_start: bool = False, dead_zone: float = 0.5) -> Rounded:
    """Each weight at its nearest multiple; what is less than ``dead_zone`` steps from the background becomes that."""
    units = (weights.detach().numpy().astype(np.float64) - _background(start, on_start)) / STEPS[step]
    numbers = np.where(np.abs(units) < dead_zone, 0, np.rint(units))
    return Rounded(step, on_start, numbers.astype(np.int64))


def exactly(weights: Tensor, start: Tensor) -> Rounded | None:
    """The numbers that stand for exactly these weights, by the coarsest step there is; None if there are none."""
    for on_start in (False, True):
        for step in reversed(range(len(STEPS))):
            numbers = rounded(weights, start, step, on_start=on_start)
            if torch.equal(numbers.weights(start), weights):
                return numbers
    return None


def quantize(
    network: nn.Module, start: nn.Module, steps: float | Mapping[str, float], dead_zone: float = 0.5
) -> nn.Module:
    """A copy of ``network`` with every weight rounded, on the background 0; its steps are the nearest on the grid."""
    twin = copy.deepcopy(network)
    origin = coded(start)
    for name, weights in coded(twin).items():
        size = steps[name] if isinstance(steps, Mapping) else steps
        numbers = rounded(weights, origin[name], nearest_step(size), dead_zone=dead_zone)
        weights.copy_(numbers.weights(origin[name]))
    return twin


def _background(start: Tensor, on_start: bool) -> np.ndarray:
    return start.detach().numpy().astype(np.float64) * on_start
