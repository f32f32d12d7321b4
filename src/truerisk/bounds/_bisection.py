"""Bisection that ends on the safe side of a threshold."""

from collections.abc import Callable

# [0, 1] shrinks to neighboring floats near 2^-k in about k + 53 halvings; only below 2^-147 are these too few.
_HALVINGS = 200


def bisect_outward(low: float, high: float, enough: Callable[[float], bool]) -> float:
    """Return a point of [low, high] from which the inequality `enough` holds, close above the smallest such point.

    The caller vouches that `high` is safe, and that the inequality, once it holds, holds at all larger points. The
    upper end moves only to points where `enough` was evaluated and held, and the upper end is returned. So neither
    rounding in the middle nor the number of halvings makes the result too small: an early stop only leaves it larger.
    `enough` itself keeps a reserve for the rounding of its own evaluation. `low` is never evaluated.

    The search stops when the middle equals an end, which means that no float lies between the ends.

    >>> root = bisect_outward(0.0, 2.0, lambda x: x * x >= 2.0)
    >>> root, root * root >= 2.0
    (1.4142135623730951, True)
    """
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2.0
        if middle in (low, high):
            break
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
