"""The KL after rescaling, next to the KL with the prior scale tuned: numbers that belong together.

    KL(lift Q, lift P) <= KL after rescaling <= KL(Q, P)

(Rouchouse, Gonon, Gribonval, Guedj, arXiv 2509.26149). One factor on the prior's standard deviations already
wins much of what rescaling wins, so a fair table has both, alone and together. A certificate may use the
rescaled KL without further delta; delta would have to cover the choice of a prior scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from scipy.optimize import brentq
from torch import Tensor

from truerisk.pacbayes.dense import NoLift
from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.lifted import LiftedKL, lifted_kl
from truerisk.pacbayes.scale import tuned_scale
from truerisk.pacbayes.tightening import tighten
from truerisk.symmetry import Symmetry
from truerisk.words import nats

ROUNDS = 30  # of Brent's method; it takes five or six
SETTLED = 1e-6  # of the logarithm of a prior scale: what it changes in the KL is of second order
REACH = 20.0  # and how far from the best prior scale without rescaling the search may go: a factor of 5e8


@dataclass(frozen=True)
class Chain:
    """KLs in nats. ``tuned_scale`` and ``both`` belong to another prior: the best factor times its standard deviations.

    ``lifted``: the KL of the lifts, estimated, if draws were given; ``lifted_note``: why there is none ("" otherwise).
    """

    original: float
    tuned_scale: float
    rescaled: float
    both: float
    lifted: LiftedKL | None = None
    lifted_note: str = ""

    def saved(self, kl: float) -> float:
        """How much smaller ``kl`` is than the original KL, as a share of it.

        >>> Chain(8.0, 7.0, 6.0, 5.0).saved(6.0)
        0.25
        """
        return 1 - kl / self.original if self.original else 0.0

    def __str__(self) -> str:
        """The chain from its largest member to its smallest, then the KLs of the prior with another scale."""
        lines = [
            "KL(posterior, prior) in nats",
            f"{nats(self.original):>14}  original",
            f"{nats(self.rescaled):>14}  optimally rescaled",
        ]
        if self.lifted is not None:
            lines.append(f"{nats(self.lifted.value, down=True):>14}  lifted: {estimated(self.lifted)}")
        lines += [f"    no lifted KL: {self.lifted_note}"] * bool(self.lifted_note)
        lines += [
            "with the prior scale tuned, a choice that delta would have to cover",
            f"{nats(self.tuned_scale):>14}  prior scale tuned",
            f"{nats(self.both):>14}  prior scale tuned and optimally rescaled",
        ]
        return "\n".join(lines)


def estimated(lifted: LiftedKL) -> str:
    """How sure a lifted KL is, in words."""
    ends = f"at most {nats(lifted.upper)}"
    if lifted.lower is not None:
        ends = f"between {nats(lifted.lower, down=True)} and {nats(lifted.upper)}"
    return f"estimated from {lifted.draws:,} draws (standard error {lifted.standard_error:.2g}), {ends}"


def kl_chain(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry, draws: int = 0, seed: int = 0) -> Chain:
    """Original, tuned prior scale, rescaled, both; with ``draws``, the lifted KL too, or a note why there is none.

    >>> import torch
    >>> from truerisk import find_symmetry
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> chain = kl_chain(Gaussian.zero(net, 2.0), Gaussian.zero(net, 1.0), find_symmetry(net, torch.zeros(1, 2)))
    >>> chain.tuned_scale < chain.rescaled < chain.original
    True
    """
    best = tighten(posterior, prior, symmetry).log_scales
    together = rescale_and_tune(posterior, prior, symmetry, best)
    lifted, note = None, ""
    if draws:
        try:
            lifted = lifted_kl(posterior, prior, draws, seed)
        except NoLift as reason:
            note = str(reason)
    return Chain(*kls(posterior, prior, symmetry, best, together), lifted, note)


def kls(
    posterior: Gaussian, prior: Gaussian, symmetry: Symmetry, best: Tensor, together: Tensor
) -> tuple[float, float, float, float]:
    """The four KLs from log-scales: the best ones as they are, and the best ones for a tuned prior scale."""
    rescaled = posterior.kl(symmetry.rescale(prior, best))
    _, both = tuned_scale(posterior, symmetry.rescale(prior, together))
    return posterior.kl(prior), tuned_scale(posterior, prior)[1], rescaled, both


def rescale_and_tune(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry, start: Tensor) -> Tensor:
    """The best log-scales for a prior whose scale is tuned too: a search over the scale, with ``tighten`` inside.

    Let F(s) be the least KL over log-scales t if the prior's standard deviations are multiplied by exp(s), and phi(s)
    the best s for the t that is best at s. By the envelope theorem F'(s) = N (1 - exp(2 (phi(s) - s))) for N weights,
    so F is least where phi(s) = s. Minimizing over t and s in turn is to apply phi again and again: slow in deep
    networks, where log-scales make up for almost any prior scale. Here the sign of phi(s) - s leads to a bracket, and
    Brent's method to the root.

    For a prior around 0 the KL is convex in (t, s) together: its terms are convex functions of sums of them. So F is
    convex and the root is the minimum. For other priors it is a stationary point, with nothing proved. The best of all
    that was seen is returned, ``start`` and the best prior scale without rescaling included: never worse than either.
    """
    seen = [(tuned_scale(posterior, symmetry.rescale(prior, start))[1], start)]

    @cache  # Brent's method asks again for the ends of its bracket
    def excess(s: float) -> float:
        wider = Gaussian(prior.module, prior.mean, {name: math.exp(s) * std for name, std in prior.std.items()})
        log_scales = tighten(posterior, wider, symmetry).log_scales
        factor, value = tuned_scale(posterior, symmetry.rescale(prior, log_scales))
        seen.append((value, log_scales))
        return math.log(factor) - s

    first = here = math.log(tuned_scale(posterior, prior)[0])
    step = excess_here = excess(here)
    while abs(step) > SETTLED and abs(here + step - first) <= REACH:
        there = here + step
        excess_there = excess(there)
        if excess_here * excess_there <= 0:
            brentq(excess, here, there, xtol=SETTLED, maxiter=ROUNDS, disp=False)
            break
        here, excess_here, step = there, excess_there, 2 * step
    return min(seen, key=lambda pair: pair[0])[1]
