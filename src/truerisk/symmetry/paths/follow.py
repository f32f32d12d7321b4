"""The walk along all paths at once: from the inputs and biases, operation by operation, to the outputs.

What is carried along (a sum over paths, or the paths themselves) is a :class:`Paths`; a rule says what an
operation does to it, in the five primitives that are its methods. What does not depend on the input is a
constant, computed first: a weight or a bias like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, fx, nn

from truerisk.errors import TrueriskError
from truerisk.nets.graph import capture, compute, operation, shape_of, spoken, where

UNKNOWN = object()  # what an operation returns besides activations: the indices of a max-pool


class Paths(ABC):
    """What is known of all the paths that end at the entries of one activation."""

    @property
    @abstractmethod
    def shape(self) -> torch.Size: ...

    @abstractmethod
    def start(self, bias: Tensor) -> Self:
        """New paths, one at each entry of ``bias``."""

    @abstractmethod
    def move(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The paths after ``fn``, each of whose entries is a copy of an entry of its argument, or zero."""

    @abstractmethod
    def scale(self, weight: Tensor) -> Self:
        """The paths after multiplying entries by ``weight``, which broadcasts."""

    @abstractmethod
    def matmul(self, weight: Tensor, sparse: bool = False) -> Self:
        """The paths after ``x @ weight``, which has two dimensions or more, and x no fewer.

        With ``sparse``, zeros in ``weight`` are no edges at all; otherwise they are edges of weight zero.
        """

    @abstractmethod
    def plus(self, other: Self) -> Self:
        """The paths of both, which have the same shape."""


@dataclass(frozen=True)
class Step:
    """An operation of the graph, with its arguments by the names that its schema gives them."""

    node: fx.Node
    args: Any
    kwargs: Any
    named: dict[str, Any]
    later: dict[fx.Node, Tensor]  # biases of layers that the batch norm behind them adds to its own

    def __getitem__(self, name: str) -> Any:
        return self.named[name]

    @property
    def shape(self) -> torch.Size:
        """Of the result; of the first one where there are several."""
        shape = shape_of(self.node)
        return shape if isinstance(shape, torch.Size) else shape[0]

    def input(self) -> Paths:
        """The first argument, where it is the only activation among them."""
        first = next(iter(self.named.values()))
        if sum(isinstance(leaf, Paths) for leaf in _leaves(self.args, self.kwargs)) > 1 or not isinstance(first, Paths):
            raise self.refusal("is not linear in its activations")
        return first

    def run(self, tensor: Tensor) -> Any:
        """The operation itself, on a tensor in the place of its activation."""
        tensor = tensor.contiguous()  # as view may need
        mapped: Any = fx.node.map_aggregate  # maps anything; its types say less
        return compute(self.node, *mapped((self.args, self.kwargs), lambda v: tensor if isinstance(v, Paths) else v))

    def weight(self, value: Any) -> Tensor:
        """A constant as a tensor in float64."""
        if isinstance(value, Paths):
            raise self.refusal("multiplies activations with each other")
        tensor = torch.as_tensor(value, dtype=torch.float64)
        if not tensor.isfinite().all():
            raise self.refusal("has a weight that is infinite or NaN")
        return tensor

    def paths(self, value: Any, times: float = 1.0) -> Paths:
        """An activation, or a constant as a bias, times a number."""
        if not isinstance(value, Paths):
            like = next(leaf for leaf in _leaves(self.args, self.kwargs) if isinstance(leaf, Paths))
            value = like.start(self.weight(value))
        return value if times == 1 else value.scale(self.weight(times))

    def sum(self, *terms: Paths) -> Paths:
        """All the paths together, after broadcasting to the shape of the result."""
        first, *others = (x if x.shape == self.shape else x.move(lambda t: t.expand(self.shape)) for x in terms)
        for other in others:
            first = first.plus(other)
        return first

    def refusal(self, reason: str) -> TrueriskError:
        return TrueriskError(f"{spoken(self.node)} (in {where(self.node)}) {reason}, so paths can't follow it.")


Rule = Callable[[Step], Any]


def follow(
    model: nn.Module,
    example_input: Tensor | tuple[Tensor, ...],
    start: Callable[[Tensor], Paths],
    rules: Mapping[str, Rule],
) -> list[Any]:
    """The paths that end at each output, where ``start`` is given ones in the shape of each input."""
    example = example_input if isinstance(example_input, tuple) else (example_input,)
    if not all(isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 0 for x in example):
        raise TrueriskError("paths start at real inputs with a batch dimension: pass example_input as a float tensor.")
    graph = capture(model, tuple(x.new_zeros((1, *x.shape[1:])) for x in example))
    tensors = dict(graph.module.named_parameters()) | dict(graph.module.named_buffers(remove_duplicate=False))
    entering: dict[fx.Node, Any] = {node: tensors[name] for node, name in (graph.parameters | graph.buffers).items()}
    entering |= graph.constants
    entering |= {n: start(torch.ones_like(x)) for n, x in zip(graph.inputs, graph.example, strict=True)}
    later: dict[fx.Node, Tensor] = {}
    with torch.no_grad():
        values = graph.walk(entering, lambda *node_and_arguments: _apply(rules, later, *node_and_arguments))
        ends = [values[node] for node in graph.outputs]
        if any(end is UNKNOWN for end in ends):
            raise TrueriskError("the network returns the places of maxima, where no path can end: return only values.")
        return [end if isinstance(end, Paths) else start(end.double()) for end in ends]


def _apply(rules: Mapping[str, Rule], later: dict[fx.Node, Tensor], node: fx.Node, args: Any, kwargs: Any) -> Any:
    """The value of a node: by a rule where paths enter it, by computing it where they don't."""
    leaves = list(_leaves(args, kwargs))
    if not any(isinstance(leaf, Paths) or leaf is UNKNOWN for leaf in leaves):
        return compute(node, args, kwargs)
    schema = getattr(node.target, "_schema", None)
    defaults = {a.name: a.default_value for a in schema.arguments} if schema is not None else {}
    step = Step(node, args, kwargs, defaults | dict(zip(defaults, args, strict=False)) | kwargs, later)
    rule = rules.get(operation(node))
    if rule is None or any(leaf is UNKNOWN for leaf in leaves):
        raise step.refusal("is not among the linear maps, ReLUs and max-pools known here")
    return rule(step)


def _leaves(*values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from _leaves(*value.values())
        elif isinstance(value, list | tuple):
            yield from _leaves(*value)
        else:
            yield value
