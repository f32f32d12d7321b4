"""What measures that are made of weight matrices share: which layers count, and three norms of each.

Biases are left out, as in Jiang et al. 2020. A layer that is used twice is trained once but acts twice, so it counts
once in sums of what was trained and twice in products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from truerisk.measures.anatomy import Between, Layer
from truerisk.measures.operators import operator_norm_upper
from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject


def acting_layers(subject: Subject) -> tuple[Layer, ...]:
    """All layers in the order in which they run, each use of one that is shared."""
    loose = subject.anatomy.loose
    if loose:
        raise NotDefined(
            f"it speaks of linear and convolutional layers only, and {loose[0]} is in none of them"
            + (f" ({len(loose)} parameters are not)." if len(loose) > 1 else ".")
        )
    if not subject.layers:
        raise NotDefined("the network has no linear or convolutional layer.")
    return subject.layers


def trained_layers(subject: Subject) -> tuple[Layer, ...]:
    """Each layer whose weights are parameters, once."""
    layers = {layer.name: layer for layer in acting_layers(subject) if not layer.fixed}
    if not layers:
        raise NotDefined("none of its layers has weights that can be trained.")
    return tuple(layers.values())


def require_biases(subject: Subject, same: str) -> None:
    """A norm of all parameters says something of its own only if there are more of them than weights of layers."""
    layers = {layer.name: layer for layer in subject.layers if not layer.fixed}
    if sum(layer.weight.numel() for layer in layers.values()) == sum(p.numel() for p in subject.parameters.values()):
        raise NotDefined(f"the network has no biases, so it is the square root of {same}.")


def chain(subject: Subject) -> tuple[Layer | Between, ...]:
    """The layers and what is between them, or the reason why the network is no chain."""
    if not subject.anatomy.chain:
        raise NotDefined(f"it is defined for chains of layers, and the network is none: {subject.anatomy.why}.")
    return subject.anatomy.chain


@dataclass(frozen=True)
class Norm:
    """A norm of layers: its name, its sign in formulas, and how it is found for all layers by name."""

    name: str
    sign: str
    of: Callable[[Subject], Mapping[str, float]]


def _spectral(subject: Subject) -> Mapping[str, float]:
    acting_layers(subject)
    return {name: float(values[0]) for name, values in subject.singular_values.items()}


def _operator(subject: Subject) -> Mapping[str, float]:
    layers = acting_layers(subject)
    if all(layer.geometry is None for layer in layers):
        raise NotDefined("no layer is a convolution: it is the same as with spectral norms of the weight matrices.")
    return operator_norms(subject)


def _frobenius(subject: Subject) -> Mapping[str, float]:
    return {layer.name: float(layer.weight.norm()) for layer in acting_layers(subject)}


def operator_norms(subject: Subject) -> Mapping[str, float]:
    """Certified from above, of each layer as the map that it is."""
    layers = acting_layers(subject)
    return subject.shared("operator norms", lambda: {layer.name: operator_norm_upper(layer) for layer in layers})


SPECTRAL = Norm("spectral", "||W||_2 (a kernel reshaped to out x rest)", _spectral)
OPERATOR = Norm("operator", "||W||_op (the map from images to images, certified from above)", _operator)
FROBENIUS = Norm("frobenius", "||W||_F", _frobenius)


def logs(subject: Subject, norm: Norm) -> dict[str, float]:
    """The logarithm of each layer's norm."""
    return {name: math.log(value) if value > 0 else -math.inf for name, value in norm.of(subject).items()}


def move_layer(subject: Subject, layer: Layer) -> Layer:
    """The layer with W - W_0 as its weights."""
    move: Tensor = subject.moves[layer.name]
    return replace(layer, weight=move.diagonal() if layer.weight.ndim == 1 else move.reshape(layer.weight.shape))


def ratios(subject: Subject, squares: Mapping[str, float], norm: Norm) -> dict[str, float]:
    """Each layer's number divided by its squared norm."""
    norms = norm.of(subject)
    empty = [name for name in squares if not norms[name] > 0]
    if empty:
        raise NotDefined(f"the weights of {empty[0]} are all zero, and it divides by their norm.")
    return {name: square / norms[name] ** 2 for name, square in squares.items()}


def squared_frobenius(subject: Subject) -> dict[str, float]:
    """||W||_F^2 of each trained layer."""
    return {layer.name: float(layer.weight.square().sum()) for layer in trained_layers(subject)}


def squared_moves(subject: Subject) -> dict[str, float]:
    """||W - W_0||_F^2 of each trained layer. Only with ``init``."""
    return {layer.name: float(subject.moves[layer.name].square().sum()) for layer in trained_layers(subject)}
