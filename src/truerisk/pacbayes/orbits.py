r"""Integrals along the orbit of one hidden unit: one dimension, by quadrature.

A unit with incoming weights x in R^d (its bias included) and outgoing weights y in R^k computes the same function at
every point (e^s x, e^-s y) of its orbit. For a Gaussian density f the integral

    I_f(x, y) = integral of e^h(s) ds,    h(s) = log f(e^s x, e^-s y) + s (d - k)

has the log-integrand  h(s) = const + (d-k) s + b e^s - a e^(2s)/2 + g e^-s - c e^(-2s)/2:  six numbers for each unit,
point, and distribution. ``truerisk.pacbayes.lifted`` explains why this integral is the density of an orbit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DROP = 45.0  # nats below the maximum at which an integrand is nothing: e^-45 is 3e-20
HALVINGS = 48  # of brackets some ten units of s long: places are known to 1e-13
INTERVALS, DOUBLINGS = 64, 10  # of the first trapezoidal rule; it may be refined that often
SAME = 1e-8  # relative change by one more doubling; the error squares with each, so what is left is rounding


class Units(NamedTuple):
    """Independent Gaussian weights of hidden units: a row for each, ``fan_in`` incoming ones, then the outgoing."""

    mean: Array
    std: Array
    fan_in: int


def orbits(law: Units, weights: Array, squares: Array | None = None) -> Array:
    """(a, b, c, g, d - k, h(0)) on axis 0, for weights of shape (..., units, d + k), or for their two moments."""
    squares = np.square(weights) if squares is None else squares
    precision = law.std**-2
    tilt = law.mean * precision

    def weighted(values: Array, by: Array, part: slice) -> Array:
        return np.einsum("...uj,uj->...u", values[..., part], by[:, part])

    inward, outward, width = slice(law.fan_in), slice(law.fan_in, None), law.mean.shape[1]
    a, b = weighted(squares, precision, inward), weighted(weights, tilt, inward)
    c, g = weighted(squares, precision, outward), weighted(weights, tilt, outward)
    here = b + g - (a + c + (law.mean * tilt).sum(axis=1) + width * math.log(2 * math.pi)) / 2
    return np.stack(np.broadcast_arrays(a, b, c, g, float(2 * law.fan_in - width), here - np.log(law.std).sum(axis=1)))


def along(orbit: Array, s: Array | float) -> Array:
    """h(s) = log f(e^s x, e^-s y) + s (d - k), written so that little cancels near s = 0 even if a and b are huge."""
    a, b, c, g, n, here = orbit
    up, down = np.expm1(s), np.expm1(-s)
    return here + n * s + up * (b - a - a / 2 * up) + down * (g - c - c / 2 * down)


def stationary(orbit: Array) -> Array:
    """Four sorted places s, on a new axis 0, with all zeros of h' among them (there are one or three).

    With u = e^s, u^2 h' is the quartic c - g u + n u^2 + b u^3 - a u^4. It is monotone between the zeros of
    its derivative, and that one between the zeros of the second: two rounds of bisection miss no zero.
    Fujiwara's bound, for u and for 1/u, says how far to look. An interval without a zero gives one of its ends.
    """
    a, b, c, g, n, _ = orbit

    def bound(lead: Array, *others: Array) -> Array:
        return np.log(2 * np.max([np.abs(o / lead) ** (1 / k) for k, o in enumerate(others, 1)], axis=0))

    def zeros(polynomial: Callable[[Array], Array], between: Array) -> Array:
        ends = np.concatenate([low[None], between, high[None]])
        return _bisect(lambda s: polynomial(np.exp(s)), ends[:-1], ends[1:])

    low, high = -bound(c, g, n, b, a), bound(a, b, n, g, c)
    root = np.sqrt(np.maximum(9 * b * b + 24 * a * n, 0.0))
    inflections = np.log(np.clip(np.array([3 * b - root, 3 * b + root]) / (12 * a), *np.exp([low, high])))
    turns = zeros(lambda u: -g + u * (2 * n + u * (3 * b - 4 * a * u)), inflections)
    return zeros(lambda u: c + u * (-g + u * (n + u * (b - a * u))), turns)


def log_integral(orbit: Array) -> Array:
    """log of the integral of e^h(s) over all s, that is log I_f.

    One or two windows hold all that is within 45 nats of the maximum. At their ends the analytic integrand is
    next to nothing, so the trapezoidal rule converges geometrically (Trefethen and Weideman 2014).
    """
    flat = orbit.reshape(len(orbit), -1)
    places, columns = stationary(flat), np.arange(flat.shape[1])
    heights = along(flat, places)
    top = heights.max(axis=0)
    seen = heights > top - DROP
    first, last = places[seen.argmax(axis=0), columns], places[3 - seen[::-1].argmax(axis=0), columns]
    low, high = _outward(flat, top, first, -1.0), _outward(flat, top, last, 1.0)
    unseen = ~seen & (places > first) & (places < last)
    deep = np.flatnonzero(unseen.any(axis=0))  # a valley that deep: each mode gets a window of its own
    valley = places[unseen.argmax(axis=0), columns][deep]
    left, right = (_fall(flat[:, deep], top[deep], mode[deep], valley) for mode in (first, last))
    centre, end = places[heights.argmax(axis=0), columns], high.copy()
    centre[deep], end[deep] = first[deep], left
    mass = _trapezoid(flat, top, centre, low, end)
    mass[deep] += _trapezoid(flat[:, deep], top[deep], last[deep], right, high[deep])
    return (top + np.log(mass)).reshape(orbit.shape[1:])


def _outward(orbit: Array, top: Array, mode: Array, direction: float) -> Array:
    """Where h has fallen 45 nats below its maximum, from the outermost mode on one side."""
    far = mode + direction
    while (inside := along(orbit, far) > top - DROP).any():
        far = np.where(inside, 2 * far - mode, far)
    return _fall(orbit, top, mode, far)


def _fall(orbit: Array, top: Array, inside: Array, outside: Array) -> Array:
    return _bisect(lambda s: along(orbit, s) - top + DROP, inside, outside)


def _bisect(f: Callable[[Array], Array], start: Array, end: Array) -> Array:
    """Where ``f`` changes its sign between start and end, element by element; the end where it does not."""
    sign = f(start) > 0
    for _ in range(HALVINGS):
        middle = (start + end) / 2
        same = (f(middle) > 0) == sign
        start, end = np.where(same, middle, start), np.where(same, end, middle)
    return (start + end) / 2


def _trapezoid(orbit: Array, top: Array, mode: Array, low: Array, high: Array) -> Array:
    """The integral of e^(h - top) from low to high; intervals are halved wherever that still changes it."""
    a, b, c, g, n, _ = orbit
    u = np.exp(mode)
    # Six numbers at the mode, a point of the same orbit: there h is smooth in spite of rounding.
    orbit = np.stack([a * u * u, b * u, c / u / u, g / u, n, along(orbit, mode) - top])
    low, high = low - mode, high - mode
    value, todo, step = np.empty_like(low), np.arange(len(low)), (high - low) / INTERVALS
    old = step * _sum(orbit, low, step, INTERVALS)
    for doubling in range(DOUBLINGS):
        new = (old + step * _sum(orbit, low + step / 2, step, INTERVALS << doubling)) / 2
        value[todo] = new
        rough = np.abs(new - old) > SAME * new
        if not rough.any():
            return value
        todo, old, step = todo[rough], new[rough], step[rough] / 2
        orbit, low = orbit[:, rough], low[rough]
    raise ArithmeticError("an integral along an orbit did not converge.")


def _sum(orbit: Array, start: Array, step: Array, count: int) -> Array:
    """Sum of e^h at start, start + step, ...: node after node, so that memory does not grow with them."""
    total = np.zeros_like(start)
    for j in range(count):
        total += np.exp(along(orbit, start + j * step))
    return total
