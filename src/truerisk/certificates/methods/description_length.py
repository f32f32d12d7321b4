"""Description length: a network that fits into a short file, certified by the length of that file.

A code in which every network of an architecture has a file, fixed before any data is seen, is a prior: 2^-bits (Occam's
bound; Langford 2005; Zhou et al. 2019; Lotfi et al. 2022). The search for a short file may look at all examples, and as
often as it likes, because the bound holds for all files at once. What is certified is what the file decodes to.

So the search may also start at weights that came trained on the very same examples (``settings.given``). They never
reach the decoder: what it gets is the file, and every bit of it is paid for.

The decoder knows the architecture, the seeded initial network and the code (``truerisk.codes``), nothing else. What
the code looks like was decided by comparing fewer than 64 variants on MNIST, so 63 parts in 64 of delta are theirs.
"""

from __future__ import annotations

import math
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from truerisk.bounds import clopper_pearson, description_length
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import Facts, errors_of
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.around import refuse_learnt
from truerisk.certificates.methods.base import DETERMINISTIC, Method, Shares, floor_facts, tested_network, usual_floor
from truerisk.certificates.origins import DERIVED, FREE, File
from truerisk.certificates.settings import Settings, split_fraction
from truerisk.certificates.trainer import Trainer
from truerisk.codes import PRICE, bits, compress, decode
from truerisk.data import Data, Split
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import Architecture, predict_labels

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

EVENT = "description length: the certifying examples are misleading about some file"
OTHERS = "the same for 63 other codes that the authors may have compared"
CODES = 64
START, CODE, FILE = "network-start", "code", "bytes"
CODED = "decoded network"
DECODED = "the network in the file (not the one that was given)"
ASSUMPTION = (
    "The given weights were only where the search for a short file began: what is certified, and what predicts, is the "
    "network that the file decodes to. The decoder has seen neither the given weights nor these examples."
)


class DescriptionLength(Method):
    """P(Binomial(n, risk) <= errors) >= delta 2^-bits for all files at once (see ``bounds.description_length``)."""

    name = "description-length"
    predictor = DETERMINISTIC
    summary = "a network that fits into a short file, certified by the length of the file"
    usual_prior = "init"
    takes_weights = True
    options = MappingProxyType({"price": PRICE})
    advice = "More data, a smaller network, or a part set aside (--prior split:0.5 with another method) would help."

    def refuse(self, settings: Settings) -> None:
        super().refuse(settings)
        if split_fraction(settings.prior):
            raise TrueriskError("the method description-length sets no data aside: give --prior init with it.")
        if not 0 <= _price(settings) < math.inf:
            raise TrueriskError(f"price is {_price(settings)}, but must be 0 or a positive number of nats for a bit.")

    def refuse_weights(self, arch: Architecture) -> None:
        refuse_learnt(arch)

    def events(self, settings: Settings) -> Shares:
        part = Decimal(1) / CODES
        return [(EVENT, part), (OTHERS, 1 - part)]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        start, data, rows = trainer.fresh().eval(), trainer.data, parts.certify
        given = trainer.arch.given if trainer.settings.given else None  # a module's own weights are not always used
        plan, price = trainer.settings.plans["code"], _price(trainer.settings)
        code = compress(start, data.X[rows], data.y[rows], plan, given=given, price=price)
        networks = {"network": tested_network(trainer, parts), START: start}
        return Evidence(parts, networks, arrays={CODE: {FILE: torch.from_numpy(np.frombuffer(code, np.uint8).copy())}})

    def files(self, settings: Settings) -> dict[str, File]:
        return super().files(settings) | {START: File(DERIVED, predicts=True), CODE: File(FREE, predicts=True)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        """What the decoder knows is always made again."""
        return super().again(trainer, stored, retrain).having({START: trainer.fresh().eval()})

    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        evidence, rows = frozen.evidence, frozen.evidence.parts.certify
        facts = floor_facts(settings, data, evidence)
        counts = {**facts.counts, CODED: errors_of(_decoded(evidence), data.X[rows], data.y[rows])}
        return Facts(counts, facts.duplicates, numbers={"bits": float(bits(_code(evidence)))})

    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        count, delta, length = facts.counts[CODED], share(entries, EVENT), int(facts.numbers["bits"])
        risk = count.value / count.trials
        bound = description_length(count.value, count.trials, length, delta)
        without = min(bound, clopper_pearson(count.value, count.trials, delta))
        return {
            "risk_bound": bound,
            "empirical_risk": risk,
            "empirical_risk_upper": risk,
            "bits": length,
            "breakdown": [
                {"part": "errors of the decoded network", "value": risk},
                {"part": "confidence (delta)", "value": without - risk},
                {"part": f"the file of {length:,} bits", "value": bound - without},
            ],
        }

    def floor(self, settings: Settings) -> str:
        return usual_floor(settings)

    def subject(self, settings: Settings) -> str:
        return DECODED if settings.given else super().subject(settings)

    def assumptions(self, settings: Settings, evidence: Evidence) -> list[str]:
        return [ASSUMPTION] if settings.given else []

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        return predict_labels(_decoded(frozen.evidence), X)


def _price(settings: Settings) -> float:
    """What a bit costs the search. All files of one start network are certified at once: trying many prices is free."""
    return float(settings.options.get("price", PRICE))


def _code(evidence: Evidence) -> bytes:
    stored = evidence.arrays[CODE]
    if stored.keys() != {FILE} or stored[FILE].dtype != torch.uint8:
        raise VerificationError(f"{CODE}.safetensors must hold one row of bytes.")
    return bytes(stored[FILE].numpy().tobytes())


def _decoded(evidence: Evidence) -> nn.Module:
    return decode(_code(evidence), evidence.networks[START]).eval()
