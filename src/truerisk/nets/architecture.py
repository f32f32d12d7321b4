"""From what the user names or hands over to something that builds fresh networks from a seed."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.names import BUILTIN, FACTORY, MODULE
from truerisk.nets.builtin import KINDS, builtin, default_name
from truerisk.nets.evaluate import is_lazy
from truerisk.nets.hidden import hidden_numbers, replaced_forwards
from truerisk.nets.learnt import ignores_seed, numbers_of
from truerisk.nets.naming import refuse_files
from truerisk.nets.neighbors import OwnFile
from truerisk.nets.reinitialize import reinitialized
from truerisk.seeds import derive, seeded_globals


@dataclass(frozen=True)
class Architecture:
    """A network without its weights.

    ``build(seed)`` gives a freshly initialized module, the same for the same seed. ``given`` is the
    module exactly as the user handed it over (for ``fresh`` certificates), or None for a factory.
    """

    name: str
    kind: str
    build: Callable[[int], nn.Module]
    given: nn.Module | None = None
    column: str = ""  # what one output per example is (see ``nets.adapt``); "" where there are several

    def template(self) -> nn.Module:
        """A module to load weights into: a copy of the user's own, or a newly built one."""
        return self.build(0) if self.given is None else copy.deepcopy(self.given)


def architecture(
    spec: object, input_shape: Sequence[int], classes: int, *, trust_factory: bool = False, few_weights: bool = False
) -> Architecture:
    """Resolve a built-in name, ``file.py:factory``, ``package.module:factory``, a factory or a module.

    ``few_weights``: which built-in network is meant by None (see ``default_name``).
    """
    if spec is None or isinstance(spec, str):
        name = spec or default_name(input_shape, few_weights)
        refuse_files(name)
        kind, _, rest = name.partition(":")
        if kind in KINDS or not rest.strip("0123456789-"):  # widths, if anything, are after the colon
            return Architecture(name, BUILTIN, lambda seed: _seeded(builtin, seed, name, input_shape, classes))
        spec = import_reference(name)
    else:
        name = getattr(spec, "__qualname__", type(spec).__qualname__)
    if isinstance(spec, nn.Module):
        module = spec
        return Architecture(name, MODULE, lambda seed: reinitialized(module, seed), given=module)
    if not callable(spec):
        raise TrueriskError(f"the model {name} is neither a torch module nor a function that builds one.")
    return _from_factory(name, spec, input_shape, classes, trust_factory)


def _from_factory(
    name: str, factory: Callable[..., Any], input_shape: Sequence[int], classes: int, trust: bool
) -> Architecture:
    arguments = {"input_shape": tuple(input_shape), "classes": classes}
    wanted = {k: v for k, v in arguments.items() if k in _parameter_names(factory)}

    def build(seed: int) -> nn.Module:
        try:
            module = _seeded(factory, seed, **wanted)
        except TypeError as error:
            raise TrueriskError(
                f"the factory {name} could not be called ({error}); it may take the arguments input_shape and "
                "classes, or none."
            ) from error
        except TrueriskError:
            raise
        except Exception as error:
            raise TrueriskError(f"the factory {name} failed ({type(error).__name__}: {error}).") from error
        if not isinstance(module, nn.Module):
            raise TrueriskError(f"the factory {name} returned a {type(module).__name__}, not a torch module.")
        return copy.deepcopy(module)

    if not trust:
        _refuse_learnt_weights(name, build)
    return Architecture(name, FACTORY, build)


def _refuse_learnt_weights(name: str, build: Callable[[int], nn.Module]) -> None:
    """Weights and buffers that ignore the seed were computed somewhere: maybe from the data."""
    module = build(derive(0, "probe"))
    if is_lazy(module):
        raise TrueriskError(f"what the factory {name} builds has lazy layers; run it once on one input in the factory.")
    hidden = hidden_numbers(module) + replaced_forwards(module)
    if hidden:
        raise TrueriskError(
            f"what the factory {name} builds keeps numbers outside its parameters and buffers ({', '.join(hidden)}); "
            "register them (nn.ModuleList, register_buffer), so that they can be checked and saved, or vouch with "
            "trust_factory=True (--trust-factory) that they never saw this data."
        )
    one, again = numbers_of(module), numbers_of(build(derive(0, "probe")))
    if one.keys() != again.keys() or not all(torch.equal(value, again[name]) for name, value in one.items()):
        raise TrueriskError(f"the factory {name} gives other weights each time; use torch's random numbers only.")
    suspicious = ignores_seed(module, build(derive(1, "probe")))
    if suspicious:
        kinds = {"weights" if key in dict(module.named_parameters()) else "buffers" for key in suspicious}
        raise TrueriskError(
            f"the factory {name} gives the same {' and '.join(sorted(kinds, reverse=True))} whatever the seed "
            f"({', '.join(suspicious[:5])}), so they may come from this data; vouch with trust_factory=True "
            "(--trust-factory) that they never saw it, such as published constants, or initialize them at random."
        )


def _seeded(function: Callable[..., nn.Module], seed: int, *args: Any, **kwargs: Any) -> nn.Module:
    with seeded_globals(seed):
        return function(*args, **kwargs)


def _parameter_names(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def import_reference(reference: str) -> object:
    """Import ``file.py:name`` or ``package.module:name``. This runs the user's own code.

    A file may import modules of its own folder, at the top and in the function (see ``neighbors``).
    """
    where, _, attribute = reference.rpartition(":")
    if where.endswith(".py"):
        path = Path(where)
        if not path.is_file():
            raise TrueriskError(f"the model file {where} does not exist; give --model file.py:factory.")
        own = _run(lambda: OwnFile(path), reference)
        found = _attribute(own.module, where, attribute)
        return own.calling(found) if callable(found) and not isinstance(found, nn.Module) else found
    return _attribute(_run(lambda: importlib.import_module(where), reference), where, attribute)


def _attribute(module: object, where: str, attribute: str) -> object:
    if not hasattr(module, attribute):
        raise TrueriskError(f"{where} has nothing called {attribute!r}; check the name after the colon.")
    return getattr(module, attribute)


def _run(load: Callable[[], Any], reference: str) -> Any:
    try:
        return load()
    except Exception as error:
        raise TrueriskError(
            f"the model {reference} could not be imported ({type(error).__name__}: {error})."
        ) from error
