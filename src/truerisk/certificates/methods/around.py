"""Around given weights: a network that is already trained, certified on the very examples it was trained on.

No example was set aside, so the prior is data-free: it knows the seed and the architecture, nothing else. The means of
the posterior are the given weights, up to a rescaling; only its standard deviations are trained here. The given weights
never reach the prior (rule 5 of docs/design.rst). This is the construction of Langford and Caruana (2001) and of
Dziugaite and Roy (2017), with a prior scale for each layer from a grid that delta covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truerisk.certificates.methods.pac_bayes import GRID, Posterior
from truerisk.certificates.methods.single_draw import DrawnOnce
from truerisk.certificates.prior import Prior
from truerisk.certificates.record import Derivation
from truerisk.certificates.schema import option
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from truerisk.certificates.evidence import Evidence
    from truerisk.certificates.settings import Settings
    from truerisk.certificates.workshop.trainer import Trainer
    from truerisk.data import Split
    from truerisk.nets import Architecture

ADVICE = (
    "A network that saw all of its data is hard to certify on that data. Labeled examples that it never saw (--fresh), "
    "unlabeled inputs (--unlabeled), or more training data would help. Or certify another network without --weights: "
    "one that leaves a part of the data aside, or a compressed one (--method description-length)."
)
ASSUMPTION = (
    "The given weights may have seen all of these examples; the prior saw neither the examples nor the weights."
)


@dataclass(frozen=True)
class Given(Posterior):
    """What both methods share: the given weights are the means, the prior is data-free."""

    takes_weights = needs_weights = True
    usual_prior = Prior("zero")
    advice = ADVICE

    scales: str = option(GRID, "Prior scales: fixed, grid (one per layer), or grid:K (K groups).")

    def refuse(self, prior: Prior, given: bool) -> None:
        if prior.fraction:
            raise TrueriskError(
                f"the method {self.name} sets no examples aside, because the given weights saw all of them; give "
                "--prior zero or init."
            )
        super().refuse(prior, given)

    def refuse_weights(self, arch: Architecture) -> None:
        from truerisk.certificates.workshop.gaussians import refuse_learnt

        refuse_learnt(arch)

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        from truerisk.certificates.workshop.gaussians import around_weights

        return around_weights(trainer, parts, self.layers, self.warmup)

    def assumptions(self, settings: Settings, derivation: Derivation) -> list[str]:
        return [ASSUMPTION]


@dataclass(frozen=True)
class Around(Given):
    """PAC-Bayes-kl with the given weights as the posterior's means."""

    name = "pac-bayes-around"
    summary = "an already trained network (--weights) plus noise, certified on its own training data"
    paper = "PAC-Bayes-kl around given weights (Langford and Caruana 2001, Dziugaite and Roy 2017)"


@dataclass(frozen=True)
class SingleDrawAround(Given, DrawnOnce):
    """One draw from the posterior around the given weights."""

    name = "single-draw-around"
    summary = "one network sampled around an already trained one (--weights), certified on its own training data"
    paper = "disintegrated PAC-Bayes (Rivasplata et al. 2020) around given weights"
    draws: int | None = None  # not an option here, as in ``DrawnOnce``
