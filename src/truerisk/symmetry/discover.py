"""From a network to its rescaling group: walk over the graph, collect equations, solve them."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from truerisk.nets.graph import Graph, Model, capture, compute, operation, shape_of, spoken
from truerisk.progress import bar
from truerisk.symmetry.check import check_symmetry
from truerisk.symmetry.group import Part, Symmetry
from truerisk.symmetry.rules import RULES
from truerisk.symmetry.system import System
from truerisk.symmetry.tracer import NONE, Flow, Known, Move, Trace, Value, Weight, operands


def find_symmetry(model: Model, example_input: Tensor | tuple[Tensor, ...], check: bool = True) -> Symmetry:
    """The rescalings of a network: which weights can be multiplied by what without a change of its function.

    ``example_input`` gives the shape (and the kind) of an input; the answer holds for inputs of that shape, in
    batches of any size. What is not understood is held at 0 and listed in ``.pinned``. With ``check``, a random
    rescaling is applied in float64 and every operation's result is compared with what its rule says; a mismatch is an
    error that names the operation.

    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    >>> find_symmetry(net, torch.zeros(1, 3)).dim
    5
    """
    with bar("finding the symmetry", total=2 + 4 * check) as advance:
        graph = capture(model, example_input)
        advance()
        trace, values = follow(graph)
        shapes = {name: t.shape for name, t in (*graph.module.named_parameters(), *graph.module.named_buffers())}
        parts = _settle(trace, {name: shape.numel() for name, shape in shapes.items()})
        system, still = _without_idle(trace.system, parts), _fixed(graph.module, parts)
        symmetry = Symmetry(system, parts, trace.pins, shapes, still)
        advance()
        if check:
            check_symmetry(graph, symmetry, values, advance)
    return symmetry


def _fixed(module: torch.nn.Module, parts: list[Part]) -> dict[str, Tensor]:
    """Where buffers and frozen parameters that a rescaling moves are not 0: entries that no distribution draws."""
    frozen = [(name, p) for name, p in module.named_parameters() if not p.requires_grad]
    moving = {part.name for part in parts if part.terms}
    masks = {name: t.detach() != 0 for name, t in (*frozen, *module.named_buffers()) if name in moving}
    return {name: mask.cpu() for name, mask in masks.items() if bool(mask.any())}


def _without_idle(system: System, parts: list[Part]) -> System:
    """Hold what moves no weight at all (the log-scale of a block of zeros, say): it is no freedom."""
    still = system.copy()
    for part in parts:
        still.equate(part.terms)
    idle = still.solve().free
    if len(idle):
        system.tie(torch.from_numpy(idle), NONE)
    return system


def follow(graph: Graph) -> tuple[Trace, dict[fx.Node, Any]]:
    """Walk over the graph with labels in place of numbers."""
    trace = Trace()
    entering: dict[fx.Node, Any] = {}
    tensors = dict(graph.module.named_parameters()) | dict(graph.module.named_buffers())
    for node, name in graph.parameters.items():
        shape = tensors[name].shape
        entering[node] = Weight(name, torch.arange(shape.numel()).reshape(shape))
    for node, name in graph.buffers.items():
        entering[node] = Known(tensors[name].detach(), settled=False, name=name)
    for node, tensor in graph.constants.items():
        entering[node] = Known(tensor, settled=True)
    for node in graph.inputs:
        entering[node] = _wrap(NONE, shape_of(node))

    def apply(node: fx.Node, args: Any, kwargs: Any) -> Any:
        trace.node = node
        given = list(operands((args, kwargs)))
        trace.note_buffers(args, kwargs)
        if operation(node).startswith(("_assert", "sym_constrain")):  # a check that torch put in
            return None
        if all(isinstance(value, Known) for value in given):
            return _constant(node, args, kwargs, settled=all(v.settled for v in given if isinstance(v, Known)))
        if shape_of(node) is None:  # a number that depends on the data, such as x.sum().item()
            _hold(trace, given, f"{spoken(node)} makes a number of it")
            return Flow(NONE, torch.Size([]))
        return _labelled(trace, node, args, kwargs, given)

    values = graph.walk(entering, apply)
    for node in graph.outputs:
        trace.node = node
        for value in operands(values[node]):
            trace.system.tie(trace.labels(value), NONE)
    return trace, values


def _labelled(trace: Trace, node: fx.Node, args: Any, kwargs: Any, given: list[Value]) -> Any:
    """Apply the rule; where there is none, or it does not know this use, hold everything that enters."""
    rule = RULES.get(operation(node))
    if rule is not None:
        # A rule that stumbles has at most asked for more equations than needed, and holding more is never wrong.
        with contextlib.suppress(Exception):
            return _wrap(rule(trace, *args, **kwargs), shape_of(node))
    _hold(trace, given, f"the operation {spoken(node)} is not understood" + (" in this use" if rule else ""))
    return _wrap(NONE, shape_of(node))


def _hold(trace: Trace, given: list[Value], why: str) -> None:
    for value in given:
        if isinstance(value, Weight):
            trace.freeze(value, why)
        else:
            trace.pin(trace.labels(value), why)


def _constant(node: fx.Node, args: Any, kwargs: Any, settled: bool) -> Any:
    """What depends on no input and no parameter is computed."""
    mapped: Any = fx.node.map_aggregate  # maps anything; its types say less
    plain = mapped((args, kwargs), _value)
    with torch.no_grad():
        result = compute(node, *plain)
    if isinstance(result, int | float) and not settled:
        return Known(torch.as_tensor(result), settled=False, number=True)
    return mapped(result, lambda v: Known(v, settled) if isinstance(v, Tensor) else v)


def _value(argument: Any) -> Any:
    if not isinstance(argument, Known):
        return argument
    return argument.tensor.item() if argument.number else argument.tensor


def _wrap(result: Any, shape: Any) -> Any:
    """Labels with as many axes as the tensor has; parameters on their way, and constants, stay as they are."""
    if not isinstance(shape, torch.Size):
        parts = result if isinstance(result, list | tuple) else [result] * len(shape)
        return [_wrap(part, one) for part, one in zip(parts, shape, strict=True)]
    if isinstance(result, Weight | Known):
        return result
    labels = result.reshape((1,) * (len(shape) - result.ndim) + result.shape)
    labels.expand(shape)  # refuses labels that do not fit
    return Flow(labels, shape)


def _settle(trace: Trace, sizes: dict[str, int]) -> list[Part]:
    """A parameter used twice moves in one way: keep one move for each of its entries, equate the others to it."""
    uses: dict[str, list[Move]] = defaultdict(list)
    for name in trace.elsewhere & {move.name for move in trace.moves}:  # a running mean with a second use stays
        trace.moves.append(Move(name, torch.arange(sizes[name]), ()))
    for move in trace.moves:
        uses[move.name].append(_without_repeats(trace, move))
    parts = []
    for name, moves in uses.items():
        for later, move in enumerate(moves):
            left = move
            for earlier in moves[:later]:
                left = _equate(trace, earlier, left)
            if left.index.numel():
                flat = left.index.reshape(-1)
                whole = len(flat) == sizes[name] and _in_order(flat)
                parts.append(Part(name, left.index.shape, None if whole else flat, left.terms))
    return parts


def _in_order(index: Tensor) -> bool:
    return torch.equal(index, torch.arange(len(index)))


def _without_repeats(trace: Trace, move: Move) -> Move:
    """A parameter that was expanded appears in several places at once."""
    flat = move.index.reshape(-1)
    if _in_order(flat) or len(flat) == len(torch.unique(flat)):
        return move
    _, first, inverse = np.unique(flat.numpy(), return_index=True, return_inverse=True)
    original = torch.from_numpy(first)[torch.from_numpy(inverse)]
    for_all = [(c, labels.expand(move.index.shape).reshape(-1)) for c, labels in move.terms]
    trace.system.equate([*for_all, *((-c, labels[original]) for c, labels in for_all)])
    return _picked(move, torch.from_numpy(first))


def _equate(trace: Trace, one: Move, other: Move) -> Move:
    """Both are the same wherever they touch the same entries; gives what of the other is left."""
    if one.index.shape == other.index.shape and torch.equal(one.index, other.index):
        trace.system.equate([*one.terms, *((-c, labels) for c, labels in other.terms)])
        return _picked(other, torch.zeros(0, dtype=torch.int64))
    flat = other.index.reshape(-1).numpy()
    shared, at_one, at_other = np.intersect1d(one.index.reshape(-1).numpy(), flat, return_indices=True)
    if not len(shared):
        return other
    mine, theirs = _picked(one, torch.from_numpy(at_one)), _picked(other, torch.from_numpy(at_other))
    trace.system.equate([*mine.terms, *((-c, labels) for c, labels in theirs.terms)])
    return _picked(other, torch.from_numpy(np.flatnonzero(~np.isin(flat, shared))))


def _picked(move: Move, at: Tensor) -> Move:
    """Some entries of a move, in a row."""
    terms = tuple((c, labels.expand(move.index.shape).reshape(-1)[at]) for c, labels in move.terms)
    return Move(move.name, move.index.reshape(-1)[at], terms)
