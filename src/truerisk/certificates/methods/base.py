"""What a method of certifying must say of itself. One file of this folder is one method.

A method is a frozen object whose fields are its options. It trains (``produce``), counts (``count``) and does
arithmetic (``derive``). ``verify`` makes again what can be made again (``again``), calls the last two on that and on
the stored rest, and so gets a bound of its own. Nothing that a certificate claims reaches a method. What computes with
networks is imported where it is called, so that declarations, arithmetic and words need no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from truerisk.certificates.counts import FLOOR, Counts, errors_of
from truerisk.certificates.ledger import Entry
from truerisk.certificates.origins import ARRAYS, DERIVED, SPLIT, TRAINED, VOUCHED, File
from truerisk.certificates.prior import Prior
from truerisk.certificates.record import Derivation, Lower, Record
from truerisk.certificates.schema import dump, flags, settle
from truerisk.certificates.tale import Tale
from truerisk.data import duplicates_across
from truerisk.errors import TrueriskError
from truerisk.words import several

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer
    from truerisk.data import Data, Split
    from truerisk.nets import Architecture

STOCHASTIC, SINGLE_DRAW, DETERMINISTIC = "stochastic", "single-draw", "deterministic"
PREDICTORS = (STOCHASTIC, SINGLE_DRAW, DETERMINISTIC)
SUBTITLES = {
    STOCHASTIC: "Weights are resampled for each prediction.",
    SINGLE_DRAW: "Its weights were sampled once from the posterior.",
    DETERMINISTIC: "",
}
KINDS = {
    STOCHASTIC: "stochastic: weights are resampled for each prediction",
    SINGLE_DRAW: "single draw: the weights were sampled once from the posterior",
    DETERMINISTIC: "deterministic: one network with fixed weights",
}
SHUFFLED = "The order of the examples is a seeded shuffle that does not depend on their content."
DISGUISE = (
    "The posterior moved less than 1 nat from its prior, so it learned almost nothing from the certification examples. "
    "In effect, this certificate only tests the prior on them. The hold-out baseline is such a test too, and simpler."
)
Shares = list[tuple[str, Decimal]]  # events and the parts of this configuration's delta that they get


@dataclass(frozen=True)
class Method(ABC):
    """One way to certify."""

    name: ClassVar[str]
    predictor: ClassVar[str]
    summary: ClassVar[str]  # one line for help texts
    paper: ClassVar[str]  # what the bound is called, and whose it is
    needs_split: ClassVar[bool] = False
    takes_trained: ClassVar[bool] = False  # an already trained network, and fresh examples
    takes_weights: ClassVar[bool] = False  # a network already trained on these examples (``settings.given``)
    needs_weights: ClassVar[bool] = False  # nothing else
    needs_unlabelled: ClassVar[bool] = False
    is_floor: ClassVar[bool] = False  # the hold-out baseline of all others
    usual_prior: ClassVar[Prior] = Prior("split:0.5")
    advice: ClassVar[str] = ""  # for certificates that say nothing; "": the usual one
    above_only: ClassVar[str] = "its theorem bounds the risk from above only"  # why no lower end; "": there is one
    gaussian: ClassVar[bool] = False  # has a prior and a posterior over weights: prior_std and objective are for it
    fits_certify: ClassVar[bool] = False  # the predictor was trained on the very examples that certify it
    counts_weights: ClassVar[bool] = False  # its bound grows with the number of weights: small networks suit it

    def __post_init__(self) -> None:
        settle(self)

    # ---- options -----------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Method:
        """The method with these options, as a user or a file names them."""
        unknown = sorted(options.keys() - cls.takes(options).keys())
        if unknown:
            raise TrueriskError(f"the method {cls.name} has no option {', '.join(unknown)}{_taken_by(unknown[0])}.")
        return cls(**options)

    @classmethod
    def takes(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of these options that are this method's."""
        names = {flag.name for flag in flags(cls)}
        return {name: value for name, value in options.items() if name in names}

    def options(self) -> dict[str, Any]:
        """The inverse of ``of``: plain values. An option that says nothing (None) is left out."""
        values = {flag.name: dump(getattr(self, flag.name)) for flag in flags(type(self))}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def only_last(self) -> bool:
        """Whether its distributions leave only the last linear layer to chance."""
        return False

    def resolve(self, network: Callable[[], nn.Module]) -> Method:
        """The same method with all that depends on the network decided."""
        return self

    # ---- what it cannot do: TrueriskErrors, before anything is trained -----------------------------------------------

    def refuse(self, prior: Prior, given: bool) -> None:
        """Raise where it does not go with this prior, or with weights that were ``given`` or not."""
        if prior.trained and not self.takes_trained:
            raise TrueriskError(
                f"the method {self.name} cannot certify an already trained network; give --method hold-out."
            )
        if given and not self.takes_weights:
            raise TrueriskError(
                f"the method {self.name} trains its own network; leave out --weights, or choose another method."
            )
        if self.needs_weights and not given:
            raise TrueriskError(f"the method {self.name} needs an already trained network; give --weights.")
        if self.needs_split and not (prior.trained or prior.fraction):
            raise TrueriskError(
                f"the method {self.name} needs examples to train on first; give --prior split:FRACTION."
            )

    def refuse_lower_end(self) -> None:
        """Raise where it cannot bound the risk from below."""
        if self.above_only:
            raise TrueriskError(
                f"the method {self.name} has no lower end, because {self.above_only}; drop --two-sided."
            )

    def refuse_weights(self, arch: Architecture) -> None:
        """Raise where the trained network ``arch.given`` is none that this method can certify."""
        return

    # ---- what it does ------------------------------------------------------------------------------------------------

    @abstractmethod
    def events(self) -> Shares:
        """The probability events that this configuration spends its delta on; parts add up to at most 1."""

    def both_ends(self) -> Shares:
        """The same where the risk is bounded from below as well."""
        self.refuse_lower_end()
        raise NotImplementedError

    @abstractmethod
    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        """Train everything."""

    def files(self, settings: Settings) -> dict[str, File]:
        """The evidence's entries and where each comes from, the split aside."""
        return {"network": File(TRAINED)}

    def origins(self, settings: Settings) -> dict[str, File]:
        """``files`` and the split, which is the user's word for an already trained network."""
        return {SPLIT: File(VOUCHED if settings.prior.trained else DERIVED, ARRAYS), **self.files(settings)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        """``stored`` with all that is derived made anew, and with ``retrain`` all that was trained as well."""
        return stored.having(networks={"network": trainer.tested(stored.parts)}) if retrain else stored

    @abstractmethod
    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        """Count. ``frozen.seed`` makes a predictor; ``seed`` is for draws that only estimate something."""

    @abstractmethod
    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        """The bound and what it is made of, by arithmetic alone."""

    def lower_end(self, counts: Counts, entries: list[Entry]) -> Lower:
        """The other end, by arithmetic alone; for methods with ``both_ends``."""
        raise NotImplementedError

    def trained_errors(self, settings: Settings, counts: Counts) -> tuple[int, int] | None:
        """(wrong answers, examples) of the predictor on a training set apart from the examples that certify it."""
        return None

    def details(self) -> tuple[type, ...]:
        """The frozen dataclasses that ``derive`` adds: their fields are this method's own fields of the file."""
        return ()

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        """Labels by exactly the predictor that was certified."""
        from truerisk.nets import predict_labels

        return predict_labels(frozen.evidence.network, X)

    # ---- what it says ------------------------------------------------------------------------------------------------

    @abstractmethod
    def tell(self, record: Record) -> Tale:
        """What only this method has to say about its certificate."""

    def floor(self, settings: Settings) -> str:
        """Which network the hold-out baseline tested."""
        if settings.prior.fraction:
            return "the prior's mean network, tested on the certification examples"
        return "the same network trained on four fifths of the data, tested on the rest"

    def subject(self, settings: Settings) -> str:
        """Who errs on so many examples: the subject of the certificate's sentence."""
        return "this network"

    def subtitle(self, settings: Settings) -> str:
        """How the predictor samples, in a second sentence; nothing for one fixed network."""
        return SUBTITLES[self.predictor]

    def predicts(self, settings: Settings) -> str:
        """How the certified predictor answers."""
        return KINDS[self.predictor]

    def training(self, settings: Settings) -> tuple[str, str]:
        """A title, and how the networks came about that never saw the certification examples."""
        if settings.prior.trained:
            return "Training", "an already trained network; nothing was trained here"
        if settings.prior.fraction:
            return "Training", f"{settings.prior}: {how_trained(settings)}, on its own examples only"
        return "Training", "no examples were set aside; all examples enter the bound"

    def advise(self, settings: Settings) -> str:
        """What would make a bound smaller that says nothing."""
        if self.advice:
            return self.advice
        more = ["more data", "a smaller network"] + ([] if settings.prior.fraction else ["--prior split:0.5"])
        text = f"{', '.join(more[:-1])}{',' if len(more) > 2 else ''} or {more[-1]} would help."
        return f"{text[0].upper()}{text[1:]}"

    def disguise(self, derivation: Derivation) -> str:
        """A warning where a posterior stayed so near its prior that the bound is a hold-out bound; else nothing."""
        return DISGUISE if derivation.kl is not None and derivation.kl.kl < 1 else ""

    def assumptions(self, settings: Settings, derivation: Derivation) -> list[str]:
        """What this method assumes beyond what all methods do."""
        return []

    def trusted(self, settings: Settings) -> list[str]:
        """What ``verify`` takes on trust unless it trains again."""
        return ["that the tested network was trained only on its own examples (verify --retrain retrains it)"]

    def vouched(self, record: Record) -> list[str]:
        """What ``verify`` cannot check at all: the user's word."""
        return []


def _taken_by(option: str) -> str:
    """The methods that take an option, for whoever gave it to another one."""
    from truerisk.certificates.methods import METHODS

    names = [kind.name for kind in METHODS.values() if option in {flag.name for flag in flags(kind)}]
    return f"; name one that does: --method {' or '.join(names)}" if names else ""


def floor_counts(settings: Settings, data: Data, evidence: Evidence) -> Counts:
    """The counts that every method has: errors of the baseline's network on the rows that it never saw."""
    from truerisk.certificates.evidence import floor_split

    parts = evidence.parts
    apart = len(parts.prior) or settings.prior.trained
    rows = parts.certify if apart else floor_split(settings, len(data))[1]
    tested = errors_of(evidence.network, data.X[rows], data.y[rows])
    return Counts({FLOOR: tested}, len(parts.certify), len(parts.prior), duplicates_across(data, parts))


def halves(above: str, below: str) -> Shares:
    """One half of delta for each end."""
    return [(above, Decimal("0.5")), (below, Decimal("0.5"))]


def how_trained(settings: Settings) -> str:
    """How the network was trained that saw its own examples only."""
    if settings.own_training:
        return "trained by your own function"
    plan = settings.plans.get("prior")
    if plan is None:
        return "trained"
    return f"trained for {several(plan.epochs, 'epoch')} with {plan.optimizer}, learning rate {plan.lr:g}"
