"""What a method of certifying must say of itself. One file of this folder is one method.

A method trains (``produce``), counts (``measure``) and does arithmetic (``derive``). ``verify`` makes again what can be
made again (``again``), calls the last two on that and on the stored rest, and so gets a bound of its own. Nothing that
a certificate claims reaches a method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from truerisk.certificates.evidence import SPLIT, Evidence, floor_split
from truerisk.certificates.facts import FLOOR, Count, Facts, errors_of
from truerisk.certificates.ledger import Entry
from truerisk.certificates.origins import DERIVED, TRAINED, VOUCHED, File
from truerisk.certificates.settings import Settings, split_fraction
from truerisk.certificates.trainer import Trainer
from truerisk.data import Data, Split, duplicates_across
from truerisk.errors import TrueriskError
from truerisk.nets import Architecture, predict_labels

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

STOCHASTIC, SINGLE_DRAW, DETERMINISTIC = "stochastic", "single-draw", "deterministic"
PREDICTORS = (STOCHASTIC, SINGLE_DRAW, DETERMINISTIC)
SUBJECTS = {
    STOCHASTIC: "this network, with its weights drawn anew for each prediction,",
    SINGLE_DRAW: "this network, drawn once,",
    DETERMINISTIC: "this network",
}
Shares = list[tuple[str, Decimal]]  # events and the parts of this configuration's delta that they get


class Method(ABC):
    """One way to certify."""

    name: ClassVar[str]
    predictor: ClassVar[str]
    summary: ClassVar[str]  # one line for help texts
    needs_split: ClassVar[bool] = False
    takes_trained: ClassVar[bool] = False  # a network that came trained, and fresh examples
    takes_weights: ClassVar[bool] = False  # a network that came trained on these examples (``settings.given``)
    needs_weights: ClassVar[bool] = False  # nothing else
    needs_unlabelled: ClassVar[bool] = False
    usual_prior: ClassVar[str] = "split:0.5"
    advice: ClassVar[str] = "More data, a smaller network or --prior split:0.5 would help."  # where it says nothing
    options: ClassVar[Mapping[str, int | float | str]] = MappingProxyType({})  # what the user may set, with defaults

    def refuse(self, settings: Settings) -> None:
        """Raise TrueriskError where these settings can't work, before anything is trained."""
        if settings.prior == "none" and not self.takes_trained:
            raise TrueriskError(f"the method {self.name} is not for a network that came trained.")
        self.refuse_given(settings)
        if self.needs_split and settings.prior != "none" and not split_fraction(settings.prior):
            raise TrueriskError(
                f"the method {self.name} needs examples to train on first: give --prior split:FRACTION with it."
            )
        wrong = {
            k for k, v in settings.options.items() if k not in self.options or type(v) is not type(self.options[k])
        }
        if wrong:
            raise TrueriskError(f"the method {self.name} takes no option {', '.join(sorted(wrong))} of that kind.")

    def refuse_given(self, settings: Settings) -> None:
        """Raise TrueriskError where weights were given and can't be used, or were not and are needed."""
        if settings.given and not self.takes_weights:
            raise TrueriskError(f"the method {self.name} trains its own network, and uses no given weights.")
        if self.needs_weights and not settings.given:
            raise TrueriskError(f"the method {self.name} is for a network that came trained: give --weights.")

    def takes(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of these options that are this method's."""
        return {name: value for name, value in options.items() if name in self.options}

    def refuse_weights(self, arch: Architecture) -> None:
        """Raise TrueriskError where the trained network ``arch.given`` is none that this method can certify."""
        return

    @abstractmethod
    def events(self, settings: Settings) -> Shares:
        """The probability events that this configuration spends its delta on; parts add up to at most 1."""

    @abstractmethod
    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        """Train everything."""

    def files(self, settings: Settings) -> dict[str, File]:
        """The evidence's entries and where each comes from, the split aside."""
        return {"network": File(TRAINED)}

    def origins(self, settings: Settings) -> dict[str, File]:
        """``files`` and the split, which is the user's word where a network came trained."""
        return {SPLIT: File(VOUCHED if settings.prior == "none" else DERIVED), **self.files(settings)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        """``stored`` with all that is derived made anew, and with ``retrain`` all that was trained as well."""
        return stored.having({"network": tested_network(trainer, stored.parts)}) if retrain else stored

    @abstractmethod
    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        """Count. ``frozen.seed`` makes a predictor; ``seed`` is for draws that only estimate something."""

    @abstractmethod
    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        """risk_bound, empirical_risk, empirical_risk_upper, kl, kl_unrescaled, rescaling, draws, breakdown."""

    @abstractmethod
    def floor(self, settings: Settings) -> str:
        """Which hold-out bound the floor is, in words."""

    def trusted(self, settings: Settings, evidence: Evidence) -> list[str]:
        """What ``verify`` takes on trust unless it trains again."""
        return ["that the tested network was trained on its own examples only (verify --retrain trains it again)"]

    def vouched(self, settings: Settings, evidence: Evidence) -> list[str]:
        """What ``verify`` can't check at all: the user's word."""
        return []

    def subject(self, settings: Settings) -> str:
        """Who or what is wrong on so many examples: the beginning of the certificate's sentence."""
        return SUBJECTS[self.predictor]

    def assumptions(self, settings: Settings, evidence: Evidence) -> list[str]:
        """What this method takes for granted beyond what all do."""
        return []

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        """Labels by exactly the predictor that was certified."""
        return predict_labels(frozen.evidence.network, X)


def tested_network(trainer: Trainer, parts: Split) -> Any:
    """The deterministic network beside a certificate: trained on the prior's examples, or for the floor."""
    if len(parts.prior):
        return trainer.network("prior", parts.prior)
    return trainer.network("floor", floor_split(trainer.settings, len(trainer.data))[0])


def tested_rows(settings: Settings, data: Data, parts: Split) -> np.ndarray:
    """The rows that this network is tested on."""
    return parts.certify if len(parts.prior) or settings.prior == "none" else floor_split(settings, len(data))[1]


def floor_count(settings: Settings, data: Data, evidence: Evidence) -> Count:
    """Errors of the floor's network on the rows that it never saw."""
    rows = tested_rows(settings, data, evidence.parts)
    return errors_of(evidence.network, data.X[rows], data.y[rows])


def floor_facts(settings: Settings, data: Data, evidence: Evidence) -> Facts:
    """The facts that every method has."""
    return Facts({FLOOR: floor_count(settings, data, evidence)}, duplicates_across(data, evidence.parts))


def usual_floor(settings: Settings) -> str:
    """The floor of methods that are not a hold-out themselves."""
    if settings.prior.startswith("split"):
        return "the prior's mean network, tested on the certifying examples"
    return "the same network trained on four fifths of the data, tested on the rest"
