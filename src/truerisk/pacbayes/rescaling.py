"""What rescaling does to the PAC-Bayes bound of one network: the figure of Rouchouse et al. 2025 for your own.

Prior N(0, sigma_p^2), posterior N(w, sigma_q^2) around the given weights w, n examples:

    KL(lift Q, lift P)  <=  min over rescalings of KL(Q, rescaled P)  <=  KL(Q, P)

(Rouchouse, Gonon, Gribonval, Guedj, arXiv 2509.26149). The report has the Gibbs risk with its Monte Carlo error, the
KL and the bound as they are, with a tuned prior scale, rescaled, and both, and the lifted KL where it can be computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from truerisk.data import Data, load
from truerisk.errors import TrueriskError
from truerisk.nets import adapted, architecture, check_network
from truerisk.pacbayes.columns import COLUMNS, FORMS, KLColumns, bound_columns, kl_columns
from truerisk.pacbayes.gaussian import Gaussian, Scale
from truerisk.pacbayes.lifted import LiftedKL, lifted_kl
from truerisk.pacbayes.monte_carlo import GibbsEstimate, gibbs_risk, plan_draws
from truerisk.pacbayes.tightening import Tightened
from truerisk.pacbayes.walk import Step, walk
from truerisk.seeds import derive
from truerisk.symmetry import Symmetry, find_symmetry
from truerisk.symmetry.held import listed
from truerisk.words import bound, nats, seen

DRAWS_SHARE = 0.1  # of delta, for the sampled networks; the rest is for the PAC-Bayes inequality
ENOUGH = 50_000  # sampled predictions where nothing else is asked for; every example has at least one
LIFT_DRAWS = 100  # networks sampled for the lifted KL
WALKED = 200  # examples whose outputs are compared along the orbit
SIGN = (
    "Rescaling factors move the prior: standard deviations of weights into a unit are multiplied by its factor, those "
    "of weights out of it are divided by its factor. To move the network instead, use log factors of the opposite sign."
)
UNKNOWN = "The lifted KL cannot be computed at these standard deviations."
EXTREME = 1e30  # standard deviations beyond it, or below its inverse, have squares that leave the range of floats
OF_NORMS = ("running_mean", "running_var", "num_batches_tracked")  # torch's own: told as statistics, if not new
NAMES = {"original": "original", "tuned": "prior scale tuned", "rescaled": "rescaled", "both": "both"}


def says_nothing(value: float) -> bool:
    """Whether a bound is vacuous: 1 or more as it is printed, rounded up to three decimals.

    The form kl never exceeds 1 and only approaches it, so a limit of exactly 1 would call 0.99999 informative.

    >>> says_nothing(0.9991), says_nothing(0.999), says_nothing(1.2)
    (True, False, True)
    """
    return value > 0.999


@dataclass(frozen=True)
class Walked:
    """A walk along the orbit, with the bound at each step in the form of its report, not cut at 1."""

    steps: tuple[Step, ...]
    bounds: tuple[float, ...]


@dataclass(frozen=True)
class RescalingReport:
    """Bounds of one network before and after rescaling; see `rescaling_report`.

    ``bounds`` has a number for each form and column, not cut at 1. A bound of 1 or more, rounded up to three decimals,
    is vacuous: it says nothing. Every bound holds with probability 1 - ``delta``, each on its own; only those of the
    columns original and rescaled in the forms kl and mcallester hold together. ``lifted_note`` says why there is
    no lifted KL.
    """

    name: str
    n: int
    delta: float
    form: str
    estimate: GibbsEstimate
    risk_upper: float
    columns: KLColumns
    bounds: Mapping[str, Mapping[str, float]]
    lifted: LiftedKL | None
    lifted_note: str
    posterior: Gaussian = field(repr=False, compare=False)
    prior: Gaussian = field(repr=False, compare=False)
    symmetry: Symmetry = field(repr=False, compare=False)
    inputs: Tensor = field(repr=False, compare=False)  # a few examples, for the walk

    @property
    def weights(self) -> int:
        return self.posterior.size

    @property
    def risk(self) -> float:
        """Share of errors of the sampled networks on the examples."""
        return self.estimate.risk

    @property
    def kl(self) -> Mapping[str, float]:
        return self.columns.kl

    @property
    def bound(self) -> Mapping[str, float]:
        """The bounds in the form that was asked for."""
        return self.bounds[self.form]

    @property
    def best(self) -> Tightened:
        """The best rescaling: its log-scales move the prior."""
        return self.columns.best

    def vacuous(self, column: str) -> bool:
        """Whether the bound says nothing: 1 or more, rounded up to three decimals."""
        return says_nothing(self.bound[column])

    @property
    def headline(self) -> str:
        before, after = self.bound["original"], self.bound["rescaled"]
        told = f"{bound(before, 3)} before the best rescaling, {bound(after, 3)} after it"
        if self.vacuous("original") and not self.vacuous("rescaled"):
            return f"{self.name}: vacuous before, informative after ({told})."
        if self.vacuous("rescaled"):
            return f"{self.name}: the bound is vacuous before and after rescaling ({told})."
        return f"{self.name}: the bound is {told}."

    @property
    def frozen(self) -> tuple[str, ...]:
        """Frozen parameters and buffers that hold numbers, other than ``best.statistics``: the KL covers none of them.

        Counters of batches, zeros, and the statistics of a norm that has seen no data hold none.
        """
        norms = [name for name, each in self.posterior.module.named_modules() if isinstance(each, _NormBase)]
        told = {f"{name}.{kind}".removeprefix(".") for name in norms for kind in OF_NORMS}
        values = self.posterior.fixed.items()
        return tuple(name for name, value in values if name not in told and bool((value != 0).any()))

    def walk(self, seed: int = 0) -> Walked:
        """The bound along two lines through the optimum, and how far the outputs change; empty where nothing can move.

        All of them rest on the event of the column rescaled. With a prior around 0 none is better than that column.
        """
        if not self.best.free:
            return Walked((), ())
        dtype = getattr(torch, self.estimate.plan.precision)
        best = self.best.log_scales
        steps = walk(self.posterior, self.prior, self.symmetry, best, self.inputs, seed=seed, dtype=dtype)
        left = (1 - DRAWS_SHARE) * self.delta
        bounds = [FORMS[self.form](self.risk_upper, step.kl, self.n, left, clip=False) for step in steps]
        return Walked(tuple(steps), tuple(bounds))

    def to_json(self) -> dict[str, Any]:
        """Plain values; a KL or bound that is not finite is None."""
        lifted = None if self.lifted is None else {"value": self.lifted.value, "error": self.lifted.standard_error}
        return {
            "name": self.name,
            "n": self.n,
            "weights": self.weights,
            "delta": self.delta,
            "form": self.form,
            "risk": self.risk,
            "risk_upper": self.risk_upper,
            "kl": _finite(self.kl),
            "bound": _finite(self.bound),
            "bounds": {form: _finite(numbers) for form, numbers in self.bounds.items()},
            "vacuous": {column: self.vacuous(column) for column in COLUMNS},
            "lifted": lifted,
            "lifted_note": self.lifted_note,
            "free": self.symmetry.dim,
            "held": [vars(each) for each in self.best.held],
            "pinned": [list(each) for each in self.symmetry.pinned],
            "statistics": list(self.best.statistics),
            "frozen": list(self.frozen),
            "sweeps": self.best.sweeps,
            "kl_per_sweep": list(self.best.kls),
            "log_scales": {"low": self._log_scale(torch.min), "high": self._log_scale(torch.max)},
        }

    def _log_scale(self, end: Any) -> float:
        return float(end(self.best.log_scales)) if len(self.best.log_scales) else 0.0

    @property
    def moved(self) -> str:
        """What the best rescaling does, with its sign."""
        if not self.best.free:
            return "Nothing in this network can be rescaled."
        return f"{self.factors} {SIGN}"

    @property
    def factors(self) -> str:
        """How far the best rescaling goes."""
        low, high = self._log_scale(torch.min), self._log_scale(torch.max)
        return (
            f"The best rescaling factors are between {math.exp(low):.3g} and {math.exp(high):.3g} (log factors between "
            f"{low:.2f} and {high:.2f})."
        )

    @property
    def condition(self) -> str:
        """What the bounds need of numbers that are not drawn, in one sentence; "" where all are drawn."""
        not_drawn = (*self.best.statistics, *self.frozen)
        verb = "does" if len(not_drawn) == 1 else "do"
        return f"The bounds hold only if {listed(not_drawn)} {verb} not depend on the examples." if not_drawn else ""

    def __str__(self) -> str:
        lines = [self.headline, "", f"{'':<20}{'KL (nats)':>14}{'bound':>10}"]
        lines += [f"{NAMES[c]:<20}{nats(self.kl[c]):>14}{bound(self.bound[c], 3):>10}" for c in COLUMNS]
        if self.lifted is not None:
            lines.append(f"{'lifted (estimated)':<20}{nats(self.lifted.value, down=True):>14}")
        lines += ["", f"observed error of sampled networks: {seen(self.risk)} (at most {bound(self.risk_upper)})"]
        return "\n".join([*lines, *([self.condition] if self.condition else [])])


def rescaling_report(
    model: object,
    data: object,
    sigma_q: Scale | Gaussian,
    sigma_p: Scale | Gaussian,
    *,
    delta: float = 0.05,
    form: str = "kl",
    draws: int | None = None,
    lifted: int = LIFT_DRAWS,
    seed: int = 0,
    name: str | None = None,
    outputs: str | None = None,
) -> RescalingReport:
    """Bounds of a trained network on the examples it was trained on, before and after rescaling.

    ``model``: a module (or a function that builds one, weights included). ``data``: as for `truerisk.certify`.
    ``sigma_q``, ``sigma_p``: standard deviations of the posterior around the weights and of the prior around 0; a
    number, numbers by layer, or a `Gaussian`. ``form``: kl, mcallester, or catoni, chosen before the numbers are seen.
    ``draws``: sampled predictions for the Gibbs risk, at least one per example. ``lifted``: sampled networks for the
    lifted KL; 0 leaves it out.

    The bounds are valid if the prior was fixed before the examples were seen and the examples are independent draws.
    A tenth of delta covers the sampled networks. The tuned columns split the rest over 41 prior scales.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    >>> report = rescaling_report(net, "digits", sigma_q=0.05, sigma_p=1.0, lifted=0)
    >>> report.kl["rescaled"] < report.kl["original"], report.n
    (True, 1797)
    """
    _check(delta, form, lifted)
    examples = load(data)
    module, examples = _network(model, examples, sigma_q, sigma_p, outputs)
    posterior = _gaussian(Gaussian.around, module, sigma_q, "sigma_q")
    prior = _gaussian(Gaussian.zero, module, sigma_p, "sigma_p")
    symmetry = find_symmetry(posterior.module, torch.from_numpy(examples.blank))
    columns = kl_columns(posterior, prior, symmetry)
    plan = plan_draws(posterior, examples.X, ENOUGH if draws is None else draws)
    estimate = gibbs_risk(posterior, examples.X, examples.y, derive(seed, "rescaling report"), plan)
    upper = estimate.upper(DRAWS_SHARE * delta)
    left = (1 - DRAWS_SHARE) * delta
    bounds = {each: bound_columns(columns.kl, upper, len(examples), left, each) for each in FORMS}
    lift, note = _lift(posterior, prior, lifted, seed)
    label = name or str(model if isinstance(model, str) else getattr(model, "__name__", type(model).__name__))
    numbers = (estimate, upper, columns, bounds, lift, note)
    inputs = torch.from_numpy(examples.X[:WALKED])
    return RescalingReport(label, len(examples), delta, form, *numbers, posterior, prior, symmetry, inputs)


def _check(delta: float, form: str, lifted: int) -> None:
    if not 0 < delta < 1:
        raise TrueriskError(f"delta is {delta}, but must lie between 0 and 1; try 0.05.")
    if form not in FORMS:
        raise TrueriskError(f"form is {form!r}, but must be one of {', '.join(FORMS)}; choose one.")
    if lifted < 0 or lifted == 1:
        raise TrueriskError(f"lifted is {lifted}, but must be 0 or at least 2; 0 leaves the lifted KL out.")


def _gaussian(
    make: Callable[[nn.Module, Scale], Gaussian], module: nn.Module, given: Scale | Gaussian, what: str
) -> Gaussian:
    """The Gaussian as given, or made with standard deviations; errors name the argument of the report."""
    if isinstance(given, (int, float)) and not 0 < given < math.inf:
        raise TrueriskError(f"{what} is {given}, but must be a positive number; try 0.1.")
    try:
        found = given if isinstance(given, Gaussian) else make(module, given)
    except TrueriskError as error:
        raise TrueriskError(re.sub(r"^(the )?std ", f"{what} ", str(error))) from error
    _check_scales(found, what)
    return found


def _check_scales(gaussian: Gaussian, what: str) -> None:
    ends = [float(end(std)) for std in gaussian.std.values() if std.numel() for end in (torch.min, torch.max)]
    beyond = next((end for end in ends if not 1 / EXTREME <= end <= EXTREME), None)
    if beyond is not None:
        raise TrueriskError(f"{what} is {beyond:g}, but must lie between {1 / EXTREME:g} and {EXTREME:g}; try 0.1.")


def _network(
    model: object, data: Data, sigma_q: Scale | Gaussian, sigma_p: Scale | Gaussian, outputs: str | None
) -> tuple[nn.Module, Data]:
    """The network in eval mode with its outputs as logits, and the data as it takes them."""
    if isinstance(sigma_q, Gaussian):
        _refuse_another(model, sigma_q)
        given: nn.Module = sigma_q.network()
    else:
        given = architecture(model, data.input_shape, data.classes, trust_factory=True).template()
    module, data = adapted(given, data, outputs)
    if module is not given and any(isinstance(each, Gaussian) for each in (sigma_q, sigma_p)):
        raise TrueriskError(
            "the network of the Gaussian does not return one logit per class; wrap it so that it does, then build the "
            "Gaussian around that."
        )
    return check_network(module, data.X, data.classes), data


def _refuse_another(model: object, posterior: Gaussian) -> None:
    """A posterior given as a Gaussian may have other means than the model, but must be over the same network."""
    if not isinstance(model, nn.Module):
        return
    try:
        Gaussian.around(model, 1.0).refuse_without_kl(posterior)
    except TrueriskError as error:
        raise TrueriskError(
            "sigma_q is a Gaussian over another network, with other parameters or other fixed numbers than the model; "
            "give the module that it was built around."
        ) from error


def _lift(posterior: Gaussian, prior: Gaussian, draws: int, seed: int) -> tuple[LiftedKL | None, str]:
    if not draws:
        return None, "It was left out (lifted is 0)."
    try:
        with np.errstate(all="ignore"):
            found = lifted_kl(posterior, prior, draws, seed)
    except TrueriskError as error:
        return None, str(error)
    except ArithmeticError:  # an integral that does not converge
        return None, UNKNOWN
    return (found, "") if math.isfinite(found.value) and math.isfinite(found.standard_error) else (None, UNKNOWN)


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
