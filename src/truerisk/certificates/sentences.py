"""The sentences of ``certificate.json``: what it says, what it assumes, what to know before quoting it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerisk.certificates.charge import owed
from truerisk.certificates.counts import Counts
from truerisk.certificates.draws import sentences as about_draws
from truerisk.certificates.record import Derivation
from truerisk.certificates.settings import Settings
from truerisk.names import BUILTIN, FACTORY, MODULE, PROBABILITIES, SAFE_SOURCES
from truerisk.words import bound_percent, confidence_percent, lower_percent

if TYPE_CHECKING:
    from truerisk.data import Data

AUTHORS = " They include those that truerisk's authors compared on this dataset when they tuned the built-in networks."


def headline(settings: Settings, found: Derivation) -> str:
    """The certificate in one sentence; a second one says how its predictor samples, if it does."""
    sure, who = confidence_percent(settings.delta), settings.method.subject(settings)
    risk_bound, lower = found.risk_bound, 0.0 if found.lower is None else found.lower.risk
    if lower > 0:
        ends = f"{lower_percent(lower)} to {bound_percent(risk_bound)}"
        said = f"With {sure} confidence, {who} errs on {ends} of unseen examples."
    elif risk_bound >= 1:
        said = f"Vacuous: no risk below 100% can be certified for {who} with {sure} confidence."
    else:
        said = f"With {sure} confidence, {who} errs on at most {bound_percent(risk_bound)} of unseen examples."
    return f"{said} {settings.method.subtitle(settings)}".rstrip()


def assumptions(settings: Settings, data: Data, counts: Counts, derivation: Derivation) -> list[str]:
    """What the certificate assumes, including what the user vouches for."""
    n = counts.n_certify
    lines = [
        f"The {n:,} certification examples are independent draws from the distribution of the unseen examples.",
        "No example is a copy or near copy of another, and no examples come in groups (such as frames of one video).",
        *about_draws(settings.repeats_are_draws, settings.repeats, settings.row_ids),
    ]
    if settings.prior.trained:
        others = "others" if settings.tried == 1 else f"more than {settings.tried:,} configurations"
        lines.append(
            f"You vouch that the network never saw these {n:,} examples: not to train, tune, or stop it, nor to choose "
            f"it among {others}."
        )
    elif counts.n_prior:
        lines.append(f"Everything trained before certification used only its own {counts.n_prior:,} examples.")
    else:
        lines.append(f"The prior depends only on seed {settings.seed} and the architecture, not on the data.")
    if settings.tried > 1:
        built_in = settings.model_kind == BUILTIN and not settings.prior.trained
        authors = built_in and owed(settings.model, data, settings.prior, settings.seed) > 1
        lines.append(
            f"At most {settings.tried:,} configurations (network, prior, seed) were compared on this data. Delta is "
            f"split over them, as if you had tried every one.{AUTHORS if authors else ''}"
        )
    elif not settings.prior.trained:
        lines.append("The network, the prior, and the seed were chosen without using results on this data.")
    if settings.methods > 1:
        lines.append(f"At most {settings.methods} methods were tried on this data; delta is split over them.")
    if settings.own_training:
        lines.append("Your training function used only the examples that it was given.")
    if settings.trust_factory:
        lines.append(
            f"You vouch that the factory {settings.model} starts from weights and buffers that never saw this data."
        )
    elif settings.model_kind == FACTORY and not settings.prior.trained:
        lines.append(
            f"The network that the factory {settings.model} builds before training does not depend on this data."
        )
    if settings.model_kind == MODULE and not settings.prior.trained:
        unused = "" if settings.given else "; its weights were not used"
        lines.append(f"The architecture of the module does not depend on this data{unused}.")
    if settings.outputs:
        threshold = "one half" if settings.outputs == PROBABILITIES else "0"
        lines.append(
            f"The network has one output per example, which you mean as {settings.outputs}: class 1 is answered above "
            f"{threshold}."
        )
    if str(data.source).removesuffix(":test") not in SAFE_SOURCES:
        lines.append(
            "No constant that prepares the inputs (such as a mean) was computed from the certification examples."
        )
    return [*lines, *settings.method.assumptions(settings, derivation)]


def warnings(settings: Settings, data: Data, counts: Counts, derivation: Derivation) -> list[str]:
    """What a reader should know before quoting the number, and what would make it smaller."""
    lines, kl, bound, advice = [], derivation.kl, derivation.risk_bound, settings.method.advise(settings)
    if counts.duplicates:
        lines.append(
            f"{counts.duplicates:,} certification examples have the same inputs as examples outside the certification "
            "set. Separate draws may be equal; if one draw was recorded twice, the bound does not hold."
        )
    if not data.counts[0] and all(data.counts[1:]):
        lines.append("No example has label 0, yet labels count from 0; subtract 1 from yours if they start at 1.")
    if disguise := settings.method.disguise(derivation):
        lines.append(disguise)
    if kl is not None and kl.free is None:
        lines.append("The network could not be traced (torch.export), so rescaling did not lower the KL.")
    if bound >= 1:
        lines.append(f"The certificate is vacuous: it is 1 or more, so it says nothing. {advice}")
    chance = 1 - max(data.counts) / len(data)
    if chance <= bound < 1:
        lines.append(f"The bound is no better than always answering with the most frequent class. {advice}")
    return lines
