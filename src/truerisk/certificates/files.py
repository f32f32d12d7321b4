"""The files of a certificate: their content, their hashes; read without running anything."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from truerisk.certificates.evidence import Evidence
from truerisk.certificates.origins import ARRAYS, GAUSSIAN, NETWORK, SPLIT, SUFFIX, Content, File
from truerisk.data import Split
from truerisk.errors import VerificationError
from truerisk.nets.evaluate import identical
from truerisk.pacbayes import Gaussian


def encode(evidence: Evidence) -> dict[str, bytes]:
    """File name to content for all arrays of a certificate."""
    parts = {"prior": evidence.parts.prior, "certify": evidence.parts.certify}
    arrays: dict[str, Mapping[str, Tensor]] = {SPLIT: {name: torch.from_numpy(rows) for name, rows in parts.items()}}
    arrays |= {name: all_numbers(network) for name, network in evidence.networks.items()}
    arrays |= {name: _gaussian_tensors(gaussian) for name, gaussian in evidence.gaussians.items()}
    arrays |= evidence.arrays
    return {
        f"{name}{SUFFIX}": save_tensors({k: v.contiguous().clone() for k, v in tensors.items()})
        for name, tensors in arrays.items()
    }


def decode(files: Mapping[str, bytes], module: nn.Module, declared: Mapping[str, File]) -> Evidence:
    """The inverse of ``encode``; ``module`` gives the architecture, its weights are not used.

    ``declared`` says what each file holds.
    """
    found: dict[Content, dict[str, dict[str, Tensor]]] = {content: {} for content in Content}
    for name in sorted(files):
        entry = name.removesuffix(SUFFIX)
        try:
            found[declared[entry].content][entry] = load_tensors(files[name])
        except SafetensorError as error:
            raise VerificationError(f"{name} is not a readable safetensors file ({error}); certify again.") from error
    try:
        parts = _split(found[ARRAYS].pop(SPLIT))
        networks = {name: _with_state(module, tensors) for name, tensors in found[NETWORK].items()}
        gaussians = {name: _gaussian(module, tensors) for name, tensors in found[GAUSSIAN].items()}
        return Evidence(parts, networks, gaussians, found[ARRAYS])
    except KeyError as error:
        raise VerificationError(f"the certificate's files have no entry {error}; certify again.") from error


def _split(tensors: dict[str, Tensor]) -> Split:
    if any(rows.dtype != torch.int64 for rows in tensors.values()):
        raise VerificationError(f"{SPLIT}{SUFFIX} must hold row numbers (int64); certify again.")
    return Split(*(np.asarray(tensors[name].numpy()) for name in ("prior", "certify")))


def read_files(folder: Path, hashes: dict[str, str]) -> dict[str, bytes]:
    """Read every file that the certificate names and compare it with its hash."""
    found = {}
    for name, expected in hashes.items():
        path = folder / name
        try:
            content = path.read_bytes() if Path(name).name == name else None
        except (OSError, ValueError):  # not there, not readable, or no name that a file can have
            content = None
        if content is None:
            raise VerificationError(
                f"the file {name[:100]} that the certificate names is missing; restore it, or certify again."
            )
        if sha256(content) != expected:
            raise VerificationError(
                f"{name} is not the certified file (its sha256 differs); restore it, or certify again."
            )
        found[name] = content
    return found


def refuse_other_forms(files: Mapping[str, bytes], again: Mapping[str, bytes]) -> None:
    """Refuse files that hold numbers in another form than ``encode`` writes, ``again`` being what it writes of them.

    More digits than are read, or two values for one shared weight, could make another predictor than the verified one.
    """
    for name, content in files.items():
        stored, read = load_tensors(content), load_tensors(again[name])
        same = stored.keys() == read.keys() and all(identical(stored[key], read[key]) for key in stored)
        if not same:
            raise VerificationError(f"{name} holds numbers in another form than certify writes; certify again.")


def relative_gap(one: bytes, other: bytes) -> float:
    """Largest difference of two files' tensors, over the largest value of each; infinite where they cannot be compared.

    >>> a, b = (save_tensors({"w": torch.tensor([1.0, x])}) for x in (2.0, 2.5))
    >>> relative_gap(a, a), relative_gap(a, b)
    (0.0, 0.2)
    """
    first, second = load_tensors(one), load_tensors(other)
    if {k: v.shape for k, v in first.items()} != {k: v.shape for k, v in second.items()}:
        return math.inf
    return max((_gap(first[name].double(), second[name].double()) for name in first), default=0.0)


def _gap(a: Tensor, b: Tensor) -> float:
    if not a.numel() or torch.equal(a, b):
        return 0.0
    gap, scale = float((a - b).abs().max()), float(b.abs().max())
    return gap / scale if gap >= 0 and scale > 0 else math.inf  # not a number, or nothing to compare with


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _gaussian_tensors(gaussian: Gaussian) -> dict[str, Tensor]:
    mean = {f"mean.{name}": value.float() for name, value in gaussian.mean.items()}
    std = {f"std.{name}": value.float() for name, value in gaussian.std.items()}
    return mean | std | {f"fixed.{name}": value for name, value in gaussian.fixed.items()}


def _gaussian(module: nn.Module, tensors: dict[str, Tensor]) -> Gaussian:
    parts: dict[str, dict[str, Tensor]] = {"mean": {}, "std": {}, "fixed": {}}
    for key, value in tensors.items():
        kind, _, name = key.partition(".")
        parts[kind][name] = value
    twin = _with_state(module, {**parts["mean"], **parts["fixed"]})
    for name, parameter in twin.named_parameters():
        parameter.requires_grad_(name in parts["mean"])  # what has no distribution is fixed
    return Gaussian(twin, parts["mean"], parts["std"])


def _with_state(module: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    """A copy of ``module`` with these numbers; a shared parameter may be given under one of its names."""
    twin = copy.deepcopy(module).eval()
    buffers = dict(twin.named_buffers())
    needed = {name for name, _ in twin.named_parameters()} | buffers.keys()
    unsaved = (buffers.keys() - twin.state_dict().keys()) & state.keys()
    try:
        misfit = twin.load_state_dict({name: state[name] for name in state if name not in unsaved}, strict=False)
        for name in unsaved:
            buffers[name].copy_(state[name])
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise VerificationError(
            f"the stored weights do not fit the model ({detail}); give the certified model."
        ) from error
    missing = (needed & {*misfit.missing_keys, *buffers}) - state.keys()
    if misfit.unexpected_keys or missing:
        wrong = ", ".join([*misfit.unexpected_keys, *sorted(missing)][:5])
        raise VerificationError(f"the stored weights do not fit the model ({wrong}); give the certified model.")
    return twin


def all_numbers(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and all buffers: those that the module itself does not save can hold learned numbers as well."""
    saved = dict(module.state_dict())
    return saved | {name: buffer for name, buffer in module.named_buffers() if name not in saved}
