"""Read what a certificate claims. Whoever wrote the file may be a forger: nothing in it is run or believed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from truerisk.certificates.evidence import SPLIT
from truerisk.certificates.files import CERTIFICATE, SUFFIX
from truerisk.certificates.methods import find_method
from truerisk.certificates.settings import Settings
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import BUILTIN, Architecture, architecture, builtin

FORMAT = 3
OBJECTS = ("settings", "files", "data", "model", "software")
# Fields that say how a certificate was made. Nothing follows from them, so nothing can contradict them.
UNCHECKED = ("software", "version")


def read_record(folder: str | Path) -> dict[str, Any]:
    """``certificate.json`` as a dictionary with the fields that every certificate has."""
    path = Path(folder) / CERTIFICATE
    if not path.is_file():
        raise TrueriskError(f"there is no {CERTIFICATE} in {folder}; give the folder that certify wrote.")
    try:
        record = json.loads(path.read_bytes(), object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise VerificationError(f"{path} is not JSON that has one reading ({error}).") from error
    if not isinstance(record, dict) or type(record.get("format")) is not int:
        raise VerificationError(f"{path} is not a truerisk certificate.")
    if record["format"] != FORMAT:
        raise VerificationError(
            f"{path} has format {record['format']}, but this version of truerisk reads format {FORMAT}; certify again."
        )
    missing = [name for name in OBJECTS if not isinstance(record.get(name), dict)]
    if missing:
        raise VerificationError(f"{path} has no field {', '.join(missing)}.")
    _check_shapes(record, path)
    return record


def settings_of(record: dict[str, Any]) -> Settings:
    """The settings of a certificate, of a method that is known and takes them, with the files that go with them."""
    try:
        settings = Settings.from_record(record["settings"])
        method = find_method(settings.method)
        method.refuse(settings)
        origins = method.origins(settings)
    except TrueriskError as error:
        raise VerificationError(str(error)) from error
    needed = {name for name, file in origins.items() if not file.optional}
    given = {name.removesuffix(SUFFIX) for name in record["files"]}
    fits = all(name.endswith(SUFFIX) for name in record["files"]) and needed <= given <= origins.keys()
    if not fits or record["model"] != {"name": settings.model, "kind": settings.model_kind}:
        raise VerificationError("the certificate's model or list of files does not fit its settings.")
    return settings


def stored_architecture(
    record: dict[str, Any], model: object, size: int, *, trust_factory: bool = True
) -> Architecture:
    """The architecture a certificate speaks of. Code that only the certificate names is never imported.

    Unless ``trust_factory`` says otherwise, a factory whose weights may have been learnt is refused as in ``certify``.
    ``size``: bytes in all files. A built-in network that does not fit into them is refused before it is built.
    """
    shape, classes = record["data"]["input_shape"], record["data"]["classes"]
    if model is not None:
        return architecture(model, shape, classes, trust_factory=trust_factory)
    name, kind = str(record["model"].get("name")), record["model"].get("kind")
    if kind != BUILTIN:
        raise TrueriskError(
            f"the certificate is about your own model {name}; give it again (--model file.py:factory), because "
            "code that only a certificate names is never run."
        )
    _refuse_huge(name, shape, classes, size)
    return architecture(name, shape, classes)


def _refuse_huge(name: str, shape: list[int], classes: int, size: int) -> None:
    """Refuse what is not a built-in name, and networks with more weights than the files can hold."""
    import torch

    try:
        with torch.device("meta"):
            weights = sum(p.numel() for p in builtin(name, shape, classes).parameters())
    except (RuntimeError, TypeError, OverflowError) as error:
        raise VerificationError(
            f"the network {name[:100]} can't be built ({' '.join(str(error).split())[:200]})."
        ) from error
    if 4 * weights > size:
        raise VerificationError(f"the network {name[:100]} has more weights than the certificate's files hold.")


def _check_shapes(record: dict[str, Any], path: Path) -> None:
    data, files = record["data"], record["files"]
    shape = data.get("input_shape")
    sizes = [*(shape if isinstance(shape, list) else [None]), data.get("classes")]
    if not all(type(size) is int and size > 0 for size in sizes):
        raise VerificationError(f"{path} does not say the shape of the inputs and the number of classes.")
    if not all(isinstance(text, str) for text in (data.get("sha256"), *files.values())):
        raise VerificationError(f"{path} has a sha256 that is not text.")
    if f"{SPLIT}{SUFFIX}" not in files:
        raise VerificationError(f"{path} names no file with its split.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that names a field twice: programs differ in which of the two they read."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} is there twice")
    if any(isinstance(value, float) and not math.isfinite(value) for value in found.values()):
        raise ValueError("a number is too large")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")
