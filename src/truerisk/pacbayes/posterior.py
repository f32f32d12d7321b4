"""Train a posterior: gradient descent on the means and log standard deviations of a Gaussian."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.head import find_head
from truerisk.pacbayes.objectives import bounded_cross_entropy, kl_weight, objective
from truerisk.pacbayes.stochastic import NotPerExample, StochasticNetwork
from truerisk.training import Checkpoint, History, Plan, run


class _Weights(nn.Module):
    """The trainable numbers of a posterior, in float32 and in units of the prior.

    mean = prior mean + prior std * shift and std = prior std * exp(log_ratio): both numbers have no
    unit, so that one learning rate fits narrow and wide priors alike.
    """

    def __init__(self, prior: Gaussian, start: Gaussian, *, means: bool) -> None:
        super().__init__()
        self.names = list(prior.mean)
        self.prior_mean = [prior.mean[n].float() for n in self.names]
        self.prior_std = [prior.std[n].float() for n in self.names]
        shifts = ((start.mean[n] - prior.mean[n]) / prior.std[n] for n in self.names)
        self.shift = nn.ParameterList(shift.float() for shift in shifts).requires_grad_(means)
        self.log_ratio = nn.ParameterList((start.std[n] / prior.std[n]).log().float() for n in self.names)

    def moments(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        columns = zip(self.names, self.prior_mean, self.prior_std, self.shift, self.log_ratio, strict=True)
        mean, std = {}, {}
        for name, mu, sigma, shift, log_ratio in columns:
            mean[name] = mu + sigma * shift
            std[name] = sigma * log_ratio.exp()
        return mean, std

    def kl(self) -> Tensor:
        """sum of (shift^2 + r - 1 - ln r) / 2 with r = exp(2 log_ratio), in float32: for gradients only."""
        total = torch.zeros(())
        for shift, log_ratio in zip(self.shift, self.log_ratio, strict=True):
            total = total + 0.5 * (shift.square() + (2 * log_ratio).expm1() - 2 * log_ratio).sum()
        return total


def train_posterior(
    prior: Gaussian,
    X: np.ndarray,
    y: np.ndarray,
    plan: Plan,
    *,
    start: Gaussian | None = None,
    means: bool = True,
    objective_name: str = "tempered",
    warmup: float = 0.0,
    label: str = "training the posterior",
    checkpoint: Checkpoint | None = None,
) -> tuple[Gaussian, History]:
    """The posterior that minimizes the objective on (X, y), starting at ``start`` (default: the prior).

    The KL in the objective is multiplied by a weight that rises from 0 to 1 over a share ``warmup`` of all steps.
    Without ``means`` only the standard deviations are trained; the means stay those of ``start``, number for number.
    The result's means and standard deviations are float32 numbers, so that a file keeps them exactly.
    """
    head = find_head(prior)
    if head is not None:
        on_features = functools.partial(train_posterior, head.restrict(prior), head.features(X), y, plan, means=means)
        on_features = functools.partial(on_features, objective_name=objective_name, warmup=warmup)
        posterior, history = on_features(start=head.restrict(start or prior), label=label, checkpoint=checkpoint)
        return head.extend(posterior), history
    start = start or prior
    weights = _Weights(prior, start, means=means)
    inputs, labels = torch.from_numpy(X), torch.from_numpy(y)
    forward = _training_forward(prior.module, weights, inputs)
    minimize, weight = objective(objective_name), 1.0

    def set_weight(progress: float) -> None:
        nonlocal weight
        weight = kl_weight(progress, warmup)

    def loss(batch: Tensor) -> Tensor:
        risk = bounded_cross_entropy(forward(inputs[batch]), labels[batch])
        return minimize(risk, weight * weights.kl(), len(X))

    groups = [{"params": [p for p in weights.parameters() if p.requires_grad]}]
    history = run(weights, groups, loss, len(X), plan, label=label, checkpoint=checkpoint, before_step=set_weight)
    mean, std = weights.moments()
    # Sums and products of float32 numbers would move frozen means by an ulp.
    kept = mean if means else {name: value.float() for name, value in start.mean.items()}
    return Gaussian(prior.module, kept, std), history


def _training_forward(module: nn.Module, weights: _Weights, X: Tensor) -> Callable[[Tensor], Tensor]:
    """Local reparameterization where layers allow it; one drawn network per batch where they don't."""
    try:
        network = StochasticNetwork(module, exact=False)
        mean, std = weights.moments()
        network.probe(X, mean, std)
    except NotPerExample:

        def whole(x: Tensor) -> Tensor:
            mean, std = weights.moments()
            drawn = {n: mean[n] + std[n] * torch.randn_like(std[n]) for n in mean}
            return functional_call(module, drawn, (x,))

        return whole

    def local(x: Tensor) -> Tensor:
        return network(x, *weights.moments(), torch.randn)

    return local
