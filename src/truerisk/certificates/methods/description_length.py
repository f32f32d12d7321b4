"""Description length: a compressed network, certified by the length of the file that it decodes from.

A code in which every network of an architecture has a file, fixed before any data is seen, is a prior: 2^-bits (Occam's
bound; Langford 2005; Zhou et al. 2019; Lotfi et al. 2022). The search for a short file may look at all examples, and as
often as it likes, because the bound holds for all files at once. What is certified is what the file decodes to.

So the search may also start at weights that came trained on the very same examples (``settings.given``). They never
reach the decoder: what it gets is the file, and every bit of it counts.

The decoder knows the architecture, the seeded initial network and the code (``truerisk.codes``), nothing else. What
the code looks like was decided by comparing fewer than 64 variants on MNIST, so 63 parts in 64 of delta are theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from truerisk.bounds import clopper_pearson, description_length, description_length_lower
from truerisk.certificates.counts import Counts, both_counts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import DETERMINISTIC, Method, Shares, floor_counts
from truerisk.certificates.origins import ARRAYS, DERIVED, FREE, File
from truerisk.certificates.prior import Prior
from truerisk.certificates.record import Derivation, Lower, Part, Record
from truerisk.certificates.schema import option
from truerisk.certificates.tale import Line, Tale, count
from truerisk.errors import TrueriskError, VerificationError

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer
    from truerisk.data import Data, Split
    from truerisk.nets import Architecture

EVENT = "description length: the certification examples are unrepresentative for some compressed network"
BELOW = "description length, lower end: the certification examples are unrepresentative for some compressed network"
OTHERS = "63 other codes that truerisk's authors may have compared"
CODES = 64
START, CODE, FILE = "network-start", "code", "bytes"
CODED = "decoded network"
BITS = "bits"
DECODED = "the compressed network"
REPLACES = "It replaces the network that you gave."
ASSUMPTION = (
    "The given weights are only the start of the compression: the compressed network is certified, and it predicts. "
    "Its decoder saw neither the given weights nor these examples."
)


@dataclass(frozen=True)
class Length:
    """The length of the file in bits."""

    bits: int


@dataclass(frozen=True)
class DescriptionLength(Method):
    """P(Binomial(n, risk) <= errors) >= delta 2^-bits for all files at once (see ``bounds.description_length``)."""

    name = "description-length"
    predictor = DETERMINISTIC
    summary = "a compressed network, certified by its length in bits"
    paper = "description length (Occam's bound; Langford 2005, Zhou et al. 2019, Lotfi et al. 2022)"
    usual_prior = Prior("init")
    counts_weights = fits_certify = True
    above_only = ""
    takes_weights = True
    advice = "More data, a smaller network, or another method with --prior split:0.5 would help."

    # All files of one start network are certified at once: trying many prices uses no delta.
    price: float = option(
        6.0,
        "Training loss in nats worth one bit (description-length).",
        low=0,
        below=math.inf,
    )

    def refuse(self, prior: Prior, given: bool) -> None:
        super().refuse(prior, given)
        if prior.fraction:
            raise TrueriskError(f"the method {self.name} sets no data aside; give --prior init.")

    def refuse_weights(self, arch: Architecture) -> None:
        from truerisk.certificates.workshop.gaussians import refuse_learnt

        refuse_learnt(arch)

    def events(self) -> Shares:
        part = Decimal(1) / CODES
        return [(EVENT, part), (OTHERS, 1 - part)]

    def both_ends(self) -> Shares:
        (_, own), others = self.events()
        return [(EVENT, own / 2), (BELOW, own / 2), others]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        import numpy as np
        import torch

        from truerisk.certificates.evidence import Evidence
        from truerisk.codes import compress

        start, data, rows = trainer.fresh().eval(), trainer.data, parts.certify
        given = trainer.arch.given if trainer.settings.given else None  # a module's own weights are not always used
        plan = trainer.settings.plans["code"]
        code = compress(start, data.X[rows], data.y[rows], plan, given=given, price=self.price)
        file = torch.from_numpy(np.frombuffer(code, np.uint8).copy())
        return Evidence(parts, {"network": trainer.tested(parts), START: start}, arrays={CODE: {FILE: file}})

    def files(self, settings: Settings) -> dict[str, File]:
        return super().files(settings) | {START: File(DERIVED, predicts=True), CODE: File(FREE, ARRAYS, predicts=True)}

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        """What the decoder knows is always made again."""
        return super().again(trainer, stored, retrain).having({START: trainer.fresh().eval()})

    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        from truerisk.codes import bits

        evidence, rows = frozen.evidence, frozen.evidence.parts.certify
        decoded = both_counts(CODED, _decoded(evidence), data.X[rows], data.y[rows], settings.two_sided)
        length = float(bits(_code(evidence)))
        return floor_counts(settings, data, evidence).adding(decoded, numbers={BITS: length})

    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        decoded, delta, length = counts[CODED], share(entries, EVENT), int(counts.numbers[BITS])
        risk = decoded.value / decoded.trials
        bound = description_length(decoded.value, decoded.trials, length, delta)
        without = min(bound, clopper_pearson(decoded.value, decoded.trials, delta))
        parts = (
            Part("errors of the compressed network", risk),
            Part("confidence (delta)", without - risk),
            Part(f"length of {length:,} bits", bound - without),
        )
        return Derivation(bound, risk, risk, parts, details=(Length(length),))

    def lower_end(self, counts: Counts, entries: list[Entry]) -> Lower:
        decoded, length = counts.sure(CODED), int(counts.numbers[BITS])
        below = description_length_lower(decoded.value, decoded.trials, length, share(entries, BELOW))
        return Lower(below, decoded.value / decoded.trials)

    def details(self) -> tuple[type, ...]:
        return (Length,)

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        from truerisk.nets import predict_labels

        return predict_labels(_decoded(frozen.evidence), X)

    # ---- words -------------------------------------------------------------------------------------------------------

    def tell(self, record: Record) -> Tale:
        length = record.derivation.detail(Length).bits
        return Tale(
            seen=f"error rate of the compressed network on the {record.n_certify:,} certification examples",
            counted=f"{record.counts[CODED]:,} errors",
            lines=(Line("bits", count(length), "length of the compressed network"),),
        )

    def subject(self, settings: Settings) -> str:
        return DECODED if settings.given else super().subject(settings)

    def subtitle(self, settings: Settings) -> str:
        return REPLACES if settings.given else super().subtitle(settings)

    def training(self, settings: Settings) -> tuple[str, str]:
        began = "the given weights" if settings.given else "the seeded initialization"
        return "Training", f"compression on all examples, from {began}; all examples enter the bound"

    def assumptions(self, settings: Settings, derivation: Derivation) -> list[str]:
        return [ASSUMPTION] if settings.given else []


def _code(evidence: Evidence) -> bytes:
    import torch

    stored = evidence.arrays[CODE]
    if stored.keys() != {FILE} or stored[FILE].dtype != torch.uint8:
        raise VerificationError(f"{CODE}.safetensors must hold one row of bytes; certify again.")
    return bytes(stored[FILE].numpy().tobytes())


def _decoded(evidence: Evidence) -> nn.Module:
    from truerisk.codes import decode

    return decode(_code(evidence), evidence.networks[START]).eval()
