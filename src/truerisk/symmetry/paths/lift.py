"""All path products of a small network, one by one.

The path lift is the vector of the products of weights along all paths from an input coordinate or a bias to an
output coordinate (Gonon, Brisebarre, Riccietti and Gribonval 2024, "A path-norm toolkit for modern networks").
Rescaling hidden units by positive numbers changes neither it nor the signs of the weights, and the two together
determine the function of a ReLU network (Stock and Gribonval 2023, "An embedding of ReLU networks and an analysis
of their identifiability"). The operations, and the choices made for them, are those of
:mod:`truerisk.symmetry.paths.rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.memory import gib, spare
from truerisk.symmetry.paths.count import Number, count_paths
from truerisk.symmetry.paths.follow import Paths, follow
from truerisk.symmetry.paths.rules import RULES

KEPT, BESIDE = 16, 48  # bytes for each path: its place and product, and what a matrix product takes while it runs


@dataclass(frozen=True)
class PathLift:
    """The product of each path, and the sign of each weight by the name of its parameter."""

    paths: Tensor
    signs: dict[str, Tensor]


@dataclass(frozen=True)
class _Prefixes(Paths):
    """Paths on their way: the (flat) entry where each one is now, and its product so far.

    Their order follows from the operations alone and never from the values of weights.
    """

    at: Tensor
    product: Tensor
    size: torch.Size  # of the activation

    @property
    def shape(self) -> torch.Size:
        return self.size

    def start(self, bias: Tensor) -> _Prefixes:
        return _Prefixes(torch.arange(bias.numel()), bias.flatten(), bias.shape)

    def move(self, fn: Callable[[Tensor], Tensor]) -> _Prefixes:
        # fn copies: applied to the numbers of the entries from 1 on, it tells where each of its entries is from.
        numbers = fn(torch.arange(1.0, self.shape.numel() + 1, dtype=torch.float64).reshape(self.shape))
        source, targets = numbers.flatten().long().sort(stable=True)
        copies = torch.bincount(source, minlength=self.shape.numel() + 1)
        before = copies.cumsum(0) - copies  # where the targets of an entry begin
        times = copies[self.at + 1]
        row = torch.arange(len(self.at)).repeat_interleave(times)
        nth = torch.arange(len(row)) - (times.cumsum(0) - times)[row]
        return _Prefixes(targets[before[self.at[row] + 1] + nth], self.product[row], numbers.shape)

    def scale(self, weight: Tensor) -> _Prefixes:
        shape = torch.broadcast_shapes(self.shape, weight.shape)
        x = self if shape == self.shape else self.move(lambda t: t.expand(shape))
        return _Prefixes(x.at, x.product * weight.expand(shape).reshape(-1)[x.at], shape)

    def matmul(self, weight: Tensor, sparse: bool = False) -> _Prefixes:
        *batch, rows, inner = self.shape
        outer = weight.shape[-1]
        flat = weight.expand(*batch, inner, outer).reshape(-1, outer)
        edges = flat != 0 if sparse else torch.ones_like(flat, dtype=torch.bool)
        row = self.at // inner
        entry = row // rows * inner + self.at % inner
        path, column = edges[entry].nonzero(as_tuple=True)
        product = self.product[path] * flat[entry[path], column]
        return _Prefixes(row[path] * outer + column, product, torch.Size([*batch, rows, outer]))

    def plus(self, other: _Prefixes) -> _Prefixes:
        at, product = torch.cat([self.at, other.at]), torch.cat([self.product, other.product])
        return _Prefixes(at, product, self.shape)


def path_lift(model: nn.Module, example_input: Tensor | tuple[Tensor, ...], limit: int = 100_000) -> PathLift:
    """Return the product of the weights along every path, with its sign, and the signs of all parameters.

    The network is taken in eval mode; ``example_input`` gives only the shape of one input. The order of the
    paths depends on the architecture alone, so lifts of two networks of one architecture compare entry by
    entry. The paths are counted before any of them is listed. More than ``limit`` paths, also on the way, are refused,
    and so are more than memory holds. The slope a of a PReLU enters only as the weight ``max(1, |a|)``.

    >>> model = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 1))
    >>> model[0].weight.data, model[2].weight.data = torch.tensor([[3.0], [2.0]]), torch.tensor([[1.0, -2.0]])
    >>> model[2].bias.data = torch.tensor([5.0])
    >>> lift = path_lift(model, torch.zeros(1, 1))
    >>> lift.paths.tolist(), lift.signs["2.weight"].tolist()
    ([3.0, -4.0, 5.0], [[1.0, -1.0]])
    """
    _refuse_too_many(count_paths(model, example_input), limit)
    nowhere = torch.zeros(0)
    empty = _Prefixes(nowhere.long(), nowhere.double(), torch.Size([0]))
    ends = follow(model, example_input, empty.start, RULES)
    signs = {name: weight.detach().double().sign() for name, weight in model.named_parameters()}
    return PathLift(torch.cat([end.product for end in ends]), signs)


def _refuse_too_many(number: Number, limit: int) -> None:
    """Before anything is allocated. What operations returned is kept to the end, so all of it counts."""
    size, there = KEPT * number.all_steps + BESIDE * number.most, spare()
    if number.most <= limit and size <= there:
        return
    paths = f"{number.paths:,}" if number.paths < 1e15 else f"about 10^{math.log10(number.paths):.1f}"
    on_the_way = f" ({number.most:,} on the way)" if number.paths <= limit < number.most else ""
    obstacle = f"limit is {limit:,}" if number.most > limit else f"{gib(there)} can be spared here"
    fix = "raise limit, or use path_norm" if size <= there else "use path_norm"
    raise TrueriskError(
        f"the network has {paths} paths{on_the_way}, which may take {gib(size)}, but {obstacle}; {fix}, which does not "
        "list them."
    )
