"""A module with its learnt weights taken out: the only way a user's module may shape a prior.

Weights inside a module that a user hands over count as having seen all data (rule 5 of the design).
So the copy is first filled with NaN, then every layer's own ``reset_parameters`` is called; whatever
is still NaN was not re-initialized, and the module is refused with the list of those places.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.seeds import torch_seed


def reinitialized(module: nn.Module, seed: int) -> nn.Module:
    """A copy of ``module`` with every parameter and buffer drawn anew from ``seed``."""
    twin = copy.deepcopy(module)
    hidden = unregistered_tensors(twin)
    if hidden:
        raise TrueriskError(
            f"the module keeps tensors that are neither parameters nor buffers ({', '.join(hidden)}), so it "
            "can't be re-initialized; hand over a factory (a function that builds the network) instead."
        )
    with torch.no_grad():
        for tensor in _tensors(twin).values():
            _poison(tensor)
        with torch_seed(seed):
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


def unregistered_tensors(module: nn.Module) -> list[str]:
    """Tensors and arrays in plain attributes, where neither a state dict nor a reset reaches them."""
    found = []
    for prefix, layer in module.named_modules():
        for name, value in vars(layer).items():
            if name.startswith("_") and name in nn.Module().__dict__:
                continue  # the registries of nn.Module itself
            values = value.values() if isinstance(value, dict) else value
            inside = list(values) if isinstance(value, dict | list | tuple) else [value]
            if any(isinstance(v, Tensor | np.ndarray) for v in inside):
                found.append(f"{prefix}.{name}".lstrip("."))
    return found


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
