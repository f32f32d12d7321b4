"""A certificate: its numbers, the predictor they are about, and the files that let anyone check them."""

from __future__ import annotations

import json
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from truerisk._version import __version__
from truerisk.atomic import write_atomically
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.files import (
    CERTIFICATE,
    decode,
    encode,
    read_files,
    sha256,
    to_json,
)
from truerisk.certificates.methods import METHODS, find_method
from truerisk.certificates.settings import Settings
from truerisk.certificates.software import software
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import BUILTIN, Architecture, architecture, builtin

FORMAT = 2
OTHERS = "others"  # the folder of certificates by other methods


@dataclass(frozen=True)
class Certificate:
    """An upper bound on the true risk that fails with probability at most ``delta``.

    ``record`` is what ``certificate.json`` holds; the commonest fields are attributes too.
    """

    record: dict[str, Any]
    evidence: Evidence
    others: tuple[Certificate, ...] = field(default=(), repr=False)  # by other methods, from the least bound up

    @property
    def risk_bound(self) -> float:
        """The true risk is at most this."""
        return float(self.record["risk_bound"])

    @property
    def empirical_risk(self) -> float:
        """Error rate seen on the certifying examples (for a stochastic predictor: of the drawn networks)."""
        return float(self.record["empirical_risk"])

    @property
    def kl(self) -> float | None:
        """KL(posterior, prior) in nats, or None for a hold-out certificate."""
        return None if self.record["kl"] is None else float(self.record["kl"])

    @property
    def kl_unrescaled(self) -> float | None:
        """The KL before rescaling."""
        value = self.record["kl_unrescaled"]
        return None if value is None else float(value)

    @property
    def floor(self) -> float:
        """The hold-out bound that a user would pick instead."""
        return float(self.record["floor"])

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """The events that delta is spent on."""
        return list(self.record["ledger"])

    @property
    def assumptions(self) -> list[str]:
        """What the certificate takes for granted."""
        return list(self.record["assumptions"])

    @property
    def delta(self) -> float:
        """The probability with which the certificate may be wrong."""
        return float(self.record["delta"])

    @property
    def sentence(self) -> str:
        """The certificate in one sentence."""
        return str(self.record["sentence"])

    @property
    def table(self) -> list[dict[str, Any]]:
        """This certificate and the others that share its delta, one row each."""
        columns = ("method", "predictor", "risk_bound", "empirical_risk", "kl", "floor")
        return [{column: each.record[column] for column in columns} for each in (self, *self.others)]

    def predictor(self, x: np.ndarray | Tensor, seed: int | None = None) -> np.ndarray:
        """Labels for a batch of inputs by exactly the predictor that was certified.

        A stochastic predictor draws new weights for each example; ``seed`` makes its draws repeatable.
        """
        X = np.ascontiguousarray(x.detach().cpu().numpy() if isinstance(x, Tensor) else x, dtype=np.float32)
        shape = tuple(self.record["data"]["input_shape"])
        if X.shape[1:] != shape or not len(X):
            raise TrueriskError(f"the inputs have shape {X.shape}, but the predictor takes (n, {str(shape)[1:]}.")
        settings = Settings.from_record(self.record["settings"])
        draw_seed = secrets.randbits(63) if seed is None else seed
        return find_method(settings.method).predict(settings, self.evidence, X, draw_seed)

    def save(self, folder: str | Path) -> Path:
        """Write weights, split and ``certificate.json`` (last, so that a certificate is never half there).

        Certificates by other methods go to ``others/METHOD/``; older ones that are there are removed.
        """
        folder = Path(folder)
        files = encode(self.evidence)
        (folder / CERTIFICATE).unlink(missing_ok=True)
        for name in METHODS:
            if (folder / OTHERS / name / CERTIFICATE).is_file():
                shutil.rmtree(folder / OTHERS / name)
        for other in self.others:
            other.save(folder / OTHERS / other.record["method"])
        for name, content in files.items():
            write_atomically(folder / name, content)
        write_atomically(folder / CERTIFICATE, to_json(self.record))
        return folder / CERTIFICATE

    @classmethod
    def load(cls, folder: str | Path, model: object = None) -> Certificate:
        """Read a saved certificate and check its files' hashes; ``verify`` is what checks its numbers."""
        record = read_record(folder)
        files = read_files(Path(folder), record["files"])
        return cls(record, decode(files, stored_architecture(record, model).template()))


def complete(record: dict[str, Any], settings: Settings, evidence: Evidence) -> dict[str, Any]:
    """Add what is not derived from data: settings, hashes of files, versions."""
    hashes = {name: sha256(content) for name, content in encode(evidence).items()}
    extra = {"settings": settings.record(), "files": hashes, "software": software(), "version": __version__}
    return {"format": FORMAT, **record, **extra}


def read_record(folder: str | Path) -> dict[str, Any]:
    """``certificate.json`` as a dictionary with the fields that every certificate has."""
    path = Path(folder) / CERTIFICATE
    if not path.is_file():
        raise TrueriskError(f"there is no {CERTIFICATE} in {folder}; give the folder that certify wrote.")
    try:
        record = json.loads(path.read_bytes())
    except (ValueError, UnicodeDecodeError) as error:
        raise VerificationError(f"{path} is not JSON ({error}).") from error
    if not isinstance(record, dict) or type(record.get("format")) is not int or record["format"] != FORMAT:
        raise VerificationError(f"{path} is not a truerisk certificate of format {FORMAT}.")
    missing = [k for k in ("settings", "files", "data", "model", "software") if not isinstance(record.get(k), dict)]
    if missing:
        raise VerificationError(f"{path} has no field {', '.join(missing)}.")
    shape = record["data"].get("input_shape")
    sizes = [*(shape if isinstance(shape, list) else [None]), record["data"].get("classes")]
    if not all(type(size) is int and size > 0 for size in sizes):
        raise VerificationError(f"{path} does not say the shape of the inputs and the number of classes.")
    return record


def stored_architecture(record: dict[str, Any], model: object) -> Architecture:
    """The architecture a certificate speaks of. Code that only the certificate names is never imported."""
    shape, classes = record["data"]["input_shape"], record["data"]["classes"]
    if model is not None:
        return architecture(model, shape, classes, trust_factory=True)
    name, kind = str(record["model"].get("name")), record["model"].get("kind")
    if kind != BUILTIN:
        raise TrueriskError(
            f"the certificate is about your own model {name}; give it again (--model file.py:factory), because "
            "code that only a certificate names is never run."
        )
    builtin(name, shape, classes)  # refuses everything that is not a built-in name
    return architecture(name, shape, classes)
