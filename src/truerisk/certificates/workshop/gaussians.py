"""Prior and posterior of a certificate: trained, moved along their orbit, made again."""

from __future__ import annotations

import torch
from torch import nn

from truerisk.certificates.evidence import Evidence
from truerisk.certificates.workshop.priors import make_prior
from truerisk.certificates.workshop.rescaling import best_log_scales, followed, moved, rescaled_prior
from truerisk.certificates.workshop.scales import ARRAY, stored
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Split
from truerisk.errors import TrueriskError
from truerisk.nets import Architecture
from truerisk.nets.evaluate import identical
from truerisk.pacbayes import Gaussian, best_layer_scales, with_layer_scales
from truerisk.pacbayes.gaussian import trainable

ROUNDS = 3  # prior scales and log-scales, each the best for the other
START = 0.3  # standard deviations around given weights where their training starts, in units of the prior's


def train_gaussians(trainer: Trainer, parts: Split, layers: int, warmup: float) -> Evidence:
    """Prior, posterior, the best prior scales and log-scales, and the floor's network."""
    prior = make_prior(trainer, parts)
    return with_scales(trainer, parts, prior, trainer.posterior(prior, parts, warmup), layers)


def around_weights(trainer: Trainer, parts: Split, layers: int, warmup: float) -> Evidence:
    """The same with the given weights as the means of the posterior, which no training moves."""
    prior, given = make_prior(trainer, parts), trainer.arch.given
    if given is None:
        raise TrueriskError("there are no weights to put a posterior around; give --weights.")
    means = {name: p.detach() for name, p in trainable(given).items()}
    # Prior scales that suit the means are a good place to train from; those that count are chosen after training.
    near = with_layer_scales(prior, best_layer_scales(_around(prior, means), prior, layers)) if layers else prior
    start = _around(near, means)
    posterior = trainer.trained_from(start, near, parts.certify, "around", start.mean, warmup, means=False)
    return with_scales(trainer, parts, prior, posterior, layers)


def with_scales(trainer: Trainer, parts: Split, prior: Gaussian, posterior: Gaussian, layers: int) -> Evidence:
    """The evidence of a posterior, with the best prior scales (on a grid), log-scales and the floor's network."""
    arrays = {}
    symmetry = followed(prior, trainer.data.blank)
    chosen, log_scales = prior, None
    for _ in range(ROUNDS if layers else 1):
        if layers:
            # The widths that fit the rescaled prior best, given to the prior before it is rescaled: both multiply.
            indices = best_layer_scales(posterior, rescaled_prior(prior, log_scales, symmetry), layers)
            chosen, arrays[ARRAY] = with_layer_scales(prior, indices), stored(indices)
        log_scales = best_log_scales(posterior, chosen, symmetry)
    posterior, log_scales = moved(posterior, log_scales, symmetry)
    if log_scales is not None:
        arrays["log_scales"] = log_scales
    network = prior.network() if len(parts.prior) else trainer.tested(parts)
    return Evidence(parts, {"network": network}, {"prior": prior, "posterior": posterior}, arrays)


def prior_again(trainer: Trainer, held: Evidence, retrain: bool) -> Evidence:
    """A data-free prior is always made again; a learnt one, and the floor's network beside it, if ``retrain`` says so.

    Beside a learnt prior, the floor's network is the one at the prior's mean.
    """
    parts, prior = held.parts, held.prior
    if len(parts.prior):
        prior = make_prior(trainer, parts) if retrain else prior
        return held.having({"network": prior.network()}, {"prior": prior})
    network = trainer.tested(parts) if retrain else held.network
    return held.having({"network": network}, {"prior": make_prior(trainer, parts)})


def refuse_learnt(arch: Architecture) -> None:
    """All that was learned must be among what the prior draws: a new network of the kind has the rest as well."""
    given, new = arch.given, arch.build(0)
    if given is None or trainable(given).keys() != trainable(new).keys():
        raise TrueriskError(
            "the trained network and a newly built one differ in trainable parameters; unfreeze all of them."
        )
    fixed, mine = _fixed(given), _fixed(new)
    learnt = [name for name, value in fixed.items() if name not in mine or not identical(value, mine[name])]
    if learnt:
        raise TrueriskError(
            f"the trained network has learned numbers outside the prior ({', '.join(learnt[:5])}); unfreeze all "
            "parameters and use truerisk.fold_batch_norm, or give --unlabeled or --fresh."
        )


def _around(prior: Gaussian, means: dict[str, torch.Tensor]) -> Gaussian:
    return Gaussian(prior.module, means, {name: START * std for name, std in prior.std.items()})


def _fixed(module: nn.Module) -> dict[str, torch.Tensor]:
    frozen = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    return frozen | dict(module.named_buffers())
