r"""Minimizers of one-dimensional sums of exponentials, for many variables at once.

With all other variables fixed, or after majorization, F is a separate function of the step d of each variable,

    f(d) = n d + sum over q of w_q exp(-q d),

with few distinct exponents q, the same for all variables. Where the infimum is not attained, because nothing
pushes back against a step, the step is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from truerisk.symmetry.solver.edges import FloatArray

_NEWTON = 100
# Newton's method doubles its digits: after a step as small as this nothing is left to gain.
_LAST_STEP = 1e-9
_TANGENTS = 30

Weights = Mapping[float, FloatArray]  # exponent q -> w_q of each variable


def best_steps(slope: FloatArray, weights: Weights) -> FloatArray:
    """Return for each variable a step d with f(d) <= f(0): the minimizer wherever f is convex.

    Negative weights may make f not convex. With exponents +-1 and +-2 only, the step then leads to the best of
    all stationary points; otherwise to one that descent reaches.
    """
    weights = {q: w for q, w in weights.items() if w.any()}
    if all((w >= 0.0).all() for w in weights.values()):
        return _convex(slope, weights)
    if set(weights) <= {1.0, -1.0, 2.0, -2.0}:
        return _quartic(slope, weights)
    return _tangents(slope, weights)


def change(slope: FloatArray, weights: Weights, d: FloatArray) -> FloatArray:
    """Return f(d) - f(0)."""
    value = slope * d
    for q, w in weights.items():
        value += w * np.expm1(-q * d)
    return value


def _convex(slope: FloatArray, weights: Weights) -> FloatArray:
    sizes = {abs(q) for q in weights}
    if not sizes:
        return np.zeros_like(slope)
    if len(sizes) > 1:
        return _newton(slope, weights)
    q, none = sizes.pop(), np.zeros_like(slope)
    return _quadratic(slope, q * weights.get(q, none), q * weights.get(-q, none)) / q


def _quadratic(n: FloatArray, p: FloatArray, m: FloatArray) -> FloatArray:
    """Solve  n - p/x + m x = 0  with p, m >= 0 and return ln x; each form of the root is free of cancellation."""
    root = np.hypot(n, 2.0 * np.sqrt(p) * np.sqrt(m))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(n >= 0.0, np.log(2.0 * p / (n + root)), np.log((root - n) / (2.0 * m)))
    return np.where(np.isfinite(step), step, 0.0)


def _newton(slope: FloatArray, weights: Weights) -> FloatArray:
    """Find the root of f' for nonnegative weights.

    f'(d) = 0 says that a sum of falling exponentials equals a sum of rising ones, where |slope| joins the side
    that its sign says. The difference of the logarithms of both falls with a slope between the least |q|
    and twice the largest, so Newton's steps can neither run away nor get stuck; a bracket guards them.
    """
    sides, solvable = [], np.ones(len(slope), bool)
    for sign in (1.0, -1.0):
        own = {sign * q: w for q, w in weights.items() if sign * q > 0.0}
        values = [q * w for q, w in own.items()] + [np.maximum(-sign * slope, 0.0)]
        with np.errstate(divide="ignore"):
            logs = np.log(np.stack(values))
        sides.append((np.array([-sign * q for q in own] + [0.0]), logs))
        solvable &= np.isfinite(logs).any(0)
    sides = [(q, logs[:, solvable]) for q, logs in sides]
    d = np.zeros(int(solvable.sum()))
    low, high = np.full_like(d, -np.inf), np.full_like(d, np.inf)
    for _ in range(_NEWTON):
        (fall, fall_slope), (rise, rise_slope) = (_log_sum(q, logs, d) for q, logs in sides)
        gap = fall - rise
        low, high = np.where(gap >= 0.0, d, low), np.where(gap <= 0.0, d, high)
        new = d + gap / (rise_slope - fall_slope)
        outside = (new < low) | (new > high)
        new[outside] = 0.5 * (low + high)[outside]
        moved, d = np.abs(new - d), new
        if (moved <= _LAST_STEP).all():
            break
    step = np.zeros_like(slope)
    step[solvable] = d
    return step


def _log_sum(q: FloatArray, logs: FloatArray, d: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln sum_k exp(logs_k + q_k d) and its derivative in d."""
    terms = logs + q[:, None] * d
    top = terms.max(0)
    scaled = np.exp(terms - top)
    total = scaled.sum(0)
    return top + np.log(total), (q @ scaled) / total


def _quartic(slope: FloatArray, weights: Weights) -> FloatArray:
    """Return the best of d = 0 and of all stationary points, for exponents +-1 and +-2 with w_2, w_-2 >= 0.

    f'(d) = 0 is a quartic in x = exp(d),  2 w_-2 x^4 + w_-1 x^3 + n x^2 - w_1 x - 2 w_2 = 0,  whose roots are
    eigenvalues of its companion matrix. Two Newton steps refine them. As f decides between them in the end, only
    the quality of the step depends on their accuracy.
    """
    p2, p1, m1, m2 = (weights.get(q, np.zeros_like(slope)) for q in (2.0, 1.0, -1.0, -2.0))
    best, gain = np.zeros_like(slope), np.zeros_like(slope)
    with np.errstate(all="ignore"):  # roots that are no candidates become NaN, and lose every comparison
        flip = m2 == 0.0  # then x -> 1/x moves the vanishing coefficient to the other end
        lead, third, second, last = (np.where(flip, a, b) for a, b in ((p2, m2), (p1, m1), (m1, p1), (m2, p2)))
        # Shifting d makes the outer coefficients equal, which keeps the eigenvalues accurate.
        centre = 0.25 * np.log(last / lead)
        centre = np.where(np.isfinite(centre), centre, 0.0)
        lead = 2.0 * lead * np.exp(2.0 * centre)
        rest = [third * np.exp(centre), np.where(flip, -slope, slope), -second * np.exp(-centre)]
        rest.append(-2.0 * last * np.exp(-2.0 * centre))
        for root in _roots(np.stack(rest) / lead):
            # A double root comes as a pair that rounding moves off the real line; a wrong candidate does no harm.
            d = np.log(np.where(np.abs(root.imag) <= 1e-3 * root.real, root.real, np.nan)) + centre
            d = np.where(flip, -d, d)
            for _ in range(2):
                d = d - _slope_over_curvature(slope, weights, d)
            value = change(slope, weights, d)
            better = value < gain
            best, gain = np.where(better, d, best), np.where(better, value, gain)
    return best


def _roots(coefficients: FloatArray) -> FloatArray:
    """Roots of x^4 + c_0 x^3 + c_1 x^2 + c_2 x + c_3 for each column; NaN where a coefficient is not finite."""
    usable = np.isfinite(coefficients).all(0)
    companion = np.zeros((coefficients.shape[1], 4, 4))
    companion[usable, 0, :] = -coefficients[:, usable].T
    companion[:, [1, 2, 3], [0, 1, 2]] = 1.0
    return np.where(usable, np.linalg.eigvals(companion).T, np.nan)


def _slope_over_curvature(slope: FloatArray, weights: Weights, d: FloatArray) -> FloatArray:
    first = slope - sum(q * w * np.exp(-q * d) for q, w in weights.items())
    second = sum(q * q * w * np.exp(-q * d) for q, w in weights.items())
    return np.where(second > 0.0, first / second, 0.0)


def _tangents(slope: FloatArray, weights: Weights) -> FloatArray:
    """Descend by replacing the concave terms, those with negative weights, by their tangents at the last step."""
    convex = {q: np.maximum(w, 0.0) for q, w in weights.items() if (w > 0.0).any()}
    concave = {q: np.minimum(w, 0.0) for q, w in weights.items()}
    d = np.zeros_like(slope)
    for _ in range(_TANGENTS):
        linear = slope - sum(q * w * np.exp(-q * d) for q, w in concave.items())
        new = _convex(linear, convex)
        # Where nothing bounds the tangent problem, `_convex` says 0; then the last step stays.
        new = np.where(change(slope, weights, new) < change(slope, weights, d), new, d)
        moved, d = np.abs(new - d), new
        if (moved <= _LAST_STEP).all():
            break
    return d
