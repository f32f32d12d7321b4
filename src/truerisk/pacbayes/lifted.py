r"""The exact KL between the lifts of two Gaussians over a network with one hidden layer.

A hidden unit with positively homogeneous activation, incoming weights x in R^d (its bias included) and
outgoing weights y in R^k computes the same function at every point (e^s x, e^-s y) of its orbit. A lift
(path products with signs) is constant on orbits and tells them apart, so KL(lift Q, lift P) compares the
laws of the orbit alone; it is the least of the chain

    KL(lift Q, lift P) <= inf over rescalings of KL(Q, rescaled P) <= KL(Q, P)

(Rouchouse, Gonon, Gribonval and Guedj, arXiv 2509.26149; the first inequality is data processing).

*Density of an orbit.* Name orbits by a cross-section z and points by (z, s). The step s multiplies volumes
by e^(sd) e^(-sk), so dx dy = e^(s(d-k)) J(z) dz ds with the same J for Q and P, which cancels:

    log of lift Q : lift P at the orbit of (x, y)  =  log I_q(x, y) - log I_p(x, y),
    I_f(x, y) = integral of f(e^s x, e^-s y) e^(s(d-k)) ds.

Units are independent under factorised Q and P, so the KL is the sum over units of its mean under Q, plus
the plain KL of weights that no rescaling moves (output biases). For Gaussians the log-integrand is

    h(s) = const + (d-k) s + b e^s - a e^(2s)/2 + g e^-s - c e^(-2s)/2,

six numbers for each unit, point and distribution. Permutations of units are symmetries too; they are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from truerisk import progress
from truerisk.errors import TrueriskError
from truerisk.pacbayes.gaussian import Gaussian
from truerisk.seeds import derive

Array = NDArray[np.float64]

DROP = 45.0  # nats below the maximum at which an integrand is nothing: e^-45 is 3e-20
HALVINGS = 48  # of brackets some ten units of s long: places are known to 1e-13
INTERVALS, DOUBLINGS = 64, 10  # of the first trapezoidal rule; it may be refined that often
SAME = 1e-8  # relative change by one more doubling; the error squares with each, so what is left is rounding
CHUNK_NUMBERS = 2_000_000  # drawn weights held at once (16 MB), and
CHUNK_ORBITS = 20_000  # orbits integrated at once
KNOWN = [[nn.Linear, nn.ReLU, nn.Linear], [nn.Linear, nn.LeakyReLU, nn.Linear]]
INERT = (nn.Flatten, nn.Dropout, nn.Identity)  # nothing to draw, and a positive factor passes through them


@dataclass(frozen=True)
class LiftedKL:
    """KL(lift Q, lift P) in nats: a Monte Carlo mean, so a scientific figure and no part of a certificate.

    A certificate would have to bound the Monte Carlo error as well; ``standard_error`` only describes it.
    """

    value: float
    standard_error: float
    draws: int
    per_unit: Array = field(compare=False, repr=False)  # each unit's part of ``value``
    rescaled: float  # the least KL(Q, rescaled P): the next member of the chain


class Units(NamedTuple):
    """Independent Gaussian weights of hidden units: a row for each, ``fan_in`` incoming ones, then the outgoing."""

    mean: Array
    std: Array
    fan_in: int


def lifted_kl(posterior: Gaussian, prior: Gaussian, draws: int = 1000, seed: int = 0) -> LiftedKL:
    """KL(lift posterior, lift prior) for an nn.Sequential of Linear, ReLU or LeakyReLU, Linear.

    Rescaling P leaves the lifted KL as it is, so P is replaced by its best rescaling. E_Q log q/p = KL(Q, P) is
    known then, and only the rest is averaged over draws from Q: log I_q/q - log I_p/p, in most cases about one
    nat for each unit, however large the KL is.

    >>> net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False))
    >>> q, p = Gaussian.zero(net, {"0.weight": 9.0, "2.weight": 1.0}), Gaussian.zero(net, 3.0)
    >>> q.kl(p) > 3  # and yet the product of the two weights has the same law
    True
    >>> abs(lifted_kl(q, p, draws=10).value) < 1e-9
    True
    """
    if draws < 2:
        raise TrueriskError("a Monte Carlo mean with a standard error needs at least two draws.")
    original = posterior.kl(prior)  # also refuses distributions that have no KL
    q = hidden_units(posterior)
    shift, per_unit = best_shift(q, hidden_units(prior))
    nearest = _rescaled(prior, np.exp(-shift))
    rescaled, p = min(original, posterior.kl(nearest)), hidden_units(nearest)
    totals, done = np.empty(draws), 0
    with progress.bar("integrating along orbits", total=draws) as advance:
        for weights in _draw(q, draws, derive(seed, "lifted KL")):
            mine, theirs = orbits(q, weights), orbits(p, weights)
            rest = (log_integral(mine) - mine[-1]) - (log_integral(theirs) - theirs[-1])
            totals[done : done + len(rest)] = rest.sum(axis=1)
            per_unit = per_unit + rest.sum(axis=0) / draws
            done += len(rest)
            advance(len(rest))
    error = float(totals.std(ddof=1)) / math.sqrt(draws)
    return LiftedKL(rescaled + float(totals.mean()), error, draws, per_unit, rescaled)


def best_shift(q: Units, p: Units) -> tuple[Array, Array]:
    """For each unit the t with the least KL(Q, P_t), and that KL; P_t is the law of (e^-t x, e^t y) under P.

    log p_t(x, y) = h_p(t), and h is linear in its six numbers. So the best t is where the h of their
    expectations under Q is greatest: one of at most three roots, and a global optimum whatever the prior's mean.
    """
    second = np.square(q.mean) + np.square(q.std)
    expected = orbits(p, q.mean, second)
    places = stationary(expected)
    best = np.take_along_axis(places, along(expected, places).argmax(axis=0)[None], axis=0)[0]
    return best, orbits(q, q.mean, second)[-1] - along(expected, best)


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


def _draw(law: Units, draws: int, seed: int) -> Iterator[Array]:
    """Weights of shape (some draws, units, d + k), ``draws`` in all; the chunks do not change them."""
    generator = np.random.Generator(np.random.SFC64(seed))
    units, width = law.mean.shape
    chunk = max(1, min(CHUNK_NUMBERS // (units * width), CHUNK_ORBITS // units))
    for start in range(0, draws, chunk):
        yield law.mean + law.std * generator.standard_normal((min(chunk, draws - start), units, width))


def hidden_units(gaussian: Gaussian) -> Units:
    """The law of the hidden units' weights, or a refusal if the network is not of the kind that is known here."""
    incoming, outgoing = _moved(gaussian)

    def rows(moments: dict[str, Tensor]) -> Array:
        columns = [moments[name].reshape(len(moments[name]), -1) for name in incoming]
        return torch.cat([*columns, moments[outgoing].T], dim=1).cpu().numpy()

    fan_in = sum(gaussian.mean[name][0].numel() for name in incoming)
    return Units(rows(gaussian.mean), rows(gaussian.std), fan_in)


def _rescaled(gaussian: Gaussian, factor: Array) -> Gaussian:
    """The law of the weights after each unit's incoming ones are multiplied by its factor, outgoing ones divided."""
    incoming, outgoing = _moved(gaussian)
    by = torch.from_numpy(factor).to(gaussian.mean[outgoing].device)
    scale = {name: by.reshape(-1, *[1] * (gaussian.mean[name].ndim - 1)) for name in incoming} | {outgoing: 1 / by}
    mean, std = ({n: t * scale.get(n, 1.0) for n, t in m.items()} for m in (gaussian.mean, gaussian.std))
    return Gaussian(gaussian.module, mean, std)


def _moved(gaussian: Gaussian) -> tuple[list[str], str]:
    """Names of the parameters that rescaling moves: incoming weights (and biases) of the units, outgoing weights."""
    module = gaussian.module
    layers = list(_layers(module))
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
    if [type(layer) for layer in layers] not in KNOWN or layers[0].out_features != layers[2].in_features or hooked:
        raise TrueriskError(
            "the lifted KL is computed for networks with one hidden layer only: give an nn.Sequential of Linear, ReLU "
            "or LeakyReLU, Linear."
        )
    names = {id(p): name for name, p in module.named_parameters()}
    shared = len(names) < len(list(module.named_parameters(remove_duplicate=False)))
    parameters = [p for p in (layers[0].weight, layers[0].bias, layers[2].weight) if p is not None]
    moved = [names.get(id(p), "") for p in parameters]
    if shared or not set(moved) <= gaussian.mean.keys():
        raise TrueriskError(
            "rescaling a hidden unit would move weights that are frozen or used twice; make the weights of both layers "
            "and the hidden biases trainable and separate."
        )
    return moved[:-1], moved[-1]


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """All layers in the order in which they run, without those that do nothing here."""
    if type(module) is nn.Sequential:
        for child in module:
            yield from _layers(child)
    elif type(module) not in INERT:
        yield module
