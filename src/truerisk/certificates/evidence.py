"""Make what a certificate rests on: the split, the prior, the posterior, the floor's network.

Who may see what (rules 2, 3 and 5 of the design): the prior starts from a seeded initialization and
sees the prior's examples only; the posterior may see everything; the floor's network never sees the
examples that it is tested on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from truerisk.certificates.rescaling import best_log_scales
from truerisk.certificates.settings import (
    DATA_FREE_START,
    HOLD_OUT,
    LEARNT_EXCESS,
    LEARNT_STDS,
    Settings,
    split_fraction,
)
from truerisk.data import Data, Split, shuffle, split
from truerisk.errors import TrueriskError
from truerisk.nets import Architecture, check_network, count_errors, precision
from truerisk.pacbayes import Gaussian, fan_in_std, gibbs_risk, plan_draws, train_posterior
from truerisk.seeds import derive, seeded_globals
from truerisk.training import Checkpoint, fit

Fit = Callable[..., Any]  # (fresh module, torch Dataset) -> the trained module, or None if trained in place
FLOOR_FRACTION = 0.8  # data-free priors: the floor's network trains on this share and is tested on the rest


@dataclass(frozen=True)
class Evidence:
    """All that is needed, with the data and the settings, to derive a certificate's numbers."""

    parts: Split
    network: nn.Module  # deterministic: what hold-out certifies, and what the floor of a certificate tests
    prior: Gaussian | None = None
    posterior: Gaussian | None = None
    log_scales: dict[str, Tensor] | None = None  # of the rescaled prior; None if the network can't be followed


def produce(
    settings: Settings, data: Data, arch: Architecture, own_fit: Fit | None = None, work: Path | None = None
) -> Evidence:
    """Train everything. With ``work``, a killed run goes on where it was when called again."""
    trainer = Trainer(settings, data, arch, own_fit, work)
    parts = split_data(settings, len(data))
    if settings.method == HOLD_OUT:
        return Evidence(parts, trainer.network("prior", parts.prior))
    prior = make_prior(trainer, parts)
    posterior = trainer.posterior(prior, parts)
    log_scales = best_log_scales(posterior, prior, data.input_shape)
    if len(parts.prior):
        return Evidence(parts, prior.network(), prior, posterior, log_scales)
    train, _ = floor_split(settings, len(data))
    return Evidence(parts, trainer.network("floor", train), prior, posterior, log_scales)


def split_data(settings: Settings, n: int) -> Split:
    """The seeded split that the prior's name asks for."""
    return split(n, split_fraction(settings.prior), derive(settings.seed, "split"))


def floor_split(settings: Settings, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(training, testing) indices of the floor's network for a data-free prior: a seeded shuffle."""
    order = shuffle(n, derive(settings.seed, "floor"))
    cut = round(FLOOR_FRACTION * n)
    return order[:cut], order[cut:]


def make_prior(trainer: Trainer, parts: Split) -> Gaussian:
    """The prior: a function of seed, architecture and the prior's own examples alone."""
    settings = trainer.settings
    centre = trainer.network("prior", parts.prior) if len(parts.prior) else trainer.fresh()
    if settings.prior_std is None:
        return _widest_that_still_fits(centre, trainer.data.take(parts.prior), settings.seed)
    scale = fan_in_std(centre, settings.prior_std)
    prior = Gaussian.zero(centre, scale) if settings.prior == "zero" else Gaussian.around(centre, scale)
    return in_float32(prior)


def _widest_that_still_fits(centre: nn.Module, examples: Data, seed: int) -> Gaussian:
    """A prior around ``centre`` as wide as the prior's own examples allow; they never certify, so this is free."""
    errors, _ = count_errors(centre, examples.X, examples.y)
    limit = errors / len(examples) + LEARNT_EXCESS
    for std in LEARNT_STDS:
        prior = in_float32(Gaussian.around(centre, fan_in_std(centre, std)))
        plan = replace(plan_draws(prior, examples.X), passes=1)
        if gibbs_risk(prior, examples.X, examples.y, derive(seed, "width"), plan).risk <= limit:
            break
    return prior


def in_float32(gaussian: Gaussian) -> Gaussian:
    """Round to float32 numbers, so that a file keeps exactly what was used."""
    mean = {name: value.float() for name, value in gaussian.mean.items()}
    return Gaussian(gaussian.module, mean, {name: value.float() for name, value in gaussian.std.items()})


@dataclass(frozen=True)
class Trainer:
    """Trains the networks of one certificate, with the user's own function or ours."""

    settings: Settings
    data: Data
    arch: Architecture
    own_fit: Fit | None = None
    work: Path | None = None

    def fresh(self) -> nn.Module:
        """A network with seeded initial weights; never the weights of a module the user handed over."""
        module = self.arch.build(derive(self.settings.seed, "init"))
        if precision(module) != torch.float32:
            raise TrueriskError(
                f"the network is in {precision(module)}, but training is in float32; build it in float32 (what is "
                "certified is computed in float64 all the same)."
            )
        check_network(module, self.data.X, self.data.classes)
        return module

    def network(self, role: str, rows: np.ndarray) -> nn.Module:
        """A network trained on ``rows`` alone, in eval mode."""
        module, examples = self.fresh(), self.data.take(rows)
        if self.own_fit is None:
            plan = self.settings.plans[role]
            checkpoint = self._checkpoint(role, module.state_dict())
            fit(module, examples, plan, label=f"training the {role} network", checkpoint=checkpoint)
        else:
            module = self._fit_by_user(module, examples)
        return check_network(module, self.data.X, self.data.classes)

    def _fit_by_user(self, module: nn.Module, examples: Data) -> nn.Module:
        assert self.own_fit is not None
        dataset = TensorDataset(torch.tensor(examples.X), torch.tensor(examples.y))
        with seeded_globals(derive(self.settings.seed, "fit")):
            result = self.own_fit(module, dataset)
        trained = module if result is None else result
        if not isinstance(trained, nn.Module):
            raise TrueriskError(
                f"fit returned a {type(trained).__name__}; it must return the trained module, or None if it "
                "trained the module it was given in place."
            )
        shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (trained, self.fresh())]
        if shapes[0] != shapes[1]:
            raise TrueriskError("fit returned a network of another architecture than the one it was given.")
        return trained

    def posterior(self, prior: Gaussian, parts: Split) -> Gaussian:
        """The posterior trained on the certifying examples, starting at the prior (narrower if data-free)."""
        plan = self.settings.plans["posterior"]
        X, y = self.data.X[parts.certify], self.data.y[parts.certify]
        checkpoint = self._checkpoint("posterior", prior.mean | prior.fixed)
        ratio = 1.0 if len(parts.prior) else DATA_FREE_START
        start = Gaussian(prior.module, prior.mean, {name: ratio * std for name, std in prior.std.items()})
        name = self.settings.objective
        posterior, _ = train_posterior(prior, X, y, plan, start=start, objective_name=name, checkpoint=checkpoint)
        return posterior

    def _checkpoint(self, role: str, start: dict[str, Tensor]) -> Checkpoint | None:
        """Where this role's training is kept; ``start`` (its first weights) is part of what must agree."""
        if self.work is None:
            return None
        bytes_of_start = save_tensors({name: value.contiguous().clone() for name, value in start.items()})
        first = hashlib.sha256(bytes_of_start).hexdigest()
        key = {"role": role, "settings": self.settings.record(), "data": self.data.sha256, "start": first}
        return Checkpoint(self.work / f"{role}.pt", key)
