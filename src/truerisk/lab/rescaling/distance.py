"""How far a bound lies from the published one, and which part of that comes from risk, size, and norm.

Before rescaling everything is known in closed form: with N weights, their sum of squares S, and the two standard
deviations, KL = N (ln(sigma_p / sigma_q) - 1/2 + sigma_q^2 / (2 sigma_p^2)) + S / (2 sigma_p^2), and the bound is
r + sqrt((KL + ln(2 sqrt(n) / delta)) / (2 n)). The published risk r follows from the published bound. After rescaling
there is no closed form: what the risk does not explain is size and norm together. On MNIST sizes are equal, so it is
the norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """One network's bounds before and after rescaling, its number of weights, and their sum of squares."""

    before: float
    after: float
    weights: float
    squares: float


@dataclass(frozen=True)
class Parts:
    """Distances before and after rescaling: risk + size + norm = before; risk + rest = after."""

    before: float
    after: float
    risk: float
    size: float
    norm: float
    rest: float


def excess(weights: float, squares: float, pair: tuple[float, float], n: int, delta: float) -> float:
    """McAllester's bound before rescaling, without the risk.

    >>> round(excess(52_650, 0.0, (1.0, 1 / 44), 60_000, 0.045), 3)  # the network 64-32 on MNIST
    1.2
    """
    sigma_p, sigma_q = pair
    ratio = sigma_q / sigma_p
    kl = weights * (-math.log(ratio) - 0.5 + ratio**2 / 2) + squares / (2 * sigma_p**2)
    return math.sqrt((kl + math.log(2 * math.sqrt(n) / delta)) / (2 * n))


def split(mine: Bounds, published: Bounds, pair: tuple[float, float], n: int, delta: float) -> Parts:
    """The parts of two distances. Size and norm are exchanged in both orders and averaged (Shapley value).

    >>> one, other = Bounds(1.25, 0.7, 52_650, 200.0), Bounds(1.24, 0.6, 52_650, 200.0)
    >>> parts = split(one, other, (1.0, 1 / 44), 60_000, 0.045)
    >>> [round(part, 6) for part in (parts.risk, parts.size, parts.norm, parts.rest)]
    [0.01, 0.0, 0.0, 0.09]
    """

    def at(weights: float, squares: float) -> float:
        return excess(weights, squares, pair, n, delta)

    n1, s1, n0, s0 = mine.weights, mine.squares, published.weights, published.squares
    size = (at(n1, s0) - at(n0, s0) + at(n1, s1) - at(n0, s1)) / 2
    norm = (at(n0, s1) - at(n0, s0) + at(n1, s1) - at(n1, s0)) / 2
    before, after = mine.before - published.before, mine.after - published.after
    risk = before - size - norm
    return Parts(before, after, risk, size, norm, after - risk)
