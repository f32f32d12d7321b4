"""Pick-to-learn: train on the few certification examples with the largest loss; the bound grows with their number.

Paccagnan, Campi and Garatti (2023). From a first network that saw no certifying example, repeat: look at the
certifying examples that are wrong (a tie is), pick the ``batch`` with the largest loss, train on. Stop when none is
wrong, or after ``rounds`` rounds. Then k = picks + examples that are still wrong, and ``bounds.pick_to_learn`` bounds
the true risk of the last network from k and the number of certifying examples: all of them certify, also those that
trained it.

Why the scheme is preferent (the condition of that bound; V the k examples, V <= T <= U, all of U the sample):

* A network is a function of the picks so far in their order, of the prior's examples, and of constants: seeds, plans,
  ``batch``, ``rounds``. How many examples are left, or which, changes nothing: not the replayed rows of the prior
  (drawn by seed, round and number of picks), not the number of steps.
* An example is ranked by its own loss. Equal losses (copies of one example) are ranked by position in a seeded shuffle
  that is independent of what the examples show: the same as giving each a random tag before anything is looked at,
  and counting the tag as part of the example. So taking examples out leaves the order of the others as it is.
* In a round on T the wrong examples are those on U that lie in T, and the first ``batch`` of them on U, being in V, are
  in T. So T gives the same picks in each round, the same last network, and the same examples that it gets wrong.

And an example that the last network gets wrong always changes the compression: it would be picked, or be one of the
examples that are still wrong. So the bound on the probability of change bounds the true risk. All of this is about
exact arithmetic: which rows are computed together can change the last bits of a loss in float32, and by that an answer
that is a near tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from truerisk.bounds import pick_to_learn
from truerisk.certificates.counts import Count, Counts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import DETERMINISTIC, SHUFFLED, Method, Shares, floor_counts
from truerisk.certificates.origins import ARRAYS, TRAINED, File
from truerisk.certificates.prior import Prior
from truerisk.certificates.record import Derivation, Part, Record
from truerisk.certificates.schema import option
from truerisk.certificates.tale import Line, Tale, count
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer
    from truerisk.data import Data, Split

EVENT = "sample compression: the certification examples are unrepresentative"
FINAL, PICKS = "network-final", "picks"  # files
LEFT = "left wrong"  # unpicked examples that the last network gets wrong
ROUNDS = "rounds"


@dataclass(frozen=True)
class Compressed:
    """How many examples stand for all: those that were picked, and those that are still wrong."""

    k: int
    picked: int
    left_wrong: int
    rounds: int
    note: str


@dataclass(frozen=True)
class Compression:
    """What only a pick-to-learn certificate has."""

    compression: Compressed


@dataclass(frozen=True)
class PickToLearn(Method):
    """P(Binomial(N, eps) > k) = N eps P(Binomial(N, eps) = k) / delta, solved for eps (``bounds.compression``)."""

    name = "pick-to-learn"
    predictor = DETERMINISTIC
    summary = "one network trained on the few certification examples with the largest loss (sample compression)"
    paper = "pick-to-learn (Paccagnan, Campi, and Garatti 2023), a sample compression bound"

    batch: int = option(10, "Examples picked per round (pick-to-learn).", low=1)
    rounds: int = option(100, "Maximum number of rounds (pick-to-learn).", low=1)

    def refuse(self, prior: Prior, given: bool) -> None:
        super().refuse(prior, given)
        if prior.centred:
            raise TrueriskError(f"the method {self.name} starts from a network; give --prior init or split:FRACTION.")

    def events(self) -> Shares:
        return [(EVENT, Decimal(1))]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        from truerisk.certificates.evidence import Evidence
        from truerisk.certificates.workshop.picks import picks_from, stored, untrained

        tested = trainer.tested(parts)
        first = tested if len(parts.prior) else untrained(trainer)
        last, order, rounds = picks_from(trainer, first, parts, self.batch, self.rounds)
        networks = {"network": tested, FINAL: last}
        return Evidence(parts, networks, arrays={PICKS: stored(parts.certify[order], rounds)})

    def files(self, settings: Settings) -> dict[str, File]:
        return {"network": File(TRAINED), FINAL: File(TRAINED, predicts=True), PICKS: File(TRAINED, ARRAYS)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        return self.produce(trainer, stored.parts) if retrain else stored

    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        from truerisk.certificates.workshop.picks import checked_picks, wrong_of_the_rest

        evidence, rows = frozen.evidence, frozen.evidence.parts.certify
        picks, rounds = checked_picks(evidence.arrays[PICKS], rows, self.batch, self.rounds)
        left = ~np.isin(rows, picks)
        # All rows, as when they were picked, so that the same rows are computed together.
        errors, ties = wrong_of_the_rest(evidence.networks[FINAL], data.X[rows], data.y[rows], left)
        counts = floor_counts(settings, data, evidence)
        return counts.adding({LEFT: Count(errors, ties, int(left.sum()))}, numbers={ROUNDS: rounds})

    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        n, left, rounds = counts.n_certify, counts[LEFT], int(counts.numbers[ROUNDS])
        picked = n - left.trials
        k = picked + left.value
        bound = pick_to_learn(k, n, share(entries, EVENT))
        risk = left.value / left.trials if left.trials else 0.0
        parts = (
            Part("picked examples", picked / n),
            Part("errors on the other examples", left.value / n),
            Part("confidence (delta)", bound - k / n),
        )
        found = Compressed(k, picked, left.value, rounds, _note(picked, left, rounds))
        return Derivation(bound, risk, risk, parts, details=(Compression(found),))

    def details(self) -> tuple[type, ...]:
        return (Compression,)

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        from truerisk.nets import predict_labels

        return predict_labels(frozen.evidence.networks[FINAL], X)

    # ---- words -------------------------------------------------------------------------------------------------------

    def tell(self, record: Record) -> Tale:
        found = record.derivation.detail(Compression).compression
        return Tale(
            seen="error rate of the network on the certification examples that were not picked",
            counted=f"{found.left_wrong:,} errors on {record.n_certify - found.picked:,} examples",
            lines=(Line("picks", count(found.picked), found.note),),
        )

    def floor(self, settings: Settings) -> str:
        if settings.prior.fraction:
            return "the network before the first pick, tested on the certification examples"
        return super().floor(settings)

    def training(self, settings: Settings) -> tuple[str, str]:
        start = super().training(settings)[1] if settings.prior.fraction else "init: the seeded initial network"
        return "Training", f"{start}; then up to {self.rounds:,} rounds on up to {self.batch:,} picked examples each"

    def assumptions(self, settings: Settings, derivation: Derivation) -> list[str]:
        return [SHUFFLED]

    def trusted(self, settings: Settings) -> list[str]:
        return [
            "that the networks were trained only on the picks and the prior's examples, and that the picks are right "
            "(verify --retrain picks and trains again)"
        ]


def _note(picked: int, left: Count, rounds: int) -> str:
    if not left.trials:
        return f"All {picked:,} certification examples were picked, so nothing is certified."
    if not left.value:
        return (
            f"After {picked:,} picks in {rounds:,} rounds, none of the other {left.trials:,} examples is misclassified."
        )
    return (
        f"After {picked:,} picks in {rounds:,} rounds, {left.value:,} of the other {left.trials:,} examples are still "
        "misclassified; they count as picks."
    )
