r"""One hidden layer: what each hidden unit has learned since its initialization, and what it does to the output.

Neyshabur, Li, Bhojanapalli, LeCun and Srebro (2019, "Towards understanding the role of over-parametrization in
generalization of neural networks", Theorems 1 and 2), for f(x) = V relu(U x): with rows u_j of U and columns v_j of V

    alpha_j = ||v_j||,    beta_j = ||u_j - u_j^0||,    u_j^0 the weights before training.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from truerisk.bounds._checks import Count, Number, as_float, check_count
from truerisk.bounds.margin import MarginBound, check_margins, homogeneous_bound
from truerisk.bounds.radii import radii_below, radius_above
from truerisk.errors import TrueriskError


def neyshabur_2019(
    margins: ArrayLike,
    outputs: Count,
    impact: Sequence[float],
    capacity: Sequence[float],
    response: Sequence[float],
    input_norm: Number,
    delta: Number,
    constant: Number | None = None,
) -> MarginBound:
    r"""Return the best bound over margins; alpha (`impact`) and beta (`capacity`) of each unit are paid for.

    With K = `outputs`, `response` g_j = ||U^0 X|| of unit j (the root of the sum over examples of (u_j^0.x_i)^2),
    and `input_norm` ||X||_F,

        Rad(ramp loss) <= (2 sqrt(K) / (gamma n)) ( sum_j alpha_j (2 beta_j ||X||_F + g_j) + a sqrt(n) ),

    where a = `constant` is the norm of the output's bias (a unit that is always 1 and never moves), if there is one.
    The paper's Theorem 1 has (2 sqrt(2K) + 2)/(gamma n) sum_j alpha_j (beta_j ||X||_F + g_j): the same up to
    constants, which are ours.

    Proof. By Maurer's contraction (see `peeling`) n Rad <= (2/gamma) E sup sum_j v_j . S_j, with the vectors S_j =
    sum_i s_i relu(u_j.x_i), s_i in {-1, 1}^K; this is at most (2/gamma) sum_j alpha_j E sup ||S_j||. Take the values
    at u_j^0 off: E ||sum_i s_i relu(u_j^0.x_i)|| <= sqrt(K) g_j. What is left is sum_i s_i c_i((u_j - u_j^0).x_i),
    where c_i(t) = relu(t + u_j^0.x_i) - relu(u_j^0.x_i) is a contraction with c_i(0) = 0. Its norm is the root of a
    sum of K squares; by Jensen's inequality and the contraction inequality for squares (Ledoux and Talagrand 1991,
    Theorem 4.12, number from memory) its mean is at most sqrt(K) 2 beta_j ||X||_F.

    Price: every alpha_j and beta_j is one of four radii below the largest of its kind (`radii_below`), the largest
    beta is on the grid of `radius_above`; the largest alpha divided by the margin is the ratio of
    `homogeneous_bound`.

    >>> found = neyshabur_2019([8.0] * 10**6, 2, [1.0], [1.0], [0.0], 1000.0, 0.05)
    >>> round(math.exp(found.log_capacity) * found.margin, 6)  # 2 * 2 sqrt(2) * 2 * 1000 / 10^6
    0.011314
    """
    n, k = len(check_margins(margins)), check_count(outputs, "outputs")
    alphas = _logs([*impact] if constant is None else [*impact, as_float(constant, "constant")], "impact")
    betas = _logs(capacity, "capacity")
    if not len(impact) == len(capacity) == len(response) > 0:
        raise TrueriskError("impact, capacity and response must hold one number for each hidden unit.")
    relative, paid_alpha = radii_below(alphas)
    steps, paid_beta = radii_below(betas)
    largest, paid_largest = radius_above(max(betas))
    inputs = as_float(input_norm, "input_norm")
    beta = np.exp(largest + np.asarray(steps))
    terms = [
        *(2.0 * beta * inputs + np.asarray(response, dtype=np.float64)),
        *([] if constant is None else [math.sqrt(n)]),
    ]
    total = float(np.exp(np.asarray(relative)) @ np.asarray(terms))
    if not 0.0 < total < math.inf:
        raise TrueriskError("capacities, responses and input_norm must be finite and not all zero.")
    log_unit = math.log(2.0 * math.sqrt(k) / n) + math.log(total)
    return homogeneous_bound(margins, max(alphas), log_unit, delta, paid_alpha + paid_beta + paid_largest)


def _logs(values: Sequence[float], name: str) -> list[float]:
    numbers = [as_float(value, name) for value in values]
    if any(number < 0.0 for number in numbers):
        raise TrueriskError(f"{name} must hold norms, which are never negative.")
    return [math.log(number) if number > 0.0 else -math.inf for number in numbers]
