r"""Counting: how many different predictions a class can make on n examples, whatever its weights are.

A network with piecewise linear units cuts the space of its weights into cells in which all its outputs are
polynomials of the weights. Each question "is this polynomial positive?" that is asked for each example adds to the
number of cells. With t questions an example, W weights and degree g there are at most

    2 (2 e n t g / W)^W        (and never more than 2^(n t))

different answers to n t questions (Warren's theorem in the form of Anthony and Bartlett 1999, Theorem 8.3, number from
memory, for n t >= W). The product over all layers bounds the number of different predictions. The argument is that of
Bartlett, Harvey, Liaw and Mehrabian (2019, "Nearly-tight VC-dimension and pseudodimension bounds for piecewise linear
neural networks", Theorem 6). It is about polynomials of the weights, so a weight that is used in many places (a
convolution) counts once, branches and skip connections do no harm, and a maximum over k entries asks k (k-1) / 2
questions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from truerisk.bounds._checks import Count, Number, as_float, check_count, check_delta, check_errors, outward
from truerisk.bounds.rademacher import massart
from truerisk.bounds.radii import LOG2
from truerisk.errors import TrueriskError


@dataclass(frozen=True)
class Questions:
    """So many ``tests`` of one example: is a polynomial of ``degree`` in ``weights`` variables positive?"""

    tests: int
    weights: int
    degree: int


def log_answers(n: Count, questions: Sequence[Questions]) -> float:
    """Return ln of a bound on the number of different answers on n examples.

    >>> round(math.exp(log_answers(100, [Questions(1, 2, 1)])), 6)  # 2 (2 e 100/2)^2, a half-line on a line
    147781.121979
    >>> round(log_answers(3, [Questions(2, 500, 1)]) / math.log(2), 12)  # 6 questions, 64 answers
    6.0
    """
    n = check_count(n)
    return math.fsum(_log_factor(n, step) for step in questions)


def _log_factor(n: int, step: Questions) -> float:
    asked = n * check_count(step.tests, "tests", least=0)
    weights = check_count(step.weights, "weights", least=0)
    if asked == 0 or weights == 0:
        return 0.0
    every = asked * LOG2
    if asked < weights:
        return every
    return min(every, LOG2 + weights * math.log(2.0 * math.e * asked * check_count(step.degree, "degree") / weights))


def vc_bound(errors: Count, n: Count, questions: Sequence[Questions], delta: Number) -> float:
    r"""Return errors/n + sqrt(2 ln(answers) / n) + sqrt(ln(1/delta) / (2n)), not cut at 1.

    Vapnik and Chervonenkis (1971) in the form of Mohri et al. (2018, Corollary 3.9): the 0-1 loss takes at most so
    many values on n examples as there are answers, Massart's lemma bounds its Rademacher complexity by
    sqrt(ln(answers)/(2n)), symmetrization doubles that, McDiarmid adds the last term. An example of class y with K
    outputs is classified correctly where f_y - f_j > 0 for the K - 1 other j: the last questions are `Questions(K -
    1, weights, degree)`.

    >>> round(vc_bound(0, 10_000, [Questions(1, 2, 1)], 0.05), 4)
    0.0772
    """
    errors, n = check_errors(errors, n)
    price = math.sqrt(-math.log(check_delta(delta)) / (2.0 * n))
    return outward(errors / n + 2.0 * massart(log_answers(n, questions), n) + price)


def vc_dimension(weights: Sequence[int], units: Sequence[int], breakpoints: Count = 1) -> float:
    r"""Return L + S log2(4 e p R log2(2 e p R)), an upper bound on the VC dimension of a network with one output.

    Bartlett, Harvey, Liaw and Mehrabian (2019, Theorem 6, piecewise linear case): `weights[i]` is the number of
    weights in layers 1 to i+1, S their sum over the L layers (the theorem's Lbar W), `units[i]` the units of layer
    i+1, the last one being 1, R = sum_i i units_i, and p the number of breakpoints of the activation, 1 for ReLU.

    It is the largest m with 2^m <= prod_i 2 (2 e p i k_i m / W_i)^(W_i) <= 2^L (2 e p R m / S)^S (arithmetic and
    geometric mean), solved by their Lemma 18 (number from memory), which needs 2 e p R >= 16; smaller R are rounded
    up. If m < W_i for some i, Warren's theorem does not apply, but then m < S.

    >>> round(vc_dimension([3, 5], [1, 1]), 1)
    58.3
    """
    if not weights or len(weights) != len(units):
        raise TrueriskError("weights and units must name the same layers, at least one.")
    total = sum(check_count(w, "weights") for w in weights)
    r = sum(i * check_count(k, "units") for i, k in enumerate(units, start=1))
    base = max(16.0, 2.0 * math.e * check_count(breakpoints, "breakpoints") * r)
    return len(weights) + total * math.log2(2.0 * base * math.log2(base))


def finite_class(errors: Count, n: Count, log_size: Number, delta: Number) -> float:
    """Return errors/n + sqrt((ln(size) + ln(1/delta)) / (2n)), not cut at 1.

    Occam's razor (Blumer et al. 1987): Hoeffding's inequality for each of `size` predictors. W weights of b bits make
    at most 2^(b W) different networks. The same union bound with exact tails is `description_length`, which is below
    1 even where this is far above it.

    >>> round(finite_class(10, 100, 4.0, math.exp(-4)), 12)
    0.3
    """
    errors, n = check_errors(errors, n)
    log_size = as_float(log_size, "log_size")
    if log_size < 0.0:
        raise TrueriskError(f"log_size must be at least 0, got {log_size}: it is the logarithm of a count.")
    return outward(errors / n + math.sqrt((log_size - math.log(check_delta(delta))) / (2.0 * n)))
