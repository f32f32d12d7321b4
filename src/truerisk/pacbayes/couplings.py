r"""The density along the orbit of a network with several hidden layers, and its mode.

Hidden unit i has a log factor u_i; the weight from unit j to unit i is multiplied by e^(u_i - u_j), and inputs,
outputs, and the sources of biases have u = 0. For independent Gaussian weights w with means mu and variances sigma^2,
minus the log-integrand of the orbit's density is

    F(u) = const + sum over weights of  A/2 e^(2t) - B e^t  -  sum over units of n_i u_i,    t = u_i - u_j,

with A = w^2/sigma^2, B = w mu/sigma^2, and n_i the incoming weights of unit i (bias included) less its outgoing ones.
With G = A - B and x = e^t - 1, F(u) - F(0) is the sum of x (G + A x/2), less the linear part: no digits are lost where
A is huge and t tiny. The function is convex where mu = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from truerisk.pacbayes.orbits import Array

STEPS = 200  # of Newton's method; ten are usual
HALVINGS = 40  # of a step, until F falls
STRIDE = 1.0  # at most this far in one step: exponentials are not quadratic farther away
SETTLED = 1e-13  # nats that one more step could gain; convergence is quadratic
NEAR = 0.5  # log factors up to which F is computed from x; beyond, from e^t
CLEARLY = 0.05  # of the safe Hessian: a curvature below that share is not trusted
FAR = 300.0  # log factors beyond which e^(2t) leaves the range of floats


class Dense(NamedTuple):
    """Independent Gaussian weights of a linear layer: a row for each output, the bias (if any) in the last column."""

    mean: Array
    std: Array
    biased: bool


class Edges(NamedTuple):
    """A and G of single weights, or their sums over weights that share a log factor t."""

    a: Array
    g: Array

    def moved(self, t: Array) -> Edges:
        factor = np.exp(t)
        return Edges(self.a * factor**2, factor * (self.g + self.a * np.expm1(t)))


@dataclass(frozen=True)
class Couplings:
    """A network's weights as F sees them; leading axes of all arrays number points w.

    ``into``: for each hidden layer, weights from inputs and biases, summed for each unit. ``between``: matrices between
    hidden layers, (units, units below). ``out``: weights to the outputs, summed. ``excess``: n_i of all units.
    """

    into: tuple[Edges, ...]
    between: tuple[Edges, ...]
    out: Edges
    excess: Array

    @classmethod
    def of(cls, law: list[Dense], weights: list[Array], squares: list[Array] | None = None) -> Couplings:
        """For weights of shape (..., outputs, inputs and bias) of each layer, or for their first two moments."""
        squares = squares or [np.square(w) for w in weights]
        edges, lone = [], []
        for (mean, std, biased), w, square in zip(law, weights, squares, strict=True):
            # G from the difference to the mean: its digits count where std is tiny.
            edge = square / std**2, (w * (w - mean) + (square - np.square(w))) / std**2
            inputs = mean.shape[1] - biased
            edges.append(Edges(*(e[..., :inputs] for e in edge)))
            lone.append(Edges(*(e[..., inputs:].sum(-1) for e in edge)))
        first = Edges(*(e.sum(-1) + bias for e, bias in zip(edges[0], lone[0], strict=True)))
        out = Edges(*(e.sum(-2) for e in edges[-1]))
        excess = [
            np.full(len(layer.mean), float(layer.mean.shape[1] - len(after.mean))) for layer, after in pairwise(law)
        ]
        return cls((first, *lone[1:-1]), tuple(edges[1:-1]), out, np.concatenate(excess))

    @property
    def sizes(self) -> list[int]:
        return [edges.a.shape[-1] for edges in self.into]

    def split(self, u: Array) -> list[Array]:
        """Numbers of all units, layer by layer."""
        return np.split(u, np.cumsum(self.sizes)[:-1], axis=-1)

    def moved(self, u: Array) -> Couplings:
        """The same orbit seen from its point u."""
        parts = self.split(u)
        return Couplings(
            tuple(edges.moved(v) for edges, v in zip(self.into, parts, strict=True)),
            tuple(
                edges.moved(v[..., :, None] - below[..., None, :])
                for edges, v, below in zip(self.between, parts[1:], parts, strict=False)
            ),
            self.out.moved(-parts[-1]),
            self.excess,
        )

    def rise(self, u: Array) -> Array:
        """F(u) - F(0) for u of shape (..., points of the orbit, units); infinite beyond the range of floats."""
        size = np.abs(u).max(axis=-1)
        u = np.where((size > FAR)[..., None], 0.0, u)
        value = np.where(size > NEAR, self._rise_far(u), self._rise_near(np.clip(u, -NEAR, NEAR)))
        return np.where(size > FAR, np.inf, value - u @ self.excess)

    def _rise_near(self, u: Array) -> Array:
        """From y = e^u_i - 1 and z = e^-u_j - 1, with x = y + z + y z: every product is as small as its value."""
        parts = self.split(u)
        ys, zs = [np.expm1(v) for v in parts], [np.expm1(-v) for v in parts]
        total = _lone(self.out, zs[-1])
        for edges, y in zip(self.into, ys, strict=True):
            total = total + _lone(edges, y)
        for (a, g), y, z in zip(self.between, ys[1:], zs, strict=False):
            rows, columns = Edges(a.sum(-1), g.sum(-1)), Edges(a.sum(-2), g.sum(-2))
            total = total + _lone(rows, y) + _lone(columns, z)
            first, second, slope = (_times(m, v) for m, v in ((a, z), (a, z * z), (g, z)))
            total = total + (y * (slope + (1 + y) * first + (1 + y / 2) * second)).sum(-1)
        return total

    def _rise_far(self, u: Array) -> Array:
        """From e^(2t) and e^t: what cancels is small beside the value."""
        parts = self.split(u)
        total = _lone(self.out, np.expm1(-parts[-1]))
        for edges, v in zip(self.into, parts, strict=True):
            total = total + _lone(edges, np.expm1(v))
        for (a, g), v, below in zip(self.between, parts[1:], parts, strict=False):
            up, down = np.exp(v), np.exp(-below)
            squares, lines = _times(a, down * down) * up * up / 2, _times(a - g, down) * up
            total = total + (squares - lines).sum(-1) - (g - a / 2).sum((-2, -1))[..., None]
        return total

    def slopes(self) -> tuple[Array, Array, Array]:
        """The gradient of F at 0, its Hessian, and a Hessian that is at least as large and positive definite.

        A term's second derivative is A + G. It may be negative where mu is not 0; A + max(G, 0) is not.
        """
        gradient = self._by_unit([e.g for e in self.into], [e.g for e in self.between], self.out.g, -1.0)
        hessians = []
        for safe in (False, True):
            into, between, out = (
                [e.a + (np.maximum(e.g, 0.0) if safe else e.g) for e in part]
                for part in (self.into, self.between, (self.out,))
            )
            hessian = self._by_unit(into, between, out[0], 1.0)[..., None] * np.eye(len(self.excess))
            at = np.cumsum([0, *self.sizes])
            for m, low, middle, high in zip(between, at, at[1:], at[2:], strict=False):
                hessian[..., middle:high, low:middle] = -m
                hessian[..., low:middle, middle:high] = -np.swapaxes(m, -1, -2)
            hessians.append(hessian)
        return gradient - self.excess, hessians[0], hessians[1]

    def _by_unit(self, into: list[Array], between: list[Array], out: Array, sign: float) -> Array:
        """Sums over the incoming weights of each unit, plus ``sign`` times sums over its outgoing ones."""
        enter = [into[0], *(lone + m.sum(-1) for lone, m in zip(into[1:], between, strict=True))]
        leave = [*(m.sum(-2) for m in between), out]
        return np.concatenate([one + sign * two for one, two in zip(enter, leave, strict=True)], axis=-1)


def _lone(edges: Edges, x: Array) -> Array:
    """The sum of x (G + A x/2) over units, for x of shape (..., points, units)."""
    return (x * (edges.g[..., None, :] + edges.a[..., None, :] / 2 * x)).sum(-1)


def _times(matrix: Array, v: Array) -> Array:
    """Rows of v, each multiplied by the matrix."""
    return np.asarray(v @ np.swapaxes(matrix, -1, -2))


def mode(couplings: Couplings) -> Array:
    """Where F is least, by Newton's method with steps that never raise it; a local minimum if F is not convex."""
    place = np.zeros((*couplings.into[0].a.shape[:-1], len(couplings.excess)))
    for _ in range(STEPS):
        gradient, hessian, safe = couplings.slopes()
        step = -np.linalg.solve(definite(hessian, safe), gradient[..., None])[..., 0]
        gain = -(gradient * step).sum(-1)
        if not (gain > SETTLED).any():
            return place + step
        step = step / np.maximum(1.0, np.abs(step).max(-1, keepdims=True) / STRIDE)
        step = _falling(couplings, step, (gradient * step).sum(-1))
        place, couplings = place + step, couplings.moved(step)
    return place


def _falling(couplings: Couplings, step: Array, slope: Array) -> Array:
    """Steps halved until F falls by a part of what its slope promises (Armijo)."""
    factor = np.ones_like(slope)
    for _ in range(HALVINGS):
        rise = couplings.rise((factor[..., None] * step)[..., None, :])[..., 0]
        short = rise > 1e-4 * factor * slope + 1e-12
        if not short.any():
            break
        factor = np.where(short, factor / 2, factor)
    return factor[..., None] * step


def definite(hessian: Array, safe: Array) -> Array:
    """The Hessian where it is clearly positive definite, else the safe one."""
    rest = hessian - CLEARLY * safe
    try:
        np.linalg.cholesky(rest)
        return hessian
    except np.linalg.LinAlgError:
        bad = np.linalg.eigvalsh(rest)[..., 0] <= 0
        return np.where(bad[..., None, None], safe, hessian)
