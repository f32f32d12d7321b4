"""Re-derive a certificate from its files and its data, and compare every number.

What is checked: the hashes of all files; that the data is the same; that the split is a partition, and
the one that the seed gives; that a data-free prior is the one that the seed gives; every count of errors,
by repeating the draws from their seed; the KL; the ledger; the bound and every other derived field.
What can't be checked without training again is said in ``Verification.unchecked``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from truerisk.certificates.case import Case, Verification
from truerisk.certificates.certificate import OTHERS, read_record, stored_architecture
from truerisk.certificates.evidence import Evidence, split_data
from truerisk.certificates.files import CERTIFICATE, SPLIT, SUFFIX, decode, read_files
from truerisk.certificates.methods import find_method
from truerisk.certificates.record import assemble, differs, spend
from truerisk.certificates.repeat import recount
from truerisk.certificates.settings import Settings, already_tried
from truerisk.certificates.trainer import Fit
from truerisk.data import Data, check_partition, load
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import BUILTIN, Architecture

# Names that may be loaded because a certificate says so: they read known files or generate, nothing else.
SAFE_SOURCES = ("digits", "mnist1d", "mnist", "fashion-mnist", "cifar-10")


def verify(
    folder: str | Path,
    data: object = None,
    model: object = None,
    *,
    retrain: bool = False,
    fit: Fit | None = None,
    data_dir: str | Path | None = None,
) -> Verification:
    """Check the certificate in ``folder``; raise VerificationError at the first thing that does not hold.

    ``data`` and ``model`` are needed where the certificate is not about a known data set and a built-in
    network. ``retrain=True`` trains the prior again from its seed (``fit``: with your own function).
    """
    record, result = read_record(folder), Verification()
    files = read_files(Path(folder), record["files"])
    result.checked.append(f"{len(files)} files have the hashes that the certificate names")
    loaded = _data(record, data, data_dir)
    result.checked.append(f"the data is the one that was certified ({len(loaded):,} examples)")
    settings = _settings(record, loaded)
    arch, evidence = _network(record, model, files)
    _check_others(Path(folder), settings)
    case = Case(settings, loaded, arch, evidence, record, result)
    _check_split(case)
    find_method(settings.method).origin(case, retrain, fit)
    facts = recount(case)
    _compare(assemble(settings, loaded, evidence, facts), record)
    result.checked.append("the KL, the ledger, the bound and every other number follow from the files")
    result.unchecked.append("that the examples are independent draws, without near copies or groups")
    if settings.prior != "none":
        result.unchecked.append(f"that no more than {settings.tried} configurations were compared on this data")
    return result


def _network(record: dict[str, Any], model: object, files: dict[str, bytes]) -> tuple[Architecture, Evidence]:
    arch = None
    try:
        arch = stored_architecture(record, model)
        return arch, decode(files, arch.template())
    except TrueriskError as error:
        # Without a model of the user's, a missing --model is the user's slip; all else is the certificate's.
        if arch is None and model is None and record["model"].get("kind") != BUILTIN:
            raise
        raise VerificationError(f"the stored network does not hold: {error}") from error


def _settings(record: dict[str, Any], data: Data) -> Settings:
    try:
        settings = Settings.from_record(record["settings"])
        find_method(settings.method).refuse(settings)
        spend(settings)
    except TrueriskError as error:
        raise VerificationError(str(error)) from error
    pairs = {"name": settings.model, "kind": settings.model_kind}
    if record["model"] != pairs or not _right_files(settings, set(record["files"])):
        raise VerificationError("the certificate's model or list of files does not fit its settings.")
    owed = (
        1
        if settings.prior == "none"
        else already_tried(settings.model, settings.model_kind, data, settings.prior, settings.seed)
    )
    if settings.tried < owed:
        raise VerificationError("the ledger does not pay for the configurations that were compared on this data.")
    return settings


def _check_others(folder: Path, settings: Settings) -> None:
    """Certificates by other methods that lie in ``others/`` must have been paid for."""
    beside = len(list(folder.glob(f"{OTHERS}/*/{CERTIFICATE}")))
    if settings.methods < 1 + beside:
        raise VerificationError(
            f"the ledger does not pay for the {beside} other methods whose certificates are in {OTHERS}/."
        )


def _right_files(settings: Settings, names: set[str]) -> bool:
    """All that the method needs and nothing that it does not know."""
    needed, optional = find_method(settings.method).files(settings)
    given = {name.removesuffix(SUFFIX) for name in names}
    return all(n.endswith(SUFFIX) for n in names) and needed | {SPLIT} <= given <= needed | optional | {SPLIT}


def _data(record: dict[str, Any], data: object, data_dir: str | Path | None) -> Data:
    claimed, given = record["data"], data is not None
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


def _check_split(case: Case) -> None:
    settings, parts = case.settings, case.evidence.parts
    try:
        check_partition(parts, len(case.data))
        expected = parts if settings.prior == "none" else split_data(settings, len(case.data))
    except TrueriskError as error:
        raise VerificationError(f"the split does not hold: {error}") from error
    for name in ("prior", "certify"):
        if getattr(parts, name).tolist() != getattr(expected, name).tolist():
            raise VerificationError(f"the split is not the one that seed {settings.seed} gives (set {name!r}).")
    case.result.checked.append("every example is in exactly one set of the split")
    if settings.prior != "none":
        case.result.checked.append(f"the split is the one that seed {settings.seed} gives")


def _compare(derived: dict[str, Any], record: dict[str, Any]) -> None:
    for name, value in derived.items():
        if name not in record:
            raise VerificationError(f"certificate.json has no field {name!r}.")
        if differs(record[name], value):
            raise VerificationError(f"{name} does not follow from the files: {_short(value)} is right.")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 200 else text[:200] + "..."
