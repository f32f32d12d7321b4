"""A certificate: its numbers, the predictor they are about, and the files that let anyone check them."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from truerisk._version import __version__
from truerisk.atomic import write_atomically
from truerisk.certificates.checking.reading import FORMAT, read_record, settings_of, stored_architecture
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.files import CERTIFICATE, OTHERS, decode, read_files, to_json
from truerisk.certificates.frozen import Frozen, digest, hashes
from truerisk.certificates.methods import METHODS, find_method
from truerisk.certificates.settings import Settings
from truerisk.certificates.software import software
from truerisk.errors import TrueriskError


@dataclass(frozen=True)
class Certificate:
    """An upper bound on the true risk that fails with probability at most ``delta``.

    ``record`` is what ``certificate.json`` holds; the commonest fields are attributes too.
    """

    record: dict[str, Any]
    frozen: Frozen = field(repr=False)
    others: tuple[Certificate, ...] = field(default=(), repr=False)  # by other methods, from the least bound up

    @property
    def evidence(self) -> Evidence:
        """The split, the networks and the distributions, as the files hold them."""
        return self.frozen.evidence

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
        return find_method(settings.method).predict(settings, self.frozen, X, draw_seed)

    def save(self, folder: str | Path) -> Path:
        """Write weights, split and ``certificate.json`` (last, so that a certificate is never half there).

        Certificates by other methods go to ``others/METHOD/``; older ones that are there are removed.
        """
        folder = Path(folder)
        (folder / CERTIFICATE).unlink(missing_ok=True)
        for name in METHODS:
            if (folder / OTHERS / name / CERTIFICATE).is_file():
                shutil.rmtree(folder / OTHERS / name)
        for other in self.others:
            other.save(folder / OTHERS / other.record["method"])
        for name, content in self.frozen.files.items():
            write_atomically(folder / name, content)
        write_atomically(folder / CERTIFICATE, to_json(self.record))
        return folder / CERTIFICATE

    @classmethod
    def load(cls, folder: str | Path, model: object = None) -> Certificate:
        """Read a saved certificate and check its files' hashes; ``verify`` is what checks its numbers."""
        record = read_record(folder)
        settings = settings_of(record)
        files = read_files(Path(folder), record["files"])
        size = sum(map(len, files.values()))
        evidence = decode(files, stored_architecture(record, model, size).template())
        origins = find_method(settings.method).origins(settings)
        seed = digest(settings, record["data"]["sha256"], record["files"], origins)
        return cls(record, Frozen(evidence, files, seed))


def complete(record: dict[str, Any], settings: Settings, frozen: Frozen) -> dict[str, Any]:
    """Add what is not derived from data: settings, hashes of files, versions."""
    extra = {
        "model": {"name": settings.model, "kind": settings.model_kind},
        "settings": settings.record(),
        "files": hashes(frozen.files),
        "software": software(),
        "version": __version__,
    }
    return {"format": FORMAT, **record, **extra}
