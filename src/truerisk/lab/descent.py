"""Effects of double-descent curves: where the peak is, whether the second descent ends lower, and what more data do.

A run of a sweep has lists with an entry for each number of features (``counts``) or of examples (``sizes``). A curve
maps N / n, or n / N, to a number; parts of one sweep that ran as tasks of their own are put together.
"""

from __future__ import annotations

import math

import numpy as np

from truerisk.lab.claim import Checked, Number
from truerisk.lab.effect import Above
from truerisk.lab.rows import IncompleteError, Rows

NEAR = 0.05  # distance from the threshold that still counts as "at" it
EPSILON = 0.1  # training error up to which examples count as fitted
FITTED = 1e-10  # squared training error up to which least squares interpolates


def curve(runs: Rows, field: str, along: str = "counts", over: str = "n") -> dict[float, float]:
    """From N / n (or n / N) to a field, in order."""
    found: dict[float, float] = {}
    for run in runs.complete(field):
        found |= {place / run[over]: value for place, value in zip(run[along], run[field], strict=True)}
    return dict(sorted(found.items()))


def at(values: dict[float, float], place: float) -> float:
    """The value nearest to a place: on a user's data, sizes are rounded."""
    return values[min(values, key=lambda key: abs(key - place))]


def peak_at_threshold(runs: Rows, field: str = "test_squared", along: str = "counts") -> float:
    """The largest value within 5% of N = n over the largest value elsewhere: above 1, the peak is at the threshold.

    ``along="directions"`` counts linearly independent features instead of all features.
    """
    n, places, values = runs.complete(field)[0]["n"], curve(runs, along), curve(runs, field)
    near = {ratio for ratio, place in places.items() if abs(place / n - 1) <= NEAR + 1e-9}
    inside, outside = ([v for ratio, v in values.items() if (ratio in near) is wanted] for wanted in (True, False))
    if not inside or not outside:
        raise IncompleteError(f"no {along} within {NEAR:.0%} of n = {n}, or none elsewhere")
    return float(max(inside) / max(outside))


def second_descent(runs: Rows) -> float:
    """The smallest test error of all N < n minus the test error at the largest N."""
    errors = curve(runs, "test_error")
    return float(min(error for ratio, error in errors.items() if ratio < 1) - errors[max(errors)])


def first_descent_wins(runs: Rows) -> float:
    """The test error at the largest N minus the smallest one of all N < n."""
    return -second_descent(runs)


def rise(runs: Rows) -> float:
    """How far the test error ever rises above its smallest value at fewer features."""
    errors = np.array(list(curve(runs, "test_error").values()))
    return float(np.max(errors - np.minimum.accumulate(errors)))


def more_data_hurt(runs: Rows) -> float:
    """Test error of N features fitted to n = N examples minus that of the same features fitted to half of them."""
    errors = curve(runs, "test_error", "sizes", "width")
    return float(at(errors, 1) - at(errors, 0.5))


def effective_complexity(runs: Rows) -> Number:
    """The largest n / N with a training error of at most 10%, interpolated between neighboring sizes."""
    errors = list(curve(runs, "train_error", "sizes", "width").items())
    last = max((i for i, (_, error) in enumerate(errors) if error <= EPSILON), default=-1)
    if last == len(errors) - 1:
        return Above(errors[-1][0])
    (here, below), (there, above) = errors[last] if last >= 0 else (0.0, 0.0), errors[last + 1]
    return float(here + (there - here) * (EPSILON - below) / (above - below))


def fits_from_n_on(rows: Rows) -> Checked:
    """Whether the squared training error vanishes exactly where there are at least as many features as examples."""
    fitted, missed = [0.0], [math.inf]
    for run in rows.complete("train_squared"):
        pairs = [(N, run["n"]) for N in run.get("counts", ())] or [(run["width"], n) for n in run["sizes"]]
        for (features, examples), squared in zip(pairs, run["train_squared"], strict=True):
            (fitted if features >= examples else missed).append(squared)
    words = f"squared training error at most {max(fitted):.1g} for N >= n, at least {min(missed):.1g} for N < n"
    return Checked(max(fitted) < FITTED < min(missed), words)
