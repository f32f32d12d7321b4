r"""PAC-Bayes upper bounds on the true risk of a Gibbs predictor.

A Gibbs predictor draws its weights afresh from a posterior Q for every prediction. With a prior P fixed
before the n certifying examples are seen, each function here returns a number that the true risk of Q
exceeds with probability at most delta over those examples, for all posteriors at once. Arguments are

* ``empirical_risk``: mean loss of Q on the n examples, exact or an upper bound of it,
* ``kl``: KL(Q, P) in nats,
* ``n``: number of examples the empirical risk was taken on,
* ``delta``: the probability that the bound fails.

Two families live here. The kl family (`pac_bayes_kl`, `mcallester`, `quadratic`, `lambda_form`,
`thiemann`) rests on one event,

    kl(empirical_risk, true risk) <= (KL + ln(2 sqrt(n)/delta)) / n   for all Q,

and its other members weaken this by inequalities that always hold. So on that event they all hold
together: taking the smallest, or optimising lambda, costs nothing. The Catoni family (`catoni`,
`catoni_grid`) rests on one event for each value of its parameter, and each one must be paid for.

All results are rounded outward. They are cut at 1 unless ``clip=False``.
"""

import math
from collections.abc import Sequence

from truerisk.bounds._checks import (
    EPS,
    Count,
    Number,
    as_float,
    check_count,
    check_delta,
    check_kl,
    check_risk,
    outward,
)
from truerisk.bounds.kl import kl_inverse, kl_inverse_lower
from truerisk.errors import TrueriskError

LEAST_N = 8

CATONI_GRID: tuple[float, ...] = tuple(0.01 * 1.5**i for i in range(20))
"""Twenty values of beta from 0.01 to 22. Neighbours differ by half, which costs little because the bound is
flat around its best beta; the union bound over them costs ln 20, about 3 nats."""


def confidence_term(n: Count, delta: Number) -> float:
    """Return ln(2 sqrt(n)/delta), the price of confidence in the kl family.

    Maurer (2004, "A note on the PAC-Bayesian theorem", Theorem 1) shows that E exp(n kl(mean, p)) is at
    most 2 sqrt(n) for n >= 8; Markov's inequality puts delta *inside* the logarithm.

    >>> round(confidence_term(100, 0.05), 6)  # ln 400
    5.991465
    """
    n = check_count(n)
    if n < LEAST_N:
        raise TrueriskError(f"n must be at least {LEAST_N} for Maurer's constant, got {n}: use more examples.")
    # Three positive terms: neither a tiny delta nor a huge n can overflow.
    return math.log(2.0) + 0.5 * math.log(n) - math.log(check_delta(delta))


def _divergence_limit(kl: Number, n: Count, delta: Number) -> float:
    """Return (KL + ln(2 sqrt(n)/delta)) / n, rounded outward: the limit in the kl family's event."""
    return outward((check_kl(kl) + confidence_term(n, delta)) / check_count(n))


def _finish(bound: float, clip: bool) -> float:
    bound = outward(bound)
    return min(bound, 1.0) if clip else bound


def pac_bayes_kl(empirical_risk: Number, kl: Number, n: Count, delta: Number, *, clip: bool = True) -> float:
    """Return the largest p with kl(empirical_risk, p) <= (KL + ln(2 sqrt(n)/delta)) / n.

    Seeger (2002, Theorem 1) and Langford (2005, Theorem 5.1), with the constant of Maurer (2004, Theorem 5).
    The tightest of its family. It never exceeds 1, so `clip` is accepted only for a common signature.

    >>> round(pac_bayes_kl(0.0, 0.0, 100, 0.05), 6)  # 1 - 400^(-1/100)
    0.058155
    """
    risk = check_risk(empirical_risk)
    # A risk is a rounded quotient: lift it by what rounding may have taken off. Zero is exact and stays.
    risk = min(1.0, risk * (1.0 + 2 * EPS))
    return kl_inverse(risk, _divergence_limit(kl, n, delta))


def pac_bayes_kl_lower(empirical_risk: Number, kl: Number, n: Count, delta: Number) -> float:
    """Return the smallest p with kl(empirical_risk, p) <= (KL + ln(2 sqrt(n)/delta)) / n.

    The event of `pac_bayes_kl` limits the divergence on both sides, so both ends hold at once for one delta.
    `empirical_risk` is exact or a lower end of it.

    >>> round(pac_bayes_kl_lower(1.0, 0.0, 100, 0.05), 6)  # 400^(-1/100)
    0.941845
    """
    risk = check_risk(empirical_risk)
    # A risk is a rounded quotient: lower it by what rounding may have added. One is exact and stays.
    risk = risk if risk == 1.0 else risk * (1.0 - 2 * EPS)
    return kl_inverse_lower(risk, _divergence_limit(kl, n, delta))


def mcallester(empirical_risk: Number, kl: Number, n: Count, delta: Number, *, clip: bool = True) -> float:
    """Return empirical_risk + sqrt((KL + ln(2 sqrt(n)/delta)) / (2n)).

    McAllester (1999, "PAC-Bayesian model averaging", Theorem 1) with Maurer's constant: Pinsker's inequality
    2 (p-q)^2 <= kl(q, p) applied to the kl form. Good near risk 1/2, poor near 0.

    >>> round(mcallester(0.25, 8 - confidence_term(100, 0.05), 100, 0.05), 9)  # 1/4 + sqrt(8/200)
    0.45
    """
    return _finish(check_risk(empirical_risk) + math.sqrt(_divergence_limit(kl, n, delta) / 2.0), clip)


def quadratic(empirical_risk: Number, kl: Number, n: Count, delta: Number, *, clip: bool = True) -> float:
    """Return (sqrt(empirical_risk + B) + sqrt(B))^2 with B = (KL + ln(2 sqrt(n)/delta)) / (2n).

    The PAC-Bayes-quadratic bound of Pérez-Ortiz, Rivasplata, Shawe-Taylor and Szepesvári (2021, "Tighter
    risk certificates for neural networks"): the refined Pinsker inequality (p-q)^2 <= 2p kl(q, p) for p >= q,
    solved for sqrt(p).

    >>> round(quadratic(0.0, 8 - confidence_term(100, 0.05), 100, 0.05), 9)  # 4B = 2 * 8/100
    0.16
    """
    half = _divergence_limit(kl, n, delta) / 2.0
    root = math.sqrt(check_risk(empirical_risk) + half) + math.sqrt(half)
    return _finish(root * root, clip)  # a product overflows to infinity, where ** would raise


def lambda_form(
    empirical_risk: Number,
    kl: Number,
    n: Count,
    delta: Number,
    lam: Number,
    *,
    clip: bool = True,
) -> float:
    """Return r/(1 - lam/2) + (KL + ln(2 sqrt(n)/delta)) / (n lam (1 - lam/2)), with r the empirical risk.

    Thiemann, Igel, Wintenberger and Seldin (2017, Theorem 3), for 0 < lam < 2. It holds for all such lam at
    once, because it follows from the event of the kl form by sqrt(2pc) <= lam p/2 + c/lam; hence `lam` may
    depend on the data, be trained or be optimised, free of charge.

    >>> round(lambda_form(0.1, 8 - confidence_term(100, 0.05), 100, 0.05, lam=1.0), 9)  # 2 (0.1 + 0.08)
    0.36
    """
    lam = as_float(lam, "lam")
    if not 0.0 < lam < 2.0:
        raise TrueriskError(f"lam must lie strictly between 0 and 2, got {lam}: 1 is a good start.")
    shrink = 1.0 - lam / 2.0
    return _finish((check_risk(empirical_risk) + _divergence_limit(kl, n, delta) / lam) / shrink, clip)


def thiemann(empirical_risk: Number, kl: Number, n: Count, delta: Number, *, clip: bool = True) -> float:
    """Return `lambda_form` at its best lam = 2 / (sqrt(2 n r/(KL + ln(2 sqrt(n)/delta)) + 1) + 1).

    Thiemann et al. (2017, Section 4). The minimum is, in exact arithmetic, the quadratic bound: both solve
    the same refined Pinsker inequality. It is kept apart because its lam is what alternating training needs.

    >>> round(thiemann(0.0, 8 - confidence_term(100, 0.05), 100, 0.05), 9)  # lam = 1: 2 * 8/100
    0.16
    """
    ratio = 2.0 * check_risk(empirical_risk) / _divergence_limit(kl, n, delta)
    lam = 2.0 / (math.sqrt(ratio + 1.0) + 1.0)
    return lambda_form(empirical_risk, kl, n, delta, lam, clip=clip)


def catoni(
    empirical_risk: Number,
    kl: Number,
    n: Count,
    delta: Number,
    beta: Number,
    *,
    clip: bool = True,
) -> float:
    """Return (1 - exp(-beta r - (KL + ln(1/delta))/n)) / (1 - exp(-beta)), with r the empirical risk.

    Catoni (2007, Theorem 1.2.6), for one beta > 0 fixed before the data are seen. There is no ln(2 sqrt(n)),
    and that is what fixing beta buys: the event on which the bound holds differs from beta to beta. The
    infimum over all beta is ``kl_inverse(r, (KL + ln(1/delta))/n)``, the kl form without the ln(2 sqrt(n))
    that holding for every beta at once costs. No theorem covers it: use `catoni_grid` to choose a beta.

    >>> round(catoni(0.0, 0.0, 100, 0.05, beta=math.log(2)), 6)  # 2 (1 - 0.05^(1/100))
    0.059026
    """
    beta = as_float(beta, "beta")
    if not 0.0 < beta < math.inf:
        raise TrueriskError(f"beta must be positive and finite, got {beta}: fix one, such as 1, beforehand.")
    price = outward((check_kl(kl) - math.log(check_delta(delta))) / check_count(n))
    exponent = beta * check_risk(empirical_risk) + price
    return _finish(math.expm1(-exponent) / math.expm1(-beta), clip)


def catoni_grid(
    empirical_risk: Number,
    kl: Number,
    n: Count,
    delta: Number,
    grid: Sequence[float] = CATONI_GRID,
    *,
    clip: bool = True,
) -> float:
    """Return the smallest `catoni` bound over a grid of beta, each at delta / len(grid).

    Catoni's event depends on beta, so a beta picked after a look at the empirical risk or the KL picks among
    events: without payment their failure probabilities add up. The union bound pays ln(len(grid)) nats and
    makes the choice legitimate, provided that the grid itself doesn't depend on the certifying data.

    >>> one = catoni_grid(0.1, 5.0, 1000, 0.05, grid=[0.3])
    >>> one == catoni(0.1, 5.0, 1000, 0.05, beta=0.3)
    True
    """
    if len(grid) == 0:
        raise TrueriskError("grid is empty: pass at least one beta, or leave it out for CATONI_GRID.")
    share = check_delta(delta) / len(grid)
    return min(catoni(empirical_risk, kl, n, share, beta, clip=clip) for beta in grid)
