"""``truerisk.verify``: a bound of verify's own, and whether a certificate's claim agrees with it.

``verify`` makes again what can be made again (the split, a data-free prior, the decoder's initial network; with
``retrain`` also what was trained), reads what may have any value (a posterior, a compressed network, rescaling
factors), counts with draws of its own, and derives a bound that holds whatever the file claims. Then it compares.

* *confirmed*: every claimed number agrees with those derived here.
* *contradicted* (``VerificationError``): one does not.
* *not reproduced here* (``NotRepeatedError``): training again gave other weights than the files hold. Another
  processor's rounding can do that, so nothing is called forged.

The number to rely on is always ``Verification.risk_bound``, the one derived here.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from truerisk.certificates.checking.comparing import check_counts, explained_by_rounding, first_difference, unlike
from truerisk.certificates.checking.opening import Case, Verification, open_case
from truerisk.certificates.counts import Counts
from truerisk.certificates.evidence import split_data
from truerisk.certificates.files import decode, encode, relative_gap
from truerisk.certificates.frozen import Frozen, digest
from truerisk.certificates.origins import DERIVED, SPLIT, SUFFIX
from truerisk.certificates.pipeline import after_tries, conclude, derived, seal
from truerisk.certificates.record import WORDS, Record
from truerisk.certificates.request import Fit
from truerisk.certificates.settings import check_seed
from truerisk.certificates.story import unchecked
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Split, check_partition
from truerisk.errors import NotRepeatedError, TrueriskError, VerificationError
from truerisk.threads import limited
from truerisk.words import bound

T = TypeVar("T")
ROUNDING = 1e-4  # relative difference up to which a part made again is called the same; it enters no bound
TRIES = 1_000_000  # seeds, splits or draws that a patient forger may have tried in secret


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
    if not isinstance(folder, str | Path):
        raise TrueriskError("folder is not a path; give the folder that certify wrote.")
    case = open_case(Path(folder), data, model, data_dir)
    draws = secrets.randbits(63) if seed is None else seed
    check_seed(draws)
    with limited(min(case.settings.threads, os.cpu_count() or 1)):
        own, changed = _made_here(case, retrain, fit)
        counts = _concluded(case, own, draws)
        again = _again(case, own, counts)
    mine = _compare(case, own, counts, again, changed)
    case.result.unchecked += unchecked(mine, retrained=retrain)
    return case.result


def _made_here(case: Case, retrain: bool, fit: Fit | None) -> tuple[Frozen, dict[str, float]]:
    """The evidence with all that can be made again made here; of what came out otherwise, by how much."""
    settings, method, theirs = case.settings, case.settings.method, case.files
    if retrain and settings.own_training and fit is None:
        raise TrueriskError("this certificate's network was trained by your own function; give verify(..., fit=...).")
    trainer = Trainer(settings, case.data, case.arch, fit if settings.own_training else None)
    own = _guarded(lambda: method.again(trainer, replace(case.stored, parts=_split(case)), retrain))
    mine = encode(own)
    changed = {
        name.removesuffix(SUFFIX): relative_gap(theirs[name], mine[name])
        for name in theirs
        if mine[name] != theirs[name]
    }
    declared = method.origins(settings)
    derived = [name for name, file in declared.items() if file.origin == DERIVED and name != SPLIT]
    made = ["everything that the seed and the architecture decide"] if derived else []
    made += ["everything that was trained before certification"] if retrain else []
    if made and not changed:
        case.result.checked.append(f"{' and '.join(made)} was reproduced exactly")
    # All draws depend on the stored files: a draw that makes a predictor was theirs before it was verified.
    seed = digest(settings, case.data.sha256, case.claimed.files)
    return Frozen(_guarded(lambda: decode(mine, case.arch.template(), declared)), mine, seed), changed


def _split(case: Case) -> Split:
    """The split that the seed gives; for an already trained network, the stored one, if it is one."""
    settings, parts = case.settings, case.stored.parts
    try:
        check_partition(parts, len(case.data))
        expected = parts if settings.prior.trained else split_data(settings, len(case.data))
    except TrueriskError as error:
        raise VerificationError(f"the split is not valid: {error}") from error
    for name in ("prior", "certify"):
        if getattr(parts, name).tolist() != getattr(expected, name).tolist():
            raise VerificationError(
                f"the set {name!r} of the split is not that of seed {settings.seed}; certify again."
            )
    case.result.checked.append("every example is in exactly one set of the split")
    return expected


def _concluded(case: Case, own: Frozen, seed: int) -> Counts:
    """Count with draws of verify's own, and derive the bound that it returns."""
    # The files are in the seed as well: whoever knows ``seed`` cannot fit a posterior to the noise that it gives.
    counts, derivation = _guarded(
        lambda: conclude(case.settings, case.data, own, lambda *p: own.seed("verify", seed, *p))
    )
    case.result.risk_bound = derivation.risk_bound
    case.result.risk_lower = None if derivation.lower is None else derivation.lower.risk
    case.result.after_tries = after_tries(case.settings, counts, TRIES).risk_bound
    drawn = any(count.drawn for count in counts.items.values())
    case.result.checked.append(f"errors were counted again{', with new random draws' if drawn else ''}")
    return counts


def _again(case: Case, own: Frozen, counts: Counts) -> Counts:
    """The counts of the certificate's own draws, whose seed follows from its files.

    New draws alone cannot check a claim that rests on few of them: chance explains too much.
    """
    if not any(count.drawn for count in counts.items.values()):
        return counts
    return _guarded(lambda: case.settings.method.count(case.settings, case.data, own, own.seed))


def _compare(case: Case, own: Frozen, counts: Counts, again: Counts, changed: Mapping[str, float]) -> Record:
    """The record that verify would write itself; raises unless every claimed number agrees with it."""
    result, claimed, settings = case.result, case.claimed, case.settings
    check_counts(claimed.counts, counts)
    problem = next(unlike(counts, claimed.counts), None)
    for name, value in claimed.counts.items():
        if value != counts[name].value and not counts[name].drawn:
            result.noticed.append(
                f"this machine counts {counts[name].value:,} ({name}), but the certificate has {value:,}"
            )
    # What follows from the claimed counts, which chance or rounding explains, and from everything else as made here.
    counts = counts.claiming(claimed.counts)
    follows = seal(settings, case.data, own, counts, derived(settings, counts))
    problem = problem or first_difference(claimed, follows)
    predicts = {name for name, file in settings.method.origins(settings).items() if file.predicts}
    others = predicts & changed.keys()  # a bound for a network made here says nothing about the stored one
    if others or (changed and (problem or max(changed.values()) > ROUNDING)):
        raise NotRepeatedError(_not_repeated(case, changed, bool(others)), result.risk_bound)
    if problem:
        raise VerificationError(f"{problem.rstrip('.')}.")
    _refuse_other_draws(case, again)
    if changed:
        result.noticed.append(
            f"{_listed(changed)} differ here by {max(changed.values()):.1g} (relative); the bound uses those made here"
        )
    if claimed.words != WORDS:
        result.noticed.append("another version of truerisk worded the sentences; they were not checked")
    result.claimed = claimed.derivation.risk_bound
    result.checked.append("the ledger, the bound, and every other number agree with those derived here")
    return follows


def _refuse_other_draws(case: Case, again: Counts) -> None:
    """The claimed counts must be those of the certificate's own draws, but for what rounding may flip."""
    for name, mine in again.items.items():
        if mine.drawn and abs(case.claimed.counts[name] - mine.value) > explained_by_rounding(mine):
            raise NotRepeatedError(
                f"the certificate's own draws give {mine.value:,} ({name}) here, but {case.claimed.counts[name]:,} are "
                "claimed: the machine or the version differs, or the count was changed. The bound derived here is "
                f"{bound(case.result.risk_bound, 6)}; verify again where the certificate was made.",
                case.result.risk_bound,
            )


def _not_repeated(case: Case, changed: Iterable[str], other: bool) -> str:
    whose = "the network retrained here, not the stored one," if other else "the stored predictor"
    return (
        f"{_listed(changed)} could not be reproduced from seed {case.settings.seed}: the machine or the version "
        f"differs, or the files were changed. For {whose} the bound derived here is "
        f"{bound(case.result.risk_bound, 6)}; verify again where the certificate was made."
    )


def _guarded(step: Callable[[], T]) -> T:
    """Run one step on stored files; whatever they break is the certificate's fault, told in one sentence."""
    try:
        return step()
    except VerificationError:
        raise
    except (RuntimeError, LookupError, ArithmeticError, TypeError, ValueError, AssertionError) as error:
        detail = " ".join(str(error).split())
        raise VerificationError(f"the stored files do not fit the certificate ({detail[:300].rstrip('.')}).") from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"{name}{SUFFIX}" for name in names)
