"""Running the graph of a network on many inputs at once, from any place in it, in float64.

The graph of an anatomy is that of one example. ``vmap`` turns it into one for many, so that a network which writes the
size of its batch into a reshape is no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.func import vjp, vmap

from truerisk.measures.subject import Subject
from truerisk.nets.graph import Graph, compute, operation, shape_of

NEAR = 2**25  # bytes of a chunk: what stays near the processor is up to three times as fast


class Network:
    """The operations of a network as a function of the value of some of them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        tensors = dict(graph.module.named_parameters()) | dict(graph.module.named_buffers())
        held = {node: tensors[name].detach() for node, name in (graph.parameters | graph.buffers).items()}
        self._held: dict[fx.Node, Any] = held | graph.constants
        self.row = 8 * sum(size(node) for node in (*graph.inputs, *graph.nodes))  # bytes for one example

    @property
    def entry(self) -> fx.Node:
        return self.graph.inputs[0]

    def rows(self, budget: int, times: int = 2) -> int:
        """Examples at a time, if all that a pass holds is held so many times."""
        return max(1, min(budget, NEAR) // (times * self.row))

    def follow(self, known: Mapping[fx.Node, Tensor], wanted: Sequence[fx.Node]) -> tuple[Tensor, ...]:
        """The values of some nodes, given those of others; for one example, with its batch axis of length 1."""
        values: dict[fx.Node, Any] = self._held | dict(known)
        left = {node for node in wanted if node not in values}
        for node in self.graph.nodes:
            if not left:
                break
            if node in values or not all(arg in values for arg in node.all_input_nodes):
                continue
            args: Any = fx.map_arg(node.args, values.__getitem__)
            kwargs: Any = fx.map_arg(node.kwargs, values.__getitem__)
            values[node] = _apply(node, args, kwargs)
            left.discard(node)
        return tuple(values[node] for node in wanted)

    def at(self, x: Tensor, wanted: Sequence[fx.Node]) -> tuple[Tensor, ...]:
        """The same for one input without a batch axis; each value comes as a vector."""
        return tuple(value.flatten() for value in self.follow({self.entry: x[None]}, wanted))

    def many(self, X: Tensor, wanted: Sequence[fx.Node], budget: int, overlap: int = 0) -> Iterator[tuple[Tensor, ...]]:
        """Matrices (rows, entries) of the wanted nodes, a chunk of inputs at a time.

        Each chunk starts with the last ``overlap`` rows of the one before.
        """
        each = vmap(lambda x: self.at(x, wanted))
        rows = self.rows(budget)
        with torch.no_grad():
            for start in range(0, max(1, len(X) - overlap), rows):
                yield each(X[start : start + rows + overlap].double())


def push(function: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """(function(x), its derivative along the direction).

    The pull-back u -> J^T u is linear in u, so that its own pull-back is J. (``torch.func.jvp`` would compile scripts
    when it is first used.)
    """
    value, pull = vjp(function, x)  # type: ignore[misc]
    _, onward = vjp(pull, torch.zeros_like(value))  # type: ignore[misc]
    return value, onward((direction,))[0]


def network(subject: Subject) -> Network:
    """The network of a subject; made once."""
    return subject.shared("network", lambda: Network(subject.anatomy.graph))


def inputs(subject: Subject) -> Tensor:
    """All inputs, in their own precision."""
    return torch.from_numpy(subject.X)


def size(node: fx.Node) -> int:
    """How many numbers a node holds for one example."""
    shape = shape_of(node)
    if isinstance(shape, torch.Size):
        return shape.numel()
    return sum(part.numel() for part in shape or () if isinstance(part, torch.Size))


def _apply(node: fx.Node, args: Any, kwargs: Any) -> Any:
    if operation(node) == "getitem":
        return args[0][args[1]]
    if operation(node) == "_native_batch_norm_legit_no_training":  # vmap does not know it
        x, gamma, beta, mean, variance, _, epsilon = args
        return torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, eps=epsilon), None, None
    return compute(node, args, kwargs)
