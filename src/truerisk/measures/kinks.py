"""Where a network that is piecewise affine can bend: its ReLUs and its maxima."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from truerisk.measures.anatomy import CONVOLUTION, NORM, SAME
from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject
from truerisk.nets.graph import operation, shape_of, spoken

BEND = {"relu", "leaky_relu", "abs"}
AFFINE = {"linear", "add", "sub", "neg", "mean", "sum", "cat", "stack", "pad", "constant_pad_nd", *CONVOLUTION, *NORM}
MOVED = SAME | {"unflatten", "select", "slice", "narrow", "expand", "repeat", "flip", "roll", "movedim", "t", "detach"}
SCALED = {"mul", "div"}  # affine if only the first factor, or only the second of a product, depends on the input


@dataclass(frozen=True)
class Kink:
    """An operation that bends: at 0 of each entry that enters it or, for a maximum, where the largest one changes."""

    source: fx.Node  # what enters it
    windows: Tensor | None = None  # of a maximum: (windows, places) of the entries that enter each; -1 for padding

    @property
    def spread(self) -> int:
        """How many numbers are looked at for each entry, about."""
        return 1 if self.windows is None else 1 + self.windows.shape[1] ** 2

    def zeros(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """(row, share): between rows ``row`` and ``row + 1`` of the values it bends after this share of the way.

        What enters is affine between two rows. A bend exactly at a row is not reported: rows are breakpoints.
        """
        if self.windows is None:
            row, unit = _crossings(values)
            return row, _share(values[row, unit], values[row + 1, unit])
        padded = torch.cat([values, torch.full_like(values[:, :1], -torch.inf)], dim=1)
        entries = padded[:, self.windows]
        one, other = torch.triu_indices(entries.shape[-1], entries.shape[-1], 1)
        ahead = (entries[..., one] - entries[..., other]).nan_to_num(0.0)  # two places of padding: never ahead
        row, window, pair = _crossings(ahead)
        share = _share(ahead[row, window, pair], ahead[row + 1, window, pair])
        there = torch.lerp(entries[row, window], entries[row + 1, window], share[:, None]).nan_to_num(-torch.inf)
        best = there.amax(1)
        leads = there.gather(1, one[pair][:, None])[:, 0] >= best - 1e-12 * best.abs()
        return row[leads], share[leads]  # a change below the largest entry bends nothing


def _crossings(values: Tensor) -> tuple[Tensor, ...]:
    """Where the sign changes from one row to the next."""
    before, after = values[:-1], values[1:]
    return torch.nonzero((before > 0) & (after < 0) | (before < 0) & (after > 0), as_tuple=True)


def _share(before: Tensor, after: Tensor) -> Tensor:
    return before / (before - after)


def kinks(subject: Subject) -> list[Kink]:
    """All of them in the order in which they run; NotDefined if the network is not piecewise affine."""
    return subject.shared("kinks", lambda: _kinks(subject))


def _kinks(subject: Subject) -> list[Kink]:
    graph = subject.anatomy.graph
    if len(graph.inputs) != 1:
        raise NotDefined("it is defined for networks with one input.")
    moving = set(graph.inputs)  # nodes that depend on the input
    found = []
    for node in graph.nodes:
        entering = [arg for arg in node.all_input_nodes if arg in moving]
        if not entering:
            continue
        moving.add(node)
        name = operation(node)
        if name in BEND:
            found.append(Kink(entering[0]))
        elif name.startswith("max_pool"):
            found.append(Kink(entering[0], _windows(node)))
        elif not (name in AFFINE | MOVED or "avg_pool" in name or (name in SCALED and _scales(node, moving))):
            raise NotDefined(f"it is defined for piecewise linear networks, and nothing is known of {spoken(node)}.")
    return found


def _scales(node: fx.Node, moving: set[fx.Node]) -> bool:
    first, second = (arg in moving for arg in node.args[:2])
    return not second or (operation(node) == "mul" and not first)


def _windows(node: fx.Node) -> Tensor:
    """Which entries each window of a pooling holds, by their place in the flattened input."""
    args: list[Any] = [*node.args, *[None] * 4]
    axes = int(operation(node)[8])
    kernel = _each(args[1], axes)
    stride, padding, dilation = _each(args[2] or kernel, axes), _each(args[3] or 0, axes), _each(args[4] or 1, axes)
    shape = shape_of(node.all_input_nodes[0])
    result = shape_of(node)
    leaving = (result if isinstance(result, torch.Size) else result[0])[-axes:]
    places = torch.arange(shape.numel()).reshape(shape[1:])
    for k in range(axes):
        axis = len(shape) - 1 - axes + k
        where = torch.arange(leaving[k])[:, None] * stride[k] + torch.arange(kernel[k]) * dilation[k] - padding[k]
        outside = (where < 0) | (where >= shape[k - axes])
        places = places.index_select(axis, where.clamp(0, shape[k - axes] - 1).flatten())
        places = places.unflatten(axis, where.shape).movedim(axis + 1, -1)  # the places of the kernel go last
        outside = outside.reshape(*[1] * axis, leaving[k], *[1] * (places.ndim - axis - 2), kernel[k])
        places = places.masked_fill(outside, -1)
    return places.reshape(-1, math.prod(kernel))


def _each(value: Any, axes: int) -> list[int]:
    values = list(value) if isinstance(value, list | tuple) else [int(value)]
    return values * axes if len(values) == 1 else values
