"""Random signs: estimates of empirical Rademacher complexities, and what can be proved from them.

For a family H of functions and n inputs, R(H) = E sup_h (1/n) sum_i sigma_i h(x_i), where the sigma_i are independent
random signs. A classifier that was found by training is one h among many, so its correlation with the signs is a lower
estimate of the supremum, never a bound from above. Networks are trained on signs in `families.rademacher`; bounds that
take a complexity are in `truerisk.bounds.rademacher`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from truerisk.bounds.rademacher import massart
from truerisk.measures.shattering import cover, separable


def draw_signs(n: int, draws: int, seed: int) -> np.ndarray:
    """`draws` rows of n independent signs, each -1 or 1 with equal probability."""
    return np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, n))


def linear_correlations(X: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """For each row of signs, how well some affine classifier agrees with it: a lower estimate of the supremum.

    It is exactly 1 where a linear program finds a separator. Elsewhere the classifier is that of least squares,
    one product for all rows; the best one is hard to compute.
    """
    inputs = np.column_stack([X, np.ones(len(X))])
    basis, singular, _ = np.linalg.svd(inputs, full_matrices=False)
    basis = basis[:, singular > singular[0] * len(X) * np.finfo(float).eps]
    fitted = (signs @ basis) @ basis.T
    correlations = (signs * np.sign(fitted)).mean(axis=1)
    if len(X) <= 3 * inputs.shape[1]:  # beyond this, Cover's formula leaves a separator no chance
        found = [separable(X, row > 0) for row in signs]
        correlations = np.where(found, 1.0, correlations)
    return correlations


def linear_upper(n: int, d: int) -> float:
    """An upper bound on R of affine classifiers in R^d: sqrt(2 log(number of labelings) / n), and at most 1.

    Massart's lemma (Mohri et al. 2018, Theorem 3.7) with Cover's number of labelings. Values -1 and 1 double the
    complexity of losses in [0, 1], which `massart` bounds.

    >>> linear_upper(10, 40), round(linear_upper(10_000, 40), 3)
    (1.0, 0.227)
    """
    return min(1.0, 2 * massart(math.log(cover(n, d)), n))


def ball_complexity(X: np.ndarray, radius: float, draws: int, seed: int) -> tuple[float, float]:
    """(estimate, standard error) of R for x -> <w, x> with |w| <= radius, by drawing signs.

    Here the supremum has a closed form: R = radius E|sum_i sigma_i x_i| / n (Cauchy-Schwarz, with equality).
    """
    lengths = np.linalg.norm(draw_signs(len(X), draws, seed) @ X, axis=1) * radius / len(X)
    return float(lengths.mean()), float(lengths.std(ddof=1) / math.sqrt(draws))


def ball_upper(X: np.ndarray, radius: float) -> float:
    """An upper bound on R of `ball_complexity`: radius sqrt(sum_i |x_i|^2) / n (Bartlett and Mendelson 2002, Lemma 22).

    R is at least 1/sqrt(2) of it, by the best constant of Khintchine and Kahane (Latala and Oleszkiewicz 1994).

    >>> round(ball_upper(np.array([[3.0, 4.0], [0.0, 12.0]]), 2.0), 12)
    13.0
    """
    return radius * float(np.linalg.norm(X)) / len(X)


def proven_complexity(correlations: Sequence[float], n: int, delta: float = 0.05) -> float:
    """With probability 1 - delta over the signs, R of a family with values -1 and 1 is at least this.

    The mean of K suprema changes by at most 2/(nK) with one sign, so McDiarmid's inequality leaves
    sqrt(2 log(1/delta) / (nK)) between it and R; correlations that training found lie below the suprema. Where each
    correlation belongs to other inputs, R is the mean of their complexities.

    >>> round(proven_complexity([1.0, 0.99], 1000), 3)
    0.94
    """
    slack = math.sqrt(2 * math.log(1 / delta) / (n * len(correlations)))
    return max(0.0, math.fsum(correlations) / len(correlations) - slack)
