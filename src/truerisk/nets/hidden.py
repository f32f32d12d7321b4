"""Find numbers that a module keeps outside its parameters and buffers.

A re-initialization does not reach them, so a trained network could smuggle what it learnt into a prior.
What can't be found this way: plain Python floats, class attributes, globals. A module that keeps weights
there would not be a torch module in any useful sense.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

HARMLESS = (type, types.ModuleType, str, bytes, int, float, complex, type(None))


def hidden_numbers(module: nn.Module) -> list[str]:
    """Names of attributes through which an unregistered tensor, array or module can be reached.

    >>> net = nn.Linear(2, 1)
    >>> net.memory = [torch.zeros(2)]
    >>> hidden_numbers(net)
    ['memory']
    """
    registered = {id(t) for m in module.modules() for t in (*m._parameters.values(), *m._buffers.values())}
    layers = {id(m) for m in module.modules()}
    found = []
    for prefix, layer in module.named_modules():
        if isinstance(layer, torch.jit.ScriptModule):
            found.append(prefix or "the module itself, which is compiled")
            continue
        seen = set(layers)
        for name, value in vars(layer).items():
            if name not in ("_parameters", "_buffers", "_modules") and _reaches_numbers(value, registered, seen):
                found.append(_join(prefix, name))
    return found


def replaced_forwards(module: nn.Module) -> list[str]:
    """Layers whose ``forward`` is an attribute of the object: a copy of them still runs the original's."""
    return [_join(prefix, "forward") for prefix, layer in module.named_modules() if "forward" in vars(layer)]


def _reaches_numbers(start: object, registered: set[int], seen: set[int]) -> bool:
    stack = [start]
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor | np.ndarray):
            if id(value) not in registered:
                return True
        elif id(value) not in seen and not isinstance(value, HARMLESS):
            seen.add(id(value))
            if isinstance(value, nn.Module | torch.ScriptObject):
                return True  # not one of the registered layers
            stack += _inside(value)
    return False


def _inside(value: object) -> list[object]:
    """What can be reached from a Python object in one step."""
    if isinstance(value, weakref.ref):
        return [value()]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value)
    slots = [s for c in type(value).__mro__ for s in _slots(c) if hasattr(value, s)]
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, s) for s in slots)]


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
