"""Find numbers of a newly built network that ignore the seed: they may have been computed from the data.

A prior must not know the examples that certify. Parameters and buffers that every seed leaves the same were computed
somewhere, and nobody can tell a formula from statistics of the data by looking at the numbers. Four kinds hold nothing
that was learnt: a constant, a count (0, 1, 2, ...), a triangular mask, and weights that pass the input on. The fixed
cosines of the built-in networks are known by their values.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from truerisk.nets.cosine import Waves
from truerisk.nets.evaluate import identical
from truerisk.nets.residual import Cosines


def numbers_of(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, including buffers that are not saved."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def ignores_seed(one: nn.Module, two: nn.Module) -> list[str]:
    """Names of numbers that are the same in two networks from different seeds, and may have been learnt.

    >>> one, two = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    >>> ignores_seed(one, two)
    []
    >>> for net in (one, two):
    ...     net.register_buffer("mean", torch.tensor([0.49, 0.48, 0.45]), persistent=False)
    >>> ignores_seed(one, two)
    ['mean']
    """
    other, known = numbers_of(two), _own_tables(one)
    return [
        name
        for name, value in numbers_of(one).items()
        if name in other and name not in known and torch.equal(value, other[name]) and not _holds_nothing(value)
    ]


def _holds_nothing(value: Tensor) -> bool:
    return _constant(value) or _count(value) or _triangular(value) or _identity(value)


def _constant(value: Tensor) -> bool:
    return not value.numel() or identical(value, value.flatten()[0].expand(value.shape))


def _count(value: Tensor) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ...: positions, as ``torch.arange`` gives them."""
    flat = value.detach().flatten()
    if flat.is_complex() or flat.dtype == torch.bool or float(flat[0]) not in (0.0, 1.0):
        return False
    return bool((flat.double() == torch.arange(len(flat), dtype=torch.float64) + float(flat[0])).all())


def _triangular(value: Tensor) -> bool:
    """One number on and below the diagonal (or only below it), one above: a mask of what comes later."""
    if value.ndim < 2 or value.shape[-1] != value.shape[-2] or value.numel() != value.shape[-1] ** 2:
        return False
    square = value.detach().reshape(value.shape[-2:])
    ones = torch.ones(square.shape, dtype=torch.bool)
    return any(_constant(square[ones.tril(k)]) and _constant(square[ones.triu(k + 1)]) for k in (-1, 0))


def _identity(value: Tensor) -> bool:
    """Weights of a linear or convolutional layer that passes its input on."""
    if value.ndim not in (2, 3, 4, 5):
        return False
    plain = torch.zeros_like(value.detach())
    return torch.equal(value.detach(), nn.init.eye_(plain) if value.ndim == 2 else nn.init.dirac_(plain))


def _own_tables(module: nn.Module) -> set[str]:
    """Buffers that are the fixed cosines of truerisk's own layers, number for number."""
    found = set()
    for prefix, layer in module.named_modules():
        if isinstance(layer, Waves | Cosines) and layer.weight.ndim == 4:
            with torch.random.fork_rng(devices=[]):
                fixed = type(layer)(layer.weight.shape[1]).weight
            if torch.equal(layer.weight, fixed):
                found.add(f"{prefix}.weight" if prefix else "weight")
    return found
