"""Compare what a certificate claims with what was derived here. No tolerance ever enters a bound.

Whatever is compared, the bound that ``verify`` returns is its own. So a tolerance decides only whether a claim is
called confirmed; nobody gains a smaller number from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from truerisk.certificates.counts import SURE, Count, Counts
from truerisk.certificates.record import WORDS as VERSION
from truerisk.certificates.record import Record
from truerisk.errors import VerificationError

LEVEL = 1e-6  # the probability with which an honest count of draws is called contradicted
NEAR = 1e-6  # by which a claimed number may differ because another processor rounds in another way
RELATIVE = 1e-5  # the same for numbers without an upper limit, such as a KL, relative to their size
# Words: compared only where they were worded by this version of truerisk.
TEXTS = ("sentence", "assumptions", "warnings")
WORDS = ("what", "event", "part", "note")
EXACT = ("delta", "ledger", "floor_detail")  # decimal arithmetic on the settings: the same on every machine


def check_counts(claimed: Mapping[str, int], mine: Counts) -> None:
    """Refuse counts that are not those of the method, or that do not lie between 0 and their trials."""
    if claimed.keys() != mine.items.keys():
        raise VerificationError("certificate.json does not hold the counts of its method; certify again.")
    for name, value in claimed.items():
        if not 0 <= value <= mine[name].trials:
            raise VerificationError(
                f"certificate.json has {value} for the count {name!r}, but it must be from 0 to "
                f"{mine[name].trials:,}; certify again."
            )
        if name.endswith(SURE) and value > claimed[name.removesuffix(SURE)]:
            raise VerificationError(
                f"certificate.json has {value} for the count {name!r}, more than with ties; certify again."
            )


def unlike(counts: Counts, claimed: Mapping[str, int]) -> Iterator[str]:
    """A sentence for every claimed count that the counts made here contradict."""
    drawn = sum(count.drawn for count in counts.items.values())
    for name, mine in counts.items.items():
        if mine.drawn and contradicts(mine, claimed[name], LEVEL / drawn):
            yield (
                f"new draws give {mine.value:,} ({name}), but {claimed[name]:,} are claimed; chance explains such a "
                f"difference with a probability below {LEVEL:g}."
            )
        elif not mine.drawn and abs(claimed[name] - mine.value) > explained_by_rounding(mine):
            yield f"counting again gives {mine.value:,} ({name}), but {claimed[name]:,} are claimed."


def contradicts(mine: Count, claimed: int, level: float) -> bool:
    """Whether two counts of draws from one posterior differ by more than chance explains.

    Both runs make the same trials on the same examples, so swapping the two outcomes of a trial changes nothing in
    distribution: given what differs, the signs of the differences are independent fair coins. A draw that ``size``
    examples share gives a difference d_g of at most ``size``, and the sum of d_g^2 is at most ``size`` times a + b for
    counts a and b. By Hoeffding's inequality for such signs (1963, Theorem 2),

        P(|a - b| >= d | the sizes of the differences) <= 2 exp(-d^2 / (2 size (a + b))).

    >>> contradicts(Count(40, 0, 1000, drawn=True), 2, 1e-6), contradicts(Count(40, 0, 1000, drawn=True), 20, 1e-6)
    (True, False)
    """
    gap, total = abs(mine.value - claimed), mine.value + claimed
    return gap**2 > 2 * mine.size * total * math.log(2 / level)


def explained_by_rounding(mine: Count) -> int:
    """By how much a count may differ on another processor: near ties, but only a few of them.

    A network whose answers are mostly near ties would explain anything.
    """
    return min(mine.near_ties, 3 + mine.trials // 1000)


def first_difference(claimed: Record, mine: Record) -> str | None:
    """The first field whose claimed value does not follow, with the right one; None where all do."""
    if claimed.words < 1:
        return "words must be an integer, the version of the wording"
    words, theirs = claimed.words == VERSION, claimed.derived()
    for name, value in mine.derived().items():
        skip = name == "words" or (name in TEXTS and not words)
        if not skip and differs(theirs[name], value, words, exact=name in EXACT):
            return f"{name} does not follow from the files, which give {_short(value)}"
    return None


def differs(claimed: Any, derived: Any, words: bool = True, exact: bool = False) -> bool:
    """Whether two values of a field disagree by more than another processor's rounding explains."""
    if isinstance(claimed, dict) and isinstance(derived, dict):
        keys = [key for key in derived if words or key not in WORDS]
        return claimed.keys() != derived.keys() or any(differs(claimed[k], derived[k], words, exact) for k in keys)
    if isinstance(claimed, list) and isinstance(derived, list):
        pairs = zip(claimed, derived, strict=False)
        return len(claimed) != len(derived) or any(differs(a, b, words, exact) for a, b in pairs)
    if isinstance(claimed, float) and isinstance(derived, float) and not exact:
        return not math.isclose(claimed, derived, rel_tol=RELATIVE if abs(derived) > 1 else 0.0, abs_tol=NEAR)
    return type(claimed) is not type(derived) or claimed != derived


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 200 else text[:200] + "..."
