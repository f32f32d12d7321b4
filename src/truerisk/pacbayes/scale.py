"""The prior scale, tuned after the fact: the baseline that any cleverer treatment of the KL has to beat."""

from __future__ import annotations

import math

from truerisk.pacbayes.gaussian import Gaussian


def tuned_scale(posterior: Gaussian, prior: Gaussian) -> tuple[float, float]:
    """The factor on all standard deviations of ``prior`` with the least KL, and the KL there (means stay).

    With weights of means m, mu and standard deviations s, sigma, KL(Q, P) with e^t sigma in place of sigma is
    convex in t, and least where e^(2t) is the mean over all weights of ((m - mu)^2 + s^2) / sigma^2.

    A column to compare with, not a free gain: a scale chosen after seeing the data costs a union bound over
    the scales it was chosen from (Langford and Caruana 2001), which is not in the number returned here.

    >>> from torch import nn
    >>> net = nn.Linear(10, 10)
    >>> factor, kl = tuned_scale(Gaussian.zero(net, 3.0), Gaussian.zero(net, 1.0))
    >>> round(factor, 9), round(kl, 9)
    (3.0, 0.0)
    """
    original = posterior.kl(prior)  # also refuses distributions that have no KL
    squares = []
    for name, sigma in prior.std.items():
        shift, ratio = (posterior.mean[name] - prior.mean[name]) / sigma, posterior.std[name] / sigma
        squares.append(float((shift.square() + ratio.square()).sum()))
    factor = math.sqrt(math.fsum(squares) / posterior.size)
    tuned = posterior.kl(Gaussian(prior.module, prior.mean, {name: factor * std for name, std in prior.std.items()}))
    # Where the prior's own scale is the best one, rounding may prefer it by an ulp.
    return (factor, tuned) if tuned < original else (1.0, original)
