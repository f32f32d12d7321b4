r"""Sample compression: predictors that a few of the training examples determine.

Two bounds, for two kinds of scheme.

*Preferent schemes* (`pick_to_learn`). A compression c maps a set of examples to a subset of it, and is
preferent if c(U) = V and V <= T <= U imply c(T) = V: what was left out never mattered. Of interest is the
probability of change phi(V) = P(c(V + z) != V), z a fresh example. Where an error of the predictor on z
always changes the compression, phi bounds the true risk. The bound is that of Campi and Garatti (2023,
"Compression, generalization and learning"); Paccagnan, Campi and Garatti (2023) embed any training in a
preferent scheme: *pick-to-learn* trains, picks the example that the model is worst at, trains on the picks so
far, and stops when all that remain are right.

*Any scheme* (`compression_with_errors`): reconstruct from k examples, test on the others, and pay for having
chosen which (Littlestone and Warmuth 1986, Floyd and Warmuth 1995, Langford 2005).

What makes a scheme preferent in practice: examples are ranked by a rule that looks at the model and at one
example at a time, with ties broken by numbers drawn beforehand (so that equal examples differ); what training
does may depend on the picks and on their order, on prior data and on seeds, never on how many or which
examples were not picked. Then the same run on any T between V and U makes the same picks. Two variants
are preferent for the same reason: several of the worst at a time, and *early stopping* after a number of
rounds fixed beforehand, where c(S) is the picks together with all other examples that the final model gets
wrong, so that k = picks + errors.
"""

import math

from truerisk.bounds._bisection import bisect_outward
from truerisk.bounds._checks import Count, Number, check_count, check_delta, check_errors, outward
from truerisk.bounds._tails import log_choose, log_margin, log_pmf, tail_inverse
from truerisk.errors import TrueriskError


def _check_size(k: Count, n: Count) -> tuple[int, int]:
    n = check_count(n)
    k = check_count(k, "k", least=0)
    if k > n:
        raise TrueriskError(f"k must not exceed n, got {k} of {n} examples: count each compressed example once.")
    return k, n


def pick_to_learn(k: Count, n: Count, delta: Number) -> float:
    r"""Return eps(k): the bound on the probability of change of a preferent compression to k of n examples.

    eps(n) = 1, and for k < n it is the solution of

        (delta/n) sum_(m=k)^(n-1) [C(m,k)/C(n,k)] (1-eps)^-(n-m) = 1.

    Campi and Garatti (2023; the theorem for preferent schemes without further assumptions). With probability
    at least 1 - delta over n independent examples of one distribution, phi(c(S)) <= eps(k) with k the size of c(S).

    Proof. Let V be k examples, Z_m a further m - k, and q_m(V) = P(c(V + Z_m) = V) over the draw of Z_m. By
    symmetry P(c(S_m) has size k and phi > e) = C(m,k) E[q_m(V) 1(phi(V) > e)] for a sample S_m of size m, and
    summed over k <= m without the condition on phi these are 1. If c(V + Z_n) = V, then by preference c(V + Z_m) = V
    for the first m - k of them and c(V + z) = V for each of the n - m others, which are independent; hence

        q_n <= q_m (1 - phi)^(n-m).

    Where phi > eps(k) the sum in the equation is above 1 (it grows with eps), so

        C(n,k) q_n <= (delta/n) sum_m C(m,k) (1-phi)^-(n-m) q_n <= (delta/n) sum_(m=k)^(n-1) C(m,k) q_m.

    Take expectations and add up over k < n. The left side is P(phi > eps(k)) for the k observed, the right side at most
    (delta/n) times the n sums, one for each m < n, that are 1. QED. Only preference was used; that q_n equals
    (1-phi)^(n-k) would need more (pairs of examples can change a compression that neither changes alone).

    Evaluated in closed form: multiplied by C(n,k) eps^(k+1) (1-eps)^(n-k) the sum is P(Binomial(n, eps) > k),
    and the equation becomes n eps P(Binomial(n, eps) = k) = delta P(Binomial(n, eps) > k). Bisection between k/n
    and 1 whose upper end only moves to points where the left side is smaller by more than rounding.

    >>> pick_to_learn(3, 3, 0.05)
    1.0
    >>> round(pick_to_learn(0, 1, 0.05), 9)  # 0.05 / (1 - eps) = 1
    0.95
    """
    k, n = _check_size(k, n)
    log_delta = math.log(check_delta(delta))
    if k == n:
        return 1.0
    from scipy.special import betainc  # slow to load, and not needed to declare a method

    def enough(eps: float) -> bool:
        left = math.log(n * eps) + log_pmf(k, n, eps)
        return left + log_margin(n, -log_delta) <= log_delta + math.log(betainc(k + 1, n - k, eps))

    # The sum in the equation has at most n terms, none above 1 at eps = k/n: the solution lies above.
    return bisect_outward(k / n, 1.0, enough)


def compression_with_errors(errors: Count, k: Count, n: Count, delta: Number, *, ordered: bool = False) -> float:
    """Return the Clopper-Pearson bound for `errors` on the n - k other examples, at delta / (n C(n,k)).

    The predictor is reconstructed from k of the n examples by a map fixed beforehand, and makes `errors`
    errors on the remaining n - k. Each choice of k positions, taken alone, is a predictor tested on fresh
    examples; the union bound runs over the C(n,k) choices and over the n sizes k = 0, ..., n-1, so k, the
    choice, and everything else about the compression may depend on the data (Floyd and Warmuth 1995; Langford
    2005, Section 6 on sample compression, number from memory). With `ordered` the map may look at the order
    in which the k were chosen (the order of training, say), which costs a further factor k!; without it the
    order must come from the positions in the sample or from the examples themselves. k = n gives 1.

    >>> round(compression_with_errors(0, 0, 100, 0.05), 6)  # 1 - (0.05/100)^(1/100)
    0.073192
    """
    k, n = _check_size(k, n)
    delta = check_delta(delta)
    if k == n:
        if check_count(errors, "errors", least=0) > 0:
            raise TrueriskError(f"errors must be 0 where no example is left to test, got {errors}.")
        return 1.0
    errors, rest = check_errors(errors, n - k)
    price = math.log(n) + log_choose(n, k) + (math.lgamma(k + 1.0) if ordered else 0.0) - math.log(delta)
    return tail_inverse(errors, rest, outward(price))
