r"""Spectral norms and distances from a reference: networks covered by few others.

Bartlett, Foster and Telgarsky (2017, "Spectrally-normalized margin bounds for neural networks", Theorem 1.1; its form
for trained networks is their Lemma A.9). The capacity is, up to constants and logarithms,

    ||X||_F / (gamma n) * prod_i (rho_i s_i) * ( sum_i (b_i / s_i)^(2/3) )^(3/2),

with s_i the spectral norm of layer i, b_i the sum over its units of the l2 distance of their weights from those of a
reference matrix M_i fixed beforehand (zero, or the initialization), and rho_i the Lipschitz constant of what follows.
The constants here are ours: they come out smaller than the published 144 ln(n) ln(2W), and the proof below covers
centres of balls that must lie in the class, which is where a factor 2 is needed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from truerisk.bounds._checks import Count, Number, as_float, check_count
from truerisk.bounds.margin import MarginBound, check_margins, gridded_bound
from truerisk.bounds.rademacher import log_chained
from truerisk.bounds.radii import radius_above
from truerisk.errors import TrueriskError


@dataclass(frozen=True)
class SpectralLayer:
    """``distance``: from the reference, a sum over rows of l2 norms; ``lipschitz``: of what follows the layer."""

    spectral: float
    distance: float
    lipschitz: float = 1.0


def bartlett_2017(
    margins: ArrayLike, input_norm: Number, layers: Sequence[SpectralLayer], width: Count, delta: Number
) -> MarginBound:
    r"""Return the best bound over margins 2^k, norms and distances being rounded up to a grid that is paid for.

    `input_norm` is ||X||_F, `width` W the largest number of entries that enter or leave a layer. What follows a layer
    must be 0 at 0. With L layers the grid for s_i and b_i has the ratio 2^(1/L), so that the capacity at most
    doubles.

    Proof for fixed s, b, gamma. (1) One layer. Let Z be n inputs of a layer, ||Z||_F <= z. By Maurey's lemma {Z A^T:
    sum of the l2 norms of the rows of A at most b} is covered by (2 W^2)^ceil(b^2 z^2 / e^2) balls of radius e in the
    Frobenius norm: Z A^T is a combination of the matrices +-z_j e_k^T / ||z_j||, at most 2 W^2 of them, of norm 1,
    with coefficients |A_kj| ||z_j|| that add up to at most b z. Balls of radius e/2 around Z M^T plus these cover the
    layer's class; take a member of the class in each: radius e, and exponent ceil(4 b^2 z^2 / e^2). Where this is
    ceil(x) with x < 1 one ball will do, as all members are within 2 b z < e; otherwise ceil(x) <= 2 x. So ln N <= 8
    ln(2 W^2) (b z / e)^2. (2) All layers. As centres are members, what they send on is at most ||X||_F prod_(j<i)
    rho_j s_j. A deviation e_i in layer i arrives at the output as at most e_i rho_i prod_(j>i) rho_j s_j. Let these
    be a_i e with sum a_i = 1; the best a_i are proportional to (b_i / s_i)^(2/3). So the outputs are covered with ln
    N(e) <= 8 ln(2 W^2) R^2 / e^2, R = ||X||_F prod rho_i s_i (sum (b_i/s_i)^(2/3))^(3/2). (3) Losses differ by at
    most sqrt(2)/gamma times what the outputs differ by; divided by sqrt(n) they satisfy `log_chained` with

        q = sqrt(8 ln(2 W^2)) sqrt(2) R / (gamma n) = 4 sqrt(ln(2 W^2)) R / (gamma n).

    >>> layer = SpectralLayer(1.0, 1.0)
    >>> found = bartlett_2017([1.0] * 100, 10.0, [layer], 2, 0.05)
    >>> found.margin, round(math.exp(found.log_capacity), 4)  # q = 0.2 sqrt(ln 8) = 0.2884, N = 1: 2 (1/4 + 4.7434 q)
    (2.0, 3.2361)
    """
    if not layers:
        raise TrueriskError("layers is empty: pass at least one.")
    n = len(check_margins(margins))
    radii = [_rounded(layer, 2.0 ** (1.0 / len(layers))) for layer in layers]
    price = math.fsum(price for _, _, price in radii)
    product = math.fsum(s + _log(layer.lipschitz, "lipschitz") for (s, _, _), layer in zip(radii, layers, strict=True))
    ratios = [(2.0 / 3.0) * (b - s) for s, b, _ in radii]
    top = max(ratios)
    tail = 1.5 * (top + math.log(math.fsum(math.exp(r - top) for r in ratios)))
    w = check_count(width, "width")
    size = _log(input_norm, "input_norm") + product + tail
    log_q = math.log(4.0 / n) + 0.5 * math.log(math.log(2.0 * w * w)) + size
    return gridded_bound(margins, lambda log_gamma: log_chained(log_q - log_gamma), delta, price)


def _rounded(layer: SpectralLayer, ratio: float) -> tuple[float, float, float]:
    """(ln of the radius for s, ln of the radius for b, price of both)."""
    s, paid_s = radius_above(_log(layer.spectral, "spectral"), ratio)
    b, paid_b = radius_above(_log(layer.distance, "distance"), ratio)
    return s, b, paid_s + paid_b


def _log(value: Number, name: str) -> float:
    number = as_float(value, name)
    if number < 0.0:
        raise TrueriskError(f"{name} must be at least 0, got {number}: it is a norm.")
    return math.log(number) if number > 0.0 else -math.inf
