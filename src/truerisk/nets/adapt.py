"""Networks as users have them: a dict or a tuple as output, one logit for two classes, integers as inputs.

Everything else in the library expects one row of logits per example. ``fitted`` wraps a network that answers otherwise,
once, and gives it the data as it takes them. A network that answers with logits is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from truerisk import progress
from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.names import LOGITS, PROBABILITIES
from truerisk.nets.architecture import Architecture
from truerisk.nets.evaluate import as_input, has_table, is_lazy, precision
from truerisk.seeds import derive, seeded_globals

FEW = 4  # examples that show the form of an output
MANY = 1_000  # examples that show whether outputs are probabilities
SEEDS = 8  # initializations of a factory's network that must all look like probabilities
EDGE = 1e-7  # probabilities closer to 0 or 1 than this have no finite logit in float32
HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Reading:
    """Where the logits are in an output: ``item`` of a mapping, a sequence or an object, and what one column means."""

    item: str | int | None = None
    attribute: bool = False  # ``item`` is an attribute's name
    column: str = ""  # LOGITS or PROBABILITIES for an output with one column (or none), "" for all others

    def pick(self, output: object) -> Tensor:
        """The tensor of outputs; some networks return more than that in one of train and eval mode only."""
        if self.item is None or isinstance(output, Tensor):
            return output  # type: ignore[return-value]
        return getattr(output, str(self.item)) if self.attribute else output[self.item]  # type: ignore[index]


class Adapted(nn.Module):
    """A user's network with one row of logits per example.

    One logit z becomes the two logits (0, z): class 1 is answered where z > 0, and their cross-entropy is the binary
    one. A probability p is read as its logit ln(p / (1 - p)), which is above 0 exactly where p is above one half.

    >>> net = Adapted(nn.Identity(), Reading(column=LOGITS))
    >>> net(torch.tensor([[3.0], [-1.0]])).tolist()
    [[0.0, 3.0], [0.0, -1.0]]
    """

    def __init__(self, network: nn.Module, reading: Reading) -> None:
        super().__init__()
        self.network = network
        self.reading = reading

    def forward(self, x: Tensor) -> Tensor:
        out = self.reading.pick(self.network(x))
        if not self.reading.column:
            return out
        out = out[None] if out.ndim == 0 else out  # squeeze() of a batch of one
        z = out[:, None] if out.ndim == 1 else out
        if self.reading.column == PROBABILITIES:
            p = (z.float() if z.dtype in HALVES else z).clamp(EDGE, 1 - EDGE)
            z = (p / (1 - p)).log()  # exactly 0 where p is one half; torch.logit has no second derivative at the edges
        return torch.constant_pad_nd(z, (1, 0))


def inner(module: nn.Module) -> nn.Module:
    """The user's own network."""
    return module.network if isinstance(module, Adapted) else module


def adapt(module: nn.Module, reading: Reading) -> nn.Module:
    """The network as the library takes it; itself where that is what it is."""
    return module if reading == Reading() else Adapted(module, reading)


def fitted(arch: Architecture, data: Data, outputs: str | None = None) -> tuple[Architecture, Data]:
    """The architecture with its outputs as logits, and the data with integers only where the network takes them.

    ``outputs`` says what one output per example is, LOGITS or PROBABILITIES; None: logits, unless all of them lie
    between 0 and 1, which is refused with the question. A network that does not run is returned as it is:
    ``check_network`` says why.
    """
    module = arch.template()
    if is_lazy(module):
        return arch, data
    data = data if takes_integers(module, data) else data.floats()
    out = shown(module, data.X[:FEW])
    if out is None:
        return arch, data
    reading = find_reading(out, data.classes)
    if reading.column:
        reading = replace(reading, column=_meaning(arch, data, reading, outputs))
    elif outputs:
        raise TrueriskError(
            f"outputs is {outputs!r}, but the network has several outputs per example; leave out --outputs."
        )
    if reading.item is not None:
        progress.note(f"the network returns a {type(out).__name__}; {_named(reading)} is used as logits.")
    if reading.column:
        threshold = "one half" if reading.column == PROBABILITIES else "0"
        progress.note(f"the network has one output per example; it answers class 1 where that is above {threshold}.")
    return read(arch, reading), data


def refitted(arch: Architecture, examples: Sequence[np.ndarray], classes: int, column: str) -> Architecture:
    """The architecture of a certificate: ``column`` is what it says about one output per example, or "".

    ``examples`` are inputs of the certified shape and type, the first that the network runs on decides: only the form
    of an output is asked for. Where it runs on none, it is taken to return what most networks return.
    """
    module = arch.template()
    out = next((out for out in (shown(module, x) for x in examples) if out is not None), None)
    reading = Reading(column=column) if out is None else find_reading(out, classes)
    if bool(reading.column) != bool(column):
        raise TrueriskError("the network does not have the outputs of the certified one; give the certified model.")
    return read(arch, replace(reading, column=column))


def read(arch: Architecture, reading: Reading) -> Architecture:
    """The architecture whose networks are adapted."""
    if reading == Reading():
        return arch
    given = None if arch.given is None else adapt(arch.given, reading)
    build = lambda seed: adapt(arch.build(seed), reading)  # noqa: E731
    return replace(arch, build=build, given=given, column=reading.column)


def adapted(module: nn.Module, data: Data, outputs: str | None = None) -> tuple[nn.Module, Data]:
    """The same as ``fitted`` for a module with its weights."""
    arch, data = fitted(Architecture(type(module).__name__, "", lambda seed: module, given=module), data, outputs)
    assert arch.given is not None
    return arch.given, data


def takes_integers(module: nn.Module, data: Data) -> bool:
    """Whether the inputs are integers and the network wants them so: it looks them up in a table, or runs on them."""
    if not data.integers:
        return False
    if _output(module.eval(), data.X[:FEW]) is not None:
        return True
    # Neither runs: then the integers are what is wrong, such as a token that the table does not hold.
    return has_table(module) and _output(module, data.floats().X[:FEW]) is None


def find_reading(out: object, classes: int) -> Reading:
    """Where the logits are; a TrueriskError that says what to return where that cannot be known."""
    reading = _place(out, classes)
    logits = reading.pick(out)
    one = logits.is_floating_point() and (logits.ndim == 1 or (logits.ndim == 2 and logits.shape[1] == 1))
    return replace(reading, column=LOGITS) if one and classes == 2 else reading


def _place(out: object, classes: int) -> Reading:
    """Where a tensor of logits is: by its name, or by its shape where that leaves no choice."""
    if isinstance(out, Tensor):
        return Reading()
    if isinstance(out, Mapping):
        tensors: dict[Any, Tensor] = {key: value for key, value in out.items() if isinstance(value, Tensor)}
    elif isinstance(getattr(out, LOGITS, None), Tensor):
        return Reading(LOGITS, attribute=True)
    elif isinstance(out, tuple | list):
        tensors = {place: value for place, value in enumerate(out) if isinstance(value, Tensor)}
    else:
        raise TrueriskError(f"the network returns a {type(out).__name__}; return a tensor of logits from forward.")
    fitting = [key for key, value in tensors.items() if _is_row_of(value, classes)]
    if LOGITS in tensors:
        return Reading(LOGITS)
    if len(fitting) == 1 or 0 in fitting[:1]:  # of several, only a tuple's first item is meant without a name
        return Reading(fitting[0])
    if len(tensors) == 1 and not fitting:
        return Reading(next(iter(tensors)))  # the checks of a network say what is wrong with its shape
    listed = ", ".join(f"{key} {tuple(value.shape)}" for key, value in [*tensors.items()][:5]) or "no tensor"
    kind = "dict" if isinstance(out, Mapping) else type(out).__name__
    raise TrueriskError(f"the network returns a {kind} with {listed}; return the logits alone, or name them 'logits'.")


def _is_row_of(value: Tensor, classes: int) -> bool:
    """Whether a tensor can be logits of so many classes, one row per example."""
    one = classes == 2 and (value.ndim == 1 or tuple(value.shape[1:]) == (1,))
    return value.is_floating_point() and (one or (value.ndim == 2 and value.shape[1] == classes))


def _named(reading: Reading) -> str:
    return "its first item" if reading.item == 0 else f"its entry {reading.item!r}"


def _meaning(arch: Architecture, data: Data, reading: Reading, outputs: str | None) -> str:
    """What one output per example is. Random weights show a sigmoid as well as trained ones do."""
    networks = (arch.build(derive(k, "outputs")) for k in range(SEEDS)) if arch.given is None else [arch.template()]
    inside = all(are_probabilities(adapt(each, reading), data) for each in networks)  # one that is not ends the search
    if outputs == PROBABILITIES and not inside:
        raise TrueriskError(
            f"outputs is {PROBABILITIES!r}, but the network gives numbers outside of 0 to 1; leave out --outputs."
        )
    if outputs is None and inside:
        raise TrueriskError(
            "all outputs lie between 0 and 1; say --outputs probabilities (class 1 above one half) or --outputs logits "
            "(class 1 above 0)."
        )
    return outputs or LOGITS


def are_probabilities(module: nn.Module, data: Data) -> bool:
    """Whether all outputs of a network with one output per example lie between 0 and 1."""
    assert isinstance(module, Adapted)
    out = _output(module.network.eval(), data.X[:MANY])
    if out is None:
        return False
    z = module.reading.pick(out)
    return bool(((z >= 0) & (z <= 1)).all())


def shown(module: nn.Module, X: np.ndarray) -> object:
    """What the network returns in eval mode, or in train mode if that is more than a tensor, as in some networks."""
    evaluated = _output(module.eval(), X)
    trained = _output(module.train(), X) if isinstance(evaluated, Tensor) else None
    return evaluated if trained is None or isinstance(trained, Tensor) else trained


def _output(module: nn.Module, X: np.ndarray) -> object:
    """What the network returns, or None where it does not run."""
    try:
        with torch.no_grad(), seeded_globals(0):
            return module(as_input(X, precision(module)))
    except Exception:  # a network can fail in any way; it is refused elsewhere, with its own words
        return None
