r"""The KL between the lifts of two Gaussians over the weights of a network.

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

With one hidden layer the units are independent under factorized Q and P. So the KL is the sum over units of its mean
under Q, plus the plain KL of weights that no rescaling moves (output biases), and each integral has one dimension
(``orbits``). With several hidden layers the integral is over the log factors of all units at once (``deep_lift``).
Permutations of units are symmetries too; they are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from truerisk import progress
from truerisk.errors import TrueriskError
from truerisk.pacbayes.couplings import Dense
from truerisk.pacbayes.deep_lift import POINTS, best_log_factors, lift_terms
from truerisk.pacbayes.dense import Layer, NoLift, dense_layers
from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.orbits import Array, Units, along, log_integral, orbits, stationary
from truerisk.seeds import derive

BEYOND = "an integral along an orbit leaves the range of floats; give a posterior and a prior of similar scales."
CHUNK_NUMBERS = 2_000_000  # drawn weights held at once (16 MB), and
CHUNK_ORBITS = 20_000  # orbits integrated at once
ERRORS = 3.0  # standard errors from a mean to the end that is shown: normal confidence 99.87% for each end


@dataclass(frozen=True)
class LiftedKL:
    """KL(lift Q, lift P) in nats: a Monte Carlo mean, so a scientific figure and no part of a certificate.

    ``lower`` and ``upper`` are 3 standard errors away from means that are provably at most and at least the lifted KL
    (one-sided confidence 99.87% each, if the mean over draws is normal). A certificate would have to bound the Monte
    Carlo error itself. ``upper`` is never above ``rescaled``; ``lower`` is never below 0.
    """

    value: float
    standard_error: float
    draws: int
    per_unit: Array | None = field(compare=False, repr=False)  # each unit's part of ``value``; one hidden layer only
    rescaled: float  # the least KL(Q, rescaled P): the next member of the chain
    lower: float | None = None  # None: unknown; ``how`` says why
    upper: float = math.inf
    how: str = ""  # the integrals were computed in this way: one sentence


def lifted_kl(posterior: Gaussian, prior: Gaussian, draws: int = 1000, seed: int = 0) -> LiftedKL:
    """KL(lift posterior, lift prior) for an nn.Sequential of Linear layers with ReLU or LeakyReLU between them.

    Rescaling P leaves the lifted KL as it is, so P is replaced by its best rescaling. E_Q log q/p = KL(Q, P) is
    known then, and only the rest is averaged over draws from Q: log I_q/q - log I_p/p, in most cases about one
    nat for each unit, however large the KL is. With one hidden layer both integrals are exact; with several they are
    estimated, and ``lower`` and ``upper`` include the error of that.

    >>> from torch import nn
    >>> net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False))
    >>> q, p = Gaussian.zero(net, {"0.weight": 9.0, "2.weight": 1.0}), Gaussian.zero(net, 3.0)
    >>> q.kl(p) > 3  # and yet the product of the two weights has the same law
    True
    >>> abs(lifted_kl(q, p, draws=10).value) < 1e-9
    True
    """
    if draws < 2:
        raise TrueriskError(f"draws is {draws}, but must be at least 2 for a standard error; try draws=1000.")
    original = posterior.kl(prior)  # also refuses distributions that have no KL
    layers = dense_layers(posterior)
    dense_layers(prior)
    try:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # refused below if it matters
            lifted = (_shallow if len(layers) == 2 else _deep)(posterior, prior, layers, original, draws, seed)
    except (np.linalg.LinAlgError, ArithmeticError) as error:
        raise NoLift(BEYOND) from error
    if not math.isfinite(lifted.value + lifted.standard_error):
        raise NoLift(BEYOND)
    return lifted


def _shallow(q: Gaussian, p: Gaussian, layers: list[Layer], original: float, draws: int, seed: int) -> LiftedKL:
    """One hidden layer: units are independent, and the integral along each orbit is exact."""
    mine = hidden_units(q)
    shift, per_unit = best_shift(mine, hidden_units(p))
    nearest = _rescaled(p, layers, [np.exp(-shift)])
    rescaled, theirs = min(original, q.kl(nearest)), hidden_units(nearest)
    totals, done = np.empty(draws), 0
    with progress.bar("integrating along orbits", total=draws) as advance:
        for weights in _draw(mine, draws, derive(seed, "lifted KL")):
            one, two = orbits(mine, weights), orbits(theirs, weights)
            rest = (log_integral(one) - one[-1]) - (log_integral(two) - two[-1])
            totals[done : done + len(rest)] = rest.sum(axis=1)
            per_unit = per_unit + rest.sum(axis=0) / draws
            done += len(rest)
            advance(len(rest))
    rest, error = _mean(totals)
    value = rescaled + rest
    how = "The orbit of each unit is integrated by quadrature."
    low, high = max(0.0, value - ERRORS * error), min(rescaled, value + ERRORS * error)
    return LiftedKL(value, error, draws, per_unit, rescaled, low, high, how)


def _deep(q: Gaussian, p: Gaussian, layers: list[Layer], original: float, draws: int, seed: int) -> LiftedKL:
    """Several hidden layers: the integrals over all log factors are estimated, between two ends."""
    mine = _dense(q, layers)
    u = best_log_factors(mine, _dense(p, layers))
    if not np.isfinite(u).all():
        raise NoLift(BEYOND)
    nearest = _rescaled(p, layers, np.split(np.exp(-u), np.cumsum([len(layer.mean) for layer in mine[:-2]])))
    rescaled = q.kl(nearest)
    if not rescaled < original:
        nearest, rescaled = p, original
    terms = lift_terms(mine, _dense(nearest, layers), draws, seed)
    (rest, error), (above, above_error) = _mean(terms.value), _mean(terms.upper)
    upper = min(rescaled, rescaled + above + ERRORS * above_error)
    lower, why = None, ""
    if terms.lower is None:
        why = "; there is no lower end, because the prior is not centered at 0"
    elif not np.isfinite(terms.lower).all():
        why = "; there is no lower end, because its bound is infinite for some draws"
    else:
        below, below_error = _mean(terms.lower)
        lower = max(0.0, rescaled + below - ERRORS * below_error)
    how = (
        f"The orbit of all {len(u):,} units is integrated by importance sampling (effective sample size "
        f"{np.median(terms.effective):.0f} of {POINTS}){why}."
    )
    return LiftedKL(rescaled + rest, error, draws, None, rescaled, lower, upper, how)


def _mean(values: Array) -> tuple[float, float]:
    """The mean over draws, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))


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


def _draw(law: Units, draws: int, seed: int) -> Iterator[Array]:
    """Weights of shape (some draws, units, d + k), ``draws`` in all; the chunks do not change them."""
    generator = np.random.Generator(np.random.SFC64(seed))
    units, width = law.mean.shape
    chunk = max(1, min(CHUNK_NUMBERS // (units * width), CHUNK_ORBITS // units))
    for start in range(0, draws, chunk):
        yield law.mean + law.std * generator.standard_normal((min(chunk, draws - start), units, width))


def hidden_units(gaussian: Gaussian) -> Units:
    """The law of the weights of the units of a network with one hidden layer."""
    first, last = _dense(gaussian, dense_layers(gaussian))
    outgoing = slice(last.mean.shape[1] - last.biased)
    mean, std = (np.concatenate([getattr(first, m), getattr(last, m)[:, outgoing].T], axis=1) for m in ("mean", "std"))
    return Units(mean, std, first.mean.shape[1])


def _dense(gaussian: Gaussian, layers: list[Layer]) -> list[Dense]:
    """The law of each layer's weights. An output bias is left out: no rescaling moves it, and it may be frozen."""

    def matrix(moments: dict[str, Tensor], layer: Layer, biased: bool) -> Array:
        columns = [moments[layer.weight], *([moments[layer.bias][:, None]] if biased else [])]
        return torch.cat(columns, dim=1).cpu().numpy()

    kept = [bool(layer.bias) and layer is not layers[-1] for layer in layers]
    return [
        Dense(matrix(gaussian.mean, layer, biased), matrix(gaussian.std, layer, biased), biased)
        for layer, biased in zip(layers, kept, strict=True)
    ]


def _rescaled(gaussian: Gaussian, layers: list[Layer], factors: list[Array]) -> Gaussian:
    """The law of the weights after each unit's incoming ones are multiplied by its factor, outgoing ones divided."""
    by = [torch.from_numpy(f).to(gaussian.mean[layers[0].weight].device) for f in factors]
    scale: dict[str, Tensor] = {}
    for place, layer in enumerate(layers):
        enter = by[place][:, None] if place < len(by) else 1.0
        scale[layer.weight] = enter * (1 / by[place - 1]) if place else by[0][:, None]
        if layer.bias and place < len(by):
            scale[layer.bias] = by[place]
    mean, std = ({n: t * scale.get(n, 1.0) for n, t in m.items()} for m in (gaussian.mean, gaussian.std))
    return Gaussian(gaussian.module, mean, std)
