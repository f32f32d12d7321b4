"""The networks that ``truerisk measure`` is asked about: from files, as a module came, or trained now."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.errors import TrueriskError
from truerisk.progress import printable

if TYPE_CHECKING:
    from torch import nn

    from truerisk.data import Data
    from truerisk.measures.trained import Network
    from truerisk.nets import Architecture

WEIGHTS = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")  # endings of files with weights
DEMO = {"digits": "mlp:512"}  # a network that fits random labels, and has every kind of bound


@dataclass(frozen=True)
class Choice:
    """A model and, maybe, a file with its weights; ``name`` as the user gave it."""

    model: str | None
    weights: Path | None
    name: str


def chosen(given: list[str], model: str | None, weights: Path | None) -> list[Choice]:
    """The networks of the command line: one by its options, or up to two by name.

    >>> chosen(["mlp:64", "mlp:512"], None, None)[1]
    Choice(model='mlp:512', weights=None, name='mlp:512')
    >>> chosen(["a.safetensors"], "mlp:64", None)
    [Choice(model='mlp:64', weights=PosixPath('a.safetensors'), name='a.safetensors')]
    """
    if not given:
        return [Choice(model, weights, "")]
    if len(given) > 2:
        raise TrueriskError(f"{len(given)} networks are given, but measure compares two; give A and B only.")
    if weights is not None:
        raise TrueriskError("--weights names one network, but networks are also given by name; use one of these ways.")
    files = [Path(each).suffix.lower() in WEIGHTS for each in given]
    if len(set(files)) > 1:
        raise TrueriskError(f"{given[0]} and {given[1]} are a model and weights; give two models or two weight files.")
    if files[0]:
        return [Choice(model, Path(each), printable(each)) for each in given]
    if model is not None:
        raise TrueriskError(f"--model is {model}, but {given[0]} is a model, too; leave out --model.")
    return [Choice(each, None, printable(each)) for each in given]


def load_network(choice: Choice, data: Data, options: Any, quiet: bool) -> Network:
    """The network with its weights from a file, or as the module came, or trained now."""
    from truerisk.measures.observed import held_out
    from truerisk.measures.trained import as_it_came, train, training_plan
    from truerisk.nets import MODULE, architecture, fitted, load_weights

    model = choice.model or DEMO.get(data.name)
    arch = architecture(model, data.input_shape, data.classes, trust_factory=True)
    record = {} if options.record is None else _read_record(options.record)
    trains = choice.weights is None and arch.kind != MODULE
    data, test = held_out(data, _share(options.test), trains, options.seed, options.data_dir)
    if choice.weights is not None:
        module = arch.template()
        load_weights(module, choice.weights)
        init = None if options.init is None else _initial(arch, options.init)
        how = f"Its weights are those of {printable(str(choice.weights))}."
        return as_it_came(arch.name, module, data, init, record, options.outputs, how, test)
    if options.init is not None:
        raise TrueriskError("--init says where the training of --weights began: give --weights FILE too.")
    if not trains:
        return as_it_came(arch.name, arch.template(), data, None, record, options.outputs, test=test)
    arch, data = fitted(arch, data, options.outputs)
    plan = training_plan(arch.name, data, options.seed)
    if not quiet:
        print(f"no --weights: {arch.name} is trained first, for up to {plan.epochs} epochs", file=sys.stderr)
    return train(arch, data, plan, record=record, rows=options.rows, test=test)


def _share(test: str | None) -> object:
    """--test: a share of the data, or data."""
    if test is None:
        return None
    try:
        return float(test)
    except ValueError:
        return test


def _initial(arch: Architecture, init: str) -> nn.Module:
    """The network as it was before training: from a file, or built again from a seed ("seed:7")."""
    from truerisk.nets import load_weights

    kind, _, seed = init.partition(":")
    if kind == "seed":
        if not seed.isdecimal():
            raise TrueriskError(f"--init {init} is not a seed; give seed:N with an integer, or a file of weights.")
        return arch.build(int(seed))
    module = arch.template()
    load_weights(module, init)
    return module


def _read_record(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise TrueriskError(f"the record {path} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise TrueriskError(f"the record {path} is not a JSON file ({error}).") from error
    if not isinstance(content, dict):
        raise TrueriskError(f"the record {path} holds no JSON object; docs/measures says which names it may have.")
    return content
