r"""Progressive validation: models that learn from the very examples that tested them.

A first model is trained on a prefix of the data, tested on the next block, trained on that block too, tested
on the block after it, and so on. The certified predictor draws one of the tested models at random for each
prediction, with the block sizes as weights (Blum, Kalai and Langford 1999, "Beating the hold-out: bounds for
k-fold and progressive cross-validation"). Most data trains, and everything after the prefix certifies.

Later models depend on earlier errors, so the tests are not independent trials: a binomial tail inversion
such as Clopper-Pearson is not valid here: learners that adapt to their own errors break it.
"""

import math

from truerisk.bounds._checks import (
    EPS,
    Count,
    Number,
    as_float,
    check_count,
    check_delta,
    check_errors,
    check_risk,
    mirrored,
)
from truerisk.bounds.kl import kl_inverse
from truerisk.bounds.pac_bayes import catoni
from truerisk.errors import TrueriskError


def progressive(errors: Count, n: Count, delta: Number, t: Number) -> float:
    """Return min(1, (1 - delta^(1/n) exp(-t errors/n)) / (1 - exp(-t))), for one t > 0 fixed beforehand.

    `n` counts the tested examples of all blocks, `errors` the errors on them, each made by a model that has
    not seen its block. With probability at least 1 - delta the true risk p_bar of the predictor, the mean of
    the models' true risks over the n tests, is at most the result. `t` may depend on the prefix, not on the
    blocks; `progressive_t` picks a good one.

    Proof. Let p_i be the true risk of the model that the i-th test meets and X_i its error. The model is
    fixed before the i-th example is drawn, so given the past X_i is a coin with mean p_i, and
    E[exp(-t X_i) | past] = 1 - p_i a with a = 1 - exp(-t). Hence the product of exp(-t X_i) / (1 - p_i a) over
    the tests has expectation 1 (multiply out the last factor first), and exceeds 1/delta with probability at
    most delta (Markov). Otherwise

        exp(-t errors) <= (1/delta) prod (1 - p_i a) <= (1/delta) (1 - p_bar a)^n,

    the second step because ln(1 - x a) is concave in x. Solve for p_bar. All tests in a block meet
    one model, which weights each model by its block.

    Whatever the past decides is allowed: training, stopping, tuning, block sizes. The n must be fixed. The
    formula is Catoni's at KL = 0, but there the examples certify one fixed prior and beta.

    >>> round(progressive(0, 100, 0.05, t=math.log(2)), 6)  # 2 (1 - 0.05^(1/100))
    0.059026
    """
    errors, n = check_errors(errors, n)
    t = as_float(t, "t")
    if not 0.0 < t < math.inf:
        raise TrueriskError(f"t must be positive and finite, got {t}: take progressive_t of the risk on the prefix.")
    return catoni(errors / n, 0.0, n, delta, beta=t)


def progressive_lower(errors: Count, n: Count, delta: Number, t: Number) -> float:
    """Return 1 minus `progressive` for the right answers: the true risk is at least this.

    The proof holds for 1 - X_i in place of X_i. `t` is one of its own, chosen for the rate of right answers, and the
    event needs a delta of its own. `errors` must not hold ties that a model may break in favor of the label.

    >>> round(progressive_lower(100, 100, 0.05, t=math.log(2)), 6)  # 1 - 2 (1 - 0.05^(1/100))
    0.940974
    """
    errors, n = check_errors(errors, n)
    return mirrored(progressive(n - errors, n, delta, t))


def progressive_t(expected_risk: Number, n: Count, delta: Number) -> float:
    """Return the t that makes `progressive` smallest if the error rate on the n tests is `expected_risk`.

    For an error rate q the smallest value over all t is the Chernoff form p = kl_inverse(q, ln(1/delta)/n):
    solved for ln(1/delta)/n, the bound reads -t q - ln(1 - p (1 - exp(-t))), whose supremum over t is
    kl(q, p), attained where exp(t) = p (1-q) / (q (1-p)). For small q this t is about
    sqrt(2 ln(1/delta) / (n q)). The rate must be known before the tests: from data of the prefix, say. A wrong
    guess costs tightness, never validity; it is kept between 1/(n+1) and n/(n+1), where t is finite.

    >>> t = progressive_t(0.02, 10_000, 0.05)
    >>> chernoff = kl_inverse(0.02, math.log(20) / 10_000)
    >>> abs(progressive(200, 10_000, 0.05, t) - chernoff) < 1e-12
    True
    """
    n = check_count(n)
    q = min(max(check_risk(expected_risk, "expected_risk"), 1.0 / (n + 1)), n / (n + 1))
    p = min(kl_inverse(q, -math.log(check_delta(delta)) / n), 1.0 - EPS)
    return math.log1p((p - q) / (q * (1.0 - p)))
