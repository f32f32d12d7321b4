"""Effects of `stability`: numbers of one seed, taken from the records of `lab.twin_runs`."""

from __future__ import annotations

import numpy as np

from truerisk.lab.claim import Checked
from truerisk.lab.rows import IncompleteError, Row, Rows
from truerisk.lab.twin_bounds import in_theorem, needed, proven

HALVED = ((0.04, 0.02), (0.02, 0.01))  # step sizes that claims compare
CONVEX_RATES = [0.125, 0.25, 0.5, 1.0, 2.0]
DECAYS = [0.0, 0.001, 0.01, 0.03]
TRUE, RANDOM = "true", "random"
SHOWN = {"apart": "distance", "worst_ce": "cross-entropy", "worst": "1 - p"}


def at(row: Row, name: str, epoch: int | None = None, **arm: float) -> float:
    """A number of the arm with this rate or decay, after an epoch (by default the last)."""
    ((field, value),) = arm.items()
    watched = row["epochs_watched"]
    epoch = watched[-1] if epoch is None else epoch
    if epoch not in watched or value not in row[field]:
        raise IncompleteError(f"the runs have no {field} {value:g} after epoch {epoch}")
    return float(row[name][row[field].index(value)][watched.index(epoch)])


def quotient(above: float, below: float) -> float:
    if min(above, below) <= 0:
        raise IncompleteError("a gap or distance is not above 0, so the ratio says nothing")
    return above / below


def only(runs: Rows) -> Row:
    rows = runs.complete("twins")
    if len(rows) != 1:
        raise IncompleteError(f"{len(rows)} runs match where one was meant")
    return rows[0]


def halved_distance(runs: Rows) -> dict[str, float]:
    row = only(runs)
    return {_pair(a, b): quotient(at(row, "distance", 1, rates=b), at(row, "distance", 1, rates=a)) for a, b in HALVED}


def halved_gap(runs: Rows) -> dict[str, float]:
    row = only(runs)
    return {_pair(a, b): quotient(at(row, "gap_ce", rates=b), at(row, "gap_ce", rates=a)) for a, b in HALVED}


def same_length(runs: Rows) -> dict[str, float]:
    """The gap after all epochs over the gap at twice the step after half of them, and at four times after a quarter."""
    row = only(runs)
    last = row["epochs_watched"][-1]
    slow = at(row, "gap_ce", rates=0.02)
    faster = {
        f"{rate:g} for {last // k} epochs": at(row, "gap_ce", last // k, rates=rate)
        for k, rate in ((2, 0.04), (4, 0.08))
    }
    return {name: quotient(slow, gap) for name, gap in faster.items()}


def decay_gap(runs: Rows) -> float:
    row = only(runs)
    return quotient(at(row, "gap_ce", decays=DECAYS[-1]), at(row, "gap_ce", decays=0.0))


def decay_distance(runs: Rows) -> float:
    row = only(runs)
    return quotient(at(row, "distance", decays=DECAYS[-1]), at(row, "distance", decays=0.0))


def slack(runs: Rows, rate: float, epoch: int | None) -> float:
    """The proven bound on the difference of cross-entropy, over the largest measured one."""
    row = only(runs)
    bounded = {**row, "bound": proven(row)["worst_ce"].tolist()}
    return quotient(at(bounded, "bound", epoch, rates=rate), at(row, "worst_ce", epoch, rates=rate))


def slack_early(runs: Rows) -> float:
    return slack(runs, CONVEX_RATES[0], 1)


def slack_late(runs: Rows) -> float:
    return slack(runs, CONVEX_RATES[-1], None)


def label_distance(runs: Rows) -> float:
    random, true = (only(runs.where(labels=kind)) for kind in (RANDOM, TRUE))
    return quotient(at(random, "distance", decays=0.0), at(true, "distance", decays=0.0))


def gap_by_twins(runs: Rows) -> float:
    row = only(runs)
    return quotient(at(row, "by_twins", decays=0.0), at(row, "gap", decays=0.0))


def worst_difference(runs: Rows) -> float:
    return at(only(runs), "worst", decays=0.0)


def beyond_need(runs: Rows) -> float:
    row = only(runs)
    limit = needed(row["n"])
    if limit is None:
        raise IncompleteError(f"{row['n']} examples are too few for any bound below 1")
    return worst_difference(runs) / limit


def convex_bound(rows: Rows) -> Checked:
    runs = rows.complete("twins")
    most = dict.fromkeys(SHOWN, 0.0)
    for row in runs:
        bounds = proven(row)
        for name in most:
            most[name] = max(most[name], float(np.max(np.asarray(row[name]) / bounds[name])))
    small, largest = all(map(in_theorem, runs)), max(most.values())
    said = ", ".join(f"{100 * most[name]:.3g}% ({words})" for name, words in SHOWN.items())
    return Checked(small and largest <= 1, f"largest share of the bound: {said}; {len(runs)} runs")


def _pair(large: float, small: float) -> str:
    return f"{large:g} to {small:g}"
