"""The smallest KL on the orbit: rescale the prior, the function stays, the bound gets tighter.

The lift of the posterior and the prior (a map of weights that is constant on orbits and determines the
function) obeys  KL(lift Q, lift P) <= min over rescalings KL(Q, rescaled P) <= KL(Q, P), and a PAC-Bayes
bound may use the smallest: Rouchouse, Gonon, Gribonval, Guedj, arXiv 2509.26149.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from truerisk.errors import TrueriskError
from truerisk.pacbayes.gaussian import ROUNDING, Gaussian, Sums, is_zero, kl_from, kl_sums
from truerisk.symmetry import Symmetry
from truerisk.symmetry.solver import minimize
from truerisk.symmetry.statistics import assemble
from truerisk.words import at_most, nats


@dataclass(frozen=True)
class Tightened:
    """The best log-scales, and what they bring.

    ``gap``: the KL is at most this much above the smallest on the orbit, proved from the gradient (and not less than
    rounding may be); None where the prior's means are not all 0, for then the problem is not convex and the
    result is a local optimum.
    """

    log_scales: Tensor
    kl_before: float
    kl_after: float
    sweeps: int
    passes: float
    gap: float | None

    def __str__(self) -> str:
        saved = 1 - self.kl_after / self.kl_before if self.kl_before else 0.0
        proof = (
            "a local optimum" if self.gap is None else f"at most {at_most(self.gap, 2)} above the smallest on the orbit"
        )
        return f"KL {nats(self.kl_before)} -> {nats(self.kl_after)} nats ({saved:.0%} less), {proof}"


def tighten(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry, tolerance: float = 1e-10) -> Tightened:
    """Log-scales t that make KL(posterior, prior rescaled by t) as small as possible, never larger than at 0.

    Free in a certificate: they may depend on the posterior, the prior and data, as long as they move nothing
    but what both draw. ``symmetry`` must be that of this very network: one of the same shapes that computes something
    else has another. A log-scale that would move a non-zero buffer or a frozen parameter (a batch-norm
    mean) is held at 0; fold batch norm first (``truerisk.fold_batch_norm``) to free it.
    """
    posterior.refuse_without_kl(prior)
    unknown = [name for name in posterior.mean if posterior.mean[name].shape != symmetry.shapes.get(name)]
    if unknown:
        raise TrueriskError(f"this is the symmetry of another network: {unknown[0]} does not fit.")
    movable, to_all = symmetry.holding(posterior.fixed)
    sums: dict[str, Sums] = {}

    def numbers(name: str) -> tuple[Tensor, Tensor | None] | None:
        """Squares and cross terms, and on the way the sums of the KL: every weight is read once for both."""
        if name not in posterior.mean:
            return None
        squares = torch.empty_like(posterior.mean[name])
        sums[name] = kl_sums(posterior, prior, name, kept=squares)
        m, mu, sigma = posterior.mean[name], prior.mean[name], prior.std[name]
        if is_zero(mu):
            return squares, None
        shift, ratio = m / sigma, posterior.std[name] / sigma
        return shift.square() + ratio.square(), shift * (mu / sigma)

    problem = assemble(movable, numbers)
    before = kl_from([sums[name] if name in sums else kl_sums(posterior, prior, name) for name in posterior.mean])
    if not movable.dim:
        return Tightened(torch.zeros(symmetry.dim, dtype=torch.float64), before, before, 0, 0.0, 0.0)
    solution = minimize(problem, tolerance=tolerance, scale=max(before, 1.0))
    log_scales = torch.from_numpy(to_all @ solution.t)
    after = posterior.kl(prior, symmetry.factors(log_scales))
    if not after < before:
        log_scales, after = torch.zeros_like(log_scales), before
    gap = None if solution.gap is None else float(solution.gap) + ROUNDING * after
    return Tightened(log_scales, before, after, solution.sweeps, solution.passes, gap)
