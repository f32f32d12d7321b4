"""Weights from files, without ever running code from them.

Checkpoints come in wrappings: a dictionary with optimizer states next to the weights (Lightning's ``state_dict``, or
``model``), and names with a prefix (``module.`` of DataParallel, ``_orig_mod.`` of torch.compile, ``model.`` of a
LightningModule). What was unwrapped is said in a note.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from truerisk import progress
from truerisk.errors import TrueriskError

KEYS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "module")  # of weights in a checkpoint
Weights = dict[str, Tensor]


def read_weights(path: str | Path) -> Weights:
    """Read safetensors, or a ``.pt`` state dict with ``weights_only=True`` (which refuses pickled code)."""
    path = Path(path)
    if not path.is_file():
        raise TrueriskError(f"the weights file {path} does not exist; check the path.")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise TrueriskError(f"{path} is not a readable safetensors file ({error}); save it again.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd pickle protocol; what matters is refused below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a hostile file can make the reader stumble in any way
        raise TrueriskError(_not_plain(path, error)) from error
    return _state_dict(content, str(path))


def load_weights(module: nn.Module, weights: str | Path | Mapping[str, Tensor]) -> None:
    """Put the weights of a file or of a state dict into ``module``; every name and shape must fit.

    A prefix that all names share may be missing or too many: then it is left out or added, with a note.
    """
    given, where = (
        (dict(weights), "the state dict") if isinstance(weights, Mapping) else (read_weights(weights), str(weights))
    )
    place, fitting, note = _way(module, given, where)
    if note:
        progress.note(f"{where}: {note}.")
    _refuse_codes(place, fitting, where)
    try:
        copy.deepcopy(place).load_state_dict(fitting)  # torch loads what fits before it complains about the rest
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise TrueriskError(
            f"the weights in {where} do not fit the model ({detail.rstrip('.')}); give the weights of this model."
        ) from error
    place.load_state_dict(fitting)


def _way(module: nn.Module, given: Weights, where: str) -> tuple[nn.Module, Weights, str]:
    """The one way in which the weights fit; names that fit as they are come before prefixes."""
    ways = list(_ways(module, given))
    if not ways or not ways[0][2]:
        return ways[0] if ways else (module, given, "")
    first = ways[0]
    for place, other, note in ways[1:]:
        if place is not first[0] or any(not torch.equal(value, first[1][name]) for name, value in other.items()):
            raise TrueriskError(
                f"the weights in {where} fit in two ways ({first[2]}; {note}); save those of one network only."
            )
    return first


def _refuse_codes(module: nn.Module, weights: Weights, where: str) -> None:
    """Torch would copy integers (of a quantized network) and complex numbers into real parameters."""
    own = module.state_dict()
    wrong = [
        name
        for name, value in weights.items()
        if name in own and own[name].is_floating_point() and not value.is_floating_point()
    ]
    if wrong:
        kind = str(weights[wrong[0]].dtype).removeprefix("torch.")
        raise TrueriskError(f"the weights in {where} do not fit the model: {wrong[0]} holds {kind}, not real numbers.")


def _state_dict(content: Any, where: str) -> Weights:
    """The mapping from names to tensors in what a file held; of a checkpoint the entry with the weights."""
    found = _unwrapped(content)
    if found is None:
        what = f"a dictionary with {', '.join(map(str, list(content)[:5]))}" if isinstance(content, dict) else (
            f"a {type(content).__name__}"
        )  # fmt: skip
        raise TrueriskError(f"{where} holds {what}, not a state dict; save torch.save(model.state_dict(), ...).")
    key, weights = found
    if key:
        progress.note(f"{where} is a checkpoint; its entry {key!r} is used as weights.")
    return weights


def _unwrapped(content: Any) -> tuple[str, Weights] | None:
    """(the entry of a checkpoint, or "" for a state dict itself; the weights)."""
    if not isinstance(content, dict) or not content:
        return None
    if _is_state_dict(content):
        return "", dict(content)
    for key in KEYS:
        inside = _unwrapped(content.get(key))
        if inside is not None:
            return ".".join(filter(None, (key, inside[0]))), inside[1]
    return None


def _is_state_dict(content: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items())


def _ways(module: nn.Module, given: Weights) -> Iterator[tuple[nn.Module, Weights, str]]:
    """(where the weights go, under which names, what to say about it) for every way in which all of them fit."""
    given = _with_counters(module, given)
    if _fit(module, given):
        yield module, given, ""
    for prefix in _prefixes(given):
        inside = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
        inside = _with_counters(module, inside)
        if _fit(module, inside):
            left = sum(not name.startswith(prefix) for name in given)
            others = f", and {left} entries outside of it were left out" if left else ""
            yield module, inside, f"the prefix {prefix!r} of the names was removed{others}"
    for name, child in module.named_modules():
        outside = [each for each, _ in module.named_parameters() if not each.startswith(f"{name}.")]
        if name and not outside and _fit(child, given):  # what is around it has nothing that could be trained
            yield child, given, f"the weights are those of {name!r}, the only part with parameters"


def _prefixes(given: Weights) -> list[str]:
    """Beginnings of names up to a dot, the commonest wrappers first, then from short to long."""
    found = {name[: match.end()] for name in given for match in re.finditer(r"\.", name)}
    return sorted(found, key=lambda prefix: (prefix not in ("module.", "_orig_mod.", "model."), len(prefix), prefix))


def _with_counters(module: nn.Module, weights: Weights) -> Weights:
    """With the counters of batch norms, which old checkpoints do not have and no network reads in eval mode."""
    own = {name: value for name, value in module.state_dict().items() if name.endswith("num_batches_tracked")}
    return own | weights if weights and own.keys() - weights.keys() else weights


def _fit(module: nn.Module, weights: Weights) -> bool:
    """Whether these are all numbers of the module, in its shapes; integers are codes of numbers, not weights."""
    own = module.state_dict()
    return own.keys() == weights.keys() and all(
        isinstance(value, Tensor)
        and value.shape == own[name].shape
        and (value.is_floating_point(), value.is_complex()) == (own[name].is_floating_point(), own[name].is_complex())
        for name, value in weights.items()
    )


def _not_plain(path: Path, error: Exception) -> str:
    """Why a file was not loaded, with the class of the object that it holds where torch names one."""
    found = re.search(r"GLOBAL ([\w.]+)", str(error))
    what = f"it holds a {found[1]}" if found else "it is not a plain state dict"
    return (
        f"{path} is not loaded: {what}, and loading Python objects runs code; save torch.save(model.state_dict(), ...) "
        "or safetensors."
    )
