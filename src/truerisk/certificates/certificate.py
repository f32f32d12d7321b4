"""A certificate: its numbers, the predictor they are about, and the files that let anyone check them."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truerisk.atomic import write_atomically
from truerisk.certificates.methods import METHODS
from truerisk.certificates.record import Fit, Record
from truerisk.certificates.settings import check_seed
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from torch import Tensor

    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen
    from truerisk.certificates.ledger import Entry

CERTIFICATE = "certificate.json"
OTHERS = "others"  # the folder of certificates by other methods


@dataclass(frozen=True)
class Certificate:
    """An upper bound on the true risk that fails with probability at most ``delta``.

    ``record`` is all that it says, and ``to_json`` what ``certificate.json`` holds; the most used numbers are
    attributes too.
    """

    record: Record
    frozen: Frozen = field(repr=False)
    others: tuple[Certificate, ...] = field(default=(), repr=False)  # by other methods, from the least bound up

    @property
    def evidence(self) -> Evidence:
        """The split, the networks and the distributions, as the files hold them."""
        return self.frozen.evidence

    @property
    def risk_bound(self) -> float:
        """The true risk is at most this."""
        return self.record.derivation.risk_bound

    @property
    def risk_lower(self) -> float | None:
        """The true risk is at least this; None unless both ends were asked for (``two_sided=True``)."""
        lower = self.record.derivation.lower
        return None if lower is None else lower.risk

    @property
    def fit(self) -> Fit | None:
        """Training error, gap to unseen examples and a diagnosis; None where the training error is not known."""
        return self.record.fit

    @property
    def empirical_risk(self) -> float:
        """Observed error rate on the certification examples (for a stochastic predictor: of the sampled networks)."""
        return self.record.derivation.empirical_risk

    @property
    def kl(self) -> float | None:
        """KL(posterior, prior) in nats, or None for a hold-out certificate."""
        return None if self.record.derivation.kl is None else self.record.derivation.kl.kl

    @property
    def kl_unrescaled(self) -> float | None:
        """The KL before rescaling."""
        return None if self.record.derivation.kl is None else self.record.derivation.kl.original

    @property
    def floor(self) -> float:
        """The hold-out baseline: a bound that you could use instead."""
        return self.record.floor.bound

    @property
    def ledger(self) -> list[Entry]:
        """How the union bound splits delta: events and their shares."""
        return self.record.ledger

    @property
    def assumptions(self) -> list[str]:
        """What the certificate assumes."""
        return list(self.record.assumptions)

    @property
    def delta(self) -> float:
        """The failure probability of the certificate."""
        return self.record.settings.delta

    @property
    def sentence(self) -> str:
        """The certificate in one sentence, or two if its predictor samples."""
        return self.record.sentence

    @property
    def table(self) -> list[dict[str, Any]]:
        """This certificate and the others that share its delta, one row each."""
        columns = ("method", "predictor", "risk_bound", "empirical_risk", "kl", "floor")
        rows = (each.to_json() for each in (self, *self.others))
        return [{column: row[column] for column in columns} for row in rows]

    def to_json(self) -> dict[str, Any]:
        """What ``certificate.json`` holds."""
        return self.record.to_json()

    def predictor(self, x: np.ndarray | Tensor, seed: int | None = None) -> np.ndarray:
        """Labels for a batch of inputs by exactly the predictor that was certified.

        A stochastic predictor resamples its weights for each example; ``seed`` makes this repeatable.
        """
        from truerisk.data import load_inputs

        X = load_inputs(x if hasattr(x, "detach") else np.asarray(x)).X  # bytes are scaled as they were for certifying
        data, settings = self.record.data, self.record.settings
        shape = data.input_shape
        if X.shape[1:] != shape or not len(X):
            raise TrueriskError(
                f"the inputs have shape {X.shape}, but the predictor takes (n, {str(shape)[1:]}; reshape them."
            )
        if data.integers and X.dtype != np.int64:
            raise TrueriskError("the inputs are real numbers, but the predictor takes integers; give integers.")
        X = X if data.integers else X.astype(np.float32, copy=False)
        draw_seed = secrets.randbits(63) if seed is None else seed
        check_seed(draw_seed)
        try:
            return settings.method.predict(settings, self.frozen, X, draw_seed)
        except (RuntimeError, IndexError) as error:  # a token that was never seen, say
            detail = " ".join(str(error).split())[:200]
            raise TrueriskError(f"the network does not run on these inputs ({detail}); correct the inputs.") from error

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
            other.save(folder / OTHERS / other.record.settings.method.name)
        for name, content in self.frozen.files.items():
            write_atomically(folder / name, content)
        write_atomically(folder / CERTIFICATE, as_text(self.to_json()))
        return folder / CERTIFICATE

    @classmethod
    def load(cls, folder: str | Path, model: object = None) -> Certificate:
        """Read a saved certificate and check its files' hashes; ``verify`` is what checks its numbers."""
        from truerisk.certificates.checking.opening import stored_architecture
        from truerisk.certificates.checking.reading import read_record
        from truerisk.certificates.files import decode, read_files
        from truerisk.certificates.frozen import Frozen, digest

        record = read_record(folder)
        files = read_files(Path(folder), record.files)
        arch = stored_architecture(record, model, sum(map(len, files.values())))
        settings = record.settings
        evidence = decode(files, arch.template(), settings.method.origins(settings))
        return cls(record, Frozen(evidence, files, digest(settings, record.data.sha256, record.files)))


def as_text(json: dict[str, Any]) -> bytes:
    """Stable, readable JSON without NaN or infinity."""
    return (dumps(json, indent=2, allow_nan=False) + "\n").encode()
