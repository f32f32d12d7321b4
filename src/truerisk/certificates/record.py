"""From evidence to the numbers and sentences of ``certificate.json``.

``measure`` does the counting, ``assemble`` the arithmetic. Verification runs the same two on the stored
evidence and compares every field, so there is one place where a certificate is made.
"""

from __future__ import annotations

import math
from typing import Any

from truerisk.bounds import clopper_pearson
from truerisk.certificates import sentences
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import FLOOR, Facts
from truerisk.certificates.ledger import Entry, ledger
from truerisk.certificates.methods import find_method
from truerisk.certificates.settings import Settings
from truerisk.data import Data

# What a method need not say: a certificate without a posterior has no KL and no draws.
NOTHING = {"kl": None, "kl_unrescaled": None, "rescaling": None, "draws": None}


def measure(
    settings: Settings, data: Data, evidence: Evidence, claimed: dict[str, Any] | None = None, *, redraw: bool = False
) -> Facts:
    """Count all that the method counts; draws as ``claimed`` plans them, by default as many as time allows."""
    return find_method(settings.method).measure(settings, data, evidence, claimed, redraw)


def spend(settings: Settings) -> list[Entry]:
    """The ledger of these settings."""
    return ledger(settings.delta, settings.tried, find_method(settings.method).events(settings), settings.methods)


def assemble(settings: Settings, data: Data, evidence: Evidence, facts: Facts) -> dict[str, Any]:
    """Every derived field of the certificate."""
    method, entries, tested = find_method(settings.method), spend(settings), facts.counts[FLOOR]
    record: dict[str, Any] = {
        "method": settings.method,
        "predictor": method.predictor,
        "delta": settings.delta,
        "n_certify": len(evidence.parts.certify),
        "n_prior": len(evidence.parts.prior),
        "floor": clopper_pearson(tested.value, tested.trials, settings.delta),
        "floor_detail": {"errors": tested.value, "n": tested.trials, "what": method.floor(settings)},
        "counts": {name: count.value for name, count in facts.counts.items()},
        "ledger": entries,
        "data": {
            "name": data.name,
            "source": data.source,
            "n": len(data),
            "classes": data.classes,
            "input_shape": list(data.input_shape),
            "counts": data.counts.tolist(),
            "sha256": data.sha256,
        },
        "seed": settings.seed,
    }
    record |= NOTHING | method.derive(settings, evidence, facts, entries)
    record["assumptions"] = sentences.assumptions(settings, data, evidence.parts)
    record["assumptions"] += method.assumptions(settings, evidence)
    record["warnings"] = sentences.warnings(record, data, facts.duplicates, method.advice)
    record["sentence"] = sentences.headline(record, method.subject(settings))
    return record


def differs(claimed: Any, derived: Any) -> bool:
    """Whether two values of a field disagree by more than float64 rounding."""
    if isinstance(claimed, dict) and isinstance(derived, dict):
        return claimed.keys() != derived.keys() or any(differs(claimed[k], derived[k]) for k in derived)
    if isinstance(claimed, list) and isinstance(derived, list):
        return len(claimed) != len(derived) or any(map(differs, claimed, derived))
    if isinstance(derived, float) and isinstance(claimed, int | float) and not isinstance(claimed, bool):
        return not math.isclose(claimed, derived, rel_tol=1e-12, abs_tol=1e-15)
    return type(claimed) is not type(derived) or claimed != derived
