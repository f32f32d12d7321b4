"""Hold-out: train on one part, count errors on the other. The floor of all other methods."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from truerisk.bounds import clopper_pearson
from truerisk.certificates.case import Case
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import FLOOR, Facts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import DETERMINISTIC, Method, Shares, floor_facts, tested_network
from truerisk.certificates.settings import HOLD_OUT, Settings
from truerisk.certificates.trainer import Fit, Trainer
from truerisk.data import Data, Split

EVENT = "Clopper-Pearson: the tested examples are misleading"


class HoldOut(Method):
    """Clopper and Pearson (1934): exact, and as tight as anything that only counts errors."""

    name = HOLD_OUT
    predictor = DETERMINISTIC
    summary = "the network trained on one part of the data, tested on the rest (Clopper-Pearson)"
    needs_split = True
    takes_trained = True
    advice = "More data, or a network that errs less, would help."

    def events(self, settings: Settings) -> Shares:
        return [(EVENT, Decimal(1))]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        return Evidence(parts, {"network": tested_network(trainer, parts)})

    def measure(
        self, settings: Settings, data: Data, evidence: Evidence, claimed: dict[str, Any] | None, redraw: bool
    ) -> Facts:
        return floor_facts(settings, data, evidence)

    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        count = facts.counts[FLOOR]
        bound = clopper_pearson(count.value, count.trials, share(entries, EVENT))
        risk = count.value / count.trials
        return {
            "risk_bound": bound,
            "empirical_risk": risk,
            "empirical_risk_upper": risk,
            "breakdown": [
                {"part": "errors on the tested examples", "value": risk},
                {"part": "confidence (delta)", "value": bound - risk},
            ],
        }

    def floor(self, settings: Settings) -> str:
        return "this certificate is itself the hold-out bound"

    def origin(self, case: Case, retrain: bool, fit: Fit | None) -> None:
        if case.settings.prior != "none":
            super().origin(case, retrain, fit)
            return
        left = len(case.evidence.parts.prior)
        rows = f", and that the {left:,} rows left out were in its training" if left else ""
        case.result.unchecked.append(f"that the network never saw the fresh examples{rows}: that is your word")
        if case.settings.repeats:
            case.result.unchecked.append(f"that {case.settings.repeats:,} rows that equal another are separate draws")
