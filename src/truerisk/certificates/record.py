"""From evidence to the numbers and sentences of ``certificate.json``.

``measure`` does the counting, ``assemble`` the arithmetic. Verification runs the same two on files and networks of its
own, so there is one place where a bound is made.
"""

from __future__ import annotations

from typing import Any

from truerisk.bounds import clopper_pearson
from truerisk.certificates import sentences
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import FLOOR, Facts
from truerisk.certificates.frozen import Frozen, Seed
from truerisk.certificates.ledger import Entry, ledger, paid
from truerisk.certificates.methods import find_method
from truerisk.certificates.settings import Settings
from truerisk.data import Data

LOSSES = ("zero-one",)  # what counts as wrong
# What a method need not say: a certificate without a posterior has no KL and no draws.
NOTHING = {"kl": None, "kl_unrescaled": None, "rescaling": None, "draws": None}


def measure(settings: Settings, data: Data, frozen: Frozen, seed: Seed | None = None) -> Facts:
    """Count all that the method counts; ``seed`` is for estimates, by default the one that follows from the files."""
    return find_method(settings.method).measure(settings, data, frozen, seed or frozen.seed)


def spend(settings: Settings) -> list[Entry]:
    """The ledger of these settings."""
    return ledger(settings.delta, settings.tried, find_method(settings.method).events(settings), settings.methods)


def assemble(settings: Settings, data: Data, evidence: Evidence, facts: Facts) -> dict[str, Any]:
    """Every derived field of the certificate."""
    method, entries, tested = find_method(settings.method), spend(settings), facts.counts[FLOOR]
    own = paid(settings.delta, settings.tried)  # whoever compares configurations shares delta among their tests as well
    record: dict[str, Any] = {
        "method": settings.method,
        "predictor": method.predictor,
        "delta": settings.delta,
        "n_certify": len(evidence.parts.certify),
        "n_prior": len(evidence.parts.prior),
        "losses": list(LOSSES),
        "floor": clopper_pearson(tested.value, tested.trials, own),
        "floor_detail": {"errors": tested.value, "n": tested.trials, "delta": own, "what": method.floor(settings)},
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
    record["words"] = sentences.VERSION
    return record


def after_tries(settings: Settings, evidence: Evidence, facts: Facts, tries: int) -> float:
    """The bound if ``tries`` seeds, splits or draws had been tried: with every share of delta divided by that."""
    entries: list[Entry] = [{**entry, "delta": entry["delta"] / tries} for entry in spend(settings)]
    return float(find_method(settings.method).derive(settings, evidence, facts, entries)["risk_bound"])
