r"""Minimizers of one-dimensional sums of exponentials, for many variables at once.

With all other variables fixed, or after majorization, F is a separate function of the step d of each variable,

    f(d) = n d + sum over q of w_q exp(-q d),

with few distinct exponents q, the same for all variables. Where the infimum is not attained (nothing pushes back
against a step) the step is 0.
"""

from __future__ import annotations

import numpy as np

from truerisk.symmetry.edges import FloatArray

_NEWTON = 100  # a bracket that halves 100 times has no float left inside
_TANGENTS = 30


def best_steps(slope: FloatArray, weights: dict[float, FloatArray]) -> FloatArray:
    """Return for each variable a step d with f(d) <= f(0): the minimizer wherever f is convex.

    Where weights are negative, f is not convex. For exponents +-1 and +-2 it is the best of all stationary
    points; for others a local minimum.
    """
    weights = {q: w for q, w in weights.items() if w.any()}
    if all((w >= 0.0).all() for w in weights.values()):
        return _convex(slope, weights)
    if set(weights) <= {1.0, -1.0, 2.0, -2.0}:
        return _quartic(slope, *(weights.get(q, np.zeros_like(slope)) for q in (2.0, 1.0, -1.0, -2.0)))
    return _tangents(slope, weights)


def change(slope: FloatArray, weights: dict[float, FloatArray], d: FloatArray) -> FloatArray:
    """Return f(d) - f(0); NaN or infinite where that overflows."""
    value = slope * d
    with np.errstate(over="ignore", invalid="ignore"):
        for q, w in weights.items():
            value += w * np.expm1(-q * d)
    return value


def _convex(slope: FloatArray, weights: dict[float, FloatArray]) -> FloatArray:
    sizes = {abs(q) for q in weights}
    if len(sizes) == 1:
        q = sizes.pop()
        none = np.zeros_like(slope)
        return _quadratic(slope, q * weights.get(q, none), q * weights.get(-q, none)) / q
    return _newton(slope, weights) if sizes else np.zeros_like(slope)


def _quadratic(n: FloatArray, p: FloatArray, m: FloatArray) -> FloatArray:
    """Solve  n - p/x + m x = 0, p and m >= 0,  and return ln x; the form of the root avoids cancellation."""
    root = np.hypot(n, 2.0 * np.sqrt(p) * np.sqrt(m))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(n >= 0.0, np.log(2.0 * p / (n + root)), np.log((root - n) / (2.0 * m)))
    return np.where(np.isfinite(step), step, 0.0)


def _newton(slope: FloatArray, weights: dict[float, FloatArray]) -> FloatArray:
    """Find the root of f' for nonnegative weights.

    f'(d) = 0 says that a sum of decreasing exponentials equals a sum of increasing ones; the constant `slope` is
    added to the side where it is positive. In logarithms their difference falls with a slope between the
    least |q| and twice the largest, so Newton's steps can neither run away nor get stuck.
    """
    exponents = np.array(sorted(weights))
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(exponents)[:, None] * np.stack([weights[q] for q in exponents]))
        constants = np.log(np.stack([np.maximum(-slope, 0.0), np.maximum(slope, 0.0)]))
    sides = [
        (np.append(sign * exponents[chosen], 0.0), np.vstack([logs[chosen], constants[k]]))
        for k, (sign, chosen) in enumerate(((1.0, exponents > 0), (-1.0, exponents < 0)))
    ]
    free = np.all([np.isfinite(terms).any(0) for _, terms in sides], axis=0) & np.isfinite(logs).any(0)
    step, low, high = np.zeros_like(slope), np.full_like(slope, -np.inf), np.full_like(slope, np.inf)
    sides = [(q, terms[:, free]) for q, terms in sides]
    d, low, high = step[free], low[free], high[free]
    for _ in range(_NEWTON):
        (down, fall), (up, rise) = (_log_sum(q, terms, sign * d) for (q, terms), sign in zip(sides, (-1, 1), strict=True))
        gap = down - up
        low, high = np.where(gap >= 0.0, d, low), np.where(gap <= 0.0, d, high)
        new = d + gap / (fall + rise)
        inside = (new >= low) & (new <= high)
        with np.errstate(invalid="ignore"):
            new = np.where(inside, new, 0.5 * (low + high))
        if np.all(np.abs(new - d) <= 4e-16 * np.maximum(1.0, np.abs(d))):
            break
        d = new
    step[free] = d
    return step


def _log_sum(q: FloatArray, logs: FloatArray, d: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln sum_k exp(logs_k + q_k d) and its derivative in d."""
    terms = logs + q[:, None] * d
    top = terms.max(0)
    scaled = np.exp(terms - top)
    total = scaled.sum(0)
    return top + np.log(total), (q @ scaled) / total


def _quartic(n: FloatArray, p2: FloatArray, p1: FloatArray, m1: FloatArray, m2: FloatArray) -> FloatArray:
    """Minimize  n d + p2 exp(-2d) + p1 exp(-d) + m1 exp(d) + m2 exp(2d)  with p2, m2 >= 0, other signs free.

    f'(d) = 0 is a quartic in x = exp(d):  2 m2 x^4 + m1 x^3 + n x^2 - p1 x - 2 p2 = 0. All its roots are
    eigenvalues of a companion matrix. Real positive ones get two Newton steps, and the best of them and of
    d = 0 is taken, so nothing depends on their accuracy but the quality of the step.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = 0.25 * np.log(p2 / m2)
    # Shifting d balances the outer coefficients, which keeps the eigenvalues accurate.
    centre = np.where(np.isfinite(centre), centre, 0.0)
    scaled = [w * np.exp(k * centre) for w, k in ((m2, 2), (m1, 1), (p1, -1), (p2, -2))]
    polynomial = np.stack([2.0 * scaled[0], scaled[1], n, -scaled[2], -2.0 * scaled[3]])
    # A vanishing leading coefficient sends one root to infinity; a tiny one sends it far away.
    polynomial[0] = np.maximum(polynomial[0], 1e-30 * np.abs(polynomial).max(0))
    usable = polynomial[0] > 0.0
    companion = np.zeros((len(n), 4, 4))
    companion[:, 0, :] = (-polynomial[1:] / np.where(usable, polynomial[0], 1.0)).T
    companion[:, [1, 2, 3], [0, 1, 2]] = 1.0
    roots = np.linalg.eigvals(companion).T
    best, gain = np.zeros_like(n), np.zeros_like(n)
    weights = {2.0: p2, 1.0: p1, -1.0: m1, -2.0: m2}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for root in roots:
            # Double roots come as pairs that rounding moves off the real line; trying too many does no harm.
            d = np.log(np.where(usable & (np.abs(root.imag) <= 1e-3 * root.real), root.real, np.nan)) + centre
            for _ in range(2):
                first = n - sum(q * w * np.exp(-q * d) for q, w in weights.items())
                second = sum(q * q * w * np.exp(-q * d) for q, w in weights.items())
                d = d - np.where(second > 0.0, first / second, 0.0)
            value = change(n, weights, d)
            better = np.isfinite(d) & (value < gain)
            best, gain = np.where(better, d, best), np.where(better, value, gain)
    return best


def _tangents(slope: FloatArray, weights: dict[float, FloatArray]) -> FloatArray:
    """Descend by replacing the concave terms, those with negative weights, by their tangents at the last step."""
    convex = {q: np.maximum(w, 0.0) for q, w in weights.items()}
    concave = {q: np.minimum(w, 0.0) for q, w in weights.items()}
    d = np.zeros_like(slope)
    for _ in range(_TANGENTS):
        linear = slope - sum(q * w * np.exp(-q * d) for q, w in concave.items())
        new = _convex(linear, {q: w for q, w in convex.items() if w.any()})
        # Where nothing holds the tangent problem back, `_convex` says 0 and the last step stays.
        new = np.where(change(slope, weights, new) < change(slope, weights, d), new, d)
        if np.all(np.abs(new - d) <= 1e-12):
            break
        d = new
    return d
