r"""Uniform stability: a learner that no one example can change much generalizes.

A is the learner, S a training set of n examples, S^i the same set with one example *replaced*, z any example, l a loss
between 0 and M. Here a learner has stability epsilon if

    |l(A(S), z) - l(A(S^i), z)| <= epsilon      for all S, S^i, and z.

Bousquet and Elisseeff (2002) *remove* the example, and call that stability beta. Removing twice is replacing: a learner
with stability beta under removal has epsilon = 2 beta. Every function here takes or returns epsilon, except
`uniform_stability_left_out`. A value measured on some S and z is a lower estimate of epsilon, and proves nothing.

SGD draws one example in each of T steps, or visits all of them in random order. Two runs on S and S^i with the same
draws are apart by d_t. A step on a common example multiplies the distance by at most `eta`, a step on the replaced one
adds at most 2 rate L, for losses with gradients of norm at most L. Hardt, Recht and Singer (2016) bound the expected
distance by this recursion, and hence the stability by L times it. What `eta` is decides everything:

    convex and smoothness beta, rate <= 2/beta              eta = 1
    strongly convex (constant gamma), rate <= 1/beta        eta = 1 - rate gamma
    smoothness beta only                                    eta = 1 + rate beta

Their stability is a mean over the draws of SGD. It bounds the risk in expectation; the bounds that hold with high
probability need epsilon for each sequence of draws. Theorem numbers of both papers are from memory (that of Hardt et
al. in the version on arXiv).

**Batches of b > 1.** The replaced example adds 2 rate L / b instead of 2 rate L, and is in a batch with probability b/n
instead of 1/n: `sgd_convex` and `sgd_strongly_convex` hold as they are, with T counting steps. So they do if every
epoch visits each example once, in an order that is uniform. `sgd_strongly_convex_decaying` and `sgd_non_convex` do not
hold for b > 1: they use that an example is unlikely to be seen early, and the probability that it is grows with b.
"""

import math
from collections.abc import Sequence

from truerisk.bounds._checks import Count, Number, as_float, check_count, check_delta, outward
from truerisk.errors import TrueriskError

SLACK = 1.0 + 1e-12  # on conditions such as rate <= 2/beta, for numbers that were divided before


def expected_risk(loss: Number, stability: Number) -> float:
    r"""Return loss + epsilon, an upper bound on the expected risk if `loss` is the expected training loss.

    Bousquet and Elisseeff (2002, Lemma 7), Hardt et al. (2016, Theorem 2.2). Both expectations are over training sets
    and over the draws of the learner. Proof: z_i is as new to A(S^i) as any example is to A(S), so the expected gap is
    the mean of l(A(S^i), z_i) - l(A(S), z_i), and each of these differences is at most epsilon.

    >>> round(expected_risk(0.25, 0.125), 12)
    0.375
    """
    return outward(_positive(loss, "loss", zero=True) + _positive(stability, "stability", zero=True))


def uniform_stability(loss: Number, stability: Number, n: Count, delta: Number, largest: Number = 1.0) -> float:
    r"""Return loss + epsilon + (2 n epsilon + M) sqrt(ln(1/delta) / (2n)), not cut at M.

    Bousquet and Elisseeff (2002, Theorem 12), which has 2 beta for epsilon. `stability` is fixed before the data are
    seen, `largest` is M. For a learner that draws, the draws are independent of the data, and epsilon holds for each
    of them. Proof: the expected gap is at most epsilon (`expected_risk`); replacing an example changes the risk by at
    most epsilon, and the training loss by at most epsilon + M/n; McDiarmid.

    >>> round(uniform_stability(0.1, 0.0, 200, math.exp(-4)), 12)  # the inequality of Hoeffding: 0.1 + sqrt(4 / 400)
    0.2
    >>> round(uniform_stability(0.1, 0.01, 200, math.exp(-4)), 12)  # + 0.01 + 4 * 0.1
    0.61
    """
    n, delta, loss, epsilon, top = _checked(n, delta, loss, stability, largest)
    return outward(loss + epsilon + (2.0 * n * epsilon + top) * _spread(n, delta))


def uniform_stability_left_out(loss: Number, removal: Number, n: Count, delta: Number, largest: Number = 1.0) -> float:
    r"""Return loss + beta + (4 n beta + M) sqrt(ln(1/delta) / (2n)) for the leave-one-out estimate `loss`.

    Bousquet and Elisseeff (2002, Theorem 12). `removal` is beta, the stability when one example is *removed*, for
    training sets of n and of n - 1 examples: the estimate trains on n - 1. `loss` is the mean over i of l(A(S without
    z_i), z_i). Conditions are those of `uniform_stability`.

    >>> round(uniform_stability_left_out(0.1, 0.005, 200, math.exp(-4)), 12)  # 0.1 + 0.005 + (4 + 1) * 0.1
    0.605
    """
    n, delta, loss, beta, top = _checked(n, delta, loss, removal, largest)
    return outward(loss + beta + (4.0 * n * beta + top) * _spread(n, delta))


def needed_stability(loss: Number, n: Count, delta: Number, below: Number = 1.0, largest: Number = 1.0) -> float | None:
    r"""Return the largest epsilon at which `uniform_stability` is at most `below`; None if 0 is not small enough.

        epsilon = (below - loss - M s) / (1 + 2 n s),    s = sqrt(ln(1/delta) / (2n))

    It falls as 1/sqrt(n): the more examples, the less may one of them change. Rounded down.

    >>> round(needed_stability(0.1, 200, math.exp(-4)), 12)  # 0.8 / 41
    0.019512195122
    >>> needed_stability(0.95, 200, math.exp(-4)) is None
    True
    """
    n, delta, loss, limit, top = _checked(n, delta, loss, below, largest)
    spread = _spread(n, delta)
    # Each term is rounded against the result, the result itself down: its bound stays below after outward rounding.
    room = limit / outward(1.0) - outward(loss + top * spread)
    found = room / outward(1.0 + 2.0 * n * spread) / outward(1.0)
    return found if room >= 0.0 else None


def regularized_stability(slope: Number, kappa: Number, strength: Number, n: Count) -> float:
    r"""Return sigma^2 kappa^2 / (lambda n), the stability of the minimizer of (1/n) sum_i l(f, z_i) + lambda |f|^2.

    Bousquet and Elisseeff (2002, Theorem 22) have half of it, for removal. f lies in a Hilbert space with kernel k; the
    loss is convex in f(x) with slope at most sigma there; k(x, x) <= kappa^2 for all inputs x. For linear models, kappa
    is the largest |x|. Equality for the loss -y f(x) and examples that are opposite to each other.

    >>> regularized_stability(1.0, 2.0, 0.5, 100) == outward(0.08)
    True
    """
    slope, kappa, strength = (
        _positive(slope, "slope"), _positive(kappa, "kappa"), _positive(strength, "strength")
    )  # fmt: skip
    return _known(slope * slope * kappa * kappa / (strength * check_count(n)))


def sgd_convex(rates: Sequence[Number], lipschitz: Number, smoothness: Number, n: Count) -> float:
    r"""Return (2 L^2 / n) sum_t rate_t, the stability of SGD on convex losses (Hardt et al. 2016, Theorem 3.7).

    For every example the loss is convex in the weights, its gradient has norm at most L and is Lipschitz with constant
    `smoothness`, and no rate exceeds 2 / smoothness. After whole epochs, each at one rate, that visit each example once
    in batches of one size, it holds for each order and not only on average. Rates that fall within an epoch, or an
    epoch that stops early, give the examples seen first more than the mean.

    >>> round(sgd_convex([0.5] * 20, 1.0, 4.0, 100), 12)
    0.2
    """
    steps = [_positive(rate, "rate", zero=True) for rate in rates]
    lipschitz, n = _positive(lipschitz, "lipschitz", zero=True), check_count(n)
    _refuse_rate(max(steps, default=0.0), 2.0 / _positive(smoothness, "smoothness"), "2 / smoothness")
    return _known(2.0 * lipschitz * lipschitz * math.fsum(steps) / n)


def sgd_strongly_convex(rate: Number, lipschitz: Number, smoothness: Number, convexity: Number, n: Count) -> float:
    r"""Return 2 L^2 / (gamma n), the stability of SGD at a constant rate on strongly convex losses (Theorem 3.9).

    For every example the loss minus gamma |w|^2 / 2 is convex, the gradient is Lipschitz with constant `smoothness`,
    and the rate is at most 1 / smoothness. No strongly convex loss has bounded gradients on the whole space; L bounds
    them on a convex set that iterates never leave, or are projected onto.

    Weight decay gamma on a convex loss with gradients of norm at most L and smoothness beta needs no such set: decay
    moves both runs alike, so only the L of the loss without it counts, for the stability of that loss. The rate
    must be at most 2 / (beta + 2 gamma); `smoothness` beta + gamma asks for slightly more.

    >>> round(sgd_strongly_convex(0.1, 1.0, 4.0, 0.5, 100), 12)
    0.04
    """
    lipschitz, gamma = _positive(lipschitz, "lipschitz", zero=True), _positive(convexity, "convexity")
    smoothness = _positive(smoothness, "smoothness")
    if gamma > smoothness * SLACK:
        raise TrueriskError(
            f"convexity is {gamma:g}, but must be at most smoothness, {smoothness:g}; check both constants."
        )
    _refuse_rate(_positive(rate, "rate"), 1.0 / smoothness, "1 / smoothness")
    return _known(2.0 * lipschitz * lipschitz / (gamma * check_count(n)))


def sgd_strongly_convex_decaying(
    lipschitz: Number, smoothness: Number, convexity: Number, largest: Number, n: Count
) -> float:
    r"""Return (2 L^2 + beta M) / (gamma n): as `sgd_strongly_convex`, for rates 1 / (gamma t) (Theorem 3.10).

    The first beta/gamma rates are too large for the recursion; an example seen that early adds at most M, `largest`.
    Each step sees one example.

    >>> round(sgd_strongly_convex_decaying(1.0, 4.0, 0.5, 2.0, 100), 12)
    0.2
    """
    lipschitz, gamma = _positive(lipschitz, "lipschitz", zero=True), _positive(convexity, "convexity")
    beta, top = _positive(smoothness, "smoothness"), _positive(largest, "largest")
    return _known((2.0 * lipschitz * lipschitz + beta * top) / (gamma * check_count(n)))


def sgd_non_convex(steps: Count, scale: Number, lipschitz: Number, smoothness: Number, n: Count) -> float:
    r"""Return ceil(t0)/n + t0 / (beta c (n - 1)), the stability of SGD on smooth losses between 0 and 1.

        t0 = (2 c L^2)^(1/(beta c + 1)) T^(beta c/(beta c + 1))

    for T steps of one example each at rates of at most c/t. Hardt et al. (2016, Theorem 3.12) have t0 for ceil(t0), and
    hence (1 + 1/(beta c)) t0 / (n - 1); the sum in the proof starts after an integer. Proof: with probability at least
    1 - t/n the first t steps do not see the replaced example, and from there on the expected distance grows to at most
    2 L (T/t)^(beta c) / (beta (n - 1)); t0 makes the sum smallest. Never above T/n, the probability that T draws
    see the example at all. A constant rate is at most c/t for c = T rate: then t0 is nearly T.

    >>> round(sgd_non_convex(100, 1.0, 1.0, 1.0, 10_001), 6)  # t0 = sqrt(200); 15/10001 + 14.142136/10000
    0.002914
    """
    n, t = check_count(n, least=2), check_count(steps, "steps")
    lipschitz, c = _positive(lipschitz, "lipschitz"), _positive(scale, "scale")
    bc = _positive(smoothness, "smoothness") * c
    if not 0.0 < bc < math.inf or lipschitz == math.inf:
        return outward(t / n)
    power = 1.0 / (bc + 1.0)
    logarithm = power * (math.log(2.0) + math.log(c) + 2.0 * math.log(lipschitz)) + bc * power * math.log(t)
    if logarithm >= math.log(t):
        return outward(t / n)
    early = math.exp(logarithm)
    return outward(min(t / n, max(1, math.ceil(early * SLACK)) / n + early / (bc * (n - 1))))


def sgd_distance(
    rates: Sequence[Number], etas: Sequence[Number], lipschitz: Number, n: Count, seen_from: Count = 0
) -> float:
    r"""Return the expected distance d_T of two runs by the recursion d <- eta_t d + 2 rate_t L / n, from d = 0.

    Hardt et al. (2016, Lemma 2.5 and after): `etas` bound how much the steps on common examples can expand distances.
    Steps before `seen_from` see the replaced example in neither run and leave d = 0. Times L it is a stability; with
    etas of 1 it is `sgd_convex`. Rates and etas that vary, or that were estimated, have no closed form.

    >>> round(sgd_distance([0.1, 0.1], [1.0, 1.5], 2.0, 10), 12)  # 0.04, then 1.5 * 0.04 + 0.04
    0.1
    """
    n, lipschitz = check_count(n), _positive(lipschitz, "lipschitz", zero=True)
    first, distance = check_count(seen_from, "seen_from", least=0), 0.0
    if len(rates) != len(etas):
        raise TrueriskError(f"there are {len(rates)} rates and {len(etas)} etas; give one eta for each rate.")
    for rate, eta in list(zip(rates, etas, strict=True))[first:]:
        kick = 2.0 * _positive(rate, "rate", zero=True) * lipschitz / n
        eta = _positive(eta, "eta", zero=True)
        distance = _known((eta * distance if distance else 0.0) + kick)
    return distance


def _known(value: float) -> float:
    """Rounded outward; infinite where 0 times infinity leaves nothing known."""
    return math.inf if math.isnan(value) else outward(value)


def _spread(n: int, delta: float) -> float:
    return math.sqrt(-math.log(delta) / (2.0 * n))


def _checked(
    n: Count, delta: Number, loss: Number, stability: Number, largest: Number
) -> tuple[int, float, float, float, float]:
    top, loss = _positive(largest, "largest"), _positive(loss, "loss", zero=True)
    if loss > top:
        raise TrueriskError(f"loss is {loss:g}, but must be at most largest, {top:g}; pass a mean of bounded losses.")
    return check_count(n), check_delta(delta), loss, _positive(stability, "stability", zero=True), top


def _positive(value: Number, name: str, zero: bool = False) -> float:
    number = as_float(value, name)
    if number < 0.0 or (number == 0.0 and not zero):
        raise TrueriskError(f"{name} must be {'at least' if zero else 'above'} 0, got {number:g}.")
    return number


def _refuse_rate(rate: float, most: float, words: str) -> None:
    if rate > most * SLACK:
        raise TrueriskError(f"a rate is {rate:g}, but must be at most {words} = {most:g}; train with smaller steps.")
