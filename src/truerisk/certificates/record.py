"""From evidence to the numbers and sentences of ``certificate.json``.

``derive_facts`` does the measuring, ``assemble`` the arithmetic. Verification runs the same two on the
stored evidence and compares every field, so there is one place where a certificate is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from truerisk.bounds import (
    clopper_pearson,
    confidence_term,
    kl_inverse,
    mcallester,
    pac_bayes_kl,
    quadratic,
    thiemann,
)
from truerisk.certificates import sentences
from truerisk.certificates.evidence import Evidence, floor_split
from truerisk.certificates.ledger import HOLD_OUT as HOLD_OUT_EVENT
from truerisk.certificates.ledger import MONTE_CARLO, PAC_BAYES, ledger, share
from truerisk.certificates.rescaling import RescaledKL, rescaled_kl
from truerisk.certificates.settings import HOLD_OUT, Settings
from truerisk.data import Data, duplicates_across
from truerisk.nets import count_errors
from truerisk.pacbayes import DrawPlan, GibbsEstimate, gibbs_risk
from truerisk.seeds import derive


@dataclass(frozen=True)
class Facts:
    """What was counted. ``near_ties`` are answers that another machine's rounding could flip."""

    errors: int  # of the deterministic network: the floor's, or the hold-out certificate's own
    near_ties: int
    tested: int
    duplicates: int
    kl: RescaledKL | None = None
    estimate: GibbsEstimate | None = None


def derive_facts(settings: Settings, data: Data, evidence: Evidence, plan: DrawPlan | None = None) -> Facts:
    """Count errors, draw networks (as ``plan`` says, by default as many as time allows), compute the KL."""
    parts = evidence.parts
    duplicates = duplicates_across(data, parts)
    rows = parts.certify
    if settings.method != HOLD_OUT and not len(parts.prior):
        _, rows = floor_split(settings, len(data))
    errors, ties = count_errors(evidence.network, data.X[rows], data.y[rows])
    if evidence.posterior is None or evidence.prior is None:
        return Facts(errors, ties, len(rows), duplicates)
    seed = derive(settings.seed, "draws")  # fixed before the posterior was trained
    estimate = gibbs_risk(evidence.posterior, data.X[parts.certify], data.y[parts.certify], seed, plan)
    kl = rescaled_kl(evidence.posterior, evidence.prior, evidence.log_scales, data.input_shape)
    return Facts(errors, ties, len(rows), duplicates, kl, estimate)


def assemble(settings: Settings, data: Data, evidence: Evidence, facts: Facts) -> dict[str, Any]:
    """Every derived field of the certificate."""
    entries = ledger(settings.delta, settings.tried, settings.method)
    floor = clopper_pearson(facts.errors, facts.tested, settings.delta)
    record = {
        "method": settings.method,
        "delta": settings.delta,
        "n_certify": len(evidence.parts.certify),
        "n_prior": len(evidence.parts.prior),
        "floor": floor,
        "floor_detail": {"errors": facts.errors, "n": facts.tested, "what": sentences.floor(settings)},
        "ledger": entries,
        "data": {
            "name": data.name,
            "source": data.source,
            "n": len(data),
            "classes": data.classes,
            "input_shape": list(data.input_shape),
            "counts": data.counts.tolist(),
            "sha256": data.sha256,
        },
        "seed": settings.seed,
    }
    record |= _hold_out(entries, facts) if settings.method == HOLD_OUT else _pac_bayes(entries, facts)
    record["assumptions"] = sentences.assumptions(settings, data, evidence.parts)
    record["warnings"] = sentences.warnings(record, data, facts.duplicates)
    record["sentence"] = sentences.headline(record)
    return record


def _hold_out(entries: list[Any], facts: Facts) -> dict[str, Any]:
    bound = clopper_pearson(facts.errors, facts.tested, share(entries, HOLD_OUT_EVENT))
    risk = facts.errors / facts.tested
    return {
        "predictor": "deterministic",
        "risk_bound": bound,
        "empirical_risk": risk,
        "empirical_risk_upper": risk,
        "kl": None,
        "kl_unrescaled": None,
        "rescaling": None,
        "draws": None,
        "breakdown": [
            {"part": "errors on the tested examples", "value": risk},
            {"part": "confidence (delta)", "value": bound - risk},
        ],
    }


def _pac_bayes(entries: list[Any], facts: Facts) -> dict[str, Any]:
    """risk_bound = kl_inverse(upper, (KL + ln(2 sqrt(n) / delta)) / n), where upper contains the draws' error."""
    assert facts.estimate is not None
    assert facts.kl is not None
    plan, kl, delta = facts.estimate.plan, facts.kl.kl, share(entries, PAC_BAYES)
    upper = facts.estimate.upper(share(entries, MONTE_CARLO))
    bound = pac_bayes_kl(upper, kl, plan.n, delta)
    without_kl = kl_inverse(upper, confidence_term(plan.n, delta) / plan.n)
    arguments = (upper, kl, plan.n, delta)
    return {
        "predictor": "stochastic",
        "risk_bound": bound,
        "empirical_risk": facts.estimate.risk,
        "empirical_risk_upper": upper,
        "kl": kl,
        "kl_unrescaled": facts.kl.original,
        "rescaling": facts.kl.record(),
        "draws": {**plan.record(), "errors": facts.estimate.errors},
        "breakdown": [
            {"part": "errors of the drawn networks", "value": facts.estimate.risk},
            {"part": "Monte Carlo", "value": upper - facts.estimate.risk},
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


def differs(claimed: Any, derived: Any) -> bool:
    """Whether two values of a field disagree by more than float64 rounding."""
    if isinstance(claimed, dict) and isinstance(derived, dict):
        return claimed.keys() != derived.keys() or any(differs(claimed[k], derived[k]) for k in derived)
    if isinstance(claimed, list) and isinstance(derived, list):
        return len(claimed) != len(derived) or any(map(differs, claimed, derived))
    if isinstance(derived, float) and isinstance(claimed, int | float) and not isinstance(claimed, bool):
        return not math.isclose(claimed, derived, rel_tol=1e-12, abs_tol=1e-15)
    return type(claimed) is not type(derived) or claimed != derived
