"""Bounds on an empirical risk that is only known through random draws of the network.

The empirical risk of a Gibbs predictor is an average over the posterior, so in practice it is estimated
from drawn networks. The estimate can be too low by chance; an upper bound on what it estimates, with its
own share of delta, must replace it before a PAC-Bayes bound is applied. Here the examples are fixed, and
only the draws are random.
"""

import math

from truerisk.bounds._checks import (
    EPS,
    Count,
    Number,
    as_float,
    check_count,
    check_delta,
    check_risk,
    outward,
)
from truerisk.bounds.kl import kl_inverse, kl_inverse_lower
from truerisk.errors import TrueriskError


def chernoff_upper(mean: Number, trials: Count, delta: Number) -> float:
    """Return the largest p with kl(mean, p) <= ln(1/delta) / trials.

    Hoeffding (1963, Theorem 1, inequality 2.1): for independent variables in [0, 1] with average expectation
    p, the probability that their mean is at most q < p is at most exp(-trials kl(q, p)). They need not be
    identically distributed (concavity of the logarithm), so each example may have its own error rate; nor
    need they be 0 or 1. With probability at least 1 - delta the result is an upper bound on p.

    >>> round(chernoff_upper(0.0, 100, 0.05), 6)  # 1 - 0.05^(1/100)
    0.029513
    """
    mean = check_risk(mean, "mean")
    trials = check_count(trials, "trials")
    # A mean is a rounded quotient: lift it by what rounding may have taken off. Zero is exact and stays.
    mean = min(1.0, mean * (1.0 + 2 * EPS))
    return kl_inverse(mean, outward(-math.log(check_delta(delta)) / trials))


def chernoff_lower(mean: Number, trials: Count, delta: Number) -> float:
    """Return the smallest p with kl(mean, p) <= ln(1/delta) / trials: the other tail of `chernoff_upper`.

    >>> round(chernoff_lower(1.0, 100, 0.05), 6)  # 0.05^(1/100)
    0.970487
    """
    mean = check_risk(mean, "mean")
    trials = check_count(trials, "trials")
    # A mean is a rounded quotient: lower it by what rounding may have added. One is exact and stays.
    mean = mean if mean == 1.0 else mean * (1.0 - 2 * EPS)
    return kl_inverse_lower(mean, outward(-math.log(check_delta(delta)) / trials))


def grouped_upper(
    error_sum: Number,
    groups: Count,
    size: Count,
    n: Count,
    passes: Count,
    delta: Number,
) -> float:
    """Bound the Gibbs empirical risk from above when each drawn network is tested on a group of examples.

    In each of `passes` passes the n examples are cut into `groups` groups of `size`, and every group gets its
    own independently drawn network. Errors inside a group are dependent, so a group is one trial in [0, 1],
    its mean error. Missing entries of the last group count as no error, which makes all groups equally heavy:

        average of the groups' expectations = empirical risk * n / (groups * size).

    Hence, with trials = groups * passes and mean = error_sum / (groups * size * passes),

        empirical risk <= chernoff_upper(mean, trials, delta) * groups * size / n.

    `error_sum` is the total loss over all examples and passes, at most n * passes. Groups must be made
    before the draws. With size = 1 and groups = n this is `chernoff_upper` itself.

    >>> grouped_upper(12, groups=100, size=1, n=100, passes=1, delta=0.05) == chernoff_upper(0.12, 100, 0.05)
    True
    >>> round(grouped_upper(0, groups=25, size=4, n=100, passes=4, delta=0.05), 6)  # 100 trials
    0.029513
    """
    total, trials, places, n, passes = _grouped(error_sum, groups, size, n, passes)
    bound = chernoff_upper(total / (places * passes), trials, delta)
    # A quotient of 1 needs no lift, and without it the case of single examples stays exactly the plain bound.
    return bound if places == n else min(1.0, outward(bound * places / n))


def grouped_lower(
    error_sum: Number,
    groups: Count,
    size: Count,
    n: Count,
    passes: Count,
    delta: Number,
) -> float:
    """Bound the Gibbs empirical risk from below, from draws as in `grouped_upper`.

    The same groups and the other tail: Hoeffding's inequality (2.1) holds for 1 minus each trial as well. Losses
    must not hold ties that a drawn network may break in favor of the label.

    >>> grouped_lower(0, groups=25, size=4, n=100, passes=4, delta=0.05)
    0.0
    >>> round(grouped_lower(100, groups=100, size=1, n=100, passes=1, delta=0.05), 6)  # 0.05^(1/100)
    0.970487
    """
    total, trials, places, n, passes = _grouped(error_sum, groups, size, n, passes)
    bound = chernoff_lower(total / (places * passes), trials, delta)
    return bound if places == n else min(1.0, bound * places / n * (1.0 - 8 * EPS))


def _grouped(
    error_sum: Number, groups: Count, size: Count, n: Count, passes: Count
) -> tuple[float, int, int, int, int]:
    """(sum of losses, trials, places in the groups of a pass, n, passes), checked."""
    groups = check_count(groups, "groups")
    size = check_count(size, "size")
    n = check_count(n)
    passes = check_count(passes, "passes")
    places = groups * size
    if places < n:
        raise TrueriskError(f"groups * size must be at least n, got {groups} * {size} < {n}: add groups.")
    total = as_float(error_sum, "error_sum")
    if not 0.0 <= total <= n * passes:
        raise TrueriskError(
            f"error_sum must lie between 0 and n * passes = {n * passes}, got {total}: "
            "pass the sum of losses over all examples and passes."
        )
    return total, groups * passes, places, n, passes
