"""What a certificate says in plain words."""

from __future__ import annotations

from typing import Any

from truerisk.certificates.draws import sentences as about_draws
from truerisk.certificates.settings import Settings
from truerisk.data import Data, Split
from truerisk.nets import FACTORY, MODULE
from truerisk.words import bound_percent, confidence_percent

VERSION = 1  # of the wording. Sentences are for people: verify reads none that were worded by another version.


def headline(record: dict[str, Any], who: str) -> str:
    """The certificate in one sentence; ``who`` is what it is about."""
    sure = confidence_percent(record["delta"])
    if record["risk_bound"] >= 1:
        return f"Vacuous: nothing below 100 % can be certified for {who.rstrip(',')} with {sure} confidence."
    most = bound_percent(record["risk_bound"])
    return f"With {sure} confidence, {who} is wrong on at most {most} of unseen examples."


def seen(record: dict[str, Any]) -> str:
    """What the empirical risk is the rate of."""
    n = record["n_certify"]
    if "disagreement" in record:
        return "errors of the surrogate on certifying examples, and disagreements on unlabelled ones, together"
    if "progressive" in record:
        return f"error rate of the models on the blocks that they were tested on, {n:,} examples"
    if "compression" in record:
        return "error rate of the network on the certifying examples that were not picked"
    if "steps" in record:
        last = f"{record['steps'][-1]['n']:,} examples of the last step"
        return f"error rate of networks drawn from the last posterior, on the {last}"
    if record["draws"] is not None:
        return f"error rate of drawn networks on the {n:,} certifying examples"
    who = "the drawn network" if record["predictor"] == "single-draw" else "the network"
    return f"error rate of {who} on the {n:,} certifying examples"


def assumptions(settings: Settings, data: Data, parts: Split) -> list[str]:
    """What the certificate takes for granted, the user's promises included."""
    n = len(parts.certify)
    lines = [
        f"The {n:,} certifying examples are independent draws from the distribution that the risk is about.",
        "No example was made from another (an exact or near copy), and none come in groups (frames of one video, scans "
        "of one patient).",
        *about_draws(settings.repeats_are_draws, settings.repeats, settings.row_ids),
    ]
    if settings.prior == "none":
        lines.append(
            f"You vouch that the network never saw these {n:,} examples: not in training, not for stopping or tuning "
            "it, not to choose it among others."
        )
    elif len(parts.prior):
        lines.append(f"What was trained before certifying saw its own {len(parts.prior):,} examples only.")
    else:
        lines.append(f"The prior was fixed by seed {settings.seed} and the architecture before any data was seen.")
    if settings.tried > 1:
        lines.append(
            f"At most {settings.tried} configurations (network, prior, seed) were compared on this data; the ledger "
            "pays for each."
        )
    elif settings.prior != "none":
        lines.append("Network, prior and seed were chosen without looking at results on this data.")
    if settings.methods > 1:
        lines.append(f"No more than {settings.methods} methods were tried on this data; the ledger pays for each.")
    if settings.own_training:
        lines.append("Your training function used nothing but the examples that it was given.")
    if settings.trust_factory:
        lines.append(f"You vouch that no weight or buffer that the factory {settings.model} starts from saw this data.")
    elif settings.model_kind == FACTORY and settings.prior != "none":
        lines.append(f"What the factory {settings.model} builds before training does not depend on this data.")
    if settings.model_kind == MODULE and settings.prior != "none":
        unused = "" if settings.given else "; its weights were not used"
        lines.append(f"The architecture of the module does not depend on this data{unused}.")
    if data.source is None:
        lines.append("No constant in the inputs (a mean, a scale) was computed from the certifying examples.")
    return lines


def warnings(record: dict[str, Any], data: Data, duplicates: int, advice: str) -> list[str]:
    """What a reader should know before quoting the number; ``advice`` is what would make it smaller."""
    lines = []
    if duplicates:
        lines.append(
            f"{duplicates:,} certifying examples have the same inputs as examples outside the certifying set. Separate "
            "draws may be equal; if one draw was recorded twice, the bound does not hold."
        )
    if record["kl"] is not None and record["kl"] < 1:
        lines.append(
            "The KL is under 1 nat, so this is a hold-out bound in disguise: the posterior learnt next to nothing "
            "from the certifying examples, and the floor is the simpler guarantee."
        )
    if record["kl"] is not None and record["rescaling"] is None:
        lines.append("The network could not be followed (torch.export), so the KL was not made smaller by rescaling.")
    if record["risk_bound"] >= 1:
        lines.append(f"The certificate is vacuous: it says nothing. {advice}")
    chance = 1 - max(data.counts) / len(data)
    if chance <= record["risk_bound"] < 1:
        lines.append(f"The bound is no better than always answering with the commonest class. {advice}")
    return lines
