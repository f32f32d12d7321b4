"""Around given weights: a network that is already trained, certified on the very examples it was trained on.

No example was set aside, so the prior is data-free: it knows the seed and the architecture, nothing else. The means of
the posterior are the given weights, up to a rescaling; only its standard deviations are trained here. The given weights
never reach the prior (rule 5 of the design). This is the construction of Langford and Caruana (2001) and of Dziugaite
and Roy (2017), with a width of the prior for each layer from a grid that the ledger pays for.
"""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import nn

from truerisk.certificates.evidence import Evidence
from truerisk.certificates.methods.base import Method
from truerisk.certificates.methods.pac_bayes import PacBayesKL, with_scales
from truerisk.certificates.methods.single_draw import SingleDraw
from truerisk.certificates.priors import make_prior
from truerisk.certificates.scales import GRID, scale_layers
from truerisk.certificates.settings import Settings, split_fraction
from truerisk.certificates.trainer import Trainer
from truerisk.data import Split
from truerisk.errors import TrueriskError
from truerisk.nets import Architecture
from truerisk.nets.evaluate import identical
from truerisk.pacbayes import Gaussian, best_layer_scales, train_posterior, with_layer_scales
from truerisk.pacbayes.gaussian import trainable

START = 0.3  # standard deviations of the posterior where their training starts, in units of the prior's
ADVICE = (
    "A network that saw all of its data is hard to certify on that data. What would help: labelled examples that it "
    "never saw (--fresh), unlabelled ones (--unlabelled), more training data, or another network in its place "
    "(certify without --weights): one trained with a part set aside, or one that fits into a short file (--method "
    "description-length)."
)
ASSUMPTION = "The given weights may have seen all of these examples; the prior has seen none of them, nor the weights."


class _Given(Method):
    """What both methods share: the given weights are the means, the prior is data-free."""

    takes_weights = needs_weights = True
    usual_prior = "zero"
    advice = ADVICE
    options = MappingProxyType({"scales": GRID, "warmup": 0.0})

    def refuse(self, settings: Settings) -> None:
        _refuse_split(self.name, settings)
        super().refuse(settings)

    def refuse_weights(self, arch: Architecture) -> None:
        refuse_learnt(arch)

    def produce(self, trainer: Trainer, parts: Split) -> Evidence:
        return around_weights(trainer, parts)

    def assumptions(self, settings: Settings, evidence: Evidence) -> list[str]:
        return [ASSUMPTION]


class Around(_Given, PacBayesKL):
    """PAC-Bayes-kl with the given weights as the posterior's means."""

    name = "pac-bayes-around"
    summary = "a trained network (--weights) with noise on its weights, certified on its own training data"


class SingleDrawAround(_Given, SingleDraw):
    """One draw from the posterior around the given weights."""

    name = "single-draw-around"
    summary = "one network drawn around a trained one (--weights), certified on its own training data"


def around_weights(trainer: Trainer, parts: Split) -> Evidence:
    """Prior, posterior around the given weights, prior scales, log-scales, and the floor's network."""
    prior, given = make_prior(trainer, parts), trainer.arch.given
    assert given is not None
    means = {name: p.detach() for name, p in trainable(given).items()}
    layers = scale_layers(trainer.settings)
    # Widths that suit the means are a good place to train from; those that count are chosen after training.
    near = with_layer_scales(prior, best_layer_scales(_around(prior, means), prior, layers)) if layers else prior
    rows, start = parts.certify, _around(near, means)
    widths = {f"std {key}": std for key, std in near.std.items()}
    posterior, _ = train_posterior(
        near,
        trainer.data.X[rows],
        trainer.data.y[rows],
        trainer.settings.plans["posterior"],
        start=start,
        means=False,
        checkpoint=trainer._checkpoint("posterior", "around", start.mean | widths, rows),
        **trainer.objective,
    )
    return with_scales(trainer, parts, prior, posterior)


def _around(prior: Gaussian, means: dict[str, torch.Tensor]) -> Gaussian:
    return Gaussian(prior.module, means, {name: START * std for name, std in prior.std.items()})


def refuse_learnt(arch: Architecture) -> None:
    """All that was learnt must be among what the prior draws: a new network of the kind has the rest as well."""
    given, new = arch.given, arch.build(0)
    assert given is not None
    if trainable(given).keys() != trainable(new).keys():
        raise TrueriskError("the trained network has other trainable parameters than a newly built one of its kind.")
    fixed, mine = _fixed(given), _fixed(new)
    learnt = [name for name, value in fixed.items() if name not in mine or not identical(value, mine[name])]
    if learnt:
        raise TrueriskError(
            f"the trained network keeps numbers that no prior pays for ({', '.join(learnt[:5])}); fold batch norm into "
            "the layers before it (truerisk.fold_batch_norm) and unfreeze all parameters, or give --unlabelled or "
            "--fresh data."
        )


def _fixed(module: nn.Module) -> dict[str, torch.Tensor]:
    frozen = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    return frozen | dict(module.named_buffers())


def _refuse_split(name: str, settings: Settings) -> None:
    if settings.prior != "none" and split_fraction(settings.prior):
        raise TrueriskError(
            f"the method {name} sets no examples aside, because the given weights have seen all: give --prior zero or "
            "init."
        )
