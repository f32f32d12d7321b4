"""A chain of layers as the theorems see it: matrices with biases inside, and the sizes of the inputs.

With biases, an input x becomes (x, 1) and a layer the matrix [[W, b], [0, 1]], the last one [W, b]; what is between the
layers leaves the 1 alone. A convolution is the matrix of the map that it is, which is never written out: the norms of
its rows are one convolution of |W| or W^2 with ones.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from truerisk.measures.anatomy import RELU, SAME, Between, Layer, anatomy
from truerisk.measures.layerwise import chain, operator_norms
from truerisk.measures.operators import apply, entering_shape, operator_shape
from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject


@dataclass(frozen=True)
class Link:
    """One layer of a chain. ``constant``: its matrix has a column for the constant 1; ``last``: but no row for it."""

    layer: Layer
    operator_norm: float  # of the layer without its bias, from above
    constant: bool
    last: bool
    lipschitz: float  # of all that follows until the next layer

    @property
    def passes_one(self) -> bool:
        """Whether the row [0, 1] is part of the matrix."""
        return self.constant and not self.last

    @cached_property
    def squares(self) -> Tensor:
        """The squared l2 norm of each row, [0, 1] left out."""
        return row_sums(self.layer, 2)

    @property
    def log_frobenius(self) -> float:
        return 0.5 * log(float(self.squares.sum()) + self.passes_one)

    @property
    def log_row_norms(self) -> float:
        """ln of the sum over rows of l2 norms; for the last layer."""
        return log(float(self.squares.sqrt().sum()))

    @property
    def largest_row(self) -> float:
        """The largest l1 norm of a row."""
        return max(float(row_sums(self.layer, 1).max()), 1.0 if self.passes_one else 0.0)

    @property
    def entries(self) -> float:
        """The sum of all |entries|; for the last layer."""
        return float(row_sums(self.layer, 1).sum())

    @property
    def spectral(self) -> float:
        """At least the spectral norm: that of [[||W||, ||b||], [0, 1]], where the second row may be missing."""
        if not self.constant:
            return self.operator_norm
        bias = math.sqrt(self.layer.repeats) * float(0.0 if self.layer.bias is None else self.layer.bias.norm())
        small = np.array([[self.operator_norm, bias], [0.0, 1.0 if self.passes_one else 0.0]])
        return float(np.linalg.norm(small, 2)) * (1 + 1e-12)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = operator_shape(self.layer)
        return rows + self.passes_one, columns + self.constant


def row_sums(layer: Layer, power: int) -> Tensor:
    """For each output entry, the sum of |w|^power over its weights, its bias among them."""
    weight = layer.weight.abs() ** power
    bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.abs() ** power
    if layer.geometry is not None:
        ones = torch.ones((1, *entering_shape(layer)), dtype=torch.float64)
        sums = apply(replace(layer, weight=weight, bias=None), ones)[0]
        return (sums + bias.reshape(-1, *[1] * (sums.ndim - 1))).flatten()
    return ((weight if weight.ndim == 1 else weight.sum(1)) + bias).repeat(layer.repeats)


def links(subject: Subject) -> tuple[Link, ...]:
    """The layers of a chain; NotDefined for all other networks."""
    return subject.shared("links", lambda: _links(subject))


def _links(subject: Subject) -> tuple[Link, ...]:
    steps = chain(subject)
    norms = operator_norms(subject)
    layers = [step for step in steps if isinstance(step, Layer)]
    constant = any(layer.bias is not None for layer in layers)
    found = []
    for step in steps:
        if isinstance(step, Layer):
            found.append(Link(step, norms[step.name], constant, step is layers[-1], 1.0))
        elif found:
            found[-1] = replace(found[-1], lipschitz=found[-1].lipschitz * step.lipschitz)
    return tuple(found)


def entering_lipschitz(subject: Subject) -> float:
    """Of what is done to the inputs before the first layer; at least 1."""
    before = itertools.takewhile(lambda step: isinstance(step, Between), chain(subject))
    return max(1.0, math.prod(step.lipschitz for step in before if isinstance(step, Between)))


def relu_links(subject: Subject) -> tuple[Link, ...]:
    """The same for chains with ReLUs only: other activations and pools are refused."""
    found = links(subject)
    if not subject.anatomy.relu_only:
        others = {s.operation for s in subject.anatomy.chain if isinstance(s, Between)} - RELU - SAME
        raise NotDefined(f"the theorem is for ReLUs alone between the layers, and there is also {min(others)}.")
    return found


def initial_moves(subject: Subject) -> dict[str, Layer]:
    """Each layer with W - W_0 and b - b_0 in place of its weights."""
    if subject.init is None:
        raise NotDefined("it needs the network at its initialization (init=, --init).")
    before = {layer.name: layer for layer in anatomy(subject.init, subject.example).layers}
    moves = {}
    for layer in subject.layers:
        old = before[layer.name]
        bias = None if layer.bias is None else layer.bias - (0.0 if old.bias is None else old.bias)
        moves[layer.name] = replace(layer, weight=layer.weight - old.weight, bias=bias)
    return moves


@dataclass(frozen=True)
class Inputs:
    """Sums of squares of the inputs: of each example, of each feature."""

    examples: np.ndarray
    features: np.ndarray

    def norm(self, constant: bool) -> float:
        """||X||_F, with a feature that is always 1 if ``constant``."""
        return math.sqrt(float(self.examples.sum()) + constant * len(self.examples))

    def column_norm(self, constant: bool) -> float:
        """The largest l2 norm of a feature over all examples."""
        return math.sqrt(max(float(self.features.max()), float(constant * len(self.examples))))

    def norms(self, constant: bool) -> np.ndarray:
        """||x_i|| of each example; 1 where it would be 0, as a chain without biases is 0 there anyway."""
        squares = self.examples + constant
        return np.sqrt(np.where(squares > 0, squares, 1.0))


def input_sizes(subject: Subject) -> Inputs:
    """Computed once."""

    def compute() -> Inputs:
        X = subject.X.reshape(len(subject.data), -1)
        both = (np.einsum("ij,ij->i", X, X, dtype=np.float64), np.einsum("ij,ij->j", X, X, dtype=np.float64))
        return Inputs(*both)

    return subject.shared("sizes of the inputs", compute)


def outputs(subject: Subject) -> int:
    """How many outputs the formulas see: 1 for two classes, as only the difference of the two matters."""
    width = subject.logits.shape[1]
    return 1 if width == 2 else width


def log(value: float) -> float:
    """ln of a norm; NotDefined for a layer that is zero, as the network is constant then."""
    if not value > 0:
        raise NotDefined("a layer has no weight that is not zero, so the network is constant.")
    return math.log(value)
