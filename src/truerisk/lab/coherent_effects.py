"""The effects of `coherent-gradients`: from the runs of one seed to a number.

Lists of a run (``steps``, ``m_coherence``, ``share``, ...) have an entry for each look at the network on its way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from truerisk.lab.rows import IncompleteError, Row, Rows

REAL, HALF, RANDOM = 0.0, 0.5, 1.0  # probabilities of a random training label
FULL, FIFTH = "full rate", "a fifth of the rate"
EARLY = (1, 5)  # epochs
LEARNING = (0.2, 0.95)  # share of corrupt examples that are fitted while the network learns them


def looks(row: Row, when: Callable[[int], bool]) -> list[int]:
    """The places of a run's lists at which a condition holds; none is no number."""
    found = [place for place in range(len(row["steps"])) if when(place)]
    if not found:
        raise IncompleteError("no look falls into the asked part of training")
    return found


def early(row: Row) -> list[int]:
    epoch = math.ceil(row["n"] / row["batch"])
    return looks(row, lambda place: EARLY[0] * epoch <= row["steps"][place] <= EARLY[1] * epoch)


def one(runs: Rows, noise: float, slow: bool = False) -> Row:
    """The run with this noise at the full rate, or at the slower one."""
    found = runs.where(noise=noise, rate=FIFTH if slow else FULL).complete("gradients")
    if len(found) != 1:
        raise IncompleteError(f"{len(found)} runs match where one was meant")
    return found[0]


def excess_share(row: Row, places: Sequence[int]) -> float:
    """Share of pristine examples over some looks together, minus that of as many examples drawn at random."""
    kept = [place for place in places if row["share"][place] is not None]
    whole = sum(row["whole"][place] for place in kept)
    if not whole > 0:
        raise IncompleteError("all gradients are 0")
    drawn = sum(row["whole"][place] * row["drawn"][place] for place in kept)
    return float((sum(row["from_pristine"][place] for place in kept) - drawn) / whole)


def early_share(runs: Rows) -> float:
    row = runs.where(noise=HALF).complete("shares")[0]
    return excess_share(row, early(row))


def late_share(runs: Rows) -> float:
    row = runs.where(noise=HALF).complete("shares")[0]
    low, high = LEARNING
    return excess_share(row, looks(row, lambda place: low <= (row["fitted_corrupt"][place] or 0.0) <= high))


def early_alignment(runs: Rows) -> float:
    """Mean alignment of pristine examples minus that of corrupt ones, at the first look after step 0."""
    row = one(runs, HALF)
    step = min((int(step) for step in row["alignments"] if int(step) > 0), default=None)
    groups = row["alignments"].get(str(step), {})
    if len(groups) < 2:
        raise IncompleteError("no look has alignments of pristine and of corrupt examples")
    return math.fsum(groups["pristine"]) / len(groups["pristine"]) - math.fsum(groups["corrupt"]) / len(
        groups["corrupt"]
    )


def coherence_ratio(runs: Rows) -> float:
    """m-coherence with true labels over that with random ones, in early epochs: ratio of geometric means."""
    logs = [
        [math.log(row["m_coherence"][place]) for place in early(row)] for row in (one(runs, REAL), one(runs, RANDOM))
    ]
    return math.exp(math.fsum(logs[0]) / len(logs[0]) - math.fsum(logs[1]) / len(logs[1]))


def rise(row: Row) -> float:
    """The largest m-coherence after a look over that look's own, at most: 1 if it only falls."""
    values = row["m_coherence"]
    return max(max(values[place:]) / values[place] for place in range(len(values)))


def random_rises(runs: Rows) -> float:
    return rise(one(runs, RANDOM))


def real_rises(runs: Rows) -> float:
    return rise(one(runs, REAL))


def rise_ratio(runs: Rows) -> float:
    return rise(one(runs, RANDOM)) / rise(one(runs, RANDOM, slow=True))


def from_new(row: Row) -> float:
    """The mean over early epochs, from the second on: the first one learns how frequent classes are."""
    found = [row["from_new"][place] for place in early(row)[1:] if row["from_new"][place] is not None]
    if not found:
        raise IncompleteError("no step lowered the loss of its own example")
    return math.fsum(found) / len(found)


def new_real(runs: Rows) -> float:
    return from_new(one(runs, REAL))


def new_random(runs: Rows) -> float:
    return from_new(one(runs, RANDOM))
