"""Hold-out: train on one part, count errors on the other. The floor of all other methods."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from truerisk.bounds import clopper_pearson
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import FLOOR, Facts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import DETERMINISTIC, Method, Shares, floor_facts, tested_network
from truerisk.certificates.origins import TRAINED, VOUCHED, File
from truerisk.certificates.settings import HOLD_OUT, Settings
from truerisk.certificates.trainer import Trainer
from truerisk.data import Data, Split

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

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

    def files(self, settings: Settings) -> dict[str, File]:
        return {"network": File(VOUCHED if settings.prior == "none" else TRAINED, predicts=True)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        return stored if trainer.settings.prior == "none" else super().again(trainer, stored, retrain)

    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        return floor_facts(settings, data, frozen.evidence)

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
        if settings.methods > 1:
            return "the same test with the delta of all methods, had no other method been tried"
        return "this certificate is itself the hold-out bound"

    def trusted(self, settings: Settings, evidence: Evidence) -> list[str]:
        return [] if settings.prior == "none" else super().trusted(settings, evidence)

    def vouched(self, settings: Settings, evidence: Evidence) -> list[str]:
        if settings.prior != "none":
            return []
        left = len(evidence.parts.prior)
        rows = f", and that the {left:,} rows left out were in its training" if left else ""
        return [f"that the network never saw the fresh examples{rows}: that is your word"]
