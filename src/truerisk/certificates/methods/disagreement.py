"""Disagreement: a network that is already trained, unchanged, certified by how often it differs from a certified one.

Where the target errs, the surrogate errs or the two disagree, so risk(target) <= risk(surrogate) + P(disagreement)
(Kaariainen 2005; Bazinet, Zantedeschi and Germain 2026). The surrogate is a new network of the same architecture with a
certificate of its own, made by any other method on the labelled examples; how it relates to the target does not matter.
Disagreement is counted on inputs without labels that neither network was trained on. A surrogate that draws its weights
anew for each prediction draws them anew for each of these inputs, so that the inputs are independent trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from truerisk.bounds import clopper_pearson, disagreement, disagreement_lower
from truerisk.certificates.counts import Counts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import DETERMINISTIC, STOCHASTIC, Method, Shares
from truerisk.certificates.methods.hold_out import HoldOut
from truerisk.certificates.origins import ARRAYS, VOUCHED, File
from truerisk.certificates.prior import Prior
from truerisk.certificates.record import Derivation, Lower, Part, Record
from truerisk.certificates.schema import option
from truerisk.certificates.tale import Line, Tale, upper
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer
    from truerisk.data import Data, Split

EVENT = "Clopper-Pearson bound: the unlabeled inputs are unrepresentative"
SHARE = Decimal("0.5")  # of delta, for the disagreement
COUNT = "disagreements"
TARGET, INPUTS = "network-target", "unlabelled"
SURROGATE = "surrogate"
DISGUISED = (
    "The surrogate's posterior moved less than 1 nat from its prior. In effect, its bound only tests the prior; "
    "--surrogate hold-out is such a test too, and simpler."
)


@dataclass(frozen=True)
class Comparison:
    """How often the two networks differ, and what is certified for the surrogate."""

    surrogate: str
    surrogate_bound: float
    disagreements: int
    unlabelled: int
    upper: float


@dataclass(frozen=True)
class Disagreements:
    """What only a disagreement certificate has, beside its surrogate's."""

    disagreement: Comparison


@dataclass(frozen=True)
class Disagreement(Method):
    """risk <= the surrogate's bound + Clopper-Pearson(disagreements, unlabeled inputs)."""

    name = "disagreement"
    predictor = DETERMINISTIC
    summary = "an already trained network (--weights), unchanged, compared with a certified one on --unlabeled inputs"
    paper = "disagreement with a certified network (Kaariainen 2005; Bazinet, Zantedeschi, and Germain 2026)"
    takes_weights = needs_weights = needs_unlabelled = True
    above_only = ""
    advice = (
        "More unlabeled inputs, more labeled data, or a larger part of it to train the surrogate (--prior split:0.8) "
        "would help. So would labeled examples that the network never saw (--fresh)."
    )

    surrogate: Method = option(
        HoldOut(), "Method that certifies the surrogate network (disagreement).", shown=HoldOut.name
    )
    spelled: tuple[str, ...] = ()  # options of the surrogate that were named, be it with their usual values

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.surrogate, Method) or self.surrogate.needs_weights:
            raise TrueriskError(
                f"the surrogate is {self.surrogate!r}, but must be a method that trains its own network; try HoldOut()."
            )

    # ---- its options are the surrogate's as well ---------------------------------------------------------------------

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Method:
        kind = _surrogate(options)
        rest = {name: value for name, value in options.items() if name != SURROGATE}
        return cls(kind.of(rest), tuple(sorted(rest)))

    @classmethod
    def takes(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        return super().takes(options) | _surrogate(options).takes(options)

    def options(self) -> dict[str, Any]:
        """The surrogate's name, and those of its options that were named or are not the usual ones."""
        usual, own = type(self.surrogate)().options(), self.surrogate.options()
        named = {name: own[name] for name in own if name in self.spelled or own[name] != usual.get(name)}
        return {SURROGATE: self.surrogate.name, **named}

    def resolve(self, network: Callable[[], nn.Module]) -> Method:
        return replace(self, surrogate=self.surrogate.resolve(network))

    def inner(self, settings: Settings) -> Settings:
        """The settings of the surrogate's own certificate."""
        return replace(settings, method=self.surrogate, given=False)

    @property
    def only_last(self) -> bool:
        return self.surrogate.only_last

    def refuse_lower_end(self) -> None:
        self.surrogate.refuse_lower_end()

    # ---- what it does ------------------------------------------------------------------------------------------------

    def refuse(self, prior: Prior, given: bool) -> None:
        if prior.trained:
            raise TrueriskError(f"the method {self.name} trains its own surrogate; give --prior split:FRACTION.")
        super().refuse(prior, given)
        self.surrogate.refuse(prior, given=False)

    def events(self) -> Shares:
        return self._with_own(self.surrogate.events())

    def both_ends(self) -> Shares:
        """The surrogate's two ends; one bound on the disagreement serves both."""
        return self._with_own(self.surrogate.both_ends())

    def _with_own(self, shares: Shares) -> Shares:
        return [*((event, part * (1 - SHARE)) for event, part in shares), (EVENT, SHARE)]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        """Train the surrogate; put the given network and the inputs on which the two are compared beside it."""
        from truerisk.certificates.workshop.compare import with_target

        own = replace(trainer, settings=self.inner(trainer.settings))
        return with_target(self.surrogate.produce(own, parts), trainer, TARGET, INPUTS)

    def files(self, settings: Settings) -> dict[str, File]:
        """Predictions are the target's; the surrogate only bounds them."""
        own = self.surrogate.files(self.inner(settings))
        surrogate = {name: replace(file, predicts=False) for name, file in own.items()}
        return surrogate | {TARGET: File(VOUCHED, predicts=True), INPUTS: File(VOUCHED, ARRAYS)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        made = self.surrogate.again(replace(trainer, settings=self.inner(trainer.settings)), stored, retrain)
        return stored.having(made.networks, made.gaussians, made.arrays)

    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        from truerisk.certificates.workshop.compare import answers, checked_inputs, differences

        own, evidence = self.inner(settings), frozen.evidence
        X = checked_inputs(evidence.arrays[INPUTS], data, settings)
        counts = self.surrogate.count(own, data, frozen, seed)
        labels = answers(self.surrogate, own, frozen, X, seed("disagreement"))
        drawn = self.surrogate.predictor == STOCHASTIC
        return counts.adding({COUNT: differences(evidence.networks[TARGET], X, labels, drawn)})

    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        found, count, delta = self.surrogate.derive(counts, entries), counts[COUNT], share(entries, EVENT)
        bound = disagreement(found.risk_bound, count.value, count.trials, delta)
        rate, above = count.value / count.trials, clopper_pearson(count.value, count.trials, delta)
        parts = [
            *(Part(f"surrogate: {each.part}", each.value) for each in found.breakdown),
            Part("observed disagreement", rate),
            Part("confidence in the disagreement", above - rate),
        ]
        compared = Comparison(self.surrogate.name, found.risk_bound, count.value, count.trials, above)
        return replace(
            found,
            risk_bound=bound,
            empirical_risk=min(1.0, found.empirical_risk + rate),
            empirical_risk_upper=min(1.0, found.empirical_risk_upper + rate),
            breakdown=_up_to(bound, parts),
            details=(*found.details, Disagreements(compared)),
        )

    def lower_end(self, counts: Counts, entries: list[Entry]) -> Lower:
        below, count = self.surrogate.lower_end(counts, entries), counts[COUNT]
        risk = disagreement_lower(below.risk, count.value, count.trials, share(entries, EVENT))
        return Lower(risk, max(0.0, below.empirical - count.value / count.trials))

    def details(self) -> tuple[type, ...]:
        return (*self.surrogate.details(), Disagreements)

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        """By the network that was given."""
        from truerisk.nets import predict_labels

        return predict_labels(frozen.evidence.networks[TARGET], X)

    # ---- words: its own, and the surrogate's inside them -------------------------------------------------------------

    def tell(self, record: Record) -> Tale:
        found = record.derivation.detail(Disagreements).disagreement
        tale = self.surrogate.tell(self._inner_record(record, found))
        lines = (
            Line(
                "surrogate",
                upper(found.surrogate_bound),
                f"bound on the risk of the surrogate, a new network ({found.surrogate})",
            ),
            Line(
                "disagreement",
                upper(found.upper),
                f"bound on the disagreement rate: {found.disagreements:,} of {found.unlabelled:,} unlabeled inputs",
            ),
        )
        inner = tuple(replace(line, meaning=f"{line.meaning} (surrogate)") for line in tale.lines)
        tables = tuple(replace(table, title=f"The surrogate: {_small(table.title)}") for table in tale.tables)
        together = "error rate of the surrogate on certification examples, plus disagreement rate on unlabeled inputs"
        return replace(
            tale,
            seen=together,
            counted="",
            lines=lines + inner,
            tables=tables,
            kl=f"{tale.kl} (surrogate)",
            rescaling=f"The surrogate: {_small(tale.rescaling)}",
        )

    def _inner_record(self, record: Record, found: Comparison) -> Record:
        own = replace(record.derivation, risk_bound=found.surrogate_bound)
        return replace(record, settings=self.inner(record.settings), derivation=own)

    def floor(self, settings: Settings) -> str:
        return "a new network instead of yours, trained on a part of the data and tested on the rest"

    def disguise(self, derivation: Derivation) -> str:
        return DISGUISED if self.surrogate.disguise(derivation) else ""

    def training(self, settings: Settings) -> tuple[str, str]:
        title, text = self.surrogate.training(self.inner(settings))
        return f"Surrogate: {_small(title)}", text

    def assumptions(self, settings: Settings, derivation: Derivation) -> list[str]:
        m = derivation.detail(Disagreements).disagreement.unlabelled
        return [
            *self.surrogate.assumptions(self.inner(settings), derivation),
            f"The {m:,} unlabeled inputs are independent draws from the distribution of the unseen examples.",
            "You vouch that neither the network nor its surrogate was trained, tuned, or chosen on these inputs.",
        ]

    def trusted(self, settings: Settings) -> list[str]:
        return self.surrogate.trusted(self.inner(settings))

    def vouched(self, record: Record) -> list[str]:
        found = record.derivation.detail(Disagreements).disagreement
        inputs = f"that neither the network nor its surrogate saw the {found.unlabelled:,} unlabeled inputs"
        return [
            *self.surrogate.vouched(self._inner_record(record, found)),
            f"{inputs}, and that nobody selected them; you vouch for it",
        ]


def _surrogate(options: Mapping[str, Any]) -> type[Method]:
    """The kind of method that certifies the surrogate."""
    from truerisk.certificates.methods import METHODS

    name = options.get(SURROGATE, HoldOut.name)
    possible = {each.name: each for each in METHODS.values() if not each.needs_weights}
    if not isinstance(name, str) or name not in possible:
        raise TrueriskError(f"the surrogate is {name!r}, but must be one of {', '.join(possible)}; choose one.")
    return possible[name]


def _up_to(bound: float, parts: list[Part]) -> tuple[Part, ...]:
    """Parts of a sum that is cut off at ``bound``, such that they add up to it."""
    ends, end = [0.0], 0.0
    for each in parts:
        end += each.value
        ends.append(min(bound, end))
    ends[-1] = bound
    return tuple(Part(each.part, b - a) for each, (a, b) in zip(parts, pairwise(ends), strict=True))


def _small(title: str) -> str:
    return f"{title[0].lower()}{title[1:]}"
