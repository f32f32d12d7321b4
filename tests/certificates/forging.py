"""What a forger has: every formula, every seed and every hash of the program. Only what nobody can know is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truerisk.certificates import Certificate
from truerisk.certificates.certificate import complete
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import Facts
from truerisk.certificates.files import encode
from truerisk.certificates.frozen import Frozen, digest, hashes
from truerisk.certificates.methods import find_method
from truerisk.certificates.record import assemble, measure
from truerisk.certificates.settings import Settings
from truerisk.data import Data


def settings_of(cert: Certificate) -> Settings:
    return Settings.from_record(cert.record["settings"])


def frozen(settings: Settings, data: Data, evidence: Evidence) -> Frozen:
    """As ``freeze`` makes it, whatever the evidence."""
    files = encode(evidence)
    origins = find_method(settings.method).origins(settings)
    return Frozen(evidence, files, digest(settings, data.sha256, hashes(files), origins))


def sealed(
    settings: Settings, data: Data, evidence: Evidence, facts: Facts | None = None, **claims: Any
) -> Certificate:
    """The certificate that ``certify`` would make of this evidence, with ``claims`` in place of its own."""
    made = frozen(settings, data, evidence)
    record = assemble(settings, data, evidence, facts or measure(settings, data, made))
    return Certificate({**complete(record, settings, made), **claims}, made)


def saved(cert: Certificate, folder: Path) -> Path:
    cert.save(folder)
    return folder
