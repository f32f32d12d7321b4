"""The sentences of ``certificate.json``: what it says, what it takes for granted, what to know before quoting it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerisk.certificates.counts import Counts
from truerisk.certificates.draws import sentences as about_draws
from truerisk.certificates.record import Derivation
from truerisk.certificates.settings import Settings
from truerisk.names import FACTORY, MODULE, SAFE_SOURCES
from truerisk.words import bound_percent, confidence_percent, lower_percent

if TYPE_CHECKING:
    from truerisk.data import Data


def headline(settings: Settings, found: Derivation) -> str:
    """The certificate in one sentence."""
    sure, who = confidence_percent(settings.delta), settings.method.subject(settings)
    risk_bound, lower = found.risk_bound, 0.0 if found.lower is None else found.lower.risk
    if lower > 0:
        ends = f"between {lower_percent(lower)} and {bound_percent(risk_bound)}"
        return f"With {sure} confidence, {who} is wrong on {ends} of unseen examples."
    if risk_bound >= 1:
        return f"Vacuous: with {sure} confidence, nothing below 100 % can be certified for {who.rstrip(',')}."
    return f"With {sure} confidence, {who} is wrong on at most {bound_percent(risk_bound)} of unseen examples."


def assumptions(settings: Settings, data: Data, counts: Counts, derivation: Derivation) -> list[str]:
    """What the certificate takes for granted, the user's promises included."""
    n = counts.n_certify
    lines = [
        f"The {n:,} certifying examples are independent draws from the distribution that the risk is about.",
        "No example was made from another (an exact or near copy), and none come in groups (frames of one video, scans "
        "of one patient).",
        *about_draws(settings.repeats_are_draws, settings.repeats, settings.row_ids),
    ]
    if settings.prior.trained:
        others = "others" if settings.tried == 1 else "more than the ledger pays for"
        lines.append(
            f"You vouch that the network never saw these {n:,} examples: not in training, not for stopping or tuning "
            f"it, not to choose it among {others}."
        )
    elif counts.n_prior:
        lines.append(f"What was trained before certifying saw its own {counts.n_prior:,} examples only.")
    else:
        lines.append(f"The prior was fixed by seed {settings.seed} and the architecture before any data was seen.")
    if settings.tried > 1:
        lines.append(
            f"At most {settings.tried} configurations (network, prior, seed) were compared on this data; the ledger "
            "pays for each."
        )
    elif not settings.prior.trained:
        lines.append("Network, prior and seed were chosen without looking at results on this data.")
    if settings.methods > 1:
        lines.append(f"No more than {settings.methods} methods were tried on this data; the ledger pays for each.")
    if settings.own_training:
        lines.append("Your training function used nothing but the examples that it was given.")
    if settings.trust_factory:
        lines.append(f"You vouch that no weight or buffer that the factory {settings.model} starts from saw this data.")
    elif settings.model_kind == FACTORY and not settings.prior.trained:
        lines.append(f"What the factory {settings.model} builds before training does not depend on this data.")
    if settings.model_kind == MODULE and not settings.prior.trained:
        unused = "" if settings.given else "; its weights were not used"
        lines.append(f"The architecture of the module does not depend on this data{unused}.")
    if str(data.source).removesuffix(":test") not in SAFE_SOURCES:
        lines.append("No constant in the inputs (a mean, a scale) was computed from the certifying examples.")
    return [*lines, *settings.method.assumptions(settings, derivation)]


def warnings(settings: Settings, data: Data, counts: Counts, derivation: Derivation) -> list[str]:
    """What a reader should know before quoting the number, and what would make it smaller."""
    lines, kl, bound, advice = [], derivation.kl, derivation.risk_bound, settings.method.advise(settings)
    if counts.duplicates:
        lines.append(
            f"{counts.duplicates:,} certifying examples have the same inputs as examples outside the certifying set. "
            "Separate draws may be equal; if one draw was recorded twice, the bound does not hold."
        )
    if disguise := settings.method.disguise(derivation):
        lines.append(disguise)
    if kl is not None and kl.free is None:
        lines.append("The network could not be followed (torch.export), so the KL was not made smaller by rescaling.")
    if bound >= 1:
        lines.append(f"The certificate is vacuous: it says nothing. {advice}")
    chance = 1 - max(data.counts) / len(data)
    if chance <= bound < 1:
        lines.append(f"The bound is no better than always answering with the commonest class. {advice}")
    return lines
