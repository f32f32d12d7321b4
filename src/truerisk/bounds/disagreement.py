r"""A certificate handed over from one predictor to another by their agreement on unlabelled inputs."""

from truerisk.bounds._checks import Count, Number, check_count, check_risk, outward
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
    n = check_count(n)
    differing = check_count(disagreements, "disagreements", least=0)
    if differing > n:
        raise TrueriskError(f"disagreements must not exceed n, got {differing} among {n} inputs.")
    return min(1.0, outward(bound + clopper_pearson(differing, n, delta)))
