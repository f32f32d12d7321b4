"""The smallest KL on the orbit: rescale the prior, the function stays, the bound gets tighter.

The lift of the posterior and the prior (a map of weights that is constant on orbits and determines the
function) obeys  KL(lift Q, lift P) <= min over rescalings KL(Q, rescaled P) <= KL(Q, P), and a PAC-Bayes
bound may use the smallest: Rouchouse, Gonon, Gribonval, Guedj, arXiv 2509.26149.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from truerisk.errors import TrueriskError
from truerisk.pacbayes.gaussian import Gaussian, Sums, is_zero, kl_from, kl_slack, kl_sums
from truerisk.symmetry import Held, Symmetry
from truerisk.symmetry.held import listed, tell_held
from truerisk.symmetry.solver import minimize
from truerisk.symmetry.statistics import assemble
from truerisk.words import at_most, nats

PLACES = 3  # named when a result is printed; ``held`` has all of them
INITIAL = {"running_mean": 0, "running_var": 1}  # of a norm that has seen no data


@dataclass(frozen=True)
class Tightened:
    """The best log-scales, and what they bring.

    The log-scales t move the prior: weights that enter a unit are multiplied by exp(t), weights that leave it divided.
    ``prior`` is the prior moved by t, ``posterior`` the posterior moved by -t; either one has the KL ``kl_after`` with
    the other side as it was. ``kls``: the KL after each sweep of the search, from ``kl_before`` to ``kl_after``.

    ``held``: log-scales that stayed 0, because they would move a tensor that is not drawn; ``free``: how many could
    move. ``statistics``: batch-norm statistics that posterior and prior share. A bound with this KL holds only if they
    come from data that never certifies.

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
    kls: tuple[float, ...]
    free: int
    held: tuple[Held, ...]
    statistics: tuple[str, ...]
    # Moved copies are made when asked for: until then, nothing but references is kept.
    _pair: tuple[Gaussian, Gaussian] = field(repr=False)
    _symmetry: Symmetry = field(repr=False)

    @property
    def prior(self) -> Gaussian:
        """The prior moved by the log-scales: ``q.kl(best.prior) == best.kl_after``."""
        return self._symmetry.rescale(self._pair[1], self.log_scales)

    @property
    def posterior(self) -> Gaussian:
        """The posterior moved the other way: ``best.posterior.kl(p)`` is ``best.kl_after`` up to rounding."""
        return self._symmetry.rescale(self._pair[0], -self.log_scales)

    def __str__(self) -> str:
        saved = 1 - self.kl_after / self.kl_before if self.kl_before else 0.0
        proof = (
            "a local optimum" if self.gap is None else f"at most {at_most(self.gap, 2)} above the smallest on the orbit"
        )
        lines = [f"KL {nats(self.kl_before)} -> {nats(self.kl_after)} nats ({saved:.0%} less), {proof}"]
        if self.held:
            more = len(self.held) > PLACES
            all_of_them = f"{len(self.log_scales) - self.free:,} of {len(self.log_scales):,} channels are held"
            places = [*map(str, self.held[:PLACES]), *([f"more in {len(self.held) - PLACES} other places"] * more)]
            lines.append(f"{all_of_them}: {'; '.join(places)}")
        if self.statistics:
            lines.append(
                f"posterior and prior share {listed(self.statistics)}: a bound needs such statistics from data that "
                "never certifies, or none (truerisk.fold_batch_norm)"
            )
        lines.append("log-scales t move the prior: what enters a unit is multiplied by exp(t), what leaves it divided")
        return "\n".join(lines)


def tighten(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry, tolerance: float = 1e-10) -> Tightened:
    """Log-scales t that make KL(posterior, prior rescaled by t) as small as possible, never larger than at 0.

    Free in a certificate: they may depend on the posterior, the prior and data, as long as they move nothing
    but what both draw. ``symmetry`` must be that of this very network: one of the same shapes that computes something
    else has another. A log-scale that would move a non-zero buffer or a frozen parameter (a batch-norm
    mean) is held at 0, and ``held`` lists it.

    Batch-norm statistics that were computed from the data that certify make the prior depend on those data. Fold the
    norms before you make the posterior (``truerisk.fold_batch_norm``), and balance the folded network
    (``truerisk.symmetry.balanced``). In ``benchmarks/batch_norm.py`` this also gave the lowest bounds, with the best
    standard deviation for each way of writing a network. At equal standard deviations a folded network may have the
    larger KL. But the posteriors differ: equal noise does more harm to the network as it was trained.

    >>> from torch import nn
    >>> from truerisk.symmetry import find_symmetry
    >>> net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False))
    >>> q, p = Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0)
    >>> q.mean["0.weight"][:], q.mean["2.weight"][:] = 8.0, 0.1
    >>> best = tighten(q, p, find_symmetry(net, torch.zeros(1, 1)))
    >>> round(best.kl_before, 1), round(best.kl_after, 1), best.held
    (35.6, 4.7, ())
    >>> q.kl(best.prior) == best.kl_after == best.kls[-1]
    True
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
    held, statistics = tell_held(symmetry, movable, to_all, posterior.fixed), _statistics(posterior.module)

    def result(t: Tensor, after: float, sweeps: int, passes: float, gap: float | None, kls: list[float]) -> Tightened:
        told = (*_falling(before, kls, after),), movable.dim, held, statistics
        return Tightened(t, before, after, sweeps, passes, gap, *told, (posterior, prior), symmetry)

    if not movable.dim:
        return result(torch.zeros(symmetry.dim, dtype=torch.float64), before, 0, 0.0, 0.0, [])
    solution = minimize(problem, tolerance=tolerance, whole=before)
    log_scales = torch.from_numpy(to_all @ solution.t)
    there = posterior.sums(prior, symmetry.factors(log_scales))
    after = kl_from(there)
    if not after < before:
        log_scales, after = torch.zeros_like(log_scales), before
    # Twice: the KL exceeds the exact one by its slack, and by rounding errors, which are less than the slack.
    gap = None if solution.gap is None else float(solution.gap) + 2 * kl_slack(there)
    # The search knows the KL up to a constant, which is the same at the start.
    kls = [before + (value - solution.start) for value in solution.values]
    return result(log_scales, after, solution.sweeps, solution.passes, gap, kls)


def _falling(before: float, kls: list[float], after: float) -> list[float]:
    """From ``before`` to ``after`` without a rise: the search's own sums may be off by a rounding error."""
    between = [min(before, max(after, kl)) for kl in kls[:-1]]
    return [before, *accumulate(between, min), *([after] if kls else [])]


def _statistics(module: nn.Module) -> tuple[str, ...]:
    """Running statistics of norms that are not those of a new one: they were computed from data."""
    norms = [(name, m) for name, m in module.named_modules() if isinstance(m, _NormBase)]
    initial = [(f"{name}.{kind}", getattr(m, kind), new) for name, m in norms for kind, new in INITIAL.items()]
    return tuple(name.removeprefix(".") for name, t, new in initial if t is not None and bool((t != new).any()))
