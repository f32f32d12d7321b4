"""What rescaling gives, beside what tuning the prior's width gives: four numbers that belong together.

    KL(lift Q, lift P) <= KL after rescaling <= KL(Q, P)

(Rouchouse, Gonon, Gribonval, Guedj, arXiv 2509.26149). One factor on the prior's standard deviations already
wins much of what rescaling wins, so a fair table has both, alone and together. A certificate may use the
rescaled KL for free; a tuned width would have to be paid for.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.lifted import LiftedKL, lifted_kl
from truerisk.pacbayes.scale import tuned_scale
from truerisk.pacbayes.tightening import tighten
from truerisk.symmetry import Symmetry

ROUNDS = 30
SETTLED = 1e-9  # relative gain of a round under which there is no next one


@dataclass(frozen=True)
class Chain:
    """KLs in nats. ``lifted``: the exact KL of the lifts, for networks with one hidden layer, where asked for."""

    original: float
    tuned_scale: float
    rescaled: float
    both: float
    lifted: LiftedKL | None = None

    def __str__(self) -> str:
        lines = [
            f"{self.original:14,.2f}  original",
            f"{self.tuned_scale:14,.2f}  with the prior's width tuned (to be paid for)",
            f"{self.rescaled:14,.2f}  optimally rescaled",
            f"{self.both:14,.2f}  both",
        ]
        if self.lifted is not None:
            error = f"+- {self.lifted.standard_error:.2g}, {self.lifted.draws:,} draws"
            lines.append(f"{self.lifted.value:14,.2f}  exact KL of the lifts ({error})")
        return "KL(posterior, prior) in nats\n" + "\n".join(lines)


def kl_chain(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry, draws: int = 0, seed: int = 0) -> Chain:
    """Original, tuned width, rescaled, both; with ``draws``, the exact lifted KL too.

    >>> import torch
    >>> from truerisk import find_symmetry
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> chain = kl_chain(Gaussian.zero(net, 2.0), Gaussian.zero(net, 1.0), find_symmetry(net, torch.zeros(1, 2)))
    >>> chain.tuned_scale < chain.rescaled < chain.original
    True
    """
    best = tighten(posterior, prior, symmetry).log_scales
    together = rescale_and_tune(posterior, prior, symmetry, best)
    lifted = lifted_kl(posterior, prior, draws, seed) if draws else None
    return Chain(*kls(posterior, prior, symmetry, best, together), lifted)


def kls(
    posterior: Gaussian, prior: Gaussian, symmetry: Symmetry, best: Tensor, together: Tensor
) -> tuple[float, float, float, float]:
    """The four KLs from log-scales: the best ones as they are, and the best ones for a tuned width."""
    rescaled = posterior.kl(symmetry.rescale(prior, best))
    _, both = tuned_scale(posterior, symmetry.rescale(prior, together))
    return posterior.kl(prior), tuned_scale(posterior, prior)[1], rescaled, both


def rescale_and_tune(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry, start: Tensor) -> Tensor:
    """The best log-scales for a prior whose width is tuned too: one after the other, until nothing changes."""
    log_scales = start
    factor, value = tuned_scale(posterior, symmetry.rescale(prior, log_scales))
    for _ in range(ROUNDS):
        wider = Gaussian(prior.module, prior.mean, {name: factor * std for name, std in prior.std.items()})
        candidate = tighten(posterior, wider, symmetry).log_scales
        factor, smaller = tuned_scale(posterior, symmetry.rescale(prior, candidate))
        if not smaller < value:
            break
        log_scales, gain, value = candidate, value - smaller, smaller
        if gain <= SETTLED * value:
            break
    return log_scales
