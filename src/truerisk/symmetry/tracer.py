"""What a rule sees while walking over a network: values with labels in place of numbers.

A rule is a function ``rule(trace, *args, **kwargs) -> labels`` with the arguments of the operation. It returns
the labels of the result, and tells the trace which equations hold and how parameters move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, fx

from truerisk.nets.graph import shape_of, spoken, where
from truerisk.symmetry.system import System, Term

NONE = torch.zeros((), dtype=torch.int64)  # the labels of what can't be rescaled
ELEMENTWISE_LIMIT = 2**20  # a parameter with more entries than this isn't followed entry by entry


@dataclass(frozen=True)
class Flow:
    """An activation: the label of each entry."""

    labels: Tensor
    shape: torch.Size

    @property
    def full(self) -> Tensor:
        return self.labels.expand(self.shape)


@dataclass(frozen=True)
class Weight:
    """A parameter on its way to where it is used: ``index`` says which entry of the parameter is where."""

    name: str
    index: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.index.shape


@dataclass(frozen=True)
class Known:
    """A constant. Entries that are 0 for good (``settled``: no buffer, so no later value) stay 0 at any scale."""

    tensor: Tensor
    settled: bool
    name: str = ""  # of the buffer
    number: bool = False  # it stands for a plain number, taken from a buffer with .item()

    @property
    def shape(self) -> torch.Size:
        return self.tensor.shape


@dataclass(frozen=True)
class Move:
    """Entries ``index`` of a parameter or buffer are multiplied by exp(sum of coefficient * log-scale)."""

    name: str
    index: Tensor
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Pin:
    """A place where log-scales are held at 0, and why."""

    where: str
    operation: str
    why: str


Value = Flow | Weight | Known
Rule = Callable[..., Any]


class Trace:
    """The state of the walk: equations, moves and pins so far, and the operation at hand."""

    def __init__(self) -> None:
        self.system = System()
        self.moves: list[Move] = []
        self.pins: list[Pin] = []
        self.elsewhere: set[str] = set()  # buffers that something else than a batch norm's mean uses
        self.node: fx.Node | None = None

    @property
    def shape(self) -> Any:
        assert self.node is not None
        return shape_of(self.node)

    @property
    def origin(self) -> str:
        assert self.node is not None
        return f"{where(self.node)} ({spoken(self.node)})"

    def fresh(self, *shape: int) -> Tensor:
        return self.system.fresh(shape, self.origin)

    def combine(self, *terms: Term) -> Tensor:
        return self.system.combine(terms, self.origin)

    def use(self, weight: Weight, *terms: Term) -> None:
        """The parameter moves by these terms, whose labels broadcast to the weight's shape."""
        moving = tuple((Fraction(c), labels) for c, labels in terms if bool((labels != 0).any()))
        self.moves.append(Move(weight.name, weight.index, moving))

    def note_buffers(self, args: Any, kwargs: Any) -> None:
        """Remember which buffers are used, but for the running mean of batch norm, which can move."""
        assert self.node is not None
        if spoken(self.node) == "batch_norm":
            args = (*args[:3], *args[4:])
        self.elsewhere |= {v.name for v in operands((args, kwargs)) if isinstance(v, Known) and v.name}

    def labels(self, value: Any) -> Tensor:
        """The labels of any operand, with its number of axes; a parameter gets an unknown for each entry."""
        if isinstance(value, Flow):
            return value.labels
        still = NONE.reshape((1,) * len(getattr(value, "shape", ())))
        if not isinstance(value, Weight):
            return still
        if value.index.numel() > ELEMENTWISE_LIMIT:
            self.freeze(value, f"the parameter {value.name} is too large to be followed entry by entry")
            return still
        labels = self.fresh(*value.shape)
        self.use(value, (1, labels))
        return labels

    def collapse(self, labels: Tensor, axes: Iterable[int]) -> Tensor:
        """The same log-scale along these axes."""
        for axis in axes:
            first = labels.narrow(axis, 0, 1)
            self.system.tie(first, labels)
            labels = first
        return labels

    def pin(self, labels: Tensor, why: str) -> Tensor:
        """Hold these log-scales at 0, and say so where they were not anyway."""
        if bool((labels != 0).any()):
            self.system.tie(labels, NONE)
            self._note(why)
        return torch.zeros_like(labels)

    def freeze(self, weight: Weight, why: str) -> None:
        """The parameter does not move."""
        self.use(weight)
        self._note(why)

    def _note(self, why: str) -> None:
        assert self.node is not None
        self.pins.append(Pin(where(self.node), spoken(self.node), why))


def operands(args: Any) -> Iterator[Value]:
    """All tensors among the arguments of an operation."""
    if isinstance(args, Flow | Weight | Known):
        yield args
    elif isinstance(args, dict):
        yield from operands(list(args.values()))
    elif isinstance(args, list | tuple):
        for arg in args:
            yield from operands(arg)


def compress(labels: Tensor) -> Tensor:
    """Axes along which nothing changes, shrunk to size 1."""
    for axis in range(labels.ndim):
        if labels.shape[axis] > 1:
            first = labels.narrow(axis, 0, 1)
            if labels.stride(axis) == 0 or bool((labels == first).all()):
                labels = first
    return labels
