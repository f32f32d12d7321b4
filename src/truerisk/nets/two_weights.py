"""The smallest ReLU network, f(x) = w2 relu(w1 x), and its whole loss surface in closed form.

For the squared error on examples with x >= 0 the loss depends on the two weights only through their product, as long as
w1 > 0, and not at all where w1 <= 0. With the moments Sxx = mean(x^2), Sxy = mean(x y), Syy = mean(y^2):

    L(w1, w2) = Sxx p^2 - 2 Sxy p + Syy,   p = w2 max(w1, 0)                the loss
    p* = Sxy / Sxx,   L* = Syy - Sxy^2 / Sxx                                the valley w1 w2 = p*, a whole hyperbola
    L = Syy   for w1 <= 0, with gradient 0                                  the plateau: a dead unit
    tr H = 2 Sxx (w1^2 + w2^2),   det H = 0   on the valley                 its sharpness: any value from 4 Sxx |p*| up
    w1^2 - w2^2 = constant                                                  along every path of gradient flow

So a start with p* > 0 reaches the valley under gradient flow if and only if w1 > 0 and w1 > -w2 (`reaches_valley`):
3/8 of all directions. The conserved quantity is that of Du, Hu, and Lee 2018 (Theorem 2.1, number from memory).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.errors import TrueriskError


@dataclass(frozen=True)
class TwoWeights:
    """The loss of w2 relu(w1 x) on examples with x >= 0, by their moments.

    >>> net = two_weights(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    >>> net.product, net.minimum, net.plateau, float(net.loss(2.0, 1.0)), float(net.loss(-1.0, 9.0))
    (2.0, 0.0, 10.0, 0.0, 10.0)
    """

    sxx: float
    sxy: float
    syy: float

    @property
    def product(self) -> float:
        """p*: the product of the weights everywhere in the valley."""
        return self.sxy / self.sxx

    @property
    def minimum(self) -> float:
        """The loss in the valley."""
        return self.syy - self.sxy**2 / self.sxx

    @property
    def plateau(self) -> float:
        """The loss where the unit is dead."""
        return self.syy

    def loss(self, w1: np.ndarray | float, w2: np.ndarray | float) -> np.ndarray:
        """Mean squared error at any number of weights at once."""
        p = np.asarray(w2, np.float64) * np.maximum(np.asarray(w1, np.float64), 0)
        return self.sxx * p**2 - 2 * self.sxy * p + self.syy

    def gradient(self, w1: np.ndarray | float, w2: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """(dL/dw1, dL/dw2); both are 0 where the unit is dead."""
        w1, w2 = np.asarray(w1, np.float64), np.asarray(w2, np.float64)
        slope = np.where(w1 > 0, 2 * (self.sxx * w1 * w2 - self.sxy), 0.0)
        return slope * w2, slope * np.maximum(w1, 0)

    def sharpness(self, w1: np.ndarray | float) -> np.ndarray:
        """The largest Hessian eigenvalue at the point (w1, p*/w1) of the valley: 2 Sxx (w1^2 + w2^2).

        >>> net = TwoWeights(sxx=1.0, sxy=1.0, syy=1.0)
        >>> net.sharpness(np.array([1.0, 10.0])).round(2).tolist()
        [4.0, 200.02]
        """
        w1 = np.asarray(w1, np.float64)
        return 2 * self.sxx * (w1**2 + (self.product / w1) ** 2)

    def valley(self, w1: np.ndarray) -> np.ndarray:
        """w2 = p* / w1: every point of the orbit is the same function with the least loss."""
        return self.product / np.asarray(w1, np.float64)

    def descend(self, w1: float, w2: float, lr: float, steps: int) -> np.ndarray:
        """The path of gradient descent, of shape (steps + 1, 2), the start included."""
        path = np.empty((steps + 1, 2))
        path[0] = w1, w2
        for k in range(steps):
            path[k + 1] = path[k] - lr * np.array(self.gradient(*path[k]))
        return path

    def reaches_valley(self, w1: np.ndarray, w2: np.ndarray) -> np.ndarray:
        """Whether gradient flow from each start ends in the valley, for p* > 0; otherwise the unit dies.

        w1^2 - w2^2 never changes. From w2 < 0 both weights shrink in size at first; the smaller one reaches 0 first. If
        it is w2, it changes its sign and the valley is ahead. If it is w1, the unit is dead.
        """
        return (np.asarray(w1) > 0) & (np.asarray(w1) > -np.asarray(w2))


def two_weights(x: np.ndarray, y: np.ndarray) -> TwoWeights:
    """The loss surface for these examples."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.shape != y.shape or x.ndim != 1 or not len(x):
        raise TrueriskError(f"x and y have shapes {x.shape} and {y.shape}, but must be vectors of one length.")
    if x.min() < 0 or not x.any():
        raise TrueriskError(f"x has values from {x.min():g} to {x.max():g}, but must be >= 0, not all 0; use np.abs.")
    return TwoWeights(float(np.mean(x * x)), float(np.mean(x * y)), float(np.mean(y * y)))


def many_units_end(starts: np.ndarray, net: TwoWeights, lr: float, steps: int) -> np.ndarray:
    """End losses of gradient descent for sums of several units, from each of many starts.

    ``starts`` has shape (starts, units, 2): f(x) = sum_j w2_j relu(w1_j x), which on x >= 0 is p x with
    p = sum_j w2_j max(w1_j, 0). All starts are trained at once.
    """
    w1, w2 = (starts[..., k].astype(np.float64) for k in (0, 1))
    for _ in range(steps):
        active = np.maximum(w1, 0)
        slope = 2 * (net.sxx * (w2 * active).sum(axis=-1, keepdims=True) - net.sxy)
        w1, w2 = w1 - lr * slope * w2 * (w1 > 0), w2 - lr * slope * active
    p = (w2 * np.maximum(w1, 0)).sum(axis=-1)
    return np.asarray(net.sxx * p**2 - 2 * net.sxy * p + net.syy)


def example_points(n: int = 30, seed: int = 42) -> tuple[np.ndarray, np.ndarray]:
    """x = |N(0, 1) + 1|, y = 2 x + N(0, 1/4): with the defaults, the 30 points of a well-known lecture.

    >>> net = two_weights(*example_points())
    >>> round(net.product, 4), round(net.minimum, 4), round(net.plateau, 4)
    (1.9487, 0.2094, 5.6855)
    """
    rng = np.random.RandomState(seed)  # the lecture's generator, for its numbers
    x = np.abs(rng.randn(n) + 1)
    return x, 2 * x + 0.5 * rng.randn(n)
