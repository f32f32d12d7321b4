"""Recognize a built-in network by its structure, whatever it is called and whoever built it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets.builtin import KINDS, builtin
from truerisk.seeds import seeded_globals

Signature = list[tuple[str, list[tuple[int, ...]]]]
PASSING = {"Module", "Identity", "Flatten", "Unflatten", "Dropout", "Softmax", "LogSoftmax"}  # allowed anywhere


def builtin_name(module: nn.Module, input_shape: Sequence[int], classes: int) -> str | None:
    """The name of the built-in network with the layers and shapes of ``module``, or None.

    Layers with weights or buffers must be of the same kinds and shapes in the same order. Other layers must be among
    those of the built-in network; functions that a user's ``forward`` calls are not seen.

    >>> net = nn.Sequential(nn.Linear(64, 30), nn.ReLU(), nn.Dropout(), nn.Linear(30, 10))
    >>> builtin_name(net, (1, 8, 8), 10)
    'mlp:30'
    >>> builtin_name(nn.Sequential(nn.Linear(64, 30), nn.Tanh(), nn.Linear(30, 10)), (1, 8, 8), 10)
    """
    own, layers = _signature(module), _plain_layers(module)
    widths = [p.shape[0] for p in module.parameters() if p.ndim > 1][:-1]
    for kind in KINDS:
        # A block of a residual network has two convolutions of one width.
        sizes = widths[::2] if "resnet" in kind else widths
        if not sizes or min(sizes) < 1:
            continue
        name = f"{kind}:{'-'.join(map(str, sizes))}"
        try:
            with seeded_globals(0), torch.device("meta"):
                twin = builtin(name, input_shape, classes)
        except (TrueriskError, RuntimeError):  # not for inputs of this shape
            continue
        if own == _signature(twin) and layers <= _plain_layers(twin) | PASSING:
            return name
    return None


def _signature(module: nn.Module) -> Signature:
    """Kind and shapes of each layer that holds numbers."""
    found = []
    for layer in module.modules():
        numbers = [*layer._parameters.values(), *layer._buffers.values()]
        shapes = [tuple(number.shape) for number in numbers if number is not None]
        if shapes:
            found.append((_kind(layer), shapes))
    return found


def _plain_layers(module: nn.Module) -> set[str]:
    """Kinds of the layers without numbers and without layers inside."""
    leaves = (layer for layer in module.modules() if not next(layer.children(), None))
    return {_kind(layer) for layer in leaves if not (layer._parameters or layer._buffers)}


def _kind(layer: nn.Module) -> str:
    """The class of torch that it is made of: a subclass, or another name for it, is the same kind."""
    return next(c.__name__ for c in type(layer).__mro__ if c.__module__.startswith("torch.nn"))
