"""Effects of `matrix-factorization`: from the runs of one seed to a number, and three checks of theorems."""

from __future__ import annotations

from truerisk.lab.claim import Checked
from truerisk.lab.matrix_runs import SAME
from truerisk.lab.rows import IncompleteError, Rows

EXACT, THEORY = 1e-6, 1e-3  # tolerances of the identity, and of gradient flow against steps of finite size
BEST = 0.01  # relative errors below 1% count as 1%
FITTED = 0.01  # relative misfit of a descent that has come to its end


def at_start(runs: Rows, field: str, start: float) -> float:
    """A number of the run from the start of this size; none where descent does not fit the measurements."""
    place = runs.one("starts").index(start)
    misfit = float(runs.one("misfits")[place])
    if not misfit <= FITTED:
        raise IncompleteError(f"descent from {start:g} misses the measurements by {misfit:.1%}")
    return float(runs.one(field)[place])


def gain_over_least(runs: Rows, start: float) -> float:
    """Recovery error of the solution of least trace norm over that of descent from this start."""
    return float(runs.one("least_error")) / at_start(runs, "errors", start)


def distinct(runs: Rows) -> float:
    return float(runs.one("distinct"))


def ratio(runs: Rows, worse: str, better: str) -> float:
    """Test error of one method over that of another; errors below 1% count as 1%."""
    above, below = (max(float(runs.one(f"{name}_error")), BEST) for name in (worse, better))
    return above / below


def gain_of_descent(runs: Rows) -> float:
    """The smaller one of the test errors of rank and trace norm, over that of stopped descent."""
    return min(ratio(runs, name, "descent") for name in ("rank", "trace"))


def commuting(rows: Rows) -> Checked:
    beyond = [e - a for row in rows.complete() for e, a in zip(row["excess"], row["allowed"], strict=True)]
    below, tiny = min(min(row["excess"]) for row in rows), max(row["excess"][-1] for row in rows)
    measured = (
        f"at most {max(beyond):.1e} above what gradient flow allows, at least {below:.1e} above the least trace norm, "
        f"and {tiny:.1e} above it from the smallest start"
    )
    return Checked(max(beyond) <= THEORY and below >= -THEORY, measured)


def equal_norms(rows: Rows) -> Checked:
    ends, before = rows.column("after"), rows.min("before")
    off, low, moved = max(ends) - 1, min(ends) - 1, rows.max("moved")
    measured = (
        f"between {low:.1e} and {off:.1e} above the trace norm, from factors at least {before:.2f} times as large"
    )
    return Checked(max(off, -low, moved) <= EXACT, measured)


def one_optimum(rows: Rows) -> Checked:
    ends = [loss for row in rows.complete() for loss in row["losses"]]
    measured = f"all {len(ends)} starts within {max(abs(max(ends) - 1), abs(min(ends) - 1)):.1e} of the convex optimum"
    return Checked(max(ends) - 1 <= SAME and 1 - min(ends) <= SAME, measured)
