"""Re-derive a certificate from its files and its data, and compare every number.

What is checked: the hashes of all files; that the data is the same; that the split is a partition, and
the one that the seed gives; that a data-free prior is the one that the seed gives; every count of errors,
by repeating the draws from their seed; the KL; the ledger; the bound and every other derived field.
What can't be checked without training again is said in ``Verification.unchecked``.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from truerisk.certificates.certificate import read_record, software, stored_architecture
from truerisk.certificates.evidence import Evidence, Fit, Trainer, make_prior, split_data
from truerisk.certificates.files import decode, read_files
from truerisk.certificates.record import Facts, assemble, derive_facts, differs
from truerisk.certificates.settings import HOLD_OUT, Settings, already_tried
from truerisk.data import Data, check_partition, load
from truerisk.errors import TrueriskError, VerificationError
from truerisk.nets import Architecture
from truerisk.pacbayes import DrawPlan, GibbsEstimate, gibbs_risk

# Names that may be loaded because a certificate says so: they read known files or generate, nothing else.
SAFE_SOURCES = ("digits", "mnist1d", "mnist", "fashion-mnist", "cifar-10")
RETRAINED_SAME = 1e-4  # relative difference of retrained weights that another machine's rounding explains
SIGMAS = 6.0  # two honest counts differ by more with probability 2e-9


@dataclass
class Verification:
    """The re-derived bound, what was checked, what was noticed, and what can't be checked."""

    risk_bound: float = 1.0
    checked: list[str] = field(default_factory=list)
    noticed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


def verify(
    folder: str | Path,
    data: object = None,
    model: object = None,
    *,
    retrain: bool = False,
    fit: Fit | None = None,
    data_dir: str | Path | None = None,
) -> Verification:
    """Check the certificate in ``folder``; raise VerificationError at the first thing that does not hold.

    ``data`` and ``model`` are needed where the certificate is not about a known data set and a built-in
    network. ``retrain=True`` trains the prior again from its seed (``fit``: with your own function).
    """
    record, result = read_record(folder), Verification()
    files = read_files(Path(folder), record["files"])
    result.checked.append(f"{len(files)} files have the hashes that the certificate names")
    loaded = _data(record, data, data_dir)
    settings = _settings(record, loaded)
    result.checked.append(f"the data is the one that was certified ({len(loaded):,} examples)")
    try:
        arch = stored_architecture(record, model)
        evidence = decode(files, arch.build(0))
    except VerificationError:
        raise
    except TrueriskError as error:
        if model is None and record["model"].get("kind") != "built-in":
            raise
        raise VerificationError(f"the stored network does not hold: {error}") from error
    _check_split(settings, evidence, len(loaded), result)
    _check_prior(settings, loaded, arch, evidence, record, retrain, fit, result)
    facts = _recount(settings, loaded, evidence, record, result)
    _compare(assemble(settings, loaded, evidence, facts), record)
    result.checked.append("the KL, the ledger, the bound and every other number follow from the files")
    result.unchecked.append("that the examples are independent draws, without near copies or groups")
    if settings.prior != "none":
        result.unchecked.append(f"that no more than {settings.tried} configurations were compared on this data")
    return result


def _settings(record: dict[str, Any], data: Data) -> Settings:
    try:
        settings = Settings.from_record(record["settings"])
    except TrueriskError as error:
        raise VerificationError(str(error)) from error
    pairs = {"name": settings.model, "kind": settings.model_kind}
    if record["model"] != pairs or record["files"].keys() != _expected_files(settings):
        raise VerificationError("the certificate's model or list of files does not fit its settings.")
    if settings.prior != "none" and settings.tried < already_tried(settings.model_kind, data.name):
        raise VerificationError("the ledger does not pay for the configurations that were compared on this data.")
    return settings


def _expected_files(settings: Settings) -> set[str]:
    names = {"split.safetensors", "network.safetensors"}
    return names if settings.method == HOLD_OUT else names | {"prior.safetensors", "posterior.safetensors"}


def _data(record: dict[str, Any], data: object, data_dir: str | Path | None) -> Data:
    claimed, given = record["data"], data is not None
    if not given:
        source = str(claimed.get("source"))
        if source.removesuffix(":test") not in SAFE_SOURCES:
            raise TrueriskError(
                f"the certificate is about your own data ({claimed.get('name')}); give it again (--data)."
            )
        data = source
    loaded = load(data, data_dir)
    if loaded.sha256 != claimed.get("sha256"):
        raise VerificationError(
            f"{loaded.name} is not the data that was certified (its sha256 differs); give the same data."
        )
    if given:  # other names for the same numbers are fine: the hash decides
        return replace(loaded, name=str(claimed.get("name")), source=claimed.get("source"))
    return loaded


def _check_split(settings: Settings, evidence: Evidence, n: int, result: Verification) -> None:
    try:
        check_partition(evidence.parts, n)
        expected = evidence.parts if settings.prior == "none" else split_data(settings, n)
    except TrueriskError as error:
        raise VerificationError(f"the split does not hold: {error}") from error
    for name in ("prior", "certify"):
        if getattr(evidence.parts, name).tolist() != getattr(expected, name).tolist():
            raise VerificationError(f"the split is not the one that seed {settings.seed} gives (set {name!r}).")
    result.checked.append("every example is in exactly one set of the split")
    if settings.prior != "none":
        result.checked.append(f"the split is the one that seed {settings.seed} gives")


def _check_prior(
    settings: Settings,
    data: Data,
    arch: Architecture,
    evidence: Evidence,
    record: dict[str, Any],
    retrain: bool,
    fit: Fit | None,
    result: Verification,
) -> None:
    """The prior (or the hold-out's network) must be what seed and prior data give."""
    if settings.prior == "none":
        result.unchecked.append("that the network never saw the fresh examples: that is your word")
        return
    learnt = settings.prior.startswith("split")
    if learnt and not retrain:
        result.unchecked.append(
            "that the prior saw only its own examples: verify --retrain trains it again from the seed"
        )
        return
    if learnt and settings.own_training and fit is None:
        raise TrueriskError("this certificate's prior was trained by your own function: give verify(..., fit=...).")
    trainer = Trainer(settings, data, arch, fit if settings.own_training else None)
    if settings.method == HOLD_OUT:
        again = trainer.network("prior", evidence.parts.prior).state_dict()
        stored = evidence.network.state_dict()
    else:
        assert evidence.prior is not None
        prior = make_prior(trainer, evidence.parts)
        again, stored = (
            {f"mean {k}": v for k, v in p.mean.items()} | {f"std {k}": v for k, v in p.std.items()} | p.fixed
            for p in (prior, evidence.prior)
        )
    gap = max(_relative_gap(stored[name], again[name]) for name in stored)
    if gap > 0 and (gap > RETRAINED_SAME or record["software"] == software()):
        how = "training again from the seed" if learnt else f"seed {settings.seed}"
        raise VerificationError(f"the prior is not the one that {how} gives (relative difference {gap:.2g}).")
    if gap > 0:
        result.noticed.append(f"this machine's rounding changes the prior's weights by {gap:.1g} (relative)")
    result.checked.append("the prior is the one that its seed and its own examples give")


def _relative_gap(a: torch.Tensor, b: torch.Tensor) -> float:
    scale = float(b.double().abs().max()) if b.numel() else 1.0
    return float((a.double() - b.double()).abs().max()) / (scale or 1.0) if a.numel() else 0.0


def _recount(settings: Settings, data: Data, evidence: Evidence, record: dict[str, Any], result: Verification) -> Facts:
    """Count again. Where rounding explains the difference, the claimed count stays and it is said so."""
    plan = None if settings.method == HOLD_OUT else _plan(record, len(evidence.parts.certify))
    try:
        facts = derive_facts(settings, data, evidence, plan)
    except (RuntimeError, IndexError, TrueriskError) as error:
        raise VerificationError(f"the stored network does not run on the data ({error}).") from error
    mine = assemble(settings, data, evidence, facts)
    result.risk_bound = mine["risk_bound"]
    claimed = _count(record.get("floor_detail"), "errors")
    if claimed != facts.errors:
        if not _rounding_explains(abs(claimed - facts.errors), facts.near_ties, facts.tested):
            raise VerificationError(f"the tested network makes {facts.errors} errors here, not {claimed}.")
        result.noticed.append(f"this machine's rounding gives {facts.errors} errors where {claimed} were certified")
        facts = replace(facts, errors=claimed)
    if facts.estimate is not None:
        facts = _recount_draws(settings, data, evidence, record, facts, result)
    result.checked.append("errors were counted again, with the same draws from the same seed")
    return facts


def _recount_draws(
    settings: Settings,
    data: Data,
    evidence: Evidence,
    record: dict[str, Any],
    facts: Facts,
    result: Verification,
) -> Facts:
    assert facts.estimate is not None
    assert evidence.posterior is not None
    claimed, mine = _count(record.get("draws"), "errors"), facts.estimate.errors
    if claimed == mine:
        return facts
    gap = abs(claimed - mine)
    elsewhere = record["software"] != software()
    trials = facts.estimate.plan.n * facts.estimate.plan.passes
    explained = _rounding_explains(gap, facts.estimate.near_ties, trials)
    explained = explained or (elsewhere and gap <= SIGMAS * (claimed + mine + 1) ** 0.5)
    if not explained:
        raise VerificationError(f"repeating the draws gives {mine:,} errors, not the {claimed:,} that are claimed.")
    rows, plan = evidence.parts.certify, facts.estimate.plan
    again = gibbs_risk(evidence.posterior, data.X[rows], data.y[rows], secrets.randbits(63), plan)
    afresh = assemble(settings, data, evidence, replace(facts, estimate=again))
    result.risk_bound = afresh["risk_bound"]
    result.noticed.append(
        f"this machine's rounding or random numbers give {mine:,} errors where {claimed:,} were certified; fresh draws "
        f"give the bound {result.risk_bound:.6f}"
    )
    return replace(facts, estimate=GibbsEstimate(claimed, 0, plan))


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


def _compare(derived: dict[str, Any], record: dict[str, Any]) -> None:
    for name, value in derived.items():
        if name not in record:
            raise VerificationError(f"certificate.json has no field {name!r}.")
        if differs(record[name], value):
            raise VerificationError(f"{name} does not follow from the files: {_short(value)} is right.")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 200 else text[:200] + "..."
