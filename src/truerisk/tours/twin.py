"""Act 2. The same function, other weights: which numbers notice a mere rescaling?

Multiply the weights that enter a hidden unit by a positive number and divide those that leave it by the same number:
the network computes what it did before. The posterior Q (a Gaussian around the weights) is carried along, its standard
deviations multiplied by the same factors, so Q and its twin are one distribution over functions. KL(Q, P) changes all
the same, and with it every PAC-Bayes bound; the smallest KL over all rescalings does not (Rouchouse, Gonon, Gribonval,
Guedj, arXiv 2509.26149).
"""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.tours.asked import Asked
from truerisk.tours.labels import TRUE

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from truerisk.data import Data
    from truerisk.nets import Architecture
    from truerisk.pacbayes import Gaussian, GibbsEstimate
    from truerisk.symmetry import Symmetry

STD = 2.0  # standard deviation of the random log factors
PRIOR_STD = 4.0  # of the data-free prior, in units of 1/sqrt(fan_in): that of the certificates
NOISES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)  # of the posterior: the widest that does little harm
HARM = 0.01  # rise of the error rate that counts as little
ROWS, PASSES = 2000, 10  # examples on which the noise is chosen; draws for each example afterwards
DRAWS_SHARE = 0.01  # part of delta for the error of these draws
UNCHANGED = 1e-6  # relative change that rounding explains
MEASURES = {"l2-norm": "weight norm", "hessian-trace": "sharpness", "path-norm-l1": "path norm"}
KL, BOUND, TIGHT_KL, TIGHT_BOUND = "KL", "PAC-Bayes bound", "tightened KL", "tightened bound"


@dataclass(frozen=True)
class Move:
    """One number of the network as trained and of its rescaled twin."""

    name: str
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before

    @property
    def moved(self) -> bool:
        return abs(self.ratio - 1) > UNCHANGED


@dataclass(frozen=True)
class Twin:
    """What the second act found. ``bound_*`` are McAllester's bounds, not cut at 1; ``risk_*`` are kl bounds."""

    channels: int
    output_change: float  # largest change of an output, relative to the largest output
    kl_raw: float
    kl_raw_twin: float
    kl_tightened: float
    kl_tightened_twin: float
    bound_raw: float
    bound_raw_twin: float
    bound_tightened: float
    bound_tightened_twin: float
    risk_raw: float
    risk_tightened: float
    noise: float  # standard deviation of the posterior
    error: float  # of the posterior's networks, on the n examples
    n: int
    measures: tuple[Move, ...]
    tried: int = 1  # configurations over which delta is split

    @property
    def moves(self) -> tuple[Move, ...]:
        """All numbers that are compared: those that rescaling may change first, where they come from last."""
        return (
            *self.measures,
            Move(KL, self.kl_raw, self.kl_raw_twin),
            Move(BOUND, self.bound_raw, self.bound_raw_twin),
            Move(TIGHT_KL, self.kl_tightened, self.kl_tightened_twin),
            Move(TIGHT_BOUND, self.bound_tightened, self.bound_tightened_twin),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compared(asked: Asked, folder: Path) -> Twin | str:
    """Rescale the network of act 1 that was trained on true labels; or the reason why it cannot be rescaled."""
    from truerisk import progress
    from truerisk.certificates import Certificate
    from truerisk.threads import limited

    arch, data = asked.material()
    evidence = Certificate.load(folder / TRUE, asked.network).evidence
    tried = tried_for(arch, data, asked.seed)
    with progress.silent(), limited(1):
        found = rescaled(evidence.network, data, evidence.parts.prior, asked.seed, asked.delta / tried)
    return replace(found, tried=tried) if isinstance(found, Twin) else found


def tried_for(arch: Architecture, data: Data, seed: int) -> int:
    """Configurations compared before on any of these rows: with a data-free prior, all of them enter the bound."""
    from truerisk.certificates.charge import tried_before
    from truerisk.certificates.prior import Prior

    return tried_before(arch, data, Prior("zero"), seed)


def rescaled(network: nn.Module, data: Data, rows: np.ndarray, seed: int, delta: float) -> Twin | str:
    """The comparison for any network; ``rows`` are those that trained it."""
    from truerisk.errors import TrueriskError
    from truerisk.pacbayes import Gaussian, fan_in_std, tighten

    network = plain(network, data)
    try:
        symmetry = rescalings(network, data)
    except TrueriskError as error:
        return str(error)
    prior = Gaussian.zero(network, fan_in_std(network, PRIOR_STD))
    noise, posterior = widest(network, data, seed)
    # What moves nothing but what both distributions draw: batch-norm statistics stay where they are.
    movable, to_all = symmetry.holding(posterior.fixed)
    if not movable.dim:
        return "no hidden unit of this network can be rescaled without a change of its function."
    factors = _tensor(to_all @ movable.random(std=STD, seed=seed).numpy())
    other = symmetry.rescale(posterior, factors)
    best, best_twin = tighten(posterior, prior, symmetry), tighten(other, prior, symmetry)
    draws = drawn(posterior, data, seed, PASSES)
    bounds = Bounds(draws.upper(DRAWS_SHARE * delta), len(data), (1 - DRAWS_SHARE) * delta)
    twin = symmetry.rescale(network, factors)
    raw, raw_twin = best.kl_before, best_twin.kl_before
    return Twin(
        channels=movable.dim,
        output_change=change(network, twin, data.X[:ROWS]),
        kl_raw=raw,
        kl_raw_twin=raw_twin,
        kl_tightened=best.kl_after,
        kl_tightened_twin=best_twin.kl_after,
        bound_raw=bounds.loose(raw),
        bound_raw_twin=bounds.loose(raw_twin),
        bound_tightened=bounds.loose(best.kl_after),
        bound_tightened_twin=bounds.loose(best_twin.kl_after),
        risk_raw=bounds.tight(raw),
        risk_tightened=bounds.tight(best.kl_after),
        noise=noise,
        error=draws.risk,
        n=len(data),
        measures=measured(network, twin, data.take(rows), seed),
    )


@dataclass(frozen=True)
class Bounds:
    """PAC-Bayes bounds as functions of the KL; the error of the draws is part of ``risk``."""

    risk: float
    n: int
    delta: float

    def loose(self, kl: float) -> float:
        """McAllester's form, not cut at 1: it shows how far a bound moves even where it says nothing."""
        from truerisk.bounds import mcallester

        return mcallester(self.risk, kl, self.n, self.delta, clip=False)

    def tight(self, kl: float) -> float:
        """The kl form, the tightest of its family."""
        from truerisk.bounds import pac_bayes_kl

        return pac_bayes_kl(self.risk, kl, self.n, self.delta)


def plain(network: nn.Module, data: Data) -> nn.Module:
    """The network in float64, with its batch norms folded, as far as it allows either."""
    import torch

    from truerisk.errors import TrueriskError
    from truerisk.nets import fold_batch_norm
    from truerisk.nets.evaluate import as_input

    network = copy.deepcopy(network).eval()
    with suppress(TrueriskError):  # a norm that cannot be folded stays, and pins what it would move
        network = fold_batch_norm(network, as_input(data.X[:1], torch.float32))
    try:
        double = copy.deepcopy(network).double()
        with torch.no_grad():
            double(as_input(data.X[:2], torch.float64))
    except Exception:  # layers complain in their own ways; then it stays in float32
        return network
    return double


def rescalings(network: nn.Module, data: Data) -> Symmetry:
    from truerisk.nets.evaluate import as_input, precision
    from truerisk.symmetry import find_symmetry

    return find_symmetry(network, as_input(data.X[:1], precision(network)))


def widest(network: nn.Module, data: Data, seed: int) -> tuple[float, Gaussian]:
    """The posterior: the most noise on all weights that raises the error rate by at most one point.

    Looking at the data for this is allowed: a PAC-Bayes bound holds for all posteriors at once.
    """
    from truerisk.nets import outputs
    from truerisk.pacbayes import Gaussian

    few = data.take(range(min(ROWS, len(data))))
    still = float((outputs(network, few.X).argmax(dim=1).numpy() != few.y).mean())
    for noise in NOISES:
        posterior = Gaussian.around(network, noise)
        if drawn(posterior, few, seed + 1, 1).risk <= still + HARM:
            break
    return noise, posterior


def drawn(posterior: Gaussian, data: Data, seed: int, passes: int) -> GibbsEstimate:
    from truerisk.pacbayes import gibbs_risk, plan_draws
    from truerisk.seeds import derive

    plan = plan_draws(posterior, data.X)
    plan = replace(plan, passes=min(plan.passes, passes))
    return gibbs_risk(posterior, data.X, data.y, derive(seed, "tour", "draws"), plan)


def change(network: nn.Module, twin: nn.Module, X: np.ndarray) -> float:
    """The largest change of an output on these inputs, relative to the largest output."""
    from truerisk.nets import outputs

    before, after = outputs(network, X).double(), outputs(twin, X).double()
    return float((after - before).abs().max() / before.abs().max().clamp_min(1e-300))


def measured(network: nn.Module, twin: nn.Module, data: Data, seed: int) -> tuple[Move, ...]:
    """The measures that both networks have and that are not 0."""
    from truerisk.measures import measure

    before, after = (measure(each, data, only=MEASURES, seed=seed) for each in (network, twin))
    there = [name for name in MEASURES if name not in {**before.skipped, **after.skipped} and before[name] > 0]
    return tuple(Move(MEASURES[name], before[name], after[name]) for name in there if after[name] > 0)


def _tensor(values: np.ndarray) -> Tensor:
    import torch

    return torch.from_numpy(values)
