"""KL of two Gaussians over a million weights, against ``torch.distributions`` in float32."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from benchmarks.timing import Row, in_turns
from truerisk.pacbayes import Gaussian


def rows() -> list[Row]:
    return [
        _compare("posterior far from the prior", shift=1.0, spread=0.3),
        _compare("posterior next to the prior", shift=1e-4, spread=1e-4),
    ]


def _compare(what: str, shift: float, spread: float) -> Row:
    """Means moved by ``shift`` and log standard deviations by ``spread``, in units of the prior.

    All four are rounded to float32 first, so that both sides are given the same numbers.
    """
    torch.manual_seed(0)
    module = nn.Linear(1000, 1000)  # 1,001,000 weights
    width = float(torch.tensor(0.03))
    prior = Gaussian.around(module, std=width)
    mean = {n: (m + shift * width * torch.randn_like(m)).float() for n, m in prior.mean.items()}
    std = {n: (s * (spread * torch.randn_like(s)).exp()).float() for n, s in prior.std.items()}
    posterior = Gaussian(module, mean, std)
    single = _in_float32(posterior, prior)
    times = in_turns(lambda: posterior.kl(prior), single, repeats=7)
    exact, rounded = posterior.kl(prior), single()
    note = f"KL {exact:.6g}; float32 gives {rounded:.6g}, relative error {abs(rounded - exact) / exact:.1e}"
    name = f"KL over {posterior.size:,} weights, {what}"
    return Row(name, "torch.distributions.kl_divergence, float32", *times, note=note)


def _in_float32(q: Gaussian, p: Gaussian) -> Callable[[], float]:
    pairs = [tuple(t.float() for t in (q.mean[n], q.std[n], p.mean[n], p.std[n])) for n in q.mean]

    def kl() -> float:
        return sum(float(kl_divergence(Normal(m, s), Normal(mu, sigma)).sum()) for m, s, mu, sigma in pairs)

    return kl
