r"""A PAC-Bayes bound for one network drawn once from the posterior, not for fresh draws.

The usual bound speaks of the risk averaged over Q. Here the predictor is deterministic after a single draw
of its weights, and the divergence KL(Q, P) is replaced by the log density ratio at the drawn weights.
"""

import math

from truerisk.bounds._checks import EPS, Count, Number, as_float, check_count, check_risk, outward
from truerisk.bounds.kl import kl_inverse, kl_inverse_lower
from truerisk.bounds.pac_bayes import confidence_term
from truerisk.errors import TrueriskError


def single_draw(empirical_risk: Number, log_ratio: Number, n: Count, delta: Number) -> float:
    """Return the largest p with kl(empirical_risk, p) <= max(0, log_ratio + ln(2 sqrt(n)/delta)) / n.

    `empirical_risk` is that of the drawn h on the n examples and `log_ratio` is ln dQ/dP(h), positive or
    negative. With probability at least 1 - delta over the sample and the one draw h ~ Q, the true risk of h
    is at most the result. Rivasplata, Kuzborskij, Szepesvari and Shawe-Taylor (2020, "PAC-Bayes analysis
    beyond the usual bounds", Theorem 1(i); number from memory); see also Viallard, Germain, Habrard and
    Morvant (2024). A second draw is a second event: whoever draws until the bound is small pays for each try.

    Proof. The expectation of (dP/dQ)(h) exp(n kl(R_hat(h), R(h))) over h ~ Q is at most that of
    exp(n kl(R_hat(h), R(h))) over h ~ P, whatever Q the sample led to. P does not depend on the sample, so
    its expectation over the sample may be taken first, and is at most 2 sqrt(n) for every h (Maurer 2004).
    By Markov's inequality, over sample and draw, (dP/dQ)(h) exp(n kl) exceeds 2 sqrt(n)/delta with
    probability at most delta; take logarithms.

    The right-hand side can be negative. As kl is never negative, the event has then failed already, and with
    max(0, .) the result, `empirical_risk` itself, still errs only where the event fails.

    Rescaled priors are free here too. Let P' be P moved by log-scales that depend on the sample and on Q,
    but not on the drawn h. Both priors draw the same functions with the same probabilities, and kl(R_hat, R)
    depends on the function alone, so the expectation of exp(n kl) over P' is that over P, sample by sample:
    use dQ/dP' throughout. Log-scales that look at h would choose a prior for each h, which this step forbids.

    >>> round(single_draw(0.0, 0.0, 100, 0.05), 6)  # 1 - 400^(-1/100)
    0.058155
    >>> single_draw(0.25, -1000.0, 100, 0.05)
    0.25
    """
    risk, limit = check_risk(empirical_risk), _limit(log_ratio, n, delta)
    if limit == 0.0:
        return risk
    # A risk is a rounded quotient: lift it by what rounding may have taken off. Zero is exact and stays.
    return kl_inverse(min(1.0, risk * (1.0 + 2 * EPS)), limit)


def single_draw_lower(empirical_risk: Number, log_ratio: Number, n: Count, delta: Number) -> float:
    """Return the smallest p with kl(empirical_risk, p) <= max(0, log_ratio + ln(2 sqrt(n)/delta)) / n.

    The event of `single_draw` limits the divergence on both sides, so both ends hold at once for one delta.

    >>> round(single_draw_lower(1.0, 0.0, 100, 0.05), 6)  # 400^(-1/100)
    0.941845
    """
    risk, limit = check_risk(empirical_risk), _limit(log_ratio, n, delta)
    return kl_inverse_lower(risk if risk == 1.0 else risk * (1.0 - 2 * EPS), limit)


def _limit(log_ratio: Number, n: Count, delta: Number) -> float:
    """Return max(0, log_ratio + ln(2 sqrt(n)/delta)) / n, rounded outward."""
    ratio = as_float(log_ratio, "log_ratio")
    if ratio == -math.inf:
        raise TrueriskError("log_ratio must not be -inf: weights drawn from the posterior have positive density.")
    n = check_count(n)
    confidence = confidence_term(n, delta)
    # The terms may cancel: what rounding can take off is measured by their sizes, not by their sum.
    return outward(max(0.0, ratio + confidence + 4 * EPS * (abs(ratio) + confidence)) / n)
