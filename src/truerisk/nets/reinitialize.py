"""A module with its learnt weights taken out: the only way a user's module may shape a prior.

Weights inside a module that a user hands over count as having seen all data (rule 5 of docs/design.rst).
So the copy is first filled with NaN, then every layer's own ``reset_parameters`` is called; whatever
is still NaN was not re-initialized, and the module is refused with the list of those places.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.nets.hidden import hidden_numbers, replaced_forwards
from truerisk.seeds import seeded_globals


def reinitialized(module: nn.Module, seed: int) -> nn.Module:
    """A copy of ``module`` with every parameter and buffer drawn anew from ``seed``."""
    twin = copy.deepcopy(module)
    hidden = hidden_numbers(twin) + replaced_forwards(twin)
    if hidden:
        raise TrueriskError(
            f"the module keeps learnt numbers, or may keep them, where a re-initialization does not reach "
            f"({', '.join(hidden)}); hand over a factory (a function that builds the network) instead."
        )
    with torch.no_grad():
        for tensor in _tensors(twin).values():
            _poison(tensor)
        with seeded_globals(seed):
            for layer in twin.modules():
                reset = getattr(layer, "reset_parameters", None)
                if callable(reset):
                    reset()
    left = [name for name, tensor in _tensors(twin).items() if _poisoned(tensor)]
    if left:
        raise TrueriskError(
            f"the weights {', '.join(left)} can't be re-initialized, because their layer's "
            "reset_parameters() does not set them; hand over a factory (a function that builds the network) "
            "instead of a module."
        )
    return twin


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _poison_value(tensor: Tensor) -> float | int | bool:
    if tensor.is_floating_point() or tensor.is_complex():
        return float("nan")
    return True if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max


def _poison(tensor: Tensor) -> None:
    tensor.fill_(_poison_value(tensor))


def _poisoned(tensor: Tensor) -> bool:
    if tensor.is_floating_point() or tensor.is_complex():
        return bool(tensor.isnan().any())
    return bool((tensor == _poison_value(tensor)).any())
