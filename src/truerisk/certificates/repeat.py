"""The part of verification that counts again, and says what another machine's rounding explains."""

from __future__ import annotations

from typing import Any

from truerisk.certificates.case import Case
from truerisk.certificates.facts import Count, Facts
from truerisk.certificates.record import assemble, measure
from truerisk.errors import TrueriskError, VerificationError

SIGMAS = 4.0  # two honest counts of draws differ by more with probability 6e-5


def recount(case: Case) -> Facts:
    """Count again. Where rounding explains the difference, the claimed count stays and it is said so."""
    try:
        facts = measure(case.settings, case.data, case.evidence, case.record)
    except VerificationError:
        raise
    except (RuntimeError, IndexError, TrueriskError) as error:
        raise VerificationError(f"the stored network does not run on the data ({error}).") from error
    case.result.risk_bound = _bound(case, facts)
    claimed = _claimed(case.record, facts)
    redraw = False
    for name, mine in facts.counts.items():
        if claimed[name] != mine.value:
            _explain(case, name, mine, claimed[name])
            redraw = redraw or mine.drawn
    if redraw:
        case.result.risk_bound = _bound(
            case, measure(case.settings, case.data, case.evidence, case.record, redraw=True)
        )
        case.result.noticed.append(f"fresh draws give the bound {case.result.risk_bound:.6f}")
    drawn = any(count.drawn for count in facts.counts.values())
    same = ", with the same draws from the same seed" if drawn else ""
    case.result.checked.append(f"errors were counted again{same}")
    for name, value in claimed.items():
        facts = facts.having(name, value)
    return facts


def _explain(case: Case, name: str, mine: Count, claimed: int) -> None:
    """Say that rounding (or, for draws, other random numbers) explains a difference, or refuse it."""
    gap = abs(claimed - mine.value)
    # A network whose answers are mostly near ties would explain anything: cap what rounding may flip.
    explained = gap <= min(mine.near_ties, 3 + mine.trials // 1000)
    chance = SIGMAS * (claimed + mine.value + 1) ** 0.5 if mine.drawn and not case.same_software else 0
    if not explained and gap > chance:
        if mine.drawn:
            raise VerificationError(
                f"repeating the draws gives {mine.value:,} errors ({name}), not the {claimed:,} that are claimed."
            )
        raise VerificationError(f"counting again gives {mine.value} ({name}), not the {claimed} that are claimed.")
    what = "rounding or random numbers give" if mine.drawn else "rounding gives"
    case.result.noticed.append(f"this machine's {what} {mine.value:,} ({name}) where {claimed:,} were certified")


def _bound(case: Case, facts: Facts) -> float:
    return float(assemble(case.settings, case.data, case.evidence, facts)["risk_bound"])


def _claimed(record: dict[str, Any], facts: Facts) -> dict[str, int]:
    """The counts of the certificate: whole numbers with the right names, each between 0 and its trials."""
    counts = record.get("counts")
    if not isinstance(counts, dict) or counts.keys() != facts.counts.keys():
        raise VerificationError("certificate.json does not hold the counts that its method makes.")
    for name, value in counts.items():
        if type(value) is not int or not 0 <= value <= facts.counts[name].trials:
            raise VerificationError(f"certificate.json has no whole number of {name!r} where one is needed.")
    return counts
