"""Train a posterior: gradient descent on the means and log standard deviations of a Gaussian."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.objectives import bounded_cross_entropy, objective
from truerisk.pacbayes.stochastic import NotPerExample, StochasticNetwork
from truerisk.training import Checkpoint, History, Plan, run

STD_RATE = 5.0  # log standard deviations learn this many times faster than means


class _Weights(nn.Module):
    """The trainable numbers of a posterior, in float32: what the optimizer moves and a checkpoint keeps."""

    def __init__(self, start: Gaussian) -> None:
        super().__init__()
        self.names = list(start.mean)
        self.mean = nn.ParameterList(start.mean[n].float() for n in self.names)
        self.log_std = nn.ParameterList(start.std[n].log().float() for n in self.names)

    def moments(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        std = [log.exp() for log in self.log_std]
        return dict(zip(self.names, self.mean, strict=True)), dict(zip(self.names, std, strict=True))


def train_posterior(
    prior: Gaussian,
    X: np.ndarray,
    y: np.ndarray,
    plan: Plan,
    *,
    start: Gaussian | None = None,
    objective_name: str = "quadratic",
    label: str = "training the posterior",
    checkpoint: Checkpoint | None = None,
) -> tuple[Gaussian, History]:
    """The posterior that minimizes the objective on (X, y), starting at ``start`` (default: the prior).

    The result's means and standard deviations are float32 numbers, so that a file keeps them exactly.
    """
    weights = _Weights(start or prior)
    inputs, labels = torch.from_numpy(X), torch.from_numpy(y)
    forward = _training_forward(prior.module, weights, inputs)
    minimize = objective(objective_name)
    prior_mean = [prior.mean[n].float() for n in weights.names]
    prior_std = [prior.std[n].float() for n in weights.names]

    def loss(batch: Tensor) -> Tensor:
        risk = bounded_cross_entropy(forward(inputs[batch]), labels[batch])
        return minimize(risk, _training_kl(weights, prior_mean, prior_std), len(X))

    groups = [{"params": list(weights.mean)}, {"params": list(weights.log_std), "lr": STD_RATE * plan.lr}]
    history = run(weights, groups, loss, len(X), plan, label=label, checkpoint=checkpoint)
    mean, std = weights.moments()
    return Gaussian(prior.module, mean, std), history


def _training_kl(weights: _Weights, mean: list[Tensor], std: list[Tensor]) -> Tensor:
    """The KL in float32, for gradients only; certificates use ``Gaussian.kl``."""
    total = torch.zeros(())
    for m, log_s, mu, sigma in zip(weights.mean, weights.log_std, mean, std, strict=True):
        log_ratio = 2 * (log_s - sigma.log())
        total = total + 0.5 * (((m - mu) / sigma).square() + log_ratio.expm1() - log_ratio).sum()
    return total


def _training_forward(module: nn.Module, weights: _Weights, X: Tensor):  # type: ignore[no-untyped-def]
    """Local reparameterization where layers allow it; one drawn network per batch where they don't."""
    try:
        network = StochasticNetwork(module, exact=False)
        mean, std = weights.moments()
        network.probe(X, mean, std)
    except NotPerExample:
        template = module

        def whole(x: Tensor) -> Tensor:
            mean, std = weights.moments()
            drawn = {n: mean[n] + std[n] * torch.randn_like(std[n]) for n in mean}
            return functional_call(template, drawn, (x,))

        return whole

    def local(x: Tensor) -> Tensor:
        return network(x, *weights.moments(), torch.randn)

    return local
