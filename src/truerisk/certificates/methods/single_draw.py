"""Single draw: one network, drawn once from the posterior and kept, with a bound for that very network.

The disintegrated PAC-Bayes bound (Rivasplata et al. 2020; Viallard et al. 2024): in place of the KL stands the log
density ratio of posterior and prior at the drawn weights. No Monte Carlo error is left, because one network's
training errors can be counted. The price: the drawn weights may be unlucky, and the bound holds for this draw only.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from truerisk.bounds import confidence_term, kl_inverse, single_draw
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import Facts, errors_of
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import SINGLE_DRAW, Shares, floor_facts
from truerisk.certificates.methods.pac_bayes import PacBayesKL, both_gaussians
from truerisk.certificates.rescaling import rescaled_kl
from truerisk.certificates.scales import divided
from truerisk.certificates.settings import Settings
from truerisk.data import Data
from truerisk.nets import predict_labels
from truerisk.pacbayes import draw, draw_noise, drawn_network, log_ratio

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

EVENT = "disintegrated PAC-Bayes inequality: the certifying examples, or the one draw, are misleading"
DRAWN = "drawn network"
SEED = "single draw"


class SingleDraw(PacBayesKL):
    """kl(empirical risk of h, true risk of h) <= (ln dQ/dP(h) + ln(2 sqrt(n)/delta)) / n for one draw h from Q."""

    name = "single-draw"
    predictor = SINGLE_DRAW
    summary = "one network drawn from a posterior and kept (disintegrated PAC-Bayes)"

    def events(self, settings: Settings) -> Shares:
        return divided(settings, EVENT, Decimal(1))

    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        evidence, rows = frozen.evidence, frozen.evidence.parts.certify
        facts, (prior, posterior) = floor_facts(settings, data, evidence), both_gaussians(settings, evidence)
        count = errors_of(_drawn(frozen), data.X[rows], data.y[rows])
        noise = draw_noise(posterior, frozen.seed(SEED))
        return Facts(
            {**facts.counts, DRAWN: count},
            facts.duplicates,
            rescaled_kl(posterior, prior, evidence.log_scales, data.input_shape),
            numbers={"log_ratio": log_ratio(posterior, prior, noise)},
        )

    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        count, delta, ratio = facts.counts[DRAWN], share(entries, EVENT), facts.numbers["log_ratio"]
        assert facts.kl is not None
        risk = count.value / count.trials
        bound = single_draw(risk, ratio, count.trials, delta)
        without = kl_inverse(risk, confidence_term(count.trials, delta) / count.trials)
        return {
            "risk_bound": bound,
            "empirical_risk": risk,
            "empirical_risk_upper": risk,
            "kl": facts.kl.kl,
            "kl_unrescaled": facts.kl.original,
            "rescaling": facts.kl.record(),
            "log_ratio": ratio,
            "breakdown": [
                {"part": "errors of the drawn network", "value": risk},
                {"part": "confidence (delta)", "value": without - risk},
                {"part": "log density ratio of posterior and prior", "value": bound - without},
            ],
        }

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        """By the one network that was drawn, whatever ``seed``."""
        return predict_labels(_drawn(frozen), X)


def _drawn(frozen: Frozen) -> nn.Module:
    """The drawn network. Its seed is a hash of the posterior among others: another posterior gets other noise."""
    posterior = frozen.evidence.posterior
    assert posterior is not None
    return drawn_network(posterior, draw(posterior, frozen.seed(SEED)))
