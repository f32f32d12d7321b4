"""Disagreement: a network that is already trained, unchanged, certified by how often it differs from a certified one.

Where the target errs, the surrogate errs or the two disagree, so risk(target) <= risk(surrogate) + P(disagreement)
(Kaariainen 2005; Bazinet, Zantedeschi and Germain 2026). The surrogate is a new network of the same architecture with a
certificate of its own, made by any other method on the labelled examples; how it relates to the target does not matter.
Disagreement is counted on inputs without labels that neither network was trained on. A surrogate that draws its weights
anew for each prediction draws them anew for each of these inputs, so that the inputs are independent trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from truerisk.bounds import clopper_pearson, disagreement
from truerisk.certificates.draws import UNLABELLED, Draws, equal_rows, unexplained
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import Facts, errors_of
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import DETERMINISTIC, STOCHASTIC, Method, Shares
from truerisk.certificates.origins import VOUCHED, File
from truerisk.certificates.settings import HOLD_OUT, Settings
from truerisk.certificates.trainer import Trainer
from truerisk.data import Data, Split
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import predict_labels
from truerisk.pacbayes.monte_carlo import NORMALS
from truerisk.seeds import derive

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

EVENT = "Clopper-Pearson: the unlabelled inputs are misleading"
SHARE = Decimal("0.5")  # of delta, for the disagreement
COUNT = "disagreements"
TARGET, INPUTS = "network-target", "unlabelled"
LEAST = 10  # unlabelled inputs
PIECE = 100  # inputs answered at a time by a stochastic surrogate


class Disagreement(Method):
    """risk <= the surrogate's bound + Clopper-Pearson(disagreements, unlabelled inputs)."""

    name = "disagreement"
    predictor = DETERMINISTIC
    summary = "a trained network (--weights), unchanged, compared with a certified one on --unlabelled inputs"
    takes_weights = needs_weights = needs_unlabelled = True
    options = MappingProxyType({"surrogate": HOLD_OUT})
    advice = (
        "What would help: more unlabelled inputs, more labelled data or a larger part of it for the surrogate's "
        "training (--prior split:0.8), or labelled examples that the network never saw (--fresh)."
    )

    def __init__(self, others: dict[str, Method]) -> None:
        self.others = others  # all methods by name: one of them certifies the surrogate

    def surrogate(self, settings: Settings) -> tuple[Method, Settings]:
        """The method that certifies the surrogate, and its settings."""
        name = settings.options.get("surrogate", HOLD_OUT)
        if name not in self.others or self.others[name].needs_weights:
            possible = [m.name for m in self.others.values() if not m.needs_weights]
            raise TrueriskError(f"the surrogate is {name!r}, but must be one of {', '.join(possible)}.")
        options = {key: value for key, value in settings.options.items() if key != "surrogate"}
        return self.others[name], replace(settings, method=name, options=options, given=False)

    def refuse(self, settings: Settings) -> None:
        self.refuse_given(settings)
        if settings.prior == "none":
            raise TrueriskError(
                f"the method {self.name} trains its own surrogate: give --prior split:FRACTION with it."
            )
        inner, own = self.surrogate(settings)
        inner.refuse(own)

    def takes(self, options: Mapping[str, Any]) -> dict[str, Any]:
        inner = self.others.get(options.get("surrogate", HOLD_OUT))
        return super().takes(options) | (inner.takes(options) if inner else {})

    def events(self, settings: Settings) -> Shares:
        inner, own = self.surrogate(settings)
        return [*((event, part * (1 - SHARE)) for event, part in inner.events(own)), (EVENT, SHARE)]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        """Train and certify the surrogate; the target and the inputs are added by ``with_target``."""
        inner, own = self.surrogate(trainer.settings)
        return inner.produce(replace(trainer, settings=own), parts)

    def files(self, settings: Settings) -> dict[str, File]:
        """Predictions are the target's; the surrogate only bounds them."""
        inner, own = self.surrogate(settings)
        surrogate = {name: replace(file, predicts=False) for name, file in inner.files(own).items()}
        return surrogate | {TARGET: File(VOUCHED, predicts=True), INPUTS: File(VOUCHED)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        inner, own = self.surrogate(trainer.settings)
        made = inner.again(replace(trainer, settings=own), stored, retrain)
        return replace(made, networks=stored.networks | made.networks, arrays=stored.arrays | made.arrays)

    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        (inner, own), evidence = self.surrogate(settings), frozen.evidence
        X = checked_inputs(_inputs(evidence), data, settings)
        facts = inner.measure(own, data, frozen, seed)
        answers = np.concatenate(list(_answers(inner, own, frozen, X, seed("disagreement"))))
        # Errors of the target if the surrogate's answers were right; a tie or a NaN of the target differs.
        count = replace(errors_of(evidence.networks[TARGET], X, answers), drawn=inner.predictor == STOCHASTIC)
        return replace(facts, counts={**facts.counts, COUNT: count})

    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        inner, own = self.surrogate(settings)
        record, count, delta = inner.derive(own, evidence, facts, entries), facts.counts[COUNT], share(entries, EVENT)
        bound = disagreement(record["risk_bound"], count.value, count.trials, delta)
        rate, upper = count.value / count.trials, clopper_pearson(count.value, count.trials, delta)
        parts = [
            *({**part, "part": f"surrogate: {part['part']}"} for part in record["breakdown"]),
            {"part": "disagreements seen", "value": rate},
            {"part": "confidence of the disagreement", "value": upper - rate},
        ]
        return record | {
            "risk_bound": bound,
            "empirical_risk": min(1.0, record["empirical_risk"] + rate),
            "empirical_risk_upper": min(1.0, record["empirical_risk_upper"] + rate),
            "disagreement": {
                "surrogate": own.method,
                "surrogate_bound": record["risk_bound"],
                "disagreements": count.value,
                "unlabelled": count.trials,
                "upper": upper,
            },
            "breakdown": _up_to(bound, parts),
        }

    def floor(self, settings: Settings) -> str:
        return "a new network in place of yours, trained on a part of the data and tested on the rest"

    def trusted(self, settings: Settings, evidence: Evidence) -> list[str]:
        inner, own = self.surrogate(settings)
        return inner.trusted(own, evidence)

    def vouched(self, settings: Settings, evidence: Evidence) -> list[str]:
        (inner, own), m = self.surrogate(settings), len(evidence.arrays[INPUTS]["X"])
        inputs = f"that neither the network nor its surrogate saw the {m:,} unlabelled inputs, and that nobody selected"
        return [*inner.vouched(own, evidence), f"{inputs} them: that is your word"]

    def assumptions(self, settings: Settings, evidence: Evidence) -> list[str]:
        inner, own = self.surrogate(settings)
        m = len(evidence.arrays[INPUTS]["X"])
        return [
            *inner.assumptions(own, evidence),
            f"The {m:,} unlabelled inputs are independent draws from the same distribution, without their labels.",
            "You vouch that neither the network nor its surrogate was trained, tuned or chosen on these inputs.",
        ]

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        """By the network that was given."""
        return predict_labels(frozen.evidence.networks[TARGET], X)


def with_target(evidence: Evidence, target: nn.Module, X: np.ndarray) -> Evidence:
    """The surrogate's evidence together with the target and the inputs on which the two are compared."""
    networks = {**evidence.networks, TARGET: target}
    return replace(evidence, networks=networks, arrays={**evidence.arrays, INPUTS: {"X": torch.from_numpy(X)}})


def settle_inputs(X: np.ndarray, data: Data, draws: Draws) -> Draws:
    """What is said about equal rows, refused where the inputs can't be fresh draws of what ``data`` is drawn from."""
    _refuse_shape(X, data)
    return draws.between(X, data.X, UNLABELLED, "the labelled data")


def checked_inputs(X: np.ndarray, data: Data, settings: Settings) -> np.ndarray:
    """The unlabelled inputs of a certificate; all equal rows must be among those that its settings speak of.

    Nothing else stands between an input that is listed twice and a smaller bound.
    """
    _refuse_shape(X, data)
    within, across = equal_rows(X, data.X)
    repeats = len({*within, *across})
    if repeats and not (settings.repeats_are_draws or settings.row_ids):
        raise TrueriskError(unexplained(repeats, len(X)))
    if repeats != settings.repeats:
        raise TrueriskError(
            f"{repeats:,} unlabelled inputs equal another row, but the settings speak of {settings.repeats:,}; certify "
            "these inputs again."
        )
    return X


def _refuse_shape(X: np.ndarray, data: Data) -> None:
    if X.dtype != np.float32 or X.shape[1:] != data.X.shape[1:] or len(X) < LEAST or not np.isfinite(X).all():
        raise TrueriskError(
            f"the unlabelled inputs have shape {X.shape}; {LEAST} or more finite inputs of shape {data.input_shape}, "
            "those of the data, are needed."
        )


def _inputs(evidence: Evidence) -> np.ndarray:
    stored = evidence.arrays[INPUTS]
    if stored.keys() != {"X"} or stored["X"].dtype != torch.float32:
        raise VerificationError(f"{INPUTS}.safetensors must hold one array of float32 inputs.")
    return np.asarray(stored["X"].numpy())


def _answers(inner: Method, own: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """The surrogate's answers; a stochastic one gets so few inputs at a time that each has weights of its own.

    (``plan_draws`` lets inputs share a drawn network only where there are more inputs than it may draw networks.)
    """
    if inner.predictor != STOCHASTIC:
        yield inner.predict(own, frozen, X, seed)
        return
    largest = max((g.size for g in frozen.evidence.gaussians.values()), default=1)
    step = max(1, min(PIECE, NORMALS // largest))
    for start in range(0, len(X), step):
        yield inner.predict(own, frozen, X[start : start + step], derive(seed, start))


def _up_to(bound: float, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parts of a sum that is cut off at ``bound``, such that they add up to it."""
    ends = np.minimum(bound, np.cumsum([part["value"] for part in parts]))
    ends[-1] = bound
    values = np.diff(ends, prepend=0.0)
    return [{**part, "value": float(value)} for part, value in zip(parts, values, strict=True)]
