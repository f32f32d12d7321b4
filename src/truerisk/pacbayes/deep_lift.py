r"""The lifted KL of a network with several hidden layers: an estimate between two ends.

The density of an orbit is an integral over one log factor u_i for each hidden unit (see ``couplings``),

    I_f(w) = integral of e^-F(u) du,    KL(lift Q, lift P) = E_Q[log I_q - log I_p].

*Estimate.* For each w drawn from Q both integrals are estimated by importance sampling. Points come from a mixture:
nine of ten from the Gaussian that fits F at its mode (Laplace), one of ten from a t-distribution around it, whose tails
bound the importance weights. Each unit sums many weights, so F is close to quadratic and few points do.

*Upper end.* By Jensen's inequality the mean of log (estimate of I) is at most log I. For P this errs towards a large
KL. For Q, w itself is an exact draw from e^-F / I_q along its orbit: with this point in place of one of the others
the estimate Z obeys E[1/Z] = 1/I_q, so the mean of log Z is at least log I_q (Grosse, Ghahramani and Adams 2015,
arXiv 1511.02543: bidirectional Monte Carlo). This needs points that depend on the orbit alone, not on w's place on it;
so Newton's method starts from the unique minimum of a convex function of the orbit.

*Lower end.* Log I_q by importance sampling (errs low), log I_p from above: for P around 0, F is convex, so e^-F
integrated over one hidden layer is log-concave in the others (Prekopa), and its logarithm lies below each of its
tangents. Start at a hidden layer, integrate it by quadrature, put the tangent in its place: the layers next to it
separate into units with integrals in closed form (gamma functions). Go on to the first and the last hidden layer.
Each start gives a bound, and the least counts. What is lost is the curvature that integrated layers add to their
neighbors, about log(1 + fan-out/fan-in)/2 for each unit below the start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from truerisk import progress
from truerisk.pacbayes.couplings import Couplings, Dense, definite, mode
from truerisk.pacbayes.orbits import Array, log_integral
from truerisk.seeds import derive

POINTS = 256  # for each integral
TAIL, FREEDOM = 0.1, 3  # the share of points from the t-distribution, and its degrees of freedom
ROUNDS = 10  # places of tangents that the lower end may try
CHUNK_NUMBERS = 2_000_000  # held at once in one array (16 MB)


class Terms(NamedTuple):
    """For each draw: KL(lift Q, lift P) - KL(Q, P) is the mean of ``value``, at most that of ``upper``, at least that
    of ``lower`` (None where the prior is not centered at 0). ``effective``: points that count, of ``POINTS``."""

    value: Array
    upper: Array
    lower: Array | None
    effective: Array


class Sampled(NamedTuple):
    """log I_f/f(w): corrected for bias to first order, biased low, and with w itself among the points, biased high."""

    value: Array
    low: Array
    high: Array
    effective: Array
    mean: Array  # of u along the orbit, estimated


def best_log_factors(q: list[Dense], p: list[Dense]) -> Array:
    """Log factors u with a small KL(Q, P_u), the smallest for a prior around 0; P_u: weights of P times e^(u_j - u_i).

    log p_u(w) is minus the F of p at u, which is linear in A and B. So their expectations under Q replace A and B.
    """
    second = [np.square(layer.mean) + np.square(layer.std) for layer in q]
    return _mode(p, [layer.mean for layer in q], second)


def lift_terms(q: list[Dense], p: list[Dense], draws: int, seed: int) -> Terms:
    """Draw weights from ``q`` and estimate both integrals for each; ``p`` should be rescaled to be near ``q``."""
    centered = not any(layer.mean.any() for layer in p)
    parts = []
    with progress.bar("integrating along orbits", total=draws) as advance:
        for weights, points in _draw(q, draws, seed):
            mine, theirs = (_sampled(law, weights, points) for law in (q, p))
            ceiling = log_ceiling(Couplings.of(p, weights), theirs.mean) if centered else theirs.value
            effective = np.minimum(mine.effective, theirs.effective)
            parts.append((mine.value - theirs.value, mine.high - theirs.low, mine.low - ceiling, effective))
            advance(len(effective))
    value, upper, lower, effective = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Terms(value, upper, lower if centered else None, effective)


def _sampled(law: list[Dense], weights: list[Array], points: Array) -> Sampled:
    """Importance sampling with points around the mode; ``points`` are these in standard units."""
    here = Couplings.of(law, weights)
    top = _mode(law, weights)
    there = here.moved(top)
    _, hessian, safe = there.slopes()
    root = np.linalg.cholesky(definite(hessian, safe))
    # Row vectors: offsets u = z root^-1 have the precision root root^T. The last point is w itself.
    offsets = np.swapaxes(np.linalg.solve(np.swapaxes(root, -1, -2), np.swapaxes(points, -1, -2)), -1, -2)
    offsets = np.concatenate([offsets, -top[:, None]], axis=1)
    z = np.concatenate([points, -top[:, None] @ root], axis=1)
    volume = np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(-1)
    heights = -there.rise(offsets) - _log_mixture(z) - volume[:, None]
    height = -here.rise(top[:, None])[:, 0]  # of the mode over w
    logs, itself = heights[:, :-1], heights[:, -1:]
    count = logs.shape[1]
    low = height + logsumexp(logs, axis=1) - math.log(count)
    high = height + logsumexp(np.concatenate([logs[:, 1:], itself], axis=1), axis=1) - math.log(count)
    shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    effective = 1 / np.square(shares).sum(axis=1)
    mean = top + (shares[..., None] * offsets[:, :-1]).sum(axis=1)
    return Sampled(low + (1 / effective - 1 / count) / 2, low, high, effective, mean)


def _mode(law: list[Dense], weights: list[Array], squares: list[Array] | None = None) -> Array:
    """The mode of e^-F that Newton's method finds from the mode for a law around 0 with the same second moments."""
    around_zero = [Dense(np.zeros_like(m), np.hypot(m, s), biased) for m, s, biased in law]
    start = mode(Couplings.of(around_zero, weights, squares))
    if not any(layer.mean.any() for layer in law):
        return start
    return start + mode(Couplings.of(law, weights, squares).moved(start))


def _log_mixture(z: Array) -> Array:
    """The log-density of the points in standard units, (..., units)."""
    k, square = z.shape[-1], np.square(z).sum(axis=-1)
    normal = -square / 2 - k / 2 * math.log(2 * math.pi)
    norming = gammaln((FREEDOM + k) / 2) - gammaln(FREEDOM / 2) - k / 2 * math.log(FREEDOM * math.pi)
    tail = norming - (FREEDOM + k) / 2 * np.log1p(square / FREEDOM)
    return np.logaddexp(normal + math.log1p(-TAIL), tail + math.log(TAIL))


def _draw(law: list[Dense], draws: int, seed: int) -> Iterator[tuple[list[Array], Array]]:
    """Weights of all layers and points of the mixture for some draws, ``draws`` in all; chunks do not change them."""
    weights, points, tails = (
        np.random.Generator(np.random.SFC64(derive(seed, f"lifted KL: {part}")))
        for part in ("weights", "points", "tails")
    )
    units, size = sum(len(layer.mean) for layer in law[:-1]), sum(layer.mean.size for layer in law)
    chunk = max(1, CHUNK_NUMBERS // max(size, units * units, POINTS * units))
    for start in range(0, draws, chunk):
        count = min(chunk, draws - start)
        flat = np.split(weights.standard_normal((count, size)), np.cumsum([m.mean.size for m in law])[:-1], axis=1)
        drawn = [m.mean + m.std * z.reshape(count, *m.mean.shape) for m, z in zip(law, flat, strict=True)]
        yield drawn, _mixture(points, tails, (count, POINTS, units))


def _mixture(normals: np.random.Generator, uniform: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Independent points in standard units: normal ones, and some divided by the root of a chi-square variable."""
    draws, count, units = shape
    z = normals.standard_normal((draws, count, units + FREEDOM))
    chi = np.square(z[..., units:]).sum(axis=-1)
    stretch = np.where(uniform.random((draws, count)) < TAIL, np.sqrt(FREEDOM / chi), 1.0)
    return np.asarray(z[..., :units] * stretch[..., None])


def log_ceiling(here: Couplings, tangent: Array) -> Array:
    """An upper bound of log I_f/f(w) for a law around 0, by tangents at the log factors ``tangent``: the least bound.

    Tangents at any place give a bound, but not always a finite one. It is finite where the bound's own integrand has
    its maximum; Newton's method, with the Hessian of F, goes there if need be.
    """
    best, places = np.full(tangent.shape[:-1], np.inf), [tangent] * len(here.into)
    for _ in range(ROUNDS):
        moves = []
        for start, place in enumerate(places):
            there = here.moved(place)
            bound, slope = _from_start(there, start)
            best = np.minimum(best, bound - here.rise(place[..., None, :])[..., 0])
            moves.append((there, slope))
        if np.isfinite(best).all():
            break
        steps = [np.linalg.solve(there.slopes()[1], slope[..., None])[..., 0] for there, slope in moves]
        places = [place - step for place, step in zip(places, steps, strict=True)]
    return best


def _from_start(there: Couplings, start: int) -> tuple[Array, Array]:
    """A bound of the log of the integral of e^(F(0) - F(u)) that integrates this hidden layer first.

    Also minus the slope of the bound's log-integrand at 0, but for the layer that is integrated first.
    """
    excess = np.split(there.excess, np.cumsum(there.sizes)[:-1])
    between = [edges.a for edges in there.between]
    enter = [there.into[0].a, *(e.a + a.sum(-1) for e, a in zip(there.into[1:], between, strict=True))]
    leave = [*(a.sum(-2) for a in between), there.out.a]
    squares = sum(edges.a.sum(-1) for edges in (*there.into, there.out)) + sum(a.sum((-2, -1)) for a in between)
    total, up, down = _both_sides(enter[start], leave[start], excess[start])
    bound, slope = squares / 2 + total, [np.zeros_like(a) for a in enter]
    for layer in range(start - 1, -1, -1):  # the tangent of the layer above is linear in u: it adds to n
        power = excess[layer] + (between[layer] * up[..., :, None]).sum(-2)
        bound, slope[layer] = bound + _one_side(enter[layer], power), enter[layer] - power
        up = np.maximum(power, 0.0) / enter[layer]
    for layer in range(start + 1, len(enter)):
        power = -excess[layer] + (between[layer - 1] * down[..., None, :]).sum(-1)
        bound, slope[layer] = bound + _one_side(leave[layer], power), power - leave[layer]
        down = np.maximum(power, 0.0) / leave[layer]
    return bound, np.concatenate(slope, axis=-1)


def _both_sides(a: Array, c: Array, n: Array) -> tuple[Array, Array, Array]:
    """Sum of logs of the integrals of exp(-a/2 e^(2s) - c/2 e^(-2s) + n s), and the means of e^(2s) and e^(-2s)."""
    zero = np.zeros_like(a)

    def log_mass(power: Array) -> Array:
        return log_integral(np.stack(np.broadcast_arrays(a, zero, c, zero, power, -(a + c) / 2)))

    middle = log_mass(n)
    return middle.sum(-1), np.exp(log_mass(n + 2) - middle), np.exp(log_mass(n - 2) - middle)


def _one_side(a: Array, power: Array) -> Array:
    """Sum of logs of the integrals of exp(-a/2 e^(2s) + power s); infinite unless all powers are positive."""
    fine = power > 0
    half = np.where(fine, power, 1.0) / 2
    logs = gammaln(half) - half * np.log(a / 2) - math.log(2)
    return np.where(fine.all(-1), logs.sum(-1), np.inf)
