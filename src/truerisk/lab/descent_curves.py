"""Curves of errors: where they peak after the first descent, where they fall below a level.

The effects of the experiment `network-descent` are numbers of such curves, over widths, epochs, or examples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerisk.lab.rows import Rows

FITTED = 0.1  # training error of networks that fit their examples, as Nakkiran et al. choose it
NEAR = 0.25  # from this share of the interpolation threshold on, networks count as near it
Numbers = Sequence[float] | np.ndarray


def highest(errors: Numbers) -> tuple[int, float]:
    """Where errors lie farthest above the smallest one so far, and by how much; the first descent is not a peak.

    >>> highest([0.7, 0.4, 0.5, 0.3])[0], highest([0.7, 0.4, 0.3])
    (2, (0, 0.0))
    """
    above = np.asarray(errors) - np.minimum.accumulate(errors)
    return int(above.argmax()), float(above.max())


def peak_place(widths: Numbers, errors: Numbers) -> float:
    """The width of the peak: the top of the parabola, over log width, through the highest point and its neighbors.

    The first width where errors never rise.

    >>> round(peak_place([1, 2, 4, 8, 16], [0.9, 0.2, 0.5, 0.5, 0.3]), 3)  # between 4 and 8
    5.657
    """
    widths, errors = np.asarray(widths, dtype=float), np.asarray(errors, dtype=float)
    top, _ = highest(errors)
    x, y = np.log(widths[max(top - 1, 0) : top + 2]), errors[max(top - 1, 0) : top + 2]
    if len(x) < 3 or y[1] < y[2]:  # at an end, or still rising: nothing lies around it
        return float(widths[top])
    curvature, slope, _ = np.polyfit(x, y, 2)
    return float(np.exp(np.clip(-slope / (2 * curvature), x[0], x[2])))


def crossing(widths: Numbers, errors: Numbers, level: float) -> float:
    """The width from which on errors are at most ``level``, interpolated over log width; an end where none is.

    >>> round(crossing([4, 16, 64], [0.5, 0.3, 0.1], 0.2), 3)
    32.0
    """
    widths, errors = np.asarray(widths, dtype=float), np.asarray(errors, dtype=float)
    above = np.flatnonzero(errors > level)
    if not len(above) or above[-1] == len(errors) - 1:
        return float(widths[-1 if len(above) else 0])
    last = above[-1]
    share = (errors[last] - level) / (errors[last] - errors[last + 1])
    return float(widths[last] * (widths[last + 1] / widths[last]) ** share)


# ---- effects: the runs of one seed -> a number ----------------------------------------------------------------------


def over_widths(runs: Rows, name: str = "test_error") -> tuple[list[float], list[float]]:
    """Widths in order, and a number of the run at each."""
    some = sorted(runs.complete(name), key=lambda run: float(run["width"]))
    return [run["width"] for run in some], [run[name] for run in some]


def peak_width(runs: Rows) -> float:
    """The width of the peak."""
    return peak_place(*over_widths(runs))


def peak_against_threshold(runs: Rows) -> float:
    """The width of the peak, in multiples of the width from which on training labels are fitted."""
    return peak_width(runs) / crossing(*over_widths(runs, "train_error"), FITTED)


def second_descent(runs: Rows) -> float:
    """Test error at the peak minus that of the widest network; 0 where the error never rises, so that nothing peaks."""
    _, errors = over_widths(runs)
    top, above = highest(errors)
    return errors[top] - errors[-1] if above > 0 else 0.0


def below_first_minimum(runs: Rows) -> float:
    """The smallest test error of widths up to the peak minus that of the widest network; 0 where nothing peaks."""
    _, errors = over_widths(runs)
    top, above = highest(errors)
    return min(errors[: top + 1]) - errors[-1] if above > 0 else 0.0


def rise(runs: Rows) -> float:
    """The largest excess of the test error over that of any narrower network."""
    return highest(over_widths(runs)[1])[1]


def rise_by_noise(runs: Rows) -> float:
    """How much higher the peak is with noisy labels than with true ones."""
    runs.complete("test_error")
    true, noisy = sorted(runs.values("noise"))
    return rise(runs.where(noise=noisy)) - rise(runs.where(noise=true))


def change_by_data(runs: Rows) -> float:
    """Test error with all examples minus test error with a quarter of them."""
    few, many = sorted(runs.complete("test_error"), key=lambda run: int(run["n"]))
    return float(many["test_error"] - few["test_error"])


def late_rise(runs: Rows) -> float:
    """The last test error minus the smallest one on the way."""
    errors = runs.one("test_errors")
    return float(errors[-1] - min(errors))


def late_fall(runs: Rows) -> float:
    """The largest test error after the smallest one, minus the last."""
    errors = runs.one("test_errors")
    return float(max(errors[errors.index(min(errors)) :]) - errors[-1])


def _below(runs: Rows, name: str, least: float = 0.0) -> list[float]:
    """Test errors of networks below the interpolation threshold, from some share of it on."""
    return [error for error, size in zip(runs.one(name), runs.one("sizes"), strict=True) if least <= size < 1]


def reused_rise(runs: Rows) -> float:
    """The rise of the test error below the threshold, with reused weights."""
    return highest(_below(runs, "reused"))[1]


def harm_of_reuse(runs: Rows) -> float:
    """Mean test error near the threshold and below it, with reused weights minus with fresh ones."""
    return float(np.mean(_below(runs, "reused", NEAR)) - np.mean(_below(runs, "fresh", NEAR)))
