"""Open a certificate for verification: read all of it, and refuse what does not fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from truerisk.certificates.charge import TUNED_ON, tried_before
from truerisk.certificates.checking.reading import read_record
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.files import decode, encode, read_files, refuse_other_forms
from truerisk.certificates.folder import CERTIFICATE, OTHERS
from truerisk.certificates.given import is_known
from truerisk.certificates.record import Record
from truerisk.certificates.settings import Settings
from truerisk.certificates.workshop.priors import random_weights
from truerisk.data import Data, load
from truerisk.errors import TrueriskError, VerificationError
from truerisk.names import PROBABILITIES
from truerisk.nets import BUILTIN, Architecture, architecture, builtin, refitted
from truerisk.nets.adapt import are_probabilities


@dataclass
class Verification:
    """The bound derived here, the claimed one, what was checked, what was noticed, and what can't be checked."""

    risk_bound: float = 1.0
    risk_lower: float | None = None  # derived here too, where the certificate has both ends
    delta: float = 1.0  # the bound fails with at most this probability
    claimed: float = 1.0
    after_tries: float = 1.0  # what the bound would be, had ``TRIES`` seeds, splits or draws been tried in secret
    checked: list[str] = field(default_factory=list)
    noticed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One certificate under verification. Nothing but settings, hashes and the last comparison reads ``claimed``."""

    claimed: Record
    data: Data
    arch: Architecture
    stored: Evidence
    files: Mapping[str, bytes]  # the stored evidence as ``encode`` writes it
    result: Verification

    @property
    def settings(self) -> Settings:
        return self.claimed.settings


def open_case(folder: Path, data: object, model: object, data_dir: str | Path | None) -> Case:
    """Read everything; refuse what does not fit together."""
    claimed, result = read_record(folder), Verification()
    settings = claimed.settings
    files = read_files(folder, claimed.files)
    result.checked.append(f"{len(files)} files have the hashes that the certificate names")
    loaded = _data(claimed, data, data_dir, result)
    result.checked.append(f"the data is the certified data ({len(loaded):,} examples)")
    if (claimed.data.input_shape, claimed.data.classes) != (tuple(loaded.input_shape), loaded.classes):
        raise VerificationError(
            "the certificate and the data differ in input shape or number of classes; give the certified data."
        )
    result.delta = settings.delta
    arch, stored, again = _network(claimed, model, loaded, files)
    _check_delta(folder, settings, loaded, arch)
    _check_outputs(settings, loaded, stored)
    _check_random(settings, arch, stored)
    return Case(claimed, loaded, arch, stored, again, result)


def stored_architecture(
    record: Record, model: object, size: int, *, data: Data | None = None, trust_factory: bool = True
) -> Architecture:
    """The architecture a certificate speaks of. Code that only the certificate names is never imported.

    Unless ``trust_factory`` says otherwise, a factory whose weights may have been learned is refused as in ``certify``.
    ``data``: the certified data, where it is there. ``size``: bytes in all files. A built-in network that does not fit
    into them is refused before it is built.
    """
    shape, classes, settings = list(record.data.input_shape), record.data.classes, record.settings
    if model is not None:
        own = architecture(model, shape, classes, trust_factory=trust_factory)
        blank = np.repeat(record.data.blank, 4, axis=0)
        return refitted(own, [*([] if data is None else [data.X[:4]]), blank, blank + 1], classes, settings.outputs)
    if settings.model_kind == BUILTIN and settings.outputs:
        raise VerificationError(
            "a built-in network has several outputs per example, but outputs is set; certify again."
        )
    if settings.model_kind != BUILTIN:
        raise TrueriskError(
            f"the certificate is about your own model {settings.model}, and code that only a certificate names never "
            "runs; give the model (--model FILE.py:NAME)."
        )
    _refuse_huge(settings.model, shape, classes, size)
    return architecture(settings.model, shape, classes)


def _refuse_huge(name: str, shape: list[int], classes: int, size: int) -> None:
    """Refuse what is not a built-in name, and networks with more weights than the files can hold."""
    import torch

    try:
        with torch.device("meta"):
            weights = sum(p.numel() for p in builtin(name, shape, classes).parameters())
    except (RuntimeError, TypeError, OverflowError) as error:
        raise VerificationError(
            f"the network {name[:100]} cannot be built ({' '.join(str(error).split())[:200]})."
        ) from error
    if 4 * weights > size:
        raise VerificationError(f"the network {name[:100]} has more weights than the files hold; certify again.")


def _network(
    claimed: Record, model: object, data: Data, files: dict[str, bytes]
) -> tuple[Architecture, Evidence, dict[str, bytes]]:
    arch, settings = None, claimed.settings
    trust = settings.trust_factory or settings.prior.trained
    try:
        arch = stored_architecture(claimed, model, sum(map(len, files.values())), data=data, trust_factory=trust)
        stored = decode(files, arch.template(), settings.method.origins(settings))
        again = encode(stored)
        refuse_other_forms(files, again)
        return arch, stored, again
    except TrueriskError as error:
        # A model that is missing, or that cannot be found, is the user's slip; all else is the certificate's.
        if arch is None and (model is not None or settings.model_kind != BUILTIN):
            raise
        raise VerificationError(f"the stored network cannot be used: {error}") from error


def _check_delta(folder: Path, settings: Settings, data: Data, arch: Architecture) -> None:
    """Delta must cover everything that was compared on this data, by this user or before."""
    try:
        settings.ledger  # noqa: B018  refuses what cannot be split
    except TrueriskError as error:
        raise VerificationError(str(error)) from error
    if settings.model_kind != arch.kind:
        raise VerificationError(
            f"the model is a {arch.kind}, but the certified one was a {settings.model_kind}; give the model that was "
            "certified."
        )
    if settings.tried < tried_before(arch, data, settings.prior, settings.seed):
        raise VerificationError(
            "delta is not split over the configurations that were compared on this data; certify again."
        )
    beside = len(list(folder.glob(f"{OTHERS}/*/{CERTIFICATE}")))
    if settings.methods < 1 + beside:
        raise VerificationError(
            f"delta is not split over the {beside} other methods with certificates in {OTHERS}/; certify again."
        )


def _check_outputs(settings: Settings, data: Data, stored: Evidence) -> None:
    """Outputs that are read as probabilities must be some: else their threshold would be anyone's choice."""
    if settings.outputs == PROBABILITIES and not all(are_probabilities(n, data) for n in stored.networks.values()):
        raise VerificationError("the outputs of the network are not probabilities, as the settings say; certify again.")


def _check_random(settings: Settings, arch: Architecture, stored: Evidence) -> None:
    """Every distribution must be over the weights that the settings leave to chance: fixed ones add no KL."""
    if not stored.gaussians:
        return
    expected = random_weights(settings, arch.template())
    for name, gaussian in stored.gaussians.items():
        if gaussian.mean.keys() != expected:
            raise VerificationError(f"the {name} is over other weights than the settings make random; certify again.")


def _data(record: Record, data: object, data_dir: str | Path | None, result: Verification) -> Data:
    claimed, given = record.data, data is not None
    if not given:
        if not is_known(claimed.source):
            raise TrueriskError(f"the certificate is about your own data ({claimed.name}); give this data (--data).")
        data = claimed.source
    loaded = load(data, data_dir)
    loaded = loaded if claimed.integers else loaded.floats()
    if loaded.sha256 != claimed.sha256:
        raise VerificationError(
            f"{loaded.name} is not the certified data (its sha256 differs); give the certified data."
        )
    known = TUNED_ON.get(str(claimed.source))
    if known is not None and known != loaded.sha256:
        raise VerificationError(
            f"the certificate calls its data {claimed.source}, but it is another dataset; give the certified data."
        )
    if given:  # other names for the same numbers are fine: the hash decides
        if loaded.class_names and claimed.class_names and loaded.class_names != claimed.class_names:
            result.noticed.append("the certificate and the data give the classes other names; the numbers agree")
        if loaded.feature_names and claimed.feature_names and loaded.feature_names != claimed.feature_names:
            result.noticed.append("the certificate and the data give the columns other names; the numbers agree")
        return replace(
            loaded,
            name=claimed.name,
            source=claimed.source,
            class_names=claimed.class_names,
            feature_names=claimed.feature_names,
        )
    return loaded
