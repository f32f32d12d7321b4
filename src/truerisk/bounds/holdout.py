"""Hold-out bounds: what k errors on n fresh examples say about the true risk of a fixed predictor.

"Fresh" means that nothing about the predictor, its training, its tuning or its being chosen, depended on
these examples. The exact bound of Clopper and Pearson is the floor that every certificate is compared with.

The binomial tail is evaluated through the incomplete beta function,

    P(Binomial(n, p) <= k) = 1 - I_p(k+1, n-k),

which is accurate in relative terms for n in the millions and for tails of any size.
"""

import math
from fractions import Fraction

from truerisk.bounds._bisection import bisect_outward
from truerisk.bounds._checks import Count, Number, check_delta, check_errors, mirrored, outward

# Relative error allowed for in the tail probability. The tests find less than 1e-12 up to n = 60,000; the
# reserve makes the bound larger by about 1e-9 standard deviations.
_TAIL_MARGIN = 1e-9


def clopper_pearson(errors: Count, n: Count, delta: Number) -> float:
    """Return the p at which at most `errors` errors among `n` have probability `delta`: the exact bound.

    Clopper and Pearson (1934), one-sided; Langford (2005, Theorem 3.3) for classifiers. With probability at
    least 1 - delta the true risk is at most the result, for independent examples of one distribution, and
    no bound that is a function of the error count alone and grows with it can be smaller.

    Found by bisection whose upper end only moves to points with P(Binomial(n, p) <= errors) <= delta, with a
    margin for the error in that probability, so rounding can't make the bound too small. All errors give 1.

    >>> round(clopper_pearson(0, 100, 0.05), 6)  # 1 - 0.05^(1/100), the "rule of three"
    0.029513
    >>> clopper_pearson(7, 7, 0.05)
    1.0
    """
    errors, n = check_errors(errors, n)
    target = check_delta(delta) * (1.0 - _TAIL_MARGIN)
    if errors == n:
        return 1.0
    from scipy.special import betaincc  # slow to load, and not needed to declare a method

    return bisect_outward(0.0, 1.0, lambda p: betaincc(errors + 1, n - errors, p) <= target)


def clopper_pearson_lower(errors: Count, n: Count, delta: Number) -> float:
    """Return the p at which at least `errors` errors among `n` have probability `delta`: the other end.

    With probability at least 1 - delta the true risk is at least the result. Counting right answers instead of
    errors swaps the two ends, P(Binomial(n, p) >= k) = P(Binomial(n, 1-p) <= n-k), so it is 1 minus the upper
    end for n - errors, rounded downward. Both ends together need a delta each. No errors give 0.

    `errors` must not hold ties that the predictor may break in favor of the label.

    >>> round(clopper_pearson_lower(100, 100, 0.05), 6)  # 0.05^(1/100)
    0.970487
    >>> clopper_pearson_lower(0, 7, 0.05)
    0.0
    """
    errors, n = check_errors(errors, n)
    return mirrored(clopper_pearson(n - errors, n, delta))


def clopper_pearson_unequal(errors: Count, n: Count, delta: Number) -> float:
    """Return an upper bound on the average mean of n independent trials whose means may differ.

    It is U = `clopper_pearson` where (errors + 1)/n <= U, and 1 elsewhere. Hoeffding (1956, "On the
    distribution of the number of successes in independent trials", Theorem 4): with average mean p the lower
    tail P(S <= k) is at most that of Binomial(n, p) whenever k <= np - 1. The bound fails only if p > U(k)
    for the observed k, and then k + 1 <= n U(k) < np, so the theorem applies exactly where it is needed.

    The trials must be independent: for models that learn from earlier trials (progressive validation) both
    forms of Clopper-Pearson fail.

    >>> clopper_pearson_unequal(2, 50, 0.05) == clopper_pearson(2, 50, 0.05)
    True
    >>> clopper_pearson_unequal(2, 50, 0.9)  # U is about 0.023, less than 3/50
    1.0
    """
    errors, n = check_errors(errors, n)
    bound = clopper_pearson(errors, n, delta)
    # Compared as fractions: the proof needs the inequality for the returned float itself.
    return bound if errors + 1 <= n * Fraction(bound) else 1.0


def hoeffding_holdout(errors: Count, n: Count, delta: Number) -> float:
    """Return min(1, errors/n + sqrt(ln(1/delta) / (2n))).

    Hoeffding (1963, Theorem 1). Simple, and much looser than `clopper_pearson` at small error rates; kept
    for comparison. It holds for independent trials with unequal means too.

    >>> round(hoeffding_holdout(25, 100, math.exp(-2)), 9)  # 1/4 + sqrt(2/200)
    0.35
    """
    errors, n = check_errors(errors, n)
    return min(1.0, outward(errors / n + math.sqrt(-math.log(check_delta(delta)) / (2.0 * n))))
