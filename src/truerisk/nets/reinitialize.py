"""A module with its learnt weights taken out: the only way a user's module may shape a prior.

Weights inside a module that a user hands over count as having seen all data (rule 5 of the design).
So the copy is first filled with NaN, then every layer's own ``reset_parameters`` is called; whatever
is still NaN was not re-initialized, and the module is refused with the list of those places.
"""

from __future__ import annotations

import collections
import copy
import functools
import types
import weakref
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.seeds import seeded_globals


def reinitialized(module: nn.Module, seed: int) -> nn.Module:
    """A copy of ``module`` with every parameter and buffer drawn anew from ``seed``."""
    twin = copy.deepcopy(module)
    hidden = unregistered_tensors(twin)
    hidden += [f"{n}.forward".lstrip(".") for n, m in twin.named_modules() if "forward" in vars(m)]
    if hidden:
        raise TrueriskError(
            f"the module keeps tensors that are neither parameters nor buffers ({', '.join(hidden)}), so it "
            "can't be re-initialized; hand over a factory (a function that builds the network) instead."
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


def unregistered_tensors(module: nn.Module) -> list[str]:
    """Tensors, arrays and modules that are reachable, but neither registered nor reset.

    Walks plain attributes, containers, objects, partials, bound methods, and what functions close over.
    """
    known = {id(t) for m in module.modules() for t in (*m._parameters.values(), *m._buffers.values())}
    layers = {id(m) for m in module.modules()}
    found: list[str] = []
    for prefix, layer in module.named_modules():
        if isinstance(layer, torch.jit.ScriptModule):
            found.append(prefix or "the module itself")
            continue
        seen = set(layers)
        for name, value in vars(layer).items():
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            if _holds_numbers(value, known, seen):
                found.append(f"{prefix}.{name}".lstrip("."))
    return found


def _holds_numbers(start: object, known: set[int], seen: set[int]) -> bool:
    stack = [start]
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor | np.ndarray):
            if id(value) not in known:
                return True
            continue
        if id(value) in seen or isinstance(value, type | types.ModuleType | str | bytes | int | float | complex | None):
            continue
        seen.add(id(value))
        if isinstance(value, nn.Module | torch.ScriptObject):
            return True  # not one of the registered layers
        if isinstance(value, weakref.ref):
            stack.append(value())
        elif isinstance(value, types.FunctionType):
            cells = value.__closure__ or ()
            stack += [c.cell_contents for c in cells if c != types.CellType()]
            stack += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        elif isinstance(value, types.MethodType):
            stack += [value.__self__, value.__func__]
        elif isinstance(value, functools.partial):
            stack += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, Mapping):
            stack += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset | collections.deque):
            stack += list(value)
        else:
            stack += list(getattr(value, "__dict__", {}).values())
            stack += [getattr(value, s) for k in type(value).__mro__ for s in getattr(k, "__slots__", ()) if isinstance(getattr(k, "__slots__", ()), list | tuple) and hasattr(value, s)]
    return False


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
