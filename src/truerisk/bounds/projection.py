r"""Compression by random projections (Arora, Ge, Neyshabur and Zhang 2018), with a proof whose constants are all known.

Each weight matrix A_i is replaced by  B_i = (1/k_i) sum_l a_il M_il  with random-sign matrices M_il that were drawn
before the data, and a_il = <A_i, M_il>, stored in 64 bits. The numbers a_il and the biases are all that is left of the
network, so Occam's razor bounds the risk of the *compressed* network g (as in the paper, not that of f itself):

    risk(g) <= errors(g)/n + sqrt((ln 2 * bits + sum_i ln(k_i (k_i + 1)) + ln(1/delta_1)) / (2n)),

where each k_i, known after training only, is paid for (the sum over all k of 1/(k (k + 1)) is 1).

How many numbers are enough for g to be right where f is right with margin m_x? Let z_i be what enters layer i, F_i and
s_i the Frobenius and the spectral norm of A_i, h_i its rows, N_i its entries, rho_i the Lipschitz constant of what
follows. With ``k_i = projections(eps_i, eta)`` every row of B_i - A_i, applied to what enters it in g (which does not
depend on M_i), is at most eps_i F_i times its length, but for probability eta = delta_2 / (n sum_i h_i). Rounding to 64
bits adds at most N_i 2^-53 F_i. With t_i = sqrt(h_i) eps_i + N_i 2^-53 the difference e_i of what leaves layer i obeys

    e_i <= rho_i ((s_i + t_i F_i) e_(i-1) + t_i F_i ||z_i||).

If t_i F_i <= s_i / d, the factor in front is at most (1 + 1/d) s_i, and the margin changes by at most sqrt(2) e_d. So

    t_i = min( s_i / (d F_i),  min over x of m_x / (sqrt(2) d F_i ||z_i|| rho_i prod_(j>i) rho_j (1 + 1/d) s_j) )

keeps all answers, the minimum being over the examples that are to stay right. All others count as errors. Which ones
stay is free to choose after the fact, as it enters through the k_i alone. The paper replaces the product of norms by
properties seen on the data (cushions, smoothness), of which the last can't be certified; hence this cruder form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truerisk.bounds._checks import Number, check_delta
from truerisk.bounds.margin import MarginBound, best_margin, check_margins
from truerisk.errors import TrueriskError

BITS = 64  # of a stored number
ROUNDING = 2.0**-53  # relative, of a stored number
STRICT = 1 - 1e-9  # a margin must stay above 0
PARTS = 40  # shares of the correct examples that are tried
LOG2 = math.log(2.0)


@dataclass(frozen=True)
class ProjectedLayer:
    """A fully connected layer: rows, entries, norms of its matrix, Lipschitz constant of what follows, biases."""

    rows: int
    entries: int
    frobenius: float
    spectral: float
    lipschitz: float = 1.0
    biases: int = 0


def projections(epsilon: float, eta: float) -> float:
    """How many random-sign matrices M_l keep u^T A v within epsilon ||A||_F ||u|| ||v||, but for probability eta.

    The compressed matrix is (1/k) sum_l <A, M_l> M_l. Algorithm 1 of Arora et al. 2018 takes log(1/eta) / epsilon^2 of
    them, which is too few. Here k = log(4/eta) / (epsilon^2/4 - epsilon^3/6): u^T A v is the inner product of A and
    u v^T, and signs keep the squared lengths of their sum and of their difference, but for four one-sided events of
    probability exp(-k (epsilon^2/4 - epsilon^3/6)) each (Achlioptas 2003, section 5). For small epsilon that is about
    4 log(4/eta) / epsilon^2. Where A is a multiple of u v^T nothing smaller than the 4 would do: the variance of a term
    is 2 there, and 1 where A is orthogonal to u v^T.

    >>> round(projections(0.1, 0.05))
    1878
    """
    return math.log(4 / eta) / (epsilon**2 / 4 - epsilon**3 / 6)


def arora_2018(
    margins: ArrayLike, entering: ArrayLike, layers: Sequence[ProjectedLayer], delta: Number
) -> tuple[MarginBound, list[float]]:
    """Return the bound on the risk of the compressed network, and the numbers k_i that are left of each layer.

    `entering` has ||z_i|| of each example (rows) and layer (columns). Half of delta is for the projections.

    >>> one = ProjectedLayer(rows=1, entries=1, frobenius=1.0, spectral=1.0)
    >>> found, numbers = arora_2018([1.0] * 10**6, [[0.1]] * 10**6, [one], 0.05)
    >>> found.loss, [math.ceil(k) for k in numbers]
    (0.0, [227])
    """
    array, lengths, delta = check_margins(margins), _lengths(entering, len(layers)), check_delta(delta)
    if len(lengths) != len(array):
        raise TrueriskError("margins and lengths must be of the same examples.")
    order = np.argsort(-array)
    right = int((array > 0.0).sum())
    if right == 0:
        raise TrueriskError("no example is right, so there is nothing that compression could keep.")
    shares = sorted({math.ceil(right * part / PARTS) for part in range(1, PARTS + 1)})
    options, counts = [], {}
    for kept in shares:
        rows = order[:kept]
        numbers = _numbers(array[rows], lengths[rows], layers, delta / 2, len(array))
        capacity = _log_capacity(numbers, layers, len(array), delta / 2)
        option = MarginBound(float(array[rows].min()), 1 - kept / len(array), capacity, 0.0)
        options.append(option)
        counts[option] = numbers
    best = best_margin(options, 1 - right / len(array))
    return best, counts[best]


def _numbers(
    margins: NDArray[np.float64], lengths: NDArray[np.float64], layers: Sequence[ProjectedLayer], delta: float, n: int
) -> list[float]:
    """k_i of each layer; infinite where none is enough, as rounding alone is too much."""
    depth = len(layers)
    eta = delta / (n * sum(layer.rows for layer in layers))
    onward, found = 1.0, []
    for layer, entering in zip(reversed(layers), reversed(lengths.T), strict=True):
        onward *= layer.lipschitz
        with np.errstate(divide="ignore", over="ignore"):
            least = float(np.min(STRICT * margins / (entering * onward)))
        whole = min(layer.spectral / depth, least / (math.sqrt(2) * depth)) / layer.frobenius
        epsilon = (whole - layer.entries * ROUNDING) / math.sqrt(layer.rows)
        found.append(_ceil(min(epsilon, 0.999), eta))
        onward *= (1 + 1 / depth) * layer.spectral
    return found[::-1]


def _ceil(epsilon: float, eta: float) -> float:
    if epsilon < 1e-150:
        return math.inf
    k = projections(epsilon, eta)
    return float(math.ceil(k)) if k < 2.0**53 else k * (1 + 1e-9)


def _log_capacity(numbers: Sequence[float], layers: Sequence[ProjectedLayer], n: int, delta: float) -> float:
    if math.inf in numbers:
        return math.inf
    bits = BITS * (sum(numbers) + sum(layer.biases for layer in layers))
    price = sum(math.log(k) + math.log1p(k) for k in numbers)
    return 0.5 * math.log((bits * LOG2 + price + math.log(1 / delta)) / (2 * n))


def _lengths(entering: ArrayLike, depth: int) -> NDArray[np.float64]:
    array = np.asarray(entering, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != depth or not np.all((array >= 0) & np.isfinite(array)):
        raise TrueriskError(
            "lengths must be a table of finite numbers, one row for each example, one column per layer."
        )
    return array
