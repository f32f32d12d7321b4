"""The parts of verification that compute again: where the prior comes from, and every count of errors."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from truerisk.certificates.certificate import software
from truerisk.certificates.evidence import Evidence, Fit, Trainer, floor_split, make_prior
from truerisk.certificates.record import Facts, assemble, derive_facts
from truerisk.certificates.settings import HOLD_OUT, Settings
from truerisk.data import Data
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import Architecture
from truerisk.pacbayes import DrawPlan, Gaussian, GibbsEstimate, gibbs_risk

RETRAINED_SAME = 1e-4  # relative difference of retrained weights that another machine's rounding explains
MOST_THREADS = 256
SIGMAS = 4.0  # two honest counts differ by more with probability 6e-5


@dataclass
class Verification:
    """The re-derived bound, what was checked, what was noticed, and what can't be checked."""

    risk_bound: float = 1.0
    checked: list[str] = field(default_factory=list)
    noticed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Case:
    """One certificate under verification: what it claims, what was loaded, what was found so far."""

    settings: Settings
    data: Data
    arch: Architecture
    evidence: Evidence
    record: dict[str, Any]
    result: Verification

    @property
    def same_software(self) -> bool:
        """The versions that the certificate was made with are those that run now."""
        claimed, mine = self.record["software"], software()
        return all(claimed.get(key) == mine[key] for key in ("torch", "numpy", "machine"))


def check_origin(case: Case, retrain: bool, fit: Fit | None) -> None:
    """The prior must be what seed and prior data give; so must the tested network, if ``retrain`` says so."""
    settings, parts, evidence = case.settings, case.evidence.parts, case.evidence
    if settings.prior == "none":
        left_out = f", and that the {len(parts.prior):,} rows left out were in its training" if len(parts.prior) else ""
        case.result.unchecked.append(f"that the network never saw the fresh examples{left_out}: that is your word")
        return
    data_free = not len(parts.prior)
    if not retrain:
        what = "the floor's network" if data_free else "the prior"
        case.result.unchecked.append(
            f"that {what} saw only its own examples: verify --retrain trains it again from the seed"
        )
    elif settings.own_training and fit is None:
        raise TrueriskError("this certificate's network was trained by your own function: give verify(..., fit=...).")
    trainer = Trainer(settings, case.data, case.arch, fit if settings.own_training else None)
    with _threads(case.record["software"].get("threads")):
        if evidence.prior is not None and (data_free or retrain):
            _same_tensors(case, "prior", _tensors(evidence.prior), _tensors(make_prior(trainer, parts)))
        if retrain and (data_free or settings.method == HOLD_OUT):
            role, rows = ("floor", floor_split(settings, len(case.data))[0]) if data_free else ("prior", parts.prior)
            again = trainer.network(role, rows).state_dict()
            _same_tensors(case, "tested network", evidence.network.state_dict(), again)


@contextmanager
def _threads(claimed: Any) -> Iterator[None]:
    """As many threads as the certificate was made with: sums over threads round in their own way."""
    before = torch.get_num_threads()
    torch.set_num_threads(claimed if type(claimed) is int and 1 <= claimed <= MOST_THREADS else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tensors(gaussian: Gaussian) -> dict[str, Tensor]:
    mean = {f"mean {name}": value for name, value in gaussian.mean.items()}
    return mean | {f"std {name}": value for name, value in gaussian.std.items()} | gaussian.fixed


def _same_tensors(case: Case, what: str, stored: dict[str, Tensor], again: dict[str, Tensor]) -> None:
    gap = max(_relative_gap(stored[name], again[name]) for name in stored)
    if gap > (0.0 if case.same_software else RETRAINED_SAME):
        raise VerificationError(
            f"the {what} is not the one that training again from seed {case.settings.seed} gives (relative difference "
            f"{gap:.2g}); on other hardware rounding alone can grow to that, so repeat it where it was made."
        )
    if gap > 0:
        case.result.noticed.append(f"this machine's rounding changes the {what}'s weights by {gap:.1g} (relative)")
    case.result.checked.append(f"the {what} is the one that its seed and its own examples give")


def _relative_gap(a: Tensor, b: Tensor) -> float:
    """Largest difference over largest value; infinite where one is not a number."""
    if not a.numel():
        return 0.0
    gap = float((a.double() - b.double()).abs().max()) / (float(b.double().abs().max()) or 1.0)
    return gap if gap >= 0 else float("inf")


def recount(case: Case) -> Facts:
    """Count again. Where rounding explains the difference, the claimed count stays and it is said so."""
    hold_out = case.settings.method == HOLD_OUT
    plan = None if hold_out else _plan(case.record, len(case.evidence.parts.certify))
    try:
        facts = derive_facts(case.settings, case.data, case.evidence, plan)
    except (RuntimeError, IndexError, TrueriskError) as error:
        raise VerificationError(f"the stored network does not run on the data ({error}).") from error
    case.result.risk_bound = _bound(case, facts)
    claimed = _count(case.record.get("floor_detail"), "errors")
    if claimed != facts.errors:
        if not _rounding_explains(abs(claimed - facts.errors), facts.near_ties, facts.tested):
            raise VerificationError(f"the tested network makes {facts.errors} errors here, not {claimed}.")
        case.result.noticed.append(
            f"this machine's rounding gives {facts.errors} errors where {claimed} were certified"
        )
        facts = replace(facts, errors=claimed)
    if facts.estimate is not None:
        facts = _recount_draws(case, facts, facts.estimate)
    draws = "" if hold_out else ", with the same draws from the same seed"
    case.result.checked.append(f"errors were counted again{draws}")
    return facts


def _recount_draws(case: Case, facts: Facts, mine: GibbsEstimate) -> Facts:
    """The draws again; where another machine's numbers differ, fresh draws say what the bound is here."""
    claimed, plan = _count(case.record.get("draws"), "errors"), mine.plan
    if claimed == mine.errors:
        return facts
    gap = abs(claimed - mine.errors)
    explained = _rounding_explains(gap, mine.near_ties, plan.n * plan.passes)
    chance = SIGMAS * (claimed + mine.errors + 1) ** 0.5
    if not explained and (case.same_software or gap > chance):
        raise VerificationError(
            f"repeating the draws gives {mine.errors:,} errors, not the {claimed:,} that are claimed."
        )
    assert case.evidence.posterior is not None
    rows, data = case.evidence.parts.certify, case.data
    again = gibbs_risk(case.evidence.posterior, data.X[rows], data.y[rows], secrets.randbits(63), plan)
    case.result.risk_bound = _bound(case, replace(facts, estimate=again))
    case.result.noticed.append(
        f"this machine's rounding or random numbers give {mine.errors:,} errors where {claimed:,} were certified; "
        f"fresh draws give the bound {case.result.risk_bound:.6f}"
    )
    return replace(facts, estimate=GibbsEstimate(claimed, 0, plan))


def _bound(case: Case, facts: Facts) -> float:
    return float(assemble(case.settings, case.data, case.evidence, facts)["risk_bound"])


def _rounding_explains(gap: int, near_ties: int, trials: int) -> bool:
    """A network whose answers are mostly near ties would explain anything: cap what rounding may flip."""
    return gap <= min(near_ties, 3 + trials // 1000)


def _plan(record: dict[str, Any], n: int) -> DrawPlan:
    """The stored plan of the draws, if it makes sense for n examples."""
    try:
        plan = DrawPlan(**{k: v for k, v in record["draws"].items() if k != "errors"})
        sizes = (plan.n, plan.groups, plan.size, plan.passes, plan.chunk)
        sound = all(type(v) is int and v >= 1 for v in sizes) and plan.n == n
        sound = sound and plan.groups == -(-n // plan.size) and plan.precision in ("float64", "float32")
        sound = sound and (plan.size == 1 if plan.layered else plan.chunk == plan.size)
    except (KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise VerificationError("the plan of the Monte Carlo draws does not fit the certifying examples.")
    return plan


def _count(fields: Any, name: str) -> int:
    value = fields.get(name) if isinstance(fields, dict) else None
    if type(value) is not int:
        raise VerificationError(f"certificate.json has no whole number {name!r} where one is needed.")
    return value
