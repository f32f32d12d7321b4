"""Freeze: the step between training and counting. Nothing that is certified changes after it.

The evidence is encoded into the very bytes that are saved, and read back from them, so that a certificate is about its
files and about nothing that a program only had in memory. A hash of these bytes, the settings and the data then seeds
all random draws. Whoever chooses a posterior therefore cannot know its noise: choosing another one draws other noise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import nn

from truerisk.certificates.evidence import Evidence
from truerisk.certificates.files import decode, encode, sha256
from truerisk.certificates.origins import DERIVED, SUFFIX
from truerisk.certificates.settings import Settings
from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.nets import Architecture, outputs
from truerisk.nets.hidden import hidden_numbers
from truerisk.seeds import derive

Seed = Callable[..., int]  # purpose -> seed
ROWS = 256  # on which networks in memory are compared with those in the files
SAME = 1e-4  # relative difference of outputs that rounding explains


@dataclass(frozen=True)
class Frozen:
    """Evidence as the files hold it, the files, and the hash that seeds its draws."""

    evidence: Evidence
    files: Mapping[str, bytes]
    digest: int

    def seed(self, *purpose: object) -> int:
        """For the draws of this certificate: a function of everything that was frozen."""
        return derive(self.digest, *purpose)


def freeze(settings: Settings, data: Data, arch: Architecture, evidence: Evidence) -> Frozen:
    """What is certified from here on; refused if the files would give other networks than training did."""
    files = encode(evidence)
    read = decode(files, arch.template(), settings.method.origins(settings))
    _refuse_lost_numbers(evidence, read, data.X[:ROWS])
    return Frozen(read, files, digest(settings, data.sha256, hashes(files)))


def digest(settings: Settings, data: str, files: Mapping[str, str]) -> int:
    """SHA-256 over settings, data and files; ``data`` and ``files`` are hashes themselves.

    Files that ``verify`` derives itself are left out: bytes that nobody reads must not decide a draw.
    """
    origins = settings.method.origins(settings)
    read = {name: files[name] for name in sorted(files) if origins[name.removesuffix(SUFFIX)].origin != DERIVED}
    text = json.dumps([settings.to_json(), data, read], sort_keys=True, allow_nan=False)
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """File name to SHA-256."""
    return {name: sha256(content) for name, content in files.items()}


def _refuse_lost_numbers(evidence: Evidence, read: Evidence, X: np.ndarray) -> None:
    """A training function that keeps constants in plain attributes makes a network that no file holds."""
    pairs = [(name, network, read.networks[name]) for name, network in evidence.networks.items()]
    pairs += [(name, q.network(), read.gaussians[name].network()) for name, q in evidence.gaussians.items()]
    for name, mine, saved in pairs:
        if not _same_outputs(mine, saved, X):
            found = hidden_numbers(mine)
            where = f" ({', '.join(found)})" if found else ""
            raise TrueriskError(
                f"the {name} uses numbers that are not parameters or buffers{where}; keep them with register_buffer, "
                "and let fit return the module that it was given."
            )


def _same_outputs(mine: nn.Module, saved: nn.Module, X: np.ndarray) -> bool:
    a, b = outputs(mine, X).double(), outputs(saved, X).double()
    finite = a.isfinite()
    scale = float(a[finite].abs().max()) if bool(finite.any()) else 1.0
    return bool((finite == b.isfinite()).all()) and bool(((a - b)[finite].abs() <= SAME * scale).all())
