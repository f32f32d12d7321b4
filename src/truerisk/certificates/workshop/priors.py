"""The prior of a certificate: a function of seed, architecture and the prior's own examples alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from truerisk.certificates.settings import LEARNT_EXCESS, LEARNT_STDS, Settings
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Data, Split
from truerisk.errors import TrueriskError
from truerisk.nets import count_errors
from truerisk.pacbayes import Gaussian, fan_in_std, find_head, gibbs_risk, in_float32, plan_draws
from truerisk.pacbayes.gaussian import trainable
from truerisk.seeds import derive


def make_prior(trainer: Trainer, parts: Split) -> Gaussian:
    """Around a network trained on the prior's examples, or around (or without) the seeded initial weights."""
    settings = trainer.settings
    centre = trainer.network("prior", parts.prior) if len(parts.prior) else trainer.fresh()
    return prior_around(centre, settings, trainer.data.take(parts.prior) if len(parts.prior) else None)


def prior_around(centre: nn.Module, settings: Settings, examples: Data | None) -> Gaussian:
    """The prior with this centre; ``examples`` are the prior's own, which may choose its width for free."""
    if settings.method.only_last:
        freeze_all_but_last(centre)
    if settings.prior_std is None:
        assert examples is not None  # only a prior with examples of its own may leave its width open
        head = find_head(Gaussian.around(centre, 1.0))
        if head is None:
            return _widest_that_still_fits(centre, examples.X, examples.y, settings.seed)
        prior = _widest_that_still_fits(head.linear(), head.features(examples.X), examples.y, settings.seed)
        return head.extend(prior)
    scale = fan_in_std(centre, settings.prior_std)
    prior = Gaussian.zero(centre, scale) if settings.prior.centred else Gaussian.around(centre, scale)
    return in_float32(prior)


def freeze_all_but_last(module: nn.Module) -> None:
    """Leave only the last linear layer to chance: the layers before it are features, fixed before certification."""
    linear = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise TrueriskError("the network has no linear layer, so --random last does not apply; give --random all.")
    module.requires_grad_(False)
    linear[-1].requires_grad_(True)


def random_weights(settings: Settings, module: nn.Module) -> set[str]:
    """The names of the weights that a prior of these settings leaves to chance."""
    if settings.method.only_last:
        freeze_all_but_last(module)
    return set(trainable(module))


def _widest_that_still_fits(centre: nn.Module, X: np.ndarray, y: np.ndarray, seed: int) -> Gaussian:
    """A prior around ``centre`` as wide as the prior's own examples allow; they never certify, so this is free."""
    errors, _ = count_errors(centre, X, y)
    limit = errors / len(X) + LEARNT_EXCESS
    for std in LEARNT_STDS:
        prior = in_float32(Gaussian.around(centre, fan_in_std(centre, std)))
        plan = replace(plan_draws(prior, X), passes=1)
        if gibbs_risk(prior, X, y, derive(seed, "width"), plan).risk <= limit:
            break
    return prior
