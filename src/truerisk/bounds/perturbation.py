r"""Spectral norms by PAC-Bayes: weights may be shaken a little without changing a prediction that has a margin.

Neyshabur, Bhojanapalli and Srebro (2018, "A PAC-Bayesian approach to spectrally-normalized margin bounds for neural
networks", Theorem 1). The network is f(x) = W_d relu(... relu(W_1 x)), without biases (see `peeling` for biases). It
is positively homogeneous in each layer and in x, so it may be looked at with spectral norms 1 and inputs of norm 1:
only

    a_i = margin_i / (||x_i|| prod_l ||W_l||_2)

matters. That takes away the paper's assumption that all inputs are bounded, and its search over norms.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from truerisk.bounds._checks import Number, as_float
from truerisk.bounds.margin import SLACK, MarginBound, best_margin, check_margins, exp, margin_range
from truerisk.bounds.pac_bayes import confidence_term
from truerisk.bounds.radii import LOG2, radius_price
from truerisk.errors import TrueriskError

SURE = 0.95  # probability with which a drawn network must keep within the margin; the paper takes 1/2


def neyshabur_2018(
    margins: ArrayLike,
    input_norms: ArrayLike,
    log_product: Number,
    stable_ranks: Sequence[float],
    shapes: Sequence[tuple[int, int]],
    delta: Number,
) -> MarginBound:
    r"""Return the best bound over relative margins t = 2^-k, k paid for.

    `log_product` is ln prod_l N_l with N_l >= ||W_l||_2, `stable_ranks` are ||W_l||_F^2 / N_l^2, `shapes` the (rows,
    columns) of the W_l. For each t the bound is

        (1/n) #{i: a_i <= t} + sqrt((KL + ln(2 sqrt(n)/delta) + price) / (2n)),
        KL = ( sum_l ||W_l||_F^2/N_l^2 / (2 v^2) + h(p) ) / p,    p = 0.95,
        v = ((1 + t/sqrt(8))^(1/d) - 1) / max_l (sqrt(rows_l) + sqrt(columns_l) + sqrt(2 ln(d/(1-p)))).

    Proof. Let all N_l = 1, u be Gaussian noise of standard deviation v on all weights, U_l its matrices. With
    probability at least p all ||U_l||_2 are at most e = (1 + t/sqrt(8))^(1/d) - 1 (Davidson and Szarek 2001, Theorem
    II.13, number from memory: ||U||_2 > v (sqrt(rows) + sqrt(columns) + r) with probability at most exp(-r^2/2); d
    layers). On this event A the outputs move by at most ((1 + e)^d - 1) ||x|| = t ||x|| / sqrt(8), layer by layer,
    hence each margin by at most sqrt(2) times that, t ||x|| / 2. Let Q be w + u given A and P = N(0, v^2), fixed
    beforehand. Then: true risk of w <= risk of Q at margin t ||x|| / 2, which PAC-Bayes (`mcallester`) bounds by the
    empirical one, which is at most #{a_i <= t} / n. And KL(Q, P) <= (KL(w + u, P) + h(p)) / p with h the entropy of a
    coin: N(w, v^2) is a mixture of Q and its complement, and a probability of A above p makes this smaller. The
    constants are ours; the paper's are larger.

    >>> tight = neyshabur_2018([1.0] * 10**6, [1.0] * 10**6, 0.0, [1.0], [(1, 1)], 0.05)
    >>> tight.loss, tight.value < 1
    (0.0, True)
    """
    array, norms = check_margins(margins), check_margins(input_norms)
    if len(norms) != len(array) or not np.all(norms > 0.0):
        raise TrueriskError("input_norms must hold one positive number for each margin.")
    if not stable_ranks or len(stable_ranks) != len(shapes):
        raise TrueriskError("stable_ranks and shapes must name the same layers, at least one.")
    relative = array / norms
    log_product = as_float(log_product, "log_product")
    low, high = margin_range(relative)
    n = len(array)
    sure = confidence_term(n, delta)

    def option(k: int) -> MarginBound:
        log_t = -k * LOG2
        threshold = exp(log_product + log_t)
        loss = float(np.mean(relative <= threshold * (1.0 + SLACK)))
        log_kl = _log_kl(log_t, math.fsum(stable_ranks), shapes)
        # One root for divergence and confidence together, so all of it is the capacity.
        log_total = np.logaddexp(log_kl, math.log(sure + radius_price(k)))
        return MarginBound(threshold, loss, 0.5 * (float(log_total) - math.log(2.0 * n)), 0.0)

    first, last = math.floor((log_product - high) / LOG2), math.ceil((log_product - low) / LOG2)
    return best_margin(map(option, range(first, last + 1)), float(np.mean(array <= 0.0)))


def _log_kl(log_t: float, rank: float, shapes: Sequence[tuple[int, int]]) -> float:
    """ln of the KL above."""
    d = len(shapes)
    wide = max(math.sqrt(rows) + math.sqrt(columns) for rows, columns in shapes)
    wide += math.sqrt(2.0 * math.log(d / (1.0 - SURE)))
    log_room = log_t - 0.5 * math.log(8.0)
    if log_room < -30.0:  # (1 + t)^(1/d) - 1 <= t/d, and not less than this
        log_e = log_room - math.log(d) + math.log1p(-math.exp(log_room))
    else:
        log_e = math.log(math.expm1(_softplus(log_room) / d))
    entropy = -SURE * math.log(SURE) - (1.0 - SURE) * math.log(1.0 - SURE)
    log_half = math.log(rank / 2.0) + 2.0 * (math.log(wide) - log_e) if rank > 0.0 else -math.inf
    return float(np.logaddexp(log_half, math.log(entropy))) - math.log(SURE)


def _softplus(x: float) -> float:
    """ln(1 + exp(x)), also where exp(x) is too large for a float."""
    return x + math.log1p(math.exp(-x)) if x > 0.0 else math.log1p(math.exp(x))
