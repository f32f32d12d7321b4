r"""Margins: the loss that norm-based bounds use, and the choice of the margin after the data was seen.

The margin m_i of an example is the logit of its label minus the largest other logit. For gamma > 0 the ramp loss

    ramp(m) = min(1, max(0, 1 - m/gamma))

is 1 where the network is wrong (m <= 0), 0 where m >= gamma, and changes by at most |m - m'| / gamma. Hence
true risk <= expected ramp loss, and each bound here has the form

    mean ramp loss + 2 Rad(ramp loss of the class) + 3 sqrt((ln(1/delta) + price) / (2n)).

It holds for one class and one gamma fixed beforehand. Where the class is a ball that scales (all networks whose norm
is at most r; networks times 1/gamma have norm r/gamma), only the ratio r/gamma matters: f at margin gamma is f/gamma at
margin 1. So the ratio is put on a grid 2^k (see `radii`) and paid for, and norm and margin may both be anything.
The best of all grid points is then free to pick, as they hold together.

With a huge margin every such bound is a little above 1, which is true and says nothing. Therefore: the smallest value
is taken if it is below 1. If not, the smallest among margins that at least half of the correct examples reach, more
precisely at which the loss is at most (1 + training error)/2; this shows how far the bound is from saying something.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truerisk.bounds._checks import Number, as_float
from truerisk.bounds.rademacher import confidence
from truerisk.bounds.radii import LOG2, radius_price
from truerisk.errors import TrueriskError

SLACK = 1e-9  # relative lift of each result; far more than norms, means and logarithms lose in float64
_LARGEST_LOG = 709.0
_OCTAVES = 96  # margins below the largest one by more factors of 2 than this are not looked at


@dataclass(frozen=True)
class MarginBound:
    """One inequality: true risk <= loss + capacity + confidence. `log_capacity` is ln of what the class adds."""

    margin: float
    loss: float
    log_capacity: float
    confidence: float

    @property
    def log(self) -> float:
        """The natural logarithm of the bound, lifted against rounding."""
        rest = math.log(self.loss + self.confidence) if self.loss + self.confidence > 0.0 else -math.inf
        high, low = max(rest, self.log_capacity), min(rest, self.log_capacity)
        return high + math.log1p(math.exp(low - high)) + SLACK

    @property
    def value(self) -> float:
        """The bound, not cut at 1; infinite where it is too large for a float."""
        return exp(self.log)

    @property
    def parts(self) -> dict[str, float]:
        """What the bound is made of, by name; a confidence of 0 is one that is part of the capacity."""
        found = {"margin": self.margin, "loss": self.loss, "capacity": exp(self.log_capacity)}
        return found | ({"confidence": self.confidence} if self.confidence else {})


def exp(log: float) -> float:
    """exp(log), infinite where that is too large for a float.

    >>> exp(0.0), exp(1e4)
    (1.0, inf)
    """
    return math.exp(log) if log < _LARGEST_LOG else math.inf


def check_margins(margins: ArrayLike) -> NDArray[np.float64]:
    """Accept a non-empty vector of finite margins."""
    array = np.asarray(margins, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise TrueriskError("margins must be a vector of finite numbers, one for each example.")
    return array


def ramp_loss(margins: ArrayLike, gamma: Number) -> float:
    """Return the mean of min(1, max(0, 1 - m/gamma)).

    >>> ramp_loss([-1.0, 0.5, 2.0, 8.0], 2.0)
    0.4375
    """
    gamma = as_float(gamma, "gamma")
    if not gamma > 0.0:
        raise TrueriskError(f"gamma must be positive, got {gamma}.")
    with np.errstate(over="ignore"):
        return min(1.0, float(np.clip(1.0 - check_margins(margins) / gamma, 0.0, 1.0).mean()))


def margin_range(margins: NDArray[np.float64]) -> tuple[float, float]:
    """Return ln of the smallest and of the largest margin worth looking at.

    Below half the smallest positive margin the loss stays what it is. Above 2 sqrt(n) times the largest it is so close
    to 1 that the confidence term is larger than what is missing.
    """
    sizes = np.abs(margins)
    largest = float(sizes.max())
    if largest == 0.0:
        return 0.0, 0.0
    high = math.log(largest) + math.log(2.0) + 0.5 * math.log(len(margins))
    positive = margins[margins > 0.0]
    low = math.log(float(positive.min())) - LOG2 if len(positive) else high
    return max(low, high - _OCTAVES * LOG2), high


def best_margin(options: Iterable[MarginBound], training_error: float) -> MarginBound:
    """Return the smallest of several inequalities that hold together; see the top of this file for those above 1."""
    found = sorted(options, key=lambda option: option.log)
    if not found:
        raise TrueriskError("there is no margin to choose from: pass at least one.")
    if found[0].log < 0.0:
        return found[0]
    limit = 0.5 * (1.0 + training_error)
    return next((option for option in found if option.loss <= limit), found[0])


def homogeneous_bound(
    margins: ArrayLike, log_norm: Number, log_unit: Number, delta: Number, price: Number = 0.0
) -> MarginBound:
    """Return the best bound of a class that scales with its norm, at the best margin.

    `log_norm` is ln of the network's norm, and `log_unit` ln of Rad(ramp loss) of the class with norm/margin at most 1,
    so that the class with norm/margin at most r has r times that. Ratios r = 2^k are paid for with `radius_price`;
    `price` is what else must be paid for. Ratio and norm give the margin: gamma = norm/r, which is exact.

    >>> margins = [1.0] * 1000
    >>> found = homogeneous_bound(margins, 0.0, math.log(0.01), 0.05)
    >>> found.margin, found.loss, round(math.exp(found.log_capacity), 12)
    (1.0, 0.0, 0.02)
    """
    array = check_margins(margins)
    log_norm = as_float(log_norm, "log_norm")
    if not math.isfinite(log_norm):
        raise TrueriskError("the norm must be positive and finite: a network of norm zero is constant.")
    low, high = margin_range(array)
    first, last = math.floor((log_norm - high) / LOG2), math.ceil((log_norm - low) / LOG2)

    def option(k: int) -> MarginBound:
        gamma = exp(log_norm - k * LOG2)
        capacity = LOG2 + as_float(log_unit, "log_unit") + k * LOG2
        sure = confidence(len(array), delta, radius_price(k) + as_float(price, "price"))
        return MarginBound(gamma, ramp_loss(array, gamma), capacity, sure)

    return best_margin(map(option, range(first, last + 1)), float(np.mean(array <= 0.0)))


def gridded_bound(
    margins: ArrayLike, log_complexity: Callable[[float], float], delta: Number, price: Number = 0.0
) -> MarginBound:
    """Return the best bound where `log_complexity` gives ln Rad at a margin ln gamma; margins 2^k are paid for.

    For classes that do not scale: distances from weights that are fixed beforehand.
    """
    array = check_margins(margins)
    low, high = margin_range(array)

    def option(k: int) -> MarginBound:
        gamma = exp(k * LOG2)
        sure = confidence(len(array), delta, radius_price(k) + as_float(price, "price"))
        return MarginBound(gamma, ramp_loss(array, gamma), LOG2 + log_complexity(k * LOG2), sure)

    numbers: Sequence[int] = range(math.floor(low / LOG2), math.ceil(high / LOG2) + 1)
    return best_margin(map(option, numbers), float(np.mean(array <= 0.0)))
