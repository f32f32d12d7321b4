"""One draw from a posterior, kept, and how much more likely it is there than under the prior."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.pacbayes.gaussian import Gaussian, trainable
from truerisk.seeds import derive

SLACK = 1e-13  # relative to the sum of all parts: far more than float64 sums of this kind can lose


def draw(gaussian: Gaussian, seed: int) -> dict[str, Tensor]:
    """One set of weights in float64, a function of the distribution and the seed."""
    weights = {}
    for name, mean in gaussian.mean.items():
        noise = np.random.default_rng(derive(seed, name)).standard_normal(tuple(mean.shape))
        weights[name] = mean + gaussian.std[name] * torch.from_numpy(np.asarray(noise))
    return weights


def log_ratio(posterior: Gaussian, prior: Gaussian, weights: Mapping[str, Tensor]) -> float:
    """ln q(w) - ln p(w) in nats, rounded up, for densities q and p of the two distributions.

    Its mean over draws from the posterior is the KL:

    >>> from torch import nn
    >>> net = nn.Linear(300, 100)
    >>> q, p = Gaussian.zero(net, 0.5), Gaussian.zero(net, 1.0)
    >>> values = [log_ratio(q, p, draw(q, seed)) for seed in range(20)]
    >>> abs(sum(values) / 20 / q.kl(p) - 1) < 0.02
    True
    """
    posterior.refuse_without_kl(prior)
    parts = []
    for name, w in weights.items():
        s, sigma = posterior.std[name], prior.std[name]
        mine, other = (w - posterior.mean[name]) / s, (w - prior.mean[name]) / sigma
        parts += [float((sigma / s).log().sum()), -float(mine.square().sum()) / 2, float(other.square().sum()) / 2]
    # The logarithms may cancel inside their sum: count their absolute values for the slack.
    spread = math.fsum(float((prior.std[n] / posterior.std[n]).log().abs().sum()) for n in weights)
    return math.fsum(parts) + SLACK * (math.fsum(map(abs, parts)) + spread)


def drawn_network(gaussian: Gaussian, weights: Mapping[str, Tensor]) -> nn.Module:
    """The network with exactly these weights, in float64 and in eval mode."""
    twin = copy.deepcopy(gaussian.module).double().eval()
    with torch.no_grad():
        for name, parameter in trainable(twin).items():
            parameter.copy_(weights[name])
    return twin
