"""Hold-out: train on one part, count errors on the other. The baseline of all other methods.

For an already trained network, training is left out: the fresh examples are the other part.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from truerisk.bounds import clopper_pearson, clopper_pearson_lower
from truerisk.certificates.counts import FLOOR, TRAINING, Counts, both_counts, wrong_answers
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import DETERMINISTIC, Method, Shares, halves
from truerisk.certificates.origins import TRAINED, VOUCHED, File
from truerisk.certificates.record import Derivation, Lower, Part, Record
from truerisk.certificates.tale import Tale
from truerisk.data import duplicates_across

if TYPE_CHECKING:
    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer
    from truerisk.data import Data, Split

EVENT = "Clopper-Pearson bound: the certification examples are unrepresentative"
BELOW = "Clopper-Pearson bound, lower end: the certification examples are unrepresentative"


@dataclass(frozen=True)
class HoldOut(Method):
    """Clopper and Pearson (1934): exact, and as tight as anything that only counts errors."""

    name = "hold-out"
    predictor = DETERMINISTIC
    summary = "a network trained on one part of the data, tested on the rest (Clopper-Pearson)"
    paper = "the exact binomial bound of Clopper and Pearson (1934)"
    needs_split = takes_trained = is_floor = True
    above_only = ""
    advice = "More data or a network with fewer errors would help."

    def events(self) -> Shares:
        return [(EVENT, Decimal(1))]

    def both_ends(self) -> Shares:
        return halves(EVENT, BELOW)

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        from truerisk.certificates.evidence import Evidence

        came = trainer.settings.prior.trained
        return Evidence(parts, {"network": trainer.given(parts) if came else trainer.tested(parts)})

    def files(self, settings: Settings) -> dict[str, File]:
        return {"network": File(VOUCHED if settings.prior.trained else TRAINED, predicts=True)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        return stored if trainer.settings.prior.trained else super().again(trainer, stored, retrain)

    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        """The floor's errors are its own; errors on the rows that trained the network show how much it fits them."""
        network, parts = frozen.evidence.network, frozen.evidence.parts
        rows = parts.certify
        items = both_counts(FLOOR, network, data.X[rows], data.y[rows], settings.two_sided)
        if len(parts.prior):
            items[TRAINING] = wrong_answers(network, data.X[parts.prior], data.y[parts.prior])
        return Counts(items, len(rows), len(parts.prior), duplicates_across(data, parts))

    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        count = counts[FLOOR]
        bound = clopper_pearson(count.value, count.trials, share(entries, EVENT))
        risk = count.value / count.trials
        parts = Part("observed error", risk), Part("confidence (delta)", bound - risk)
        return Derivation(bound, risk, risk, parts)

    def lower_end(self, counts: Counts, entries: list[Entry]) -> Lower:
        count = counts.sure(FLOOR)
        below = clopper_pearson_lower(count.value, count.trials, share(entries, BELOW))
        return Lower(below, count.value / count.trials)

    def trained_errors(self, settings: Settings, counts: Counts) -> tuple[int, int] | None:
        if TRAINING in counts.items:
            return counts[TRAINING].value, counts[TRAINING].trials
        return (settings.own_errors, settings.own_rows) if settings.own_rows else None

    def tell(self, record: Record) -> Tale:
        tested = f"error rate of the network on the {record.n_certify:,} certification examples"
        return Tale(seen=tested, counted=f"{record.counts[FLOOR]:,} errors")

    def floor(self, settings: Settings) -> str:
        if settings.methods > 1:
            return "this test with all of delta, as if no other method had been tried"
        if settings.two_sided:
            return "this test with the upper end alone"
        return "this certificate is itself the hold-out bound"

    def trusted(self, settings: Settings) -> list[str]:
        return [] if settings.prior.trained else super().trusted(settings)

    def vouched(self, record: Record) -> list[str]:
        if not record.settings.prior.trained:
            return []
        rows = f", and that the {record.n_prior:,} rows left out were in its training data" if record.n_prior else ""
        return [f"that the network never saw the fresh examples{rows}; you vouch for it"]
