r"""A certificate handed over from one predictor to another by their agreement on unlabelled inputs."""

from truerisk.bounds._checks import EPS, Count, Number, check_count, check_risk, mirrored, outward
from truerisk.bounds.holdout import clopper_pearson
from truerisk.errors import TrueriskError


def disagreement(surrogate_bound: Number, disagreements: Count, n: Count, delta: Number) -> float:
    """Return min(1, surrogate_bound + clopper_pearson(disagreements, n, delta)).

    Where the target errs, the surrogate errs or the two disagree, so risk(target) <= risk(surrogate) +
    P(they disagree) (Kaariainen 2005; Bazinet, Zantedeschi and Germain 2026). The second term is bounded on n
    fresh inputs, which need no labels, but must be independent draws that neither predictor was trained,
    tuned or chosen on. `delta` pays for that bound alone; the event behind `surrogate_bound` has its own.

    A surrogate that draws its weights afresh for every prediction is drawn afresh for each of the n inputs:
    the disagreements are then independent trials with one mean, and the target may be deterministic.

    >>> disagreement(0.125, 100, 100, 0.05)
    1.0
    >>> round(disagreement(0.125, 0, 100, 0.05), 6)  # 0.125 + 1 - 0.05^(1/100)
    0.154513
    """
    bound = check_risk(surrogate_bound, "surrogate_bound")
    return min(1.0, outward(bound + _most(disagreements, n, delta)))


def disagreement_lower(surrogate_lower: Number, disagreements: Count, n: Count, delta: Number) -> float:
    """Return max(0, surrogate_lower - clopper_pearson(disagreements, n, delta)).

    Where the surrogate errs, the target errs or the two disagree: the same step with the two swapped. It holds on
    the same event about the disagreement as `disagreement` does.

    >>> disagreement_lower(0.5, 100, 100, 0.05)
    0.0
    >>> round(disagreement_lower(0.5, 0, 100, 0.05), 6)  # 0.5 - (1 - 0.05^(1/100))
    0.470487
    """
    bound = check_risk(surrogate_lower, "surrogate_lower")
    # The sum of numbers up to 2 is rounded twice; the last term lifts it by more than that.
    return mirrored(min(1.0, 1.0 - bound + _most(disagreements, n, delta) + 4 * EPS))


def _most(disagreements: Count, n: Count, delta: Number) -> float:
    """The upper end of the probability that the two disagree."""
    n = check_count(n)
    differing = check_count(disagreements, "disagreements", least=0)
    if differing > n:
        raise TrueriskError(f"disagreements must not exceed n, got {differing} among {n} inputs.")
    return clopper_pearson(differing, n, delta)
