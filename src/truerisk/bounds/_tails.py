r"""Binomial tails in logarithms, for probabilities far below the smallest float.

A code of some thousand bits, or a choice among the subsets of a sample, shrinks delta to numbers like
1e-3000. Such a tail is evaluated here as its last term times a sum of products of ratios,

    P(Binomial(n, p) <= k) = pmf(k) (1 + r_k + r_k r_(k-1) + ...),   r_j = j (1-p) / ((n-j+1) p),

where every ratio is below 1 once p > k/n. The last term is taken from Stirling's formula with its remainder
(Loader 2000, "Fast and accurate computation of binomial probabilities"),

    pmf(k) = sqrt(n / (2 pi k (n-k))) exp(s(n) - s(k) - s(n-k) - n kl(k/n, p)),

which doesn't subtract large logarithms of factorials from each other.
"""

import math

import numpy as np

from truerisk.bounds._bisection import bisect_outward
from truerisk.bounds._checks import EPS, outward
from truerisk.bounds.kl import FloatArray, kl_bernoulli, kl_inverse

# From here on four terms of the series for s(m) leave less than 1e-14.
_SERIES_FROM = 16


def log_margin(n: int, price: float = 0.0) -> float:
    """Return what is held in reserve for rounding in the logarithm of a probability near exp(-price).

    Roundings of k/n and 1-p cost up to 40 n ulps, those in the divergence up to 64 ulps of price; the tests
    find less than a tenth of this. The reserve moves a bound by about 1e-9 standard deviations.
    """
    return 2e-9 + 1e-14 * (n + price)


def _stirling(m: int) -> float:
    """Return s(m) = ln m! - (m + 1/2) ln m + m - ln(2 pi)/2, for m of at least 1."""
    if m < _SERIES_FROM:
        return math.lgamma(m + 1.0) - (m + 0.5) * math.log(m) + m - 0.5 * math.log(2.0 * math.pi)
    square = 1.0 / (float(m) * m)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / m


def log_pmf(k: int, n: int, p: float) -> float:
    """Return ln P(Binomial(n, p) = k) for 0 < p < 1, within `log_margin`."""
    if k == 0:
        return n * math.log1p(-p)
    if k == n:
        return n * math.log(p)
    front = 0.5 * math.log(n / (2.0 * math.pi * k * (n - k)))
    return front + _stirling(n) - _stirling(k) - _stirling(n - k) - n * kl_bernoulli(k / n, p)


def _log_lower_tail(k: int, n: int, p: float, ratios: FloatArray) -> float:
    """Return ln P(Binomial(n, p) <= k) for k/n < p < 1; `ratios` holds j/(n-j+1) for j = k, ..., 1."""
    products = np.cumprod(ratios * ((1.0 - p) / p))
    return log_pmf(k, n, p) + math.log1p(float(products.sum()))


def tail_inverse(errors: int, n: int, price: float) -> float:
    """Return the smallest p in [errors/n, 1] with ln P(Binomial(n, p) <= errors) <= -price, rounded upward.

    The Clopper-Pearson bound at delta = exp(-price), except that it never falls below errors/n (which
    matters only for delta above 1/2). The search starts from the Chernoff form
    ``kl_inverse(errors/n, price/n)`` and only moves down from it, to points where the tail is small enough
    by more than `log_margin`; hence the result never exceeds that form.

    >>> round(tail_inverse(0, 100, math.log(20)), 6)  # 1 - 20^(-1/100)
    0.029513
    """
    if errors == n:
        return 1.0
    low = errors / n
    # A quotient may have been rounded down; zero is exact and stays.
    high = kl_inverse(min(1.0, low * (1.0 + 2 * EPS)), outward(price / n))
    target = -(price + log_margin(n, price))
    j = np.arange(errors, 0, -1, dtype=np.float64)
    ratios = j / (n - j + 1.0)
    return bisect_outward(low, high, lambda p: _log_lower_tail(errors, n, p, ratios) <= target)


def log_choose(n: int, k: int) -> float:
    """Return ln of the binomial coefficient C(n, k), rounded upward.

    >>> round(math.exp(log_choose(5, 2)), 9)
    10.0
    """
    parts = math.lgamma(n + 1.0), math.lgamma(k + 1.0), math.lgamma(n - k + 1.0)
    return max(0.0, parts[0] - parts[1] - parts[2] + 16 * EPS * sum(parts))
