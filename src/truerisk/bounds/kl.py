r"""The binary relative entropy and its upper inverse, safe against rounding.

    kl(q, p) = q ln(q/p) + (1 - q) ln((1-q)/(1-p))

is the divergence between two coins. Its inverse turns a bound on a divergence into a bound on a risk
(Langford and Caruana 2001; Seeger 2002), so an inverse that is too small by one ulp would be a false
certificate. Two precautions are taken.

*Evaluation.* The textbook formula subtracts two nearly equal numbers when p is close to q, which is the
normal case for large samples. Here the same number is written as a sum of two terms that are never
negative,

    kl(q, p) = b(q, p) + b(1-q, 1-p),     b(x, y) = y - x - x ln(y/x) >= 0,

(the parts outside the logarithms cancel exactly), and each term has a series where y is close to x. The
relative error is then a few ulps for every pair of floats.

*Inversion.* Bisection moves the upper end of its bracket only to points where the computed divergence
exceeds the target by more than that evaluation error, and returns this end.
"""

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truerisk.bounds._checks import EPS, complement, mirrored
from truerisk.errors import TrueriskError

FloatArray = NDArray[np.float64]

# Counting the roundings in `_term` gives at most 20 ulps of relative error; the tests find less than 4.
_MARGIN = 1.0 + 64 * EPS
# Below this, divergences get near the subnormal range, where relative errors mean nothing. Raising a smaller
# target to it moves the inverse by less than 1e-144.
_LEAST_TARGET = 1e-290
# The series is used where |y - x| <= x/2: its argument is then at most 1/3, and 15 terms are enough.
_SERIES_LIMIT = 0.5
_SERIES = tuple(1.0 / (2 * k + 3) for k in range(15))
# Newton's steps leave a handful of halvings to neighbouring floats; without them it would be about 55.
_STEPS = 7
_HALVINGS = 100


def _term(x: FloatArray, y: FloatArray, gap: FloatArray) -> FloatArray:
    """Return b(x, y) = y - x - x ln(y/x), where the caller supplies `gap` = y - x without cancellation."""
    with np.errstate(all="ignore"):  # the branch that `where` drops may divide by zero or overflow
        # With u = gap/x and r = u/(2+u):  u - ln(1+u) = u r - 2 (r^3/3 + r^5/5 + ...).
        u = gap / x
        r = u / (2.0 + u)
        square = r * r
        tail = np.full_like(r, _SERIES[-1])
        for coefficient in _SERIES[-2::-1]:
            tail *= square
            tail += coefficient
        near = gap * r - 2.0 * x * r * square * tail
        ratio = y / x
        # A quotient near the ends of the float range is inexact; logarithms are so large there that their
        # difference is not.
        extreme = (ratio < 1e-300) | (ratio > 1e300)
        log_ratio = np.where(extreme, np.log(y) - np.log(x), np.log(ratio))
        far = gap - x * log_ratio
        value = np.where(np.abs(u) <= _SERIES_LIMIT, near, far)
    return np.where(x == 0.0, y, value)


def _kl(q: FloatArray, p: FloatArray) -> FloatArray:
    gap = p - q
    # One call for both terms: for scalars the time goes into the number of numpy calls.
    terms = _term(np.array([q, 1.0 - q]), np.array([p, 1.0 - p]), np.array([gap, -gap]))
    return terms[0] + terms[1]


def _probabilities(value: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    # Written so that NaN fails too.
    if not np.all((array >= 0.0) & (array <= 1.0)):
        raise TrueriskError(f"{name} must lie in [0, 1] and not be NaN: pass probabilities, not percentages.")
    return array


@overload
def kl_bernoulli(q: float, p: float) -> float: ...
@overload
def kl_bernoulli(q: FloatArray, p: FloatArray | float) -> FloatArray: ...
@overload
def kl_bernoulli(q: float, p: FloatArray) -> FloatArray: ...
def kl_bernoulli(q: FloatArray | float, p: FloatArray | float) -> FloatArray | float:
    """Return kl(q, p) = q ln(q/p) + (1-q) ln((1-q)/(1-p)), with 0 ln 0 = 0.

    It is infinite where p is 0 or 1 and q differs. Arrays broadcast; two scalars give a Python float.
    The relative error stays below 64 ulps, also for p next to q.

    >>> round(kl_bernoulli(0.5, 0.25), 12)  # ln(4/3) / 2
    0.143841036226
    >>> kl_bernoulli(0.0, 0.0), kl_bernoulli(0.5, 1.0)
    (0.0, inf)
    """
    q_array, p_array = np.broadcast_arrays(_probabilities(q, "q"), _probabilities(p, "p"))
    value = _kl(q_array, p_array)
    return float(value) if value.ndim == 0 else value


@overload
def kl_inverse(q: float, c: float) -> float: ...
@overload
def kl_inverse(q: FloatArray, c: FloatArray | float) -> FloatArray: ...
@overload
def kl_inverse(q: float, c: FloatArray) -> FloatArray: ...
def kl_inverse(q: FloatArray | float, c: FloatArray | float) -> FloatArray | float:
    """Return the largest p in [q, 1] with kl(q, p) <= c, rounded upward.

    The result is never below the exact inverse for the floats `q` and `c`, and above it by at most about
    1e-14 times its distance from q, plus the spacing of floats. Unless it is 1, it satisfies
    ``kl_bernoulli(q, result) >= c``. It equals q for c = 0 and 1 for c = inf; at q = 0 it is the closed
    form 1 - exp(-c). Arrays broadcast; two scalars give a Python float.

    The bracket starts from two lower bounds on kl(q, p) for p >= q: 2 (p-q)^2 (Pinsker) and
    (p-q)^2 / (2p) (its refined form, far better for small risks).

    >>> round(kl_inverse(0.0, 0.03), 9)  # 1 - exp(-0.03)
    0.029554466
    >>> kl_inverse(0.3, 0.0), kl_inverse(1.0, 0.1)
    (0.3, 1.0)
    """
    c_array = np.asarray(c, dtype=np.float64)
    if not np.all(c_array >= 0.0):
        raise TrueriskError("c must be at least 0 and not NaN: pass an upper bound on kl(q, p).")
    q_array, c_array = np.broadcast_arrays(_probabilities(q, "q"), c_array)
    value = np.where(q_array == 0.0, _inverse_at_zero(c_array), _bisect(q_array, c_array))
    value = np.where(c_array == 0.0, q_array, value)
    return float(value) if value.ndim == 0 else value


def kl_inverse_lower(q: float, c: float) -> float:
    """Return the smallest p in [0, q] with kl(q, p) <= c, rounded downward.

    kl(q, p) = kl(1-q, 1-p), so it is 1 minus the upper inverse at 1 - q; both subtractions are rounded outward.

    >>> round(kl_inverse_lower(1.0, 0.03), 9)  # exp(-0.03)
    0.970445534
    >>> kl_inverse_lower(0.0, 0.5)
    0.0
    """
    _probabilities(q, "q")
    return mirrored(kl_inverse(complement(float(q)), c)) if q > 0.0 else 0.0


def _inverse_at_zero(c: FloatArray) -> FloatArray:
    """Return 1 - exp(-c), lifted by the few ulps that `expm1` and a later check by `_kl` may be off."""
    value = -np.expm1(-c)
    for _ in range(4):
        value = np.nextafter(value, 1.0)
    return value


def _newton(q: FloatArray, target: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shrink the bracket [q, high] to a few floats, where possible.

    kl(q, .) is convex and grows on [q, 1], so Newton's steps from above stay above the root; a step that
    rounding takes below it is a lower end. Either way the bracket stays one.
    """
    low, value = q, _kl(q, high)
    for _ in range(_STEPS):
        with np.errstate(all="ignore"):  # nothing moves where high is 1 or equals q
            step = (value - target) * (high * (1.0 - high) / (high - q))
        middle = np.clip(np.where(np.isfinite(step), high - step, high), low, high)
        here = _kl(q, middle)
        above = here >= target
        low = np.where(above, low, middle)
        high, value = np.where(above, middle, high), np.where(above, here, value)
    for floats in (4.0, 64.0):
        below = np.maximum(low, high - floats * np.spacing(high))
        low = np.where(_kl(q, below) < target, below, low)
    return low, high


def _bisect(q: FloatArray, c: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):  # a huge target may overflow to infinity, which still gives 1
        target = np.maximum(c, _LEAST_TARGET) * _MARGIN
        # Both bounds solved for p - q; roots are taken one by one so that small products can't vanish.
        reach = np.minimum(np.sqrt(target / 2.0), target + np.sqrt(target) * np.sqrt(target + 2.0 * q))
        # The factor keeps the roundings of this line from mattering.
        high = np.minimum(1.0, np.nextafter(q + reach * (1.0 + 1e-9), 2.0))
    # From here on `high` is always a point whose divergence was computed and found large enough, or 1.
    high = np.where(_kl(q, high) >= target, high, 1.0)
    low, high = _newton(q, target, high)
    shape, high = high.shape, high.ravel()
    q, target, low = q.ravel(), target.ravel(), low.ravel()
    rows = np.arange(high.size)
    for _ in range(_HALVINGS):
        middle = low[rows] + (high[rows] - low[rows]) / 2.0
        inside = (middle > low[rows]) & (middle < high[rows])
        rows, middle = rows[inside], middle[inside]  # go on only where a float lies inside the bracket
        if not rows.size:
            break
        above = _kl(q[rows], middle) >= target[rows]
        high[rows[above]] = middle[above]
        low[rows[~above]] = middle[~above]
    return high.reshape(shape)
