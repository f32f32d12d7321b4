"""Single draw: one network, drawn once from the posterior and kept, with a bound for that very network.

The disintegrated PAC-Bayes bound (Rivasplata et al. 2020; Viallard et al. 2024): in place of the KL stands the log
density ratio of posterior and prior at the drawn weights. No Monte Carlo error is left, because one network's
training errors can be counted. The price: the drawn weights may be unlucky, and the bound holds for this draw only.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from truerisk.bounds import confidence_term, kl_inverse, single_draw, single_draw_lower
from truerisk.certificates.counts import Counts, both_counts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import SINGLE_DRAW, Shares, floor_counts
from truerisk.certificates.methods.pac_bayes import Posterior, RandomLayers
from truerisk.certificates.record import Derivation, Lower, Part, Record
from truerisk.certificates.tale import Line, Tale, nats

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from truerisk.certificates.frozen import Frozen, Seed
    from truerisk.certificates.settings import Settings
    from truerisk.data import Data

EVENT = "disintegrated PAC-Bayes inequality: the certification examples or the sampled weights are unrepresentative"
DRAWN = "drawn network"
SEED = "single draw"
RATIO = "log_ratio"


@dataclass(frozen=True)
class LogRatio:
    """ln dQ/dP at the drawn weights, in nats."""

    log_ratio: float


@dataclass(frozen=True)
class DrawnOnce(Posterior):
    """kl(empirical risk of h, true risk of h) <= (ln dQ/dP(h) + ln(2 sqrt(n)/delta)) / n for one draw h from Q."""

    predictor = SINGLE_DRAW
    paper = "disintegrated PAC-Bayes (Rivasplata et al. 2020, Viallard et al. 2024)"
    draws: int | None = None  # not an option here: nothing is estimated by draws

    def events(self) -> Shares:
        return self.shared(EVENT, Decimal(1))

    def both_ends(self) -> Shares:
        """One event limits the divergence on both sides, and nothing is estimated by draws."""
        return self.events()

    def count(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Counts:
        from truerisk.certificates.workshop.rescaling import rescaled_kl
        from truerisk.certificates.workshop.scales import scaled_prior
        from truerisk.pacbayes import draw_noise, log_ratio

        evidence, rows = frozen.evidence, frozen.evidence.parts.certify
        posterior, prior = evidence.posterior, scaled_prior(evidence, self.layers)
        drawn = both_counts(DRAWN, _drawn(frozen), data.X[rows], data.y[rows], settings.two_sided)
        ratio = log_ratio(posterior, prior, draw_noise(posterior, frozen.seed(SEED)))
        kl = rescaled_kl(posterior, prior, evidence.log_scales, data.blank)
        return floor_counts(settings, data, evidence).adding(drawn, kls=(kl,), numbers={RATIO: ratio})

    def derive(self, counts: Counts, entries: list[Entry]) -> Derivation:
        count, delta, ratio = counts[DRAWN], share(entries, EVENT), counts.numbers[RATIO]
        risk = count.value / count.trials
        bound = single_draw(risk, ratio, count.trials, delta)
        without = kl_inverse(risk, confidence_term(count.trials, delta) / count.trials)
        parts = (
            Part("errors of the sampled network", risk),
            Part("confidence (delta)", without - risk),
            Part("log density ratio of posterior and prior", bound - without),
        )
        return Derivation(bound, risk, risk, parts, counts.kls[0], details=(LogRatio(ratio),))

    def lower_end(self, counts: Counts, entries: list[Entry]) -> Lower:
        count, delta, ratio = counts.sure(DRAWN), share(entries, EVENT), counts.numbers[RATIO]
        risk = count.value / count.trials
        return Lower(single_draw_lower(risk, ratio, count.trials, delta), risk)

    def details(self) -> tuple[type, ...]:
        return (LogRatio,)

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        """By the one network that was drawn, whatever ``seed``."""
        from truerisk.nets import predict_labels

        return predict_labels(_drawn(frozen), X)

    def tell(self, record: Record) -> Tale:
        ratio = record.derivation.detail(LogRatio).log_ratio
        meaning = "nats: log density ratio of posterior to prior at the sampled weights"
        return Tale(
            seen=f"error rate of the sampled network on the {record.n_certify:,} certification examples",
            counted=f"{record.counts[DRAWN]:,} errors",
            lines=(Line("log ratio", nats(ratio), meaning),),
            used="of the posterior; the bound uses the log ratio of the sampled weights",
        )


@dataclass(frozen=True)
class SingleDraw(RandomLayers, DrawnOnce):
    """One draw from a posterior that was trained here."""

    name = "single-draw"
    summary = "one network sampled once from a posterior (disintegrated PAC-Bayes)"


def _drawn(frozen: Frozen) -> nn.Module:
    """The drawn network. Its seed is a hash of the posterior among others: another posterior gets other noise."""
    from truerisk.pacbayes import draw, drawn_network

    posterior = frozen.evidence.posterior
    return drawn_network(posterior, draw(posterior, frozen.seed(SEED)))
