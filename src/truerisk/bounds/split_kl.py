r"""The split-kl bound for losses with several values, and the chain of recursive PAC-Bayes built on it.

A loss with values b_0 < b_1 < ... < b_K is a sum of steps,

    f = b_0 + sum_j (b_j - b_(j-1)) 1[f >= b_j],     j = 1, ..., K,

and each step is a coin, for which the kl bound is tight whatever the spread of f. Bounds for losses in an
interval pay for the whole interval even if f hardly ever leaves one of its values.

Recursive PAC-Bayes (Wu, Zhang, Cherief-Abdellatif and Seldin 2024) cuts the data into a chain of parts, with
a posterior for each that is the prior of the next, and writes the risk of posterior t as

    risk_t = E[loss(h) - gamma loss(h')] + gamma risk_(t-1),   h ~ posterior t,  h' ~ posterior t-1.

The excess loss in brackets has the values -gamma, 0, 1-gamma and 1, is small where the two agree, and is
bounded by `split_kl`; the second term is the bound of the step before, so earlier data is never lost.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from truerisk.bounds._checks import (
    EPS,
    Count,
    Number,
    as_float,
    check_count,
    check_delta,
    check_kl,
    check_risk,
    outward,
)
from truerisk.bounds.kl import kl_inverse
from truerisk.bounds.pac_bayes import confidence_term
from truerisk.errors import TrueriskError


def _lifted(total: float, size: float) -> float:
    """Lift a sum of terms of either sign by what rounding may have taken off; `size` adds their magnitudes."""
    return total + 32 * EPS * size


def _check_values(values: Sequence[float], steps: int) -> list[float]:
    levels = [as_float(value, "values") for value in values]
    if len(levels) != steps + 1 or steps == 0:
        raise TrueriskError(
            f"values must hold one number more than uppers, at least two, got {len(levels)} and {steps}: "
            "pass every value of the loss and one upper bound for each value but the lowest."
        )
    if not all(low < high for low, high in pairwise(levels)) or math.isinf(levels[-1] - levels[0]):
        raise TrueriskError(f"values must be finite and strictly increasing, got {levels}: sort the loss values.")
    return levels


def split_kl(uppers: Sequence[float], values: Sequence[float], kl: Number, n: Count, delta: Number) -> float:
    """Return b_0 + sum_j (b_j - b_(j-1)) kl_inverse(uppers_j, (KL + ln(2 K sqrt(n)/delta)) / n).

    Wu and Seldin (2022, "Split-kl and PAC-Bayes-split-kl inequalities for ternary random variables"), in the
    form for any number of values of Wu, Zhang, Cherief-Abdellatif and Seldin (2024). ``uppers[j-1]`` is the
    mean of 1[f >= b_j] under the posterior on the n examples, exact or an upper bound of it, and ``values`` is
    b_0, ..., b_K. The K steps are K events of the kl form, each paid with delta / K. With probability at
    least 1 - delta the expected loss is at most the result, for all posteriors at once. Cut at b_K.

    In a recursive step h' is drawn from a distribution that the n examples did not change, so it is part of
    prior and posterior alike, and KL is that of posterior t from posterior t-1.

    >>> bound = split_kl([0.0], [0.0, 1.0], 0.0, 100, 0.05)  # one step: the kl form
    >>> round(bound, 6)
    0.058155
    """
    levels = _check_values(values, len(uppers))
    n = check_count(n)
    limit = outward((check_kl(kl) + confidence_term(n, check_delta(delta) / len(uppers))) / n)
    total, size = levels[0], abs(levels[0])
    for upper, (low, high) in zip(uppers, pairwise(levels), strict=True):
        # A mean is a rounded quotient: lift it by what rounding may have taken off. Zero is exact and stays.
        mean = min(1.0, check_risk(upper, "uppers") * (1.0 + 2 * EPS))
        step = (high - low) * kl_inverse(mean, limit)
        total, size = total + step, size + step
    return min(levels[-1], _lifted(total, size))


def recursive_step(excess: Number, gamma: Number, previous: Number) -> float:
    """Return excess + gamma * previous, between 0 and 1: one link in the chain of recursive PAC-Bayes.

    `excess` bounds E[loss(h) - gamma loss(h')] (from `split_kl`), `previous` the true risk of the posterior
    that h' is drawn from, and `gamma` in [0, 1] was fixed before this step's certifying data. Both events
    must hold, so their deltas add up over the whole chain. With gamma = 0 the chain forgets its past.

    >>> round(recursive_step(0.03, 0.5, 0.2), 9)
    0.13
    """
    gamma = check_risk(gamma, "gamma")
    excess = as_float(excess, "excess")
    if not -gamma <= excess <= 1.0:
        raise TrueriskError(f"excess must lie in [-gamma, 1] = [{-gamma}, 1], got {excess}: pass the split-kl bound.")
    carried = gamma * check_risk(previous, "previous")
    return min(1.0, max(0.0, _lifted(excess + carried, abs(excess) + carried)))
