r"""Rademacher complexity: how well a class of functions fits random signs.

    Rad(G) = E sup over g in G of (1/n) sum_i s_i g(z_i),   s_i = +-1 with equal probability

for the n examples z_i at hand (the empirical complexity). It is a property of the whole class: an estimate from
networks that were trained on random signs is a lower one, and no bound.
"""

import math

from truerisk.bounds._checks import Count, Number, as_float, check_count, check_delta, check_risk, outward
from truerisk.errors import TrueriskError

# 3 sqrt(2 (1 + 1/4)): see `log_chained`.
CHAIN = 3.0 * math.sqrt(2.5)
_LEVELS = 60


def confidence(n: Count, delta: Number, price: Number = 0.0) -> float:
    r"""Return 3 sqrt((ln(1/delta) + price) / (2n)), what the empirical complexity costs in confidence.

    For losses g with values in [0, 1], with probability at least 1 - delta over the n examples, for all g in G,

        E g <= (1/n) sum_i g(z_i) + 2 Rad(G) + 3 sqrt(ln(1/delta) / (2n)).

    Proof. Let Psi = sup_g (E g - mean of g) - 2 Rad(G), a function of the n examples. Exchanging one of them moves the
    supremum by at most 1/n and Rad(G) by at most 1/n, hence Psi by at most 3/n. By symmetrization E Psi <= 0
    (Bartlett and Mendelson 2002; Mohri, Rostamizadeh and Talwalkar 2018, Theorem 3.3, who spend delta on two
    events and get ln(2/delta)). McDiarmid: P(Psi >= t) <= exp(-2 n t^2 / 9). The constant is ours in that it is one
    event instead of two.

    >>> round(confidence(200, math.exp(-4)), 12)
    0.3
    """
    n = check_count(n)
    price = as_float(price, "price")
    if price < 0.0:
        raise TrueriskError(f"price must be at least 0, got {price}: it is the logarithm of a number of choices.")
    return outward(3.0 * math.sqrt((price - math.log(check_delta(delta))) / (2.0 * n)))


def rademacher_bound(loss: Number, complexity: Number, n: Count, delta: Number) -> float:
    """Return loss + 2 complexity + 3 sqrt(ln(1/delta) / (2n)), not cut at 1; see `confidence` for the proof.

    >>> round(rademacher_bound(0.1, 0.05, 200, math.exp(-4)), 12)
    0.5
    """
    complexity = as_float(complexity, "complexity")
    if complexity < 0.0:
        raise TrueriskError(f"complexity must be at least 0, got {complexity}.")
    return outward(check_risk(loss, "loss") + 2.0 * complexity + confidence(n, delta))


def massart(log_size: Number, n: Count) -> float:
    """Return sqrt(ln(size) / (2n)): a bound on Rad(G) if G takes at most `size` different values on the examples.

    Massart's lemma (2000): for vectors of length at most r, Rad <= (r/n) sqrt(2 ln size). A constant taken off all
    losses does not change Rad; with 1/2 taken off, losses in [0, 1] are vectors of length at most sqrt(n)/2.

    >>> round(massart(8.0, 100), 12)
    0.2
    """
    log_size = as_float(log_size, "log_size")
    if log_size < 0.0:
        raise TrueriskError(f"log_size must be at least 0, got {log_size}: it is the logarithm of a count.")
    return math.sqrt(log_size / (2.0 * check_count(n)))


def log_chained(log_scale: Number) -> float:
    r"""Return ln of a bound on Rad(G) where ln N(e) <= n (q/e)^2 for every e, with q = exp(log_scale).

    N(e) is the number of balls of radius e that cover the losses, as vectors with norm ||g||^2 = (1/n) sum_i g(z_i)^2;
    losses lie in [0, 1]. Dudley's chaining, summed and not turned into an integral:

        Rad(G) <= min over N >= 1 of  2^(-N-1) + 3 sqrt(2.5) N q.

    Proof. Take 1/2 off all losses; then one ball of radius e_0 = 1/2 covers G. Let e_j = 2^(-j-1), and g_j the centre
    next to g at radius e_j. Then g = (g - g_N) + sum_j (g_j - g_(j-1)). The first part adds at most e_N. The vectors
    g_j - g_(j-1) have norm at most e_j + e_(j-1) = 3 e_j, and there are at most N(e_j) N(e_(j-1)) of them, so by
    Massart's lemma they add at most 3 e_j sqrt(2 (ln N(e_j) + ln N(e_(j-1))) / n) <= 3 e_j sqrt(2 (1 + 1/4)) q / e_j.
    (N = 0 would give 1/2; it is left out, so that a useless bound shows how useless it is.)

    >>> round(math.exp(log_chained(math.log(1e-3))), 6)  # N = 6: 2^-7 + 6 * 4.7434e-3
    0.036273
    """
    log_scale = as_float(log_scale, "log_scale")
    if log_scale > 0.0:  # far beyond: a second link does not pay
        return math.log(0.25 * math.exp(-log_scale) + CHAIN) + log_scale
    scale = math.exp(log_scale)
    return math.log(min(2.0 ** (-links - 1) + CHAIN * links * scale for links in range(1, _LEVELS)))
