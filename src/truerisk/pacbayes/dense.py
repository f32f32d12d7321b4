"""Networks of dense layers, read for their rescalings: which parameters enter hidden units, and which leave them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes.gaussian import Gaussian

HOMOGENEOUS = (nn.ReLU, nn.LeakyReLU)  # a positive factor passes through them, whatever the negative slope is
INERT = (nn.Flatten, nn.Dropout, nn.Identity)  # nothing to draw, and a positive factor passes through them
MOST = 1_000  # hidden units of a network with several hidden layers: a dense Hessian has as many rows
FIX = "give an nn.Sequential of Linear layers with ReLU or LeakyReLU between them."


class NoLift(TrueriskError):
    """The lifted KL of this network is not computed here; the message says why."""


class Layer(NamedTuple):
    """The names of a linear layer's parameters."""

    weight: str
    bias: str  # "" without one


def dense_layers(gaussian: Gaussian) -> list[Layer]:
    """The linear layers in the order in which they run: one more than hidden layers. Other networks are refused."""
    module = gaussian.module
    layers = list(_layers(module))
    _refuse_other_kinds(module, layers)
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for before, after in pairwise(linear):
        if before.out_features != after.in_features:
            raise NoLift(
                f"a layer with {before.out_features} outputs feeds one with {after.in_features} inputs, but the lifted "
                f"KL needs one input for each hidden unit; {FIX}"
            )
    units = sum(layer.out_features for layer in linear[:-1])
    if len(linear) > 2 and units > MOST:
        raise NoLift(
            f"the network has {units:,} units in several hidden layers, but the lifted KL is computed for at most "
            f"{MOST:,}; give a smaller network, or one hidden layer."
        )
    return _named(gaussian, linear)


def _refuse_other_kinds(module: nn.Module, layers: list[nn.Module]) -> None:
    strange = [layer for layer in layers if type(layer) not in (nn.Linear, *HOMOGENEOUS)]
    if strange:
        name = type(strange[0]).__name__
        raise NoLift(f"the network contains {name}, whose orbits are not integrated by the lifted KL; {FIX}")
    if any(m._forward_hooks or m._forward_pre_hooks for m in module.modules()):
        raise NoLift("a forward hook may change what the network computes; remove it to get the lifted KL.")
    kinds = [nn.Linear if type(layer) is nn.Linear else nn.ReLU for layer in layers]
    if len(kinds) < 3 or kinds != [nn.Linear, nn.ReLU] * (len(kinds) // 2) + [nn.Linear]:
        raise NoLift(f"the lifted KL needs at least one hidden layer and one activation after each; {FIX}")


def _named(gaussian: Gaussian, linear: list[nn.Linear]) -> list[Layer]:
    names = {id(p): name for name, p in gaussian.module.named_parameters()}
    named = [Layer(names[id(m.weight)], "" if m.bias is None else names[id(m.bias)]) for m in linear]
    moved = {name for layer in named for name in layer} - {"", named[-1].bias}
    shared = len(names) < len(list(gaussian.module.named_parameters(remove_duplicate=False)))
    if shared or not moved <= gaussian.mean.keys():
        raise NoLift(
            "rescaling a hidden unit would move weights that are frozen or used twice; make all weights and the hidden "
            "biases trainable and separate."
        )
    return named


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """All layers in the order in which they run, without those that do nothing here."""
    if type(module) is nn.Sequential:
        for child in module:
            yield from _layers(child)
    elif type(module) not in INERT:
        yield module
