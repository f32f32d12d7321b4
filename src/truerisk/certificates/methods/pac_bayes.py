"""PAC-Bayes-kl: a posterior over weights, paid for by its distance from a prior."""

from __future__ import annotations

import secrets
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np

from truerisk.bounds import confidence_term, grouped_upper, kl_inverse, mcallester, pac_bayes_kl, quadratic, thiemann
from truerisk.certificates.case import Case
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
from truerisk.certificates.priors import ALL, LAST, make_prior
from truerisk.certificates.rescaling import best_log_scales, rescaled_kl, rescaled_prior
from truerisk.certificates.scales import ARRAY, FIXED, divided, scale_layers, scaled_prior, stored
from truerisk.certificates.settings import PAC_BAYES_KL, Settings
from truerisk.certificates.trainer import Fit, Trainer
from truerisk.data import Data, Split
from truerisk.errors import TrueriskError, VerificationError
from truerisk.pacbayes import (
    DrawPlan,
    Gaussian,
    best_layer_scales,
    draw_predictions,
    gibbs_risk,
    with_layer_scales,
)
from truerisk.seeds import derive

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

    def files(self, settings: Settings) -> tuple[set[str], set[str]]:
        chosen = {ARRAY} if scale_layers(settings) else set()
        return {"network", "prior", "posterior"} | chosen, {"log_scales"}

    def measure(
        self, settings: Settings, data: Data, evidence: Evidence, claimed: dict[str, Any] | None, redraw: bool
    ) -> Facts:
        facts = floor_facts(settings, data, evidence)
        rows, (prior, posterior) = evidence.parts.certify, both_gaussians(settings, evidence)
        plan = None if claimed is None else stored_plan(claimed, len(rows))
        # The seed was fixed before the posterior was trained.
        seed = secrets.randbits(63) if redraw else derive(settings.seed, "draws")
        estimate = gibbs_risk(posterior, data.X[rows], data.y[rows], seed, plan)
        used = estimate.plan
        drawn = Count(estimate.errors, estimate.near_ties, used.n * used.passes, drawn=True)
        kl = rescaled_kl(posterior, prior, evidence.log_scales, data.input_shape)
        return Facts({**facts.counts, DRAWS: drawn}, facts.duplicates, kl, used)

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

    def origin(self, case: Case, retrain: bool, fit: Fit | None) -> None:
        check_gaussians(self, case, retrain, fit)

    def predict(self, settings: Settings, evidence: Evidence, X: np.ndarray, seed: int) -> np.ndarray:
        return draw_predictions(both_gaussians(settings, evidence)[1], X, seed)


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
    if log_scales is not None:
        arrays["log_scales"] = log_scales
    network = prior.network() if len(parts.prior) else tested_network(trainer, parts)
    return Evidence(parts, {"network": network}, {"prior": prior, "posterior": posterior}, arrays)


def both_gaussians(settings: Settings, evidence: Evidence) -> tuple[Gaussian, Gaussian]:
    """(prior with the widths that were chosen for it, posterior)."""
    assert evidence.posterior is not None
    return scaled_prior(settings, evidence), evidence.posterior


def check_gaussians(method: Method, case: Case, retrain: bool, fit: Fit | None) -> None:
    """A data-free prior is always made again; a learnt one, and the floor's network, if ``retrain`` says so."""
    data_free, prior = not len(case.evidence.parts.prior), case.evidence.prior
    assert prior is not None
    if data_free or retrain:
        trainer = case.trainer(fit) if retrain else Trainer(case.settings, case.data, case.arch)
        with case.threads():
            case.compare_gaussian("prior", prior, make_prior(trainer, case.evidence.parts))
    if not retrain:
        what = "the floor's network" if data_free else "the prior"
        case.result.unchecked.append(
            f"that {what} saw only its own examples: verify --retrain trains it again from the seed"
        )
    elif data_free:
        Method.origin(method, case, retrain, fit)


def stored_plan(record: dict[str, Any], n: int) -> DrawPlan:
    """The stored plan of the draws, if it makes sense for n examples."""
    try:
        plan = DrawPlan(**record["draws"])
        sizes = (plan.n, plan.groups, plan.size, plan.passes, plan.chunk)
        sound = all(type(v) is int and v >= 1 for v in sizes) and plan.n == n
        sound = sound and plan.groups == -(-n // plan.size) and plan.precision in ("float64", "float32")
        sound = sound and (plan.size == 1 if plan.layered else plan.chunk == plan.size)
    except (KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise VerificationError("the plan of the Monte Carlo draws does not fit the certifying examples.")
    return plan
