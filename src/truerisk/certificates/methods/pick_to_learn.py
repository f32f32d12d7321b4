"""Pick-to-learn: train on the few certifying examples that the network gets most wrong, and pay for their number.

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

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import nn

from truerisk.bounds import pick_to_learn
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import Count, Facts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import (
    DETERMINISTIC,
    Method,
    Shares,
    floor_facts,
    tested_network,
    usual_floor,
)
from truerisk.certificates.origins import TRAINED, File
from truerisk.certificates.settings import Settings
from truerisk.certificates.trainer import Trainer
from truerisk.data import Data, Split, shuffle
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import check_network, margins, outputs, predict_labels, wrong_and_close
from truerisk.seeds import derive

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

EVENT = "sample compression: the certifying examples are misleading"
FINAL, PICKS = "network-final", "picks"  # files
LEFT = "left wrong"  # unpicked examples that the last network gets wrong
REPLAY = 3_000  # rows of the prior that are trained on beside the picks

Model = TypeVar("Model")


class PickToLearn(Method):
    """P(Binomial(N, eps) > k) = N eps P(Binomial(N, eps) = k) / delta, solved for eps (``bounds.compression``)."""

    name = "pick-to-learn"
    predictor = DETERMINISTIC
    summary = "one network trained on the few certifying examples it was worst at (sample compression)"
    options = MappingProxyType({"batch": 10, "rounds": 100})

    def refuse(self, settings: Settings) -> None:
        super().refuse(settings)
        if settings.prior == "zero":
            raise TrueriskError(f"the method {self.name} starts from a network: give --prior init or split:FRACTION.")
        for name in self.options:
            if _option(settings, name) < 1:
                raise TrueriskError(f"{name} is {_option(settings, name)}, but must be at least 1.")

    def events(self, settings: Settings) -> Shares:
        return [(EVENT, Decimal(1))]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        tested = tested_network(trainer, parts)
        first = tested if len(parts.prior) else _untrained(trainer)
        last, order, rounds = picks_from(trainer, first, parts)
        picks = {"rows": torch.from_numpy(parts.certify[order]), "rounds": torch.from_numpy(rounds)}
        return Evidence(parts, {"network": tested, FINAL: last}, arrays={PICKS: picks})

    def files(self, settings: Settings) -> dict[str, File]:
        return {"network": File(TRAINED), FINAL: File(TRAINED, predicts=True), PICKS: File(TRAINED)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        return self.produce(trainer, stored.parts) if retrain else stored

    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        evidence, rows = frozen.evidence, frozen.evidence.parts.certify
        facts = floor_facts(settings, data, evidence)
        left = ~np.isin(rows, checked_picks(settings, evidence))
        # All rows, as when they were picked, so that the same rows are computed together.
        logits, labels = outputs(evidence.networks[FINAL], data.X[rows]), torch.from_numpy(data.y[rows])
        errors, ties = wrong_and_close(logits[left], labels[left])
        return replace(facts, counts={**facts.counts, LEFT: Count(errors, ties, int(left.sum()))})

    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        n, left = len(evidence.parts.certify), facts.counts[LEFT]
        picked, rounds = n - left.trials, _last_round(evidence)
        k = picked + left.value
        bound = pick_to_learn(k, n, share(entries, EVENT))
        risk = left.value / left.trials if left.trials else 0.0
        return {
            "risk_bound": bound,
            "empirical_risk": risk,
            "empirical_risk_upper": risk,
            "compression": {
                "k": k,
                "picked": picked,
                "left_wrong": left.value,
                "rounds": rounds,
                "note": _note(picked, left, rounds),
            },
            "breakdown": [
                {"part": "picked examples", "value": picked / n},
                {"part": "errors on the others", "value": left.value / n},
                {"part": "confidence (delta)", "value": bound - k / n},
            ],
        }

    def floor(self, settings: Settings) -> str:
        if settings.prior.startswith("split"):
            return "the network before the first pick, tested on the certifying examples"
        return usual_floor(settings)

    def trusted(self, settings: Settings, evidence: Evidence) -> list[str]:
        return [
            "that the networks were trained on the picks and the prior's examples only, and that these are the right "
            "picks (verify --retrain picks and trains again)"
        ]

    def assumptions(self, settings: Settings, evidence: Evidence) -> list[str]:
        return ["The order of the examples is a seeded shuffle that has nothing to do with what they show."]

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        return predict_labels(frozen.evidence.networks[FINAL], X)


def pick(
    model: Model,
    judge: Callable[[Model], tuple[np.ndarray, np.ndarray]],
    learn: Callable[[Model, int, np.ndarray], Model],
    batch: int,
    rounds: int,
) -> tuple[Model, np.ndarray, np.ndarray]:
    """(last model, positions of the picks in their order, the round of each).

    ``judge(model)`` says of each certifying example whether it is wrong, and its loss. ``learn(model, round, picks)``
    trains on; it may use nothing of the certifying examples but the picks.
    """
    picks, numbers = np.empty(0, np.int64), np.empty(0, np.int64)
    for number in range(1, rounds + 1):
        wrong, loss = judge(model)
        candidates = np.setdiff1d(np.flatnonzero(wrong), picks)  # sorted: a stable sort then keeps positions in order
        worst = candidates[np.argsort(-loss[candidates], kind="stable")][:batch]
        if not len(worst):
            break
        picks = np.concatenate([picks, worst])
        numbers = np.concatenate([numbers, np.full(len(worst), number)])
        model = learn(model, number, picks)
    return model, picks, numbers


def picks_from(trainer: Trainer, first: nn.Module, parts: Split) -> tuple[nn.Module, np.ndarray, np.ndarray]:
    """``pick`` with networks: warm starts, the plan "picks", and rows of the prior so that they are not forgotten."""
    settings, data, rows = trainer.settings, trainer.data, parts.certify
    brief = replace(trainer, work=None)  # a round is short: a checkpoint of each would only fill the disk
    X, labels = data.X[rows], torch.from_numpy(data.y[rows])

    def judge(network: nn.Module) -> tuple[np.ndarray, np.ndarray]:
        logits = outputs(network, X).double()
        wrong = ~(margins(logits, labels)[0] > 0)
        loss = nn.functional.cross_entropy(logits, labels, reduction="none").nan_to_num(nan=torch.inf)
        return wrong.numpy(), loss.numpy()

    def learn(network: nn.Module, number: int, picks: np.ndarray) -> nn.Module:
        again = replayed(settings, parts.prior, number, len(picks))
        return brief.continued(network, f"picks-{number}", np.concatenate([again, rows[picks]]), role="picks")

    return pick(first, judge, learn, _option(settings, "batch"), _option(settings, "rounds"))


def replayed(settings: Settings, prior: np.ndarray, number: int, picked: int) -> np.ndarray:
    """Rows of the prior that round ``number`` trains on: all of them where a user's function starts anew."""
    if settings.own_training or len(prior) <= REPLAY:
        return prior
    return prior[shuffle(len(prior), derive(settings.seed, "replay", number, picked))[:REPLAY]]


def checked_picks(settings: Settings, evidence: Evidence) -> np.ndarray:
    """The stored picks: different certifying rows, in rounds that follow one another and are not too large."""
    arrays = evidence.arrays[PICKS]
    sound = arrays.keys() == {"rows", "rounds"} and all(t.ndim == 1 and t.dtype == torch.int64 for t in arrays.values())
    if sound:
        rows, rounds = arrays["rows"].numpy(), arrays["rounds"].numpy()
        sound = len(rows) == len(rounds) == len(np.unique(rows)) and bool(np.isin(rows, evidence.parts.certify).all())
        sound = sound and _follow(rounds, _option(settings, "batch"), _option(settings, "rounds"))
    if not sound:
        raise VerificationError("picks.safetensors must hold different certifying rows and the round of each.")
    return rows


def _follow(rounds: np.ndarray, batch: int, most: int) -> bool:
    """Rounds 1, 2, 3, ... of at most ``batch`` picks each, in this order."""
    if not len(rounds):
        return True
    steps = np.diff(rounds, prepend=0)
    sizes = np.unique(rounds, return_counts=True)[1]
    return bool(rounds[0] == 1 and (steps >= 0).all() and (steps <= 1).all() and sizes.max() <= batch) and (
        int(rounds[-1]) <= most
    )


def _last_round(evidence: Evidence) -> int:
    rounds = evidence.arrays[PICKS]["rounds"]
    return int(rounds[-1]) if len(rounds) else 0


def _note(picked: int, left: Count, rounds: int) -> str:
    if not left.trials:
        return f"All {picked:,} certifying examples were picked, so nothing is certified."
    if not left.value:
        return f"After {picked:,} picks in {rounds:,} rounds none of the other {left.trials:,} examples is wrong."
    return (
        f"After {picked:,} picks in {rounds:,} rounds {left.value:,} of the other {left.trials:,} examples are still "
        "wrong; they count like picks."
    )


def _untrained(trainer: Trainer) -> nn.Module:
    """The seeded initial network, in eval mode."""
    return check_network(trainer.fresh(), trainer.data.X, trainer.data.classes)


def _option(settings: Settings, name: str) -> int:
    return int(settings.options.get(name, PickToLearn.options[name]))
