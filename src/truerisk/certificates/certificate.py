"""A certificate: its numbers, the predictor they are about, and the files that let anyone check them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from importlib import import_module
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truerisk import words
from truerisk.certificates import folder as folders
from truerisk.certificates.folder import CERTIFICATE, OTHERS
from truerisk.certificates.given import Commands, Given, commands
from truerisk.certificates.record import Fit, Record
from truerisk.certificates.settings import check_seed
from truerisk.errors import TrueriskError
from truerisk.progress import printable

if TYPE_CHECKING:
    import pandas
    from torch import Tensor

    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen
    from truerisk.certificates.ledger import Entry

COLUMNS = ("method", "predictor", "risk_bound", "empirical_risk", "kl", "floor")  # of ``Certificate.table``


@dataclass(frozen=True, repr=False)
class Certificate:
    """An upper bound on the true risk that fails with probability at most ``delta``.

    ``record`` is all that it says, and ``to_json`` what ``certificate.json`` holds; the most used numbers are
    attributes too.
    """

    record: Record
    frozen: Frozen
    others: tuple[Certificate, ...] = ()  # by other methods, from the least bound up
    given: Given | None = field(default=None, compare=False)  # what it was made from, as its maker typed it

    def __repr__(self) -> str:
        """One line: the claim, and what it is about."""
        lower, record = self.risk_lower, self.record
        least = "" if lower is None else f"{words.lower(lower)} <= "
        sure = f"with {words.confidence_percent(self.delta)} confidence"
        claim = f"{least}true risk <= {words.bound(self.risk_bound)} {sure}"
        about = f"{record.settings.method.name}, {record.data.name}, n = {record.n_certify}"
        return f"Certificate({claim}; {printable(about)})"

    def _repr_html_(self) -> str:
        """The certificate in a notebook: its sentence and a picture."""
        pages = import_module("truerisk.report.notebook")  # by its name: pages know certificates, not the reverse
        return str(pages.html(self.record))

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

    def rows(self) -> list[dict[str, Any]]:
        """The rows of ``table`` as plain dictionaries; None where there is no KL."""
        found = (each.to_json() for each in (self, *self.others))
        return [{column: row[column] for column in COLUMNS} for row in found]

    @property
    def table(self) -> pandas.DataFrame:
        """method, predictor, risk_bound, empirical_risk, kl, floor: this certificate, then others that share its delta.

        Where there is no KL it is NaN.
        """
        import pandas

        return pandas.DataFrame(self.rows(), columns=list(COLUMNS)).astype({"kl": "float64"})

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
                f"the inputs have shape {X.shape}, but the predictor takes {('n', *shape)}; give inputs of that shape."
            )
        if data.integers and X.dtype != np.int64:
            raise TrueriskError("the inputs are real numbers, but the predictor takes integers; give integers.")
        X = X if data.integers else X.astype(np.float32, copy=False)
        draw_seed = secrets.randbits(63) if seed is None else seed
        check_seed(draw_seed)
        from truerisk.threads import limited

        try:
            with limited(settings.threads):
                return settings.method.predict(settings, self.frozen, X, draw_seed)
        except (RuntimeError, IndexError) as error:  # a token that was never seen, say
            detail = " ".join(str(error).split())[:200]
            raise TrueriskError(f"the network does not run on these inputs ({detail}); correct the inputs.") from error

    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Write weights, split, and ``certificate.json`` (last, so that a certificate is never half there).

        Certificates by other methods go to ``others/METHOD/``. A folder that holds another certificate is refused;
        with ``force`` that one is removed first, with all its files. ``commands(folder)`` says how to check this one.
        """
        folder = Path(folder)
        folders.refuse_measures(folder)
        if not force and not self._is_in(folder):
            folders.refuse_certificate(folder, "save into another folder, or replace it with force=True")
        folders.begin(folder, as_text(self.to_json()))
        for other in self.others:
            other.save(folder / OTHERS / other.record.settings.method.name, force)
        return folders.finish(folder, self.frozen.files)

    def _is_in(self, folder: Path) -> bool:
        """Whether this very certificate is there, with the same others."""
        places = [folder, *(folder / OTHERS / other.record.settings.method.name for other in self.others)]
        made = (self, *self.others)
        try:
            same = [(place / CERTIFICATE).read_bytes() for place in places] == [as_text(c.to_json()) for c in made]
        except OSError:
            return False
        return same and len(folders.others(folder)) == len(self.others)

    def commands(self, folder: str | Path) -> Commands:
        """How to check this certificate after ``save(folder)``: ``verify``, ``retrain`` (or empty), and ``predict``.

        Each works as it stands where the data and the model were given by name or path; for objects it is a call in
        Python. A loaded certificate does not know them: names in capitals stand for them.
        """
        return commands(self.record, str(folder), self.given)

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
