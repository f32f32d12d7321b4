r"""Norms that are known only after training: grids of radii, each with its own share of delta.

A theorem about the class of networks with norm at most r holds for one r fixed beforehand. The norm of a trained
network is not fixed beforehand. So the theorem is taken at every radius of a grid that is, the radius number k with
probability of failure delta p_k, and a network uses the radius next above its own norm. The price of that is
ln(1/p_k), added to ln(1/delta). Leaving it out is the usual mistake in public code.

The grid is ratio^k for all integers k, and

    p_k = (2/3) / ((|k| + 1) (|k| + 2)),

which adds up to 1: the sum of 1/((k+1)(k+2)) over k >= 0 is 1, both signs together give 2, and k = 0 is counted
twice (1/2). All radii are passed as natural logarithms, as products of norms leave the range of floats.
"""

import math
from collections.abc import Sequence

from truerisk.bounds._checks import Count, Number, as_float, check_count
from truerisk.errors import TrueriskError

LOG2 = math.log(2.0)
SMALLEST = -64.0 * LOG2  # norms below 2^-64, zero among them, use the radius 2^-64
LEVELS = 4


def radius_price(k: int) -> float:
    """Return ln(1/p_k), the price of radius number k.

    >>> round(math.exp(-radius_price(0)), 12), round(math.exp(-radius_price(-2)), 12)
    (0.333333333333, 0.055555555556)
    """
    size = abs(k)
    return math.log(1.5) + math.log(size + 1) + math.log(size + 2)


def radius_above(log_norm: Number, ratio: Number = 2.0) -> tuple[float, float]:
    """Return (ln of the smallest ratio^k that is not below the norm, its price).

    >>> radius, price = radius_above(math.log(3.0))
    >>> round(math.exp(radius), 12), round(math.exp(price), 12)  # 2^2, 1/p_2
    (4.0, 18.0)
    """
    step = math.log(as_float(ratio, "ratio"))
    if not step > 0.0:
        raise TrueriskError("ratio must be above 1: neighbouring radii differ by it.")
    log_norm = max(as_float(log_norm, "log_norm"), SMALLEST)
    if log_norm == math.inf:
        raise TrueriskError("the norm is infinite: no radius is above it.")
    k = math.ceil(log_norm / step) - 1  # the quotient may be rounded either way
    while k * step < log_norm:
        k += 1
    return k * step, radius_price(k)


def radii_below(log_norms: Sequence[float], levels: Count = LEVELS) -> tuple[list[float], float]:
    """Return (ln of a radius for each norm relative to the largest, price of them all).

    For many norms of one kind (one for each hidden unit): each is rounded up to the largest times 2^0, 2^-1, ..., or
    2^-(levels-1), all of them equally likely, so each costs ln(levels). The largest itself is still to be paid for.

    >>> radii, price = radii_below([0.0, math.log(0.3), -math.inf])
    >>> [round(math.exp(r), 12) for r in radii], round(math.exp(price), 9)  # 1, 1/2, 1/8; 4^3
    ([1.0, 0.5, 0.125], 64.0)
    """
    levels = check_count(levels, "levels")
    top = max(log_norms)
    if top == -math.inf:
        return [0.0 for _ in log_norms], len(log_norms) * math.log(levels)
    below = [min(levels - 1, math.floor((top - log) / LOG2)) if log > -math.inf else levels - 1 for log in log_norms]
    # A quotient that was rounded up would put the radius below the norm.
    below = [b - 1 if b > 0 and top - b * LOG2 < log else b for b, log in zip(below, log_norms, strict=True)]
    return [-b * LOG2 for b in below], len(log_norms) * math.log(levels)
