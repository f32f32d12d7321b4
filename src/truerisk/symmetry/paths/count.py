"""How many paths a network has, without listing one: a sum over paths in which every weight is 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from truerisk.symmetry.paths.follow import Paths, follow
from truerisk.symmetry.paths.rules import RULES

_LARGE = 2.0**900  # beyond it, counts are divided by a power of 2; up to 2^53 they are exact


@dataclass(frozen=True)
class _Counts(Paths):
    """The number of paths that end at each entry is ``counts * 2^power``; ``seen`` collects all totals on the way."""

    counts: Tensor
    power: int
    seen: list[int]

    @property
    def shape(self) -> torch.Size:
        return self.counts.shape

    @property
    def total(self) -> int:
        return int(self.counts.sum().item()) << self.power

    def _noted(self, counts: Tensor) -> _Counts:
        shift = 0
        if counts.numel() and counts.max().item() > _LARGE:
            shift = math.frexp(counts.max().item())[1]
        found = replace(self, counts=torch.ldexp(counts, torch.tensor(-shift)), power=self.power + shift)
        self.seen.append(found.total)
        return found

    def start(self, bias: Tensor) -> _Counts:
        return replace(self, power=0)._noted(torch.ones(bias.shape, dtype=torch.float64))

    def move(self, fn: Callable[[Tensor], Tensor]) -> _Counts:
        return self._noted(fn(self.counts))

    def scale(self, weight: Tensor) -> _Counts:
        shape = torch.broadcast_shapes(self.shape, weight.shape)
        return self if shape == self.shape else self._noted(self.counts.expand(shape))

    def matmul(self, weight: Tensor, sparse: bool = False) -> _Counts:
        if sparse:
            return self._noted(self.counts @ (weight != 0).double())
        return self._noted(self.counts.sum(-1, keepdim=True).expand(*self.shape[:-1], weight.shape[-1]))

    def plus(self, other: _Counts) -> _Counts:
        power = max(self.power, other.power)
        parts = [torch.ldexp(x.counts, torch.tensor(x.power - power)) for x in (self, other)]
        return replace(self, power=power)._noted(parts[0] + parts[1])


@dataclass(frozen=True)
class Number:
    """``paths`` of the network, the ``most`` on the way, and the sum over ``all_steps``; exact up to 2^53."""

    paths: int
    most: int
    all_steps: int


def count_paths(model: nn.Module, example_input: Tensor | tuple[Tensor, ...]) -> Number:
    """Count the paths as ``path_lift`` would list them.

    >>> count_paths(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(1, 3)).paths
    26
    """
    seen: list[int] = []
    ends = follow(model, example_input, _Counts(torch.zeros(0), 0, seen).start, RULES)
    return Number(sum(end.total for end in ends), max(seen), sum(seen))
