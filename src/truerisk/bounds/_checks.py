"""Input checks and outward rounding shared by the bound formulas.

Every public function of this package passes its arguments through here exactly once, so that a formula
can be read without its guards. A check returns the argument as a plain ``float`` or ``int``; what fails
raises `TrueriskError` with one sentence that names the fix.
"""

import math
import operator
from typing import SupportsFloat, SupportsIndex

from truerisk.errors import TrueriskError

Number = SupportsFloat
Count = SupportsIndex

EPS = 2.0**-52

# A closed form in this package takes at most a dozen roundings of half an ulp each on positive terms,
# so this relative lift (8e-15 on a risk of 1) covers them with room to spare.
OUTWARD = 1.0 + 32 * EPS


def outward(value: float) -> float:
    """Lift a non-negative result by 32 ulps, so that rounding can't leave it below the exact value.

    >>> outward(0.0), outward(1.0) > 1.0
    (0.0, True)
    """
    return value * OUTWARD


def complement(value: float) -> float:
    """Return 1 - value for a value in [0, 1], rounded upward by at most two floats and never above 1."""
    return min(1.0, math.nextafter(1.0 - value, 2.0))


def mirrored(upper: float) -> float:
    """Return 1 - upper, rounded downward: the lower end for a rate whose complement is at most `upper`.

    >>> mirrored(1.0), mirrored(0.25) < 0.75
    (0.0, True)
    """
    return max(0.0, math.nextafter(1.0 - upper, -1.0))


def as_float(value: Number, name: str) -> float:
    """Turn one number into a ``float``; refuse NaN and whatever isn't a single number."""
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        raise TrueriskError(f"{name} must be a single number, got {value!r}.") from None
    if math.isnan(number):
        raise TrueriskError(f"{name} is NaN: look for the computation that produced it.")
    return number


def check_risk(value: Number, name: str = "empirical_risk") -> float:
    """Accept a risk in [0, 1].

    >>> check_risk(0.25)
    0.25
    """
    risk = as_float(value, name)
    if not 0.0 <= risk <= 1.0:
        raise TrueriskError(f"{name} must lie in [0, 1], got {risk}: pass a mean, not a percentage.")
    return risk


def check_kl(value: Number) -> float:
    """Accept a divergence in [0, inf]; infinity is legal and makes every bound vacuous."""
    kl = as_float(value, "kl")
    if kl < 0.0:
        raise TrueriskError(f"kl must be at least 0, got {kl}: sum non-negative terms in float64.")
    return kl


def check_delta(value: Number) -> float:
    """Accept a failure probability strictly between 0 and 1."""
    delta = as_float(value, "delta")
    if not 0.0 < delta < 1.0:
        raise TrueriskError(
            f"delta must lie strictly between 0 and 1, got {delta}: pass a chance of failure like 0.05."
        )
    return delta


def check_count(value: Count, name: str = "n", least: int = 1) -> int:
    """Accept an integer of at least `least`; floats and booleans are refused, not truncated.

    >>> check_count(12)
    12
    """
    try:
        # True counts as 1 for operator.index, but a boolean here is a caller's slip.
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None:
        raise TrueriskError(f"{name} must be an integer, got {value!r}: pass a count of indices.")
    if count < least:
        raise TrueriskError(f"{name} must be at least {least}, got {count}.")
    return count


def check_errors(errors: Count, n: Count) -> tuple[int, int]:
    """Accept a number of errors among `n` tested examples."""
    n = check_count(n)
    errors = check_count(errors, "errors", least=0)
    if errors > n:
        raise TrueriskError(f"errors must not exceed n, got {errors} errors among {n} examples.")
    return errors, n
