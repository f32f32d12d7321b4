"""``truerisk.verify``: a bound of verify's own, and whether a certificate's claim agrees with it.

``verify`` makes again what can be made again (the split, a data-free prior, the decoder's initial network; with
``retrain`` also what was trained), reads what may have any value (a posterior, a compressed network, rescaling
factors), counts with draws of its own, and derives a bound that holds whatever the file claims. Then it compares.

* *confirmed*: every claimed number agrees with those derived here.
* *contradicted* (``VerificationError``): one does not.
* *not repeated here* (``NotRepeatedError``): training again gave other weights than the files hold. Another processor's
  rounding can do that, so nothing is called forged.

The number to rely on is always ``Verification.risk_bound``, the one derived here.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from truerisk.certificates import sentences
from truerisk.certificates.checking.comparing import claimed_counts, first_difference, unknown_fields, unlike
from truerisk.certificates.checking.reading import read_record, settings_of, stored_architecture
from truerisk.certificates.evidence import SPLIT, Evidence, split_data
from truerisk.certificates.facts import Facts
from truerisk.certificates.files import (
    CERTIFICATE,
    OTHERS,
    SUFFIX,
    decode,
    encode,
    read_files,
    refuse_other_forms,
    relative_gap,
)
from truerisk.certificates.frozen import Frozen, digest
from truerisk.certificates.methods import Method, find_method
from truerisk.certificates.origins import DERIVED
from truerisk.certificates.priors import random_weights
from truerisk.certificates.record import after_tries, assemble, measure, spend
from truerisk.certificates.settings import Settings, check_seed, tried_before
from truerisk.certificates.trainer import Fit, Trainer
from truerisk.data import Data, Split, check_partition, load
from truerisk.errors import NotRepeatedError, TrueriskError, VerificationError
from truerisk.nets import BUILTIN, Architecture
from truerisk.threads import limited
from truerisk.words import bound

# Names that may be loaded because a certificate says so: they read known files or generate, nothing else.
SAFE_SOURCES = ("digits", "mnist1d", "mnist", "fashion-mnist", "cifar-10")
T = TypeVar("T")
ROUNDING = 1e-4  # relative difference up to which a part made again is called the same; it enters no bound
TRIES = 1_000_000  # seeds, splits or draws that a patient forger may have tried in secret


@dataclass
class Verification:
    """The bound derived here, the claimed one, what was checked, what was noticed, and what can't be checked."""

    risk_bound: float = 1.0
    claimed: float = 1.0
    after_tries: float = 1.0  # what the bound would be, had ``TRIES`` seeds, splits or draws been tried in secret
    checked: list[str] = field(default_factory=list)
    noticed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Case:
    """One certificate under verification. ``claims`` is read in ``_compare`` and nowhere after the settings."""

    claims: Mapping[str, Any]
    settings: Settings
    method: Method
    data: Data
    arch: Architecture
    files: Mapping[str, bytes]
    stored: Evidence
    result: Verification


def verify(
    folder: str | Path,
    data: object = None,
    model: object = None,
    *,
    retrain: bool = False,
    fit: Fit | None = None,
    seed: int | None = None,
    data_dir: str | Path | None = None,
) -> Verification:
    """Derive a bound for the certificate in ``folder``; raise VerificationError if the claim does not agree with it.

    ``data`` and ``model`` are needed where the certificate is not about a known dataset and a built-in network.
    ``retrain=True`` trains what was trained again from its seed (``fit``: with your own function). ``seed`` makes the
    draws of this verification repeatable; by default nobody can know them beforehand.
    """
    case = _open(Path(folder), data, model, data_dir)
    draws = secrets.randbits(63) if seed is None else seed
    check_seed(draws)
    with limited(min(case.settings.threads, os.cpu_count() or 1)):
        own, changed = _made_here(case, retrain, fit)
        facts = _counted(case, own, draws)
    _compare(case, own.evidence, facts, changed)
    _say_what_is_trusted(case, own.evidence, retrain)
    return case.result


def _open(folder: Path, data: object, model: object, data_dir: str | Path | None) -> _Case:
    """Read everything; refuse what does not fit together."""
    claims, result = read_record(folder), Verification()
    files = read_files(folder, claims["files"])
    result.checked.append(f"{len(files)} files have the hashes that the certificate names")
    loaded = _data(claims, data, data_dir)
    result.checked.append(f"the data is the one that was certified ({len(loaded):,} examples)")
    settings = settings_of(claims)
    arch, stored = _network(claims, model, files, settings.trust_factory or settings.prior == "none")
    _check_delta(folder, settings, loaded, arch)
    method = find_method(settings.method)
    _check_random(settings, arch, stored)
    return _Case(claims, settings, method, loaded, arch, files, stored, result)


def _network(
    claims: dict[str, Any], model: object, files: dict[str, bytes], trust: bool
) -> tuple[Architecture, Evidence]:
    arch = None
    try:
        arch = stored_architecture(claims, model, trust_factory=trust)
        stored = decode(files, arch.template())
        refuse_other_forms(files, encode(stored))
        return arch, stored
    except TrueriskError as error:
        # Without a model of the user's, a missing --model is the user's slip; all else is the certificate's.
        if arch is None and model is None and claims["model"].get("kind") != BUILTIN:
            raise
        raise VerificationError(f"the stored network does not hold: {error}") from error


def _check_delta(folder: Path, settings: Settings, data: Data, arch: Architecture) -> None:
    """The ledger must pay for everything that was compared on this data, by this user or before."""
    try:
        spend(settings)
    except TrueriskError as error:
        raise VerificationError(str(error)) from error
    if settings.model_kind != arch.kind:
        raise VerificationError(
            f"the certificate says that its network came as a {settings.model_kind}, but this one is a {arch.kind}; "
            "give the model that was certified."
        )
    owed = 1 if settings.prior == "none" else tried_before(arch, data, settings.prior, settings.seed)
    if settings.tried < owed:
        raise VerificationError("the ledger does not pay for the configurations that were compared on this data.")
    beside = len(list(folder.glob(f"{OTHERS}/*/{CERTIFICATE}")))
    if settings.methods < 1 + beside:
        raise VerificationError(
            f"the ledger does not pay for the {beside} other methods whose certificates are in {OTHERS}/."
        )


def _check_random(settings: Settings, arch: Architecture, stored: Evidence) -> None:
    """Every distribution must be over the weights that the settings leave to chance: fixed ones pay no KL."""
    if not stored.gaussians:
        return
    expected = random_weights(settings, arch.template())
    for name, gaussian in stored.gaussians.items():
        if gaussian.mean.keys() != expected:
            raise VerificationError(f"the {name} is over other weights than those that the settings leave to chance.")


def _data(claims: dict[str, Any], data: object, data_dir: str | Path | None) -> Data:
    claimed, given = claims["data"], data is not None
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


def _made_here(case: _Case, retrain: bool, fit: Fit | None) -> tuple[Frozen, dict[str, float]]:
    """The evidence with all that can be made again made here; of what came out otherwise, by how much."""
    settings, origins = case.settings, case.method.origins(case.settings)
    if retrain and settings.own_training and fit is None:
        raise TrueriskError("this certificate's network was trained by your own function: give verify(..., fit=...).")
    trainer = Trainer(settings, case.data, case.arch, fit if settings.own_training else None)
    own = _guarded(lambda: case.method.again(trainer, replace(case.stored, parts=_split(case)), retrain))
    mine, theirs = encode(own), encode(case.stored)
    changed = {
        name.removesuffix(SUFFIX): relative_gap(theirs[name], mine[name])
        for name in theirs
        if mine[name] != theirs[name]
    }
    derived = [name for name, file in origins.items() if file.origin == DERIVED and name != SPLIT]
    made = ["what seed and architecture decide"] if derived else []
    made += ["what was trained before it certified"] if retrain else []
    if made and not changed:
        case.result.checked.append(f"{' and '.join(made)} came out the same when made again")
    # All draws depend on the stored files: a draw that makes a predictor was theirs before it was verified.
    seed = digest(settings, case.data.sha256, case.claims["files"], origins)
    return Frozen(_guarded(lambda: decode(mine, case.arch.template())), mine, seed), changed


def _split(case: _Case) -> Split:
    """The split that the seed gives; for a network that came trained, the stored one, if it is one."""
    settings, parts = case.settings, case.stored.parts
    try:
        check_partition(parts, len(case.data))
        expected = parts if settings.prior == "none" else split_data(settings, len(case.data))
    except TrueriskError as error:
        raise VerificationError(f"the split does not hold: {error}") from error
    for name in ("prior", "certify"):
        if getattr(parts, name).tolist() != getattr(expected, name).tolist():
            raise VerificationError(f"the split is not the one that seed {settings.seed} gives (set {name!r}).")
    case.result.checked.append("every example is in exactly one set of the split")
    return expected


def _counted(case: _Case, own: Frozen, seed: int) -> Facts:
    """Count with draws of verify's own, and derive the bound that it returns."""
    # The files are in the seed as well: whoever knows ``seed`` can't fit a posterior to the noise that it gives.
    facts = _guarded(lambda: measure(case.settings, case.data, own, lambda *p: own.seed("verify", seed, *p)))
    case.result.risk_bound = float(assemble(case.settings, case.data, own.evidence, facts)["risk_bound"])
    case.result.after_tries = after_tries(case.settings, own.evidence, facts, TRIES)
    drawn = any(count.drawn for count in facts.counts.values())
    case.result.checked.append(f"errors were counted again{', with draws of its own' if drawn else ''}")
    return facts


def _compare(case: _Case, evidence: Evidence, facts: Facts, changed: Mapping[str, float]) -> None:
    """Raise unless every claimed number agrees with those derived here."""
    result, claims = case.result, case.claims
    counts = claimed_counts(claims, facts)
    problem = next(unlike(facts, counts), None)
    for name, value in counts.items():
        mine = facts.counts[name]
        if value != mine.value and not mine.drawn:
            result.noticed.append(f"this machine counts {mine.value:,} ({name}) where {value:,} were certified")
        facts = facts.having(name, value)
    # What follows from the claimed counts, which chance or rounding explains, and from everything else as made here.
    derived = assemble(case.settings, case.data, evidence, facts)
    unknown = unknown_fields(claims, derived)
    if problem is None and unknown:
        problem = f"certificate.json has fields that no method writes ({', '.join(unknown)[:100]})"
    problem = problem or first_difference(claims, derived)
    predicts = {name for name, file in case.method.origins(case.settings).items() if file.predicts}
    others = predicts & changed.keys()  # a bound for a network made here says nothing about the stored one
    if others or (changed and (problem or max(changed.values()) > ROUNDING)):
        raise NotRepeatedError(_not_repeated(case, changed, bool(others)), result.risk_bound)
    if problem:
        raise VerificationError(f"{problem.rstrip('.')}.")
    if changed:
        result.noticed.append(
            f"{_listed(changed)} differ here by {max(changed.values()):.1g} (relative); the bound uses those made here"
        )
    if claims["words"] != sentences.VERSION:
        result.noticed.append("another version worded the sentences of the certificate; they were not read")
    result.claimed = float(claims["risk_bound"])
    result.checked.append("the KL, the ledger, the bound and every other number agree with those derived here")


def _not_repeated(case: _Case, changed: Iterable[str], other: bool) -> str:
    whose = "the network made here, not the stored one," if other else "the stored predictor"
    return (
        f"{_listed(changed)} came out otherwise when made again from seed {case.settings.seed}: another machine or "
        f"version computes otherwise, or the files were changed. For {whose} the bound derived here is "
        f"{bound(case.result.risk_bound, 6)}; repeat this where the certificate was made."
    )


def _say_what_is_trusted(case: _Case, evidence: Evidence, retrain: bool) -> None:
    unchecked, settings = case.result.unchecked, case.settings
    unchecked += [] if retrain else case.method.trusted(settings, evidence)
    unchecked += case.method.vouched(settings, evidence)
    unchecked.append("that the examples are independent draws, without near copies or groups")
    if settings.repeats:
        unchecked.append(f"that {settings.repeats:,} rows that equal another are separate draws: that is your word")
    if settings.trust_factory:
        unchecked.append("that the weights which the factory starts from never saw this data: that is your word")
    if settings.prior != "none":
        methods = f"{settings.methods} methods" if settings.methods > 1 else "this one method"
        unchecked.append(f"that no more than {settings.tried:,} configurations and {methods} were tried on this data")


def _guarded(step: Callable[[], T]) -> T:
    """Run one step on stored files; whatever they break is the certificate's fault, told in one sentence."""
    try:
        return step()
    except VerificationError:
        raise
    except (RuntimeError, LookupError, ArithmeticError, TrueriskError) as error:
        detail = " ".join(str(error).split())
        raise VerificationError(f"the stored files can't be used as the certificate says ({detail[:300]}).") from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"{name}{SUFFIX}" for name in names)
