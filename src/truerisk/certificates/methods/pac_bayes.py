"""PAC-Bayes-kl: a posterior over weights, paid for by its distance from a prior."""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from truerisk.bounds import confidence_term, grouped_upper, kl_inverse, mcallester, pac_bayes_kl, quadratic, thiemann
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.facts import DRAWS, Count, Facts
from truerisk.certificates.ledger import Entry, share
from truerisk.certificates.methods.base import (
    STOCHASTIC,
    Method,
    Shares,
    floor_facts,
    tested_network,
    usual_floor,
)
from truerisk.certificates.origins import DERIVED, FREE, TRAINED, File
from truerisk.certificates.priors import ALL, LAST, make_prior
from truerisk.certificates.rescaling import best_log_scales, moved, rescaled_kl, rescaled_prior
from truerisk.certificates.scales import ARRAY, FIXED, divided, scale_layers, scaled_prior, stored
from truerisk.certificates.settings import PAC_BAYES_KL, Settings, split_fraction
from truerisk.certificates.trainer import Trainer
from truerisk.data import Data, Split
from truerisk.errors import TrueriskError
from truerisk.pacbayes import (
    Gaussian,
    best_layer_scales,
    draw_predictions,
    gibbs_risk,
    with_layer_scales,
)

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen, Seed

MONTE_CARLO_SHARE = Decimal("0.1")
ROUNDS = 3  # prior scales and log-scales, each the best for the other
EVENT = "PAC-Bayes-kl inequality: the certifying examples are misleading"
MONTE_CARLO = "Monte Carlo: the drawn networks erred less often than the posterior does on average"


class PacBayesKL(Method):
    """kl(empirical Gibbs risk, true Gibbs risk) <= (KL + ln(2 sqrt(n)/delta)) / n (Maurer 2004)."""

    name = PAC_BAYES_KL
    predictor = STOCHASTIC
    summary = "weights drawn anew for each prediction from a posterior (PAC-Bayes-kl)"
    options = MappingProxyType({"random": ALL, "scales": FIXED, "warmup": 0.0})

    def refuse(self, settings: Settings) -> None:
        super().refuse(settings)
        if settings.options.get("random", ALL) not in (ALL, LAST):
            raise TrueriskError(f"random is {settings.options['random']!r}, but must be {ALL} or {LAST}.")
        if not 0 <= settings.options.get("warmup", 0.0) < 1:
            raise TrueriskError(f"warmup is {settings.options['warmup']}, but must be a share from 0 up to below 1.")
        scale_layers(settings)  # refuses what it can't read

    def events(self, settings: Settings) -> Shares:
        return [*divided(settings, EVENT, 1 - MONTE_CARLO_SHARE), (MONTE_CARLO, MONTE_CARLO_SHARE)]

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        return train_gaussians(trainer, parts)

    def files(self, settings: Settings) -> dict[str, File]:
        chosen = {ARRAY: File(FREE)} if scale_layers(settings) else {}
        free = {"posterior": File(FREE, predicts=True), "log_scales": File(FREE, optional=True)}
        return prior_files(settings) | free | chosen

    def again(self, trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
        return prior_again(trainer, stored, retrain)

    def measure(self, settings: Settings, data: Data, frozen: Frozen, seed: Seed) -> Facts:
        evidence, rows = frozen.evidence, frozen.evidence.parts.certify
        facts, (prior, posterior) = floor_facts(settings, data, evidence), both_gaussians(settings, evidence)
        estimate = gibbs_risk(posterior, data.X[rows], data.y[rows], seed("draws"))
        plan = estimate.plan
        drawn = Count(estimate.errors, estimate.near_ties, plan.n * plan.passes, drawn=True, size=plan.size)
        kl = rescaled_kl(posterior, prior, evidence.log_scales, data.input_shape)
        return Facts({**facts.counts, DRAWS: drawn}, facts.duplicates, kl, plan)

    def derive(self, settings: Settings, evidence: Evidence, facts: Facts, entries: list[Entry]) -> dict[str, Any]:
        """risk_bound = kl_inverse(upper, (KL + ln(2 sqrt(n) / delta)) / n), where upper contains the draws' error."""
        plan, kl, count, delta = facts.plan, facts.kl, facts.counts[DRAWS], share(entries, EVENT)
        assert plan is not None
        assert kl is not None
        risk = count.value / count.trials
        upper = grouped_upper(count.value, plan.groups, plan.size, plan.n, plan.passes, share(entries, MONTE_CARLO))
        bound = pac_bayes_kl(upper, kl.kl, plan.n, delta)
        without_kl = kl_inverse(upper, confidence_term(plan.n, delta) / plan.n)
        arguments = (upper, kl.kl, plan.n, delta)
        return {
            "risk_bound": bound,
            "empirical_risk": risk,
            "empirical_risk_upper": upper,
            "kl": kl.kl,
            "kl_unrescaled": kl.original,
            "rescaling": kl.record(),
            "draws": plan.record(),
            "breakdown": [
                {"part": "errors of the drawn networks", "value": risk},
                {"part": "Monte Carlo", "value": upper - risk},
                {"part": "confidence (delta)", "value": without_kl - upper},
                {"part": "KL(posterior, prior)", "value": bound - without_kl},
            ],
            # All of these hold on the same event as the kl form, so that showing them costs no delta.
            "other_forms": {
                "McAllester": mcallester(*arguments),
                "quadratic": quadratic(*arguments),
                "Thiemann": thiemann(*arguments),
            },
        }

    def floor(self, settings: Settings) -> str:
        return usual_floor(settings)

    def trusted(self, settings: Settings, evidence: Evidence) -> list[str]:
        return prior_trusted(settings)

    def predict(self, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
        return draw_predictions(both_gaussians(settings, frozen.evidence)[1], X, seed)


def train_gaussians(trainer: Trainer, parts: Split) -> Evidence:
    """Prior, posterior, the best log-scales, and the floor's network."""
    prior = make_prior(trainer, parts)
    return with_scales(trainer, parts, prior, trainer.posterior(prior, parts))


def with_scales(trainer: Trainer, parts: Split, prior: Gaussian, posterior: Gaussian) -> Evidence:
    """The evidence of a posterior, with the best prior scales (on a grid), log-scales and the floor's network."""
    arrays = {}
    shape, layers = trainer.data.input_shape, scale_layers(trainer.settings)
    chosen, log_scales = prior, None
    for _ in range(ROUNDS if layers else 1):
        if layers:
            # The widths that fit the rescaled prior best, given to the prior before it is rescaled: both multiply.
            indices = best_layer_scales(posterior, rescaled_prior(prior, log_scales, shape), layers)
            chosen, arrays[ARRAY] = with_layer_scales(prior, indices), stored(indices)
        log_scales = best_log_scales(posterior, chosen, shape)
    posterior, log_scales = moved(posterior, log_scales, shape)
    if log_scales is not None:
        arrays["log_scales"] = log_scales
    network = prior.network() if len(parts.prior) else tested_network(trainer, parts)
    return Evidence(parts, {"network": network}, {"prior": prior, "posterior": posterior}, arrays)


def both_gaussians(settings: Settings, evidence: Evidence) -> tuple[Gaussian, Gaussian]:
    """(prior with the widths that were chosen for it, posterior)."""
    assert evidence.posterior is not None
    return scaled_prior(settings, evidence), evidence.posterior


def prior_files(settings: Settings) -> dict[str, File]:
    """The prior and the network of the floor: one of them was trained, and the other follows without training."""
    learnt = bool(split_fraction(settings.prior))
    return {"network": File(DERIVED if learnt else TRAINED), "prior": File(TRAINED if learnt else DERIVED)}


def prior_again(trainer: Trainer, stored: Evidence, retrain: bool) -> Evidence:
    """A data-free prior is always made again; a learnt one, and the floor's network beside it, if ``retrain`` says so.

    Beside a learnt prior, the floor's network is the one at the prior's mean.
    """
    parts, prior = stored.parts, stored.prior
    assert prior is not None
    if len(parts.prior):
        prior = make_prior(trainer, parts) if retrain else prior
        return stored.having({"prior": prior, "network": prior.network()})
    network = tested_network(trainer, parts) if retrain else stored.network
    return stored.having({"prior": make_prior(trainer, parts), "network": network})


def prior_trusted(settings: Settings) -> list[str]:
    """The words for what ``prior_again`` does not make again."""
    what = "prior" if split_fraction(settings.prior) else "network of the hold-out baseline"
    return [f"that the {what} was trained on its own examples only (verify --retrain trains it again)"]
