"""One draw from a posterior, kept, and how much more likely it is there than under the prior."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor, nn

from truerisk.data.splits import bit_stream
from truerisk.pacbayes.gaussian import Gaussian, trainable
from truerisk.seeds import derive

SLACK = 1e-13  # relative to the sum of all parts: far more than float64 sums of this kind can lose


def draw(gaussian: Gaussian, seed: int) -> dict[str, Tensor]:
    """One set of weights in float64, a function of the distribution and the seed: mean + std * noise."""
    noise = draw_noise(gaussian, seed)
    return {name: mean + gaussian.std[name] * noise[name] for name, mean in gaussian.mean.items()}


def draw_noise(gaussian: Gaussian, seed: int) -> dict[str, Tensor]:
    """The standard normal numbers of that draw."""
    return {
        name: torch.from_numpy(lasting_normals(derive(seed, name), mean.numel())).reshape(mean.shape)
        for name, mean in gaussian.mean.items()
    }


def lasting_normals(seed: int, n: int) -> np.ndarray:
    """n standard normal numbers that stay the same in every version of numpy and torch.

    A kept draw *is* the certified network, so it must come out the same years later. numpy promises that for the raw
    bits of a bit generator, not for ``standard_normal``: take 52 bits u of each, and the normal quantile of
    (u + 1/2) / 2^52, which float64 holds exactly.
    """
    bits = bit_stream(seed).random_raw(n) >> np.uint64(12)
    return np.asarray(ndtri((bits.astype(np.float64) + 0.5) * 2.0**-52))


def log_ratio(posterior: Gaussian, prior: Gaussian, noise: Mapping[str, Tensor]) -> float:
    """ln q(w) - ln p(w) in nats, rounded up, at w = mean + std * noise of the posterior, for densities q and p.

    It is a function of the noise, not of weights: rounded to float64, mean + std * noise may be the mean itself, where
    both densities are largest, and each such weight would seem to earn ln(std of posterior / std of prior).

    Its mean over draws from the posterior is the KL:

    >>> from torch import nn
    >>> net = nn.Linear(300, 100)
    >>> q, p = Gaussian.zero(net, 0.5), Gaussian.zero(net, 1.0)
    >>> values = [log_ratio(q, p, draw_noise(q, seed)) for seed in range(20)]
    >>> abs(sum(values) / 20 / q.kl(p) - 1) < 0.02
    True
    """
    posterior.refuse_without_kl(prior)
    parts = []
    for name, z in noise.items():
        s, sigma = posterior.std[name], prior.std[name]
        other = ((posterior.mean[name] - prior.mean[name]) + s * z) / sigma
        parts += [float((sigma / s).log().sum()), -float(z.square().sum()) / 2, float(other.square().sum()) / 2]
    # The logarithms may cancel inside their sum: count their absolute values for the slack.
    spread = math.fsum(float((prior.std[n] / posterior.std[n]).log().abs().sum()) for n in noise)
    return math.fsum(parts) + SLACK * (math.fsum(map(abs, parts)) + spread)


def drawn_network(gaussian: Gaussian, weights: Mapping[str, Tensor]) -> nn.Module:
    """The network with exactly these weights, in float64 and in eval mode."""
    twin = copy.deepcopy(gaussian.module).double().eval()
    with torch.no_grad():
        for name, parameter in trainable(twin).items():
            parameter.copy_(weights[name])
    return twin
