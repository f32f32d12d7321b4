"""Any network of linear layers, ReLUs and max-pools, with branches or without, as pieces of polynomials.

Following the graph, each activation is, in each of many cells of the space of weights, a polynomial of the weights that
it depends on. Noted are its degree, those weights, and how many ReLUs are before it on the longest path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import fx

from truerisk.bounds.vc import Questions
from truerisk.measures.anatomy import CONVOLUTION, NORM, SAME
from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject
from truerisk.nets.graph import Graph, operation, shape_of, spoken, where

FIXED = SAME | set(
    "slice select narrow index_select expand repeat flip roll cat concat stack split split_with_sizes chunk unbind neg "
    "mean sum avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d swapaxes "
    "movedim unflatten detach detach_ t numpy_T constant_pad_nd lift_fresh_copy".split()
)  # linear maps without weights
WEIGHTED = {"linear", *CONVOLUTION, *NORM}
SUMS = {"add", "sub"}
SCALES = {"mul", "div"}
MAXIMA = {f"max_pool{axes}d{end}": axes for axes in (1, 2, 3) for end in ("", "_with_indices")}


@dataclass(frozen=True)
class Piece:
    """What is known of one activation: names and sizes of the weights before it, and so on."""

    degree: int = 0
    weights: frozenset[tuple[str, int]] = frozenset()
    levels: int = 0  # ReLUs on the longest path; a maximum over k counts as ceil(log2 k)

    @property
    def count(self) -> int:
        return sum(size for _, size in self.weights)


@dataclass(frozen=True)
class Pieces:
    """``questions``: one entry for each ReLU and max-pool. ``constant``: there are biases of some kind."""

    questions: tuple[Questions, ...]
    output: Piece
    constant: bool


def pieces(subject: Subject) -> Pieces:
    """Take a network apart in this way; NotDefined where it has other operations. Computed once."""
    return subject.shared("pieces", lambda: _Walk(subject.anatomy.graph).run())


class _Walk:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.questions: list[Questions] = []
        self.constant = False
        self.known: dict[fx.Node, Piece] = dict.fromkeys(graph.inputs, Piece())
        self.weights: dict[fx.Node, frozenset[tuple[str, int]]] = dict.fromkeys(graph.constants, frozenset())
        for node, name in (graph.parameters | graph.buffers).items():
            self.weights[node] = frozenset({(name, math.prod(shape_of(node)))})

    def run(self) -> Pieces:
        if len(self.graph.inputs) != 1 or len(self.graph.outputs) != 1:
            raise NotDefined("the network has several inputs or outputs.")
        for node in self.graph.nodes:
            entering = [self.known[arg] for arg in node.all_input_nodes if arg in self.known]
            if entering:
                self.known[node] = self._step(node, entering)
            elif shape_of(node) is not None:  # computed from weights alone: a tensor of weights in its own right
                self.weights[node] = frozenset({(node.name, _size(node))})
        output = self.graph.outputs[0]
        if output not in self.known:
            raise NotDefined("the output does not depend on the input.")
        return Pieces(tuple(self.questions), self.known[output], self.constant)

    def _step(self, node: fx.Node, entering: list[Piece]) -> Piece:
        name = operation(node)
        own = frozenset().union(*(self.weights[arg] for arg in node.all_input_nodes if arg in self.weights))
        piece = _together(entering, own)
        first, second = ([isinstance(a, fx.Node) and a in self.known for a in node.args[:2]] + [False, False])[:2]
        if name in FIXED and not own:
            self.constant |= name == "constant_pad_nd"
            return piece
        if name in WEIGHTED and first and len(entering) == 1:
            self.constant |= name in NORM or (len(node.args) > 2 and node.args[2] is not None)
            return replace(piece, degree=piece.degree + 1)
        if name in SUMS:
            self.constant |= not (first and second)
            return replace(piece, degree=max(piece.degree, 1 if own else 0))
        if name in SCALES and first != second and (first or name == "mul"):
            return replace(piece, degree=piece.degree + (1 if own else 0))
        if name == "relu":
            return self._ask(piece, _size(node), 1)
        if name in MAXIMA:
            window = _window(node, MAXIMA[name])
            return self._ask(piece, _size(node) * math.comb(window, 2), math.ceil(math.log2(window)))
        raise NotDefined(
            f"the theorem is about linear layers, ReLUs and max-pools, and there is {spoken(node)} (in {where(node)})."
        )

    def _ask(self, piece: Piece, tests: int, levels: int) -> Piece:
        if piece.weights and tests:
            self.questions.append(Questions(tests, piece.count, max(1, piece.degree)))
        return replace(piece, levels=piece.levels + levels)


def _together(entering: list[Piece], own: frozenset[tuple[str, int]]) -> Piece:
    def largest(of: Callable[[Piece], int]) -> int:
        return max(of(piece) for piece in entering)

    weights = own.union(*(piece.weights for piece in entering))
    return Piece(largest(lambda p: p.degree), weights, largest(lambda p: p.levels))


def _window(node: fx.Node, axes: int) -> int:
    kernel: Any = node.args[1]
    sizes = list(kernel) if isinstance(kernel, list | tuple) else [kernel]
    return math.prod(sizes * axes if len(sizes) == 1 else sizes)


def _size(node: fx.Node) -> int:
    """Entries of a node's value, the first one's where there are several; the batch has length 1."""
    shape = shape_of(node)
    return math.prod(shape if isinstance(shape, tuple) and all(isinstance(s, int) for s in shape) else shape[0])
