"""What a forger has: every formula, every seed and every hash of the program. Only what nobody can know is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truerisk.atomic import write_atomically
from truerisk.certificates import Certificate
from truerisk.certificates.counts import Counts
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.files import encode
from truerisk.certificates.frozen import Frozen, digest, hashes
from truerisk.certificates.pipeline import derived, seal
from truerisk.certificates.settings import Settings
from truerisk.data import Data


@dataclass(frozen=True)
class Forged(Certificate):
    """A certificate whose file claims something else."""

    claims: tuple[tuple[str, Any], ...] = ()

    def save(self, folder: str | Path, force: bool = False) -> Path:
        path = super().save(folder, force)
        write_atomically(path, json.dumps({**self.to_json(), **dict(self.claims)}).encode())
        return path


def settings_of(cert: Certificate) -> Settings:
    return cert.record.settings


def frozen(settings: Settings, data: Data, evidence: Evidence) -> Frozen:
    """As ``freeze`` makes it, whatever the evidence."""
    files = encode(evidence)
    return Frozen(evidence, files, digest(settings, data.sha256, hashes(files)))


def counted(settings: Settings, data: Data, made: Frozen) -> Counts:
    return settings.method.count(settings, data, made, made.seed)


def sealed(
    settings: Settings, data: Data, evidence: Evidence, counts: Counts | None = None, /, **claims: Any
) -> Forged:
    """The certificate that ``certify`` would make of this evidence, with ``claims`` in place of its own."""
    made = frozen(settings, data, evidence)
    counts = counts or counted(settings, data, made)
    return Forged(seal(settings, data, made, counts, derived(settings, counts)), made, claims=tuple(claims.items()))


def saved(cert: Certificate, folder: Path) -> Path:
    cert.save(folder, force=True)
    return folder
