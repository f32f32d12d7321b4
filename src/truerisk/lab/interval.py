"""The only statistics of the lab: an interval for the mean of an effect over seeds.

Student's t over seeds, 95% two-sided, on the unit's scale (logarithms for ratios and counts of steps):

    mean +- t_{.975, n-1} s / sqrt(n),    s = max(standard deviation over seeds, smallest step of the number)

The floor for s covers numbers that move in steps, such as an error rate on 500 examples: that five seeds agree on 0.2%
does not mean that the sixth will. What the interval is about: the mean over seeds (initial weights, batches, draw of
examples and of noise) of this recipe on this data. It says nothing about other data or other settings.

At the threshold, a verdict is wrong in 2.5% of cases (a test simulates it). A bootstrap over five seeds would be wrong
in 8%, networks pooled with seeds as if independent in 35%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from truerisk.lab.effect import Above
from truerisk.lab.units import Region, Unit

LEVEL = 0.025  # of a wrong verdict, on each side
MOST_SEEDS = 1000  # beyond which "more seeds would settle it" is no advice


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95% interval."""

    mean: float
    low: float
    high: float
    seeds: int
    center: float  # the mean on the unit's scale
    error: float  # its standard error there
    censored: bool  # some seeds are only known to lie above their value


def interval(values: Sequence[float | Above], unit: Unit, step: float = 0.0) -> Interval | None:
    """The interval of these seeds' values; None for one seed, whose spread is unknown.

    >>> from truerisk.lab.units import POINTS
    >>> found = interval([0.20, 0.22, 0.24], POINTS)
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.22, 0.17, 0.27)
    """
    n = len(values)
    if n < 2:
        return None
    plain = [value.value if isinstance(value, Above) else float(value) for value in values]
    scaled = [math.log(value) if unit.log else value for value in plain]
    center = math.fsum(scaled) / n
    spread = math.sqrt(math.fsum((value - center) ** 2 for value in scaled) / (n - 1))
    floor = math.log1p(step / math.exp(center)) if unit.log else step
    error = max(spread, floor) / math.sqrt(n)
    half = _quantile(n - 1) * error
    ends = [math.exp(end) if unit.log else end for end in (center - half, center, center + half)]
    # A run that stopped at its limit would have gone higher. The mean of the limited numbers is below the true mean,
    # so its lower end stays a lower end; an upper end does not exist.
    censored = any(isinstance(value, Above) for value in values)
    high = math.inf if censored else min(ends[2], unit.high)
    return Interval(ends[1], max(ends[0], unit.low), high, n, center, error, censored)


def inside(found: Interval, region: Region) -> bool:
    """Whether the whole interval lies in the region; one without any width must not lie on its edge."""
    pairs = ((found.low, region.low), (found.high, region.high))
    if found.error == 0 and any(end == edge for end, edge in pairs if math.isfinite(edge)):
        return False
    return region.low <= found.low and found.high <= region.high


def doubt(found: Interval, region: Region) -> float:
    """How likely a mean this far outside the region would be, were the truth at its edge; 1 for a mean inside.

    A one-sided p-value; the interval lies outside the region exactly if it is below `LEVEL`.
    """
    low, high = (_scaled(end, region.unit) for end in (region.low, region.high))
    if found.center > high:
        beyond = found.center - high
    elif found.center < low and not found.censored:
        beyond = low - found.center
    else:
        return 1.0
    return _tail(beyond / found.error, found.seeds - 1) if found.error else 0.0


def refuted(doubts: Sequence[float]) -> bool:
    """Whether at least one of several cells lies outside: Simes' test, wrong in at most 2.5% of cases.

    It rejects if the i-th smallest of m p-values is at most i/m times the level. Cells that share seeds are positively
    dependent, for which the test is proven (Sarkar 1998). Bonferroni's, m times the smallest, would need a distance
    that three seeds can hardly show for twenty cells, even where all twenty lie outside.

    >>> refuted([0.02]), refuted([0.02, 0.9]), refuted([0.02, 0.024])
    (True, False, True)
    """
    return any(p <= LEVEL * (i + 1) / len(doubts) for i, p in enumerate(sorted(doubts)))


def seeds_needed(found: Interval, region: Region) -> int | None:
    """Seeds until half the interval is shorter than the distance to the threshold, if the spread stays as it is.

    None where no number up to `MOST_SEEDS` would do, or runs stopped at a limit. A rough number: mean and spread will
    change.
    """
    if found.censored:
        return None
    ends = [_scaled(end, region.unit) for end in (region.low, region.high)]
    distance = min(abs(found.center - end) for end in ends if math.isfinite(end))
    spread = found.error * math.sqrt(found.seeds)
    for n in range(found.seeds + 1, MOST_SEEDS + 1):
        if _quantile(n - 1) * spread / math.sqrt(n) < distance:
            return n
    return None


@cache
def _quantile(freedom: int) -> float:
    """Student's t at 1 - `LEVEL`."""
    from scipy.special import stdtrit  # here: `truerisk lab list` does not wait for SciPy

    return float(stdtrit(freedom, 1 - LEVEL))


def _tail(t: float, freedom: int) -> float:
    """The probability that Student's t exceeds this."""
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))


def _scaled(end: float, unit: Unit) -> float:
    if not unit.log:
        return end
    return math.log(end) if end > 0 else -math.inf
