"""The nearest-neighbor rule in the limit of infinitely many examples (Cover and Hart 1967).

For almost every distribution, the nearest of infinitely many examples lies arbitrarily near to a new input x, so its
label is a second, independent draw from the same class probabilities eta_k(x). Both labels differ with probability

    R = E[1 - sum_k eta_k(x)^2]          (two classes: E[2 eta (1 - eta)])

and with the Bayes risk R* = E[1 - max_k eta_k(x)] and M classes (Cover and Hart 1967, Section V; two classes:
R* <= R <= 2 R* (1 - R*), the paper's theorem in Section IV, section numbers from memory)

    R*  <=  R  <=  R* (2 - M/(M-1) R*).

Both ends can be reached. Nothing is said about finite n: with n examples the risk may lie above or below R.
"""

import math

import numpy as np

from truerisk.bounds._checks import Count, Number, check_count, check_risk, outward
from truerisk.errors import TrueriskError

ROUNDING = 1e-6  # by which class probabilities may miss a sum of 1


def cover_hart(bayes_risk: Number, classes: Count = 2) -> float:
    """Return R* (2 - M/(M-1) R*), an upper bound on the limit of the nearest-neighbor risk.

    >>> round(cover_hart(0.1), 12), round(cover_hart(0.9, classes=10), 12)
    (0.18, 0.9)
    """
    best, most = check_risk(bayes_risk, "bayes_risk"), _guessing(classes)
    if best > most:
        raise TrueriskError(
            f"bayes_risk is {best}, but guessing among {classes} classes errs on {most:g}; pass the Bayes risk."
        )
    return min(outward(best * (2.0 - best / most)), most)


def cover_hart_lower(neighbor_risk: Number, classes: Count = 2) -> float:
    """Return (M-1)/M (1 - sqrt(1 - M/(M-1) R)), a lower bound on the Bayes risk, from the limit R of the nearest
    neighbor's risk: the inequality of Cover and Hart solved for R*.

    >>> round(cover_hart_lower(0.18), 12), cover_hart_lower(0.0)
    (0.1, 0.0)
    """
    risk, most = check_risk(neighbor_risk, "neighbor_risk"), _guessing(classes)
    share = min(1.0, risk / most)
    lower = most * share / (1.0 + math.sqrt(1.0 - share))  # 1 - sqrt(1 - s), without cancellation
    return lower * (2.0 - outward(1.0))


def nearest_neighbor_limit(probabilities: np.ndarray) -> float:
    """Return the mean of 1 - sum_k eta_k^2 over inputs: the limit R, given class probabilities (inputs, classes).

    >>> nearest_neighbor_limit(np.array([[0.5, 0.5], [1.0, 0.0]]))
    0.25
    """
    eta = np.asarray(probabilities, np.float64)
    if eta.ndim != 2 or not eta.size or not (eta >= 0).all() or not (abs(eta.sum(axis=1) - 1) <= ROUNDING).all():
        raise TrueriskError(
            f"probabilities of shape {eta.shape} are no class probabilities; give rows of numbers that add up to 1."
        )
    return float(np.mean(1.0 - (eta**2).sum(axis=1)))


def _guessing(classes: Count) -> float:
    """The risk of guessing among equally likely classes: the largest Bayes risk."""
    count = check_count(classes, "classes", least=2)
    return (count - 1) / count
