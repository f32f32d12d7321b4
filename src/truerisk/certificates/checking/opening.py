"""Open a certificate for verification: read all of it, and refuse what does not fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from truerisk.certificates.checking.reading import read_record, settings_of, stored_architecture
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.files import CERTIFICATE, OTHERS, decode, encode, read_files, refuse_other_forms
from truerisk.certificates.methods import Method, find_method
from truerisk.certificates.priors import random_weights
from truerisk.certificates.record import spend
from truerisk.certificates.settings import Settings, tried_before
from truerisk.data import Data, load
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import BUILTIN, Architecture

# Names that may be loaded because a certificate says so: they read known files or generate, nothing else.
SAFE_SOURCES = ("digits", "mnist1d", "mnist", "fashion-mnist", "cifar-10")


@dataclass
class Verification:
    """The bound derived here, the claimed one, what was checked, what was noticed, and what can't be checked."""

    risk_bound: float = 1.0
    delta: float = 1.0  # the bound fails with at most this probability
    claimed: float = 1.0
    after_tries: float = 1.0  # what the bound would be, had ``TRIES`` seeds, splits or draws been tried in secret
    checked: list[str] = field(default_factory=list)
    noticed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One certificate under verification. Nothing but settings, hashes and the last comparison reads ``claims``."""

    claims: Mapping[str, Any]
    settings: Settings
    method: Method
    data: Data
    arch: Architecture
    stored: Evidence
    result: Verification


def open_case(folder: Path, data: object, model: object, data_dir: str | Path | None) -> Case:
    """Read everything; refuse what does not fit together."""
    claims, result = read_record(folder), Verification()
    files = read_files(folder, claims["files"])
    result.checked.append(f"{len(files)} files have the hashes that the certificate names")
    loaded = _data(claims, data, data_dir)
    result.checked.append(f"the data is the one that was certified ({len(loaded):,} examples)")
    if (claims["data"]["input_shape"], claims["data"]["classes"]) != (list(loaded.input_shape), loaded.classes):
        raise VerificationError(
            "the certificate states another shape of inputs or number of classes than the data has."
        )
    settings = settings_of(claims)
    result.delta = settings.delta
    arch, stored = _network(claims, model, files, settings.trust_factory or settings.prior == "none")
    _check_delta(folder, settings, loaded, arch)
    method = find_method(settings.method)
    _check_random(settings, arch, stored)
    return Case(claims, settings, method, loaded, arch, stored, result)


def _network(
    claims: dict[str, Any], model: object, files: dict[str, bytes], trust: bool
) -> tuple[Architecture, Evidence]:
    arch = None
    try:
        arch = stored_architecture(claims, model, sum(map(len, files.values())), trust_factory=trust)
        stored = decode(files, arch.template())
        refuse_other_forms(files, encode(stored))
        return arch, stored
    except TrueriskError as error:
        # Without a model of the user's, a missing --model is the user's slip; all else is the certificate's.
        if arch is None and model is None and claims["model"].get("kind") != BUILTIN:
            raise
        raise VerificationError(f"the stored network does not hold: {error}") from error


def _check_delta(folder: Path, settings: Settings, data: Data, arch: Architecture) -> None:
    """The ledger must pay for everything that was compared on this data, by this user or before."""
    try:
        spend(settings)
    except TrueriskError as error:
        raise VerificationError(str(error)) from error
    if settings.model_kind != arch.kind:
        raise VerificationError(
            f"the certificate says that its network came as a {settings.model_kind}, but this one is a {arch.kind}; "
            "give the model that was certified."
        )
    owed = 1 if settings.prior == "none" else tried_before(arch, data, settings.prior, settings.seed)
    if settings.tried < owed:
        raise VerificationError("the ledger does not pay for the configurations that were compared on this data.")
    beside = len(list(folder.glob(f"{OTHERS}/*/{CERTIFICATE}")))
    if settings.methods < 1 + beside:
        raise VerificationError(
            f"the ledger does not pay for the {beside} other methods whose certificates are in {OTHERS}/."
        )


def _check_random(settings: Settings, arch: Architecture, stored: Evidence) -> None:
    """Every distribution must be over the weights that the settings leave to chance: fixed ones pay no KL."""
    if not stored.gaussians:
        return
    expected = random_weights(settings, arch.template())
    for name, gaussian in stored.gaussians.items():
        if gaussian.mean.keys() != expected:
            raise VerificationError(f"the {name} is over other weights than those that the settings leave to chance.")


def _data(claims: dict[str, Any], data: object, data_dir: str | Path | None) -> Data:
    claimed, given = claims["data"], data is not None
    if not given:
        source = str(claimed.get("source"))
        if source.removesuffix(":test") not in SAFE_SOURCES:
            raise TrueriskError(
                f"the certificate is about your own data ({claimed.get('name')}); give it again (--data)."
            )
        data = source
    loaded = load(data, data_dir)
    if loaded.sha256 != claimed.get("sha256"):
        raise VerificationError(
            f"{loaded.name} is not the data that was certified (its sha256 differs); give the same data."
        )
    if given:  # other names for the same numbers are fine: the hash decides
        return replace(loaded, name=str(claimed.get("name")), source=claimed.get("source"))
    return loaded
