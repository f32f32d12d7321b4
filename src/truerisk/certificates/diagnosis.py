"""Has the network learned or memorized? The training error beside both ends of the true risk, in one word.

The training error is counted, the true risk lies between the two ends, so the gap between them is certified as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerisk import words
from truerisk.certificates.record import Derivation, Fit, Record

if TYPE_CHECKING:
    from truerisk.certificates.counts import Counts
    from truerisk.certificates.settings import Settings

WIDE = 0.05  # a gap, or a training error, of more than five points is called large
UNDERFITS, GOOD_FIT, OVERFITS, CANNOT_TELL = "underfits", "good fit", "overfits", "cannot tell"
REASONS = {
    UNDERFITS: "its training error is above 5%",
    GOOD_FIT: "it fits its training examples, and does at most 5 points worse on unseen ones",
    OVERFITS: "by this certificate it errs more on unseen examples, by over 5 points",
    CANNOT_TELL: "too few certification examples to bound the gap by 5 points",
}
ONE_END = "the gap may be above 5 points; --two-sided bounds it from below as well"  # where it may be anything
SEARCH = "To fit better, let truerisk search compare networks and learning rates on rows that never certify."


def diagnose(settings: Settings, counts: Counts, found: Derivation) -> Fit | None:
    """The gap between training error and true risk; None where no training error is known."""
    own = settings.method.trained_errors(settings, counts)
    if own is not None:
        errors, n = own
        least = most = observed = errors / n
    elif settings.method.fits_certify and found.lower is not None:
        # On the examples that certify, a posterior's error is known by draws only, between two ends.
        least, most, observed = found.lower.empirical, found.empirical_risk_upper, found.empirical_risk
        n = counts.n_certify
    else:
        return None
    at_least = None if found.lower is None else found.lower.risk - most
    at_most = found.risk_bound - least
    return Fit(observed, n, at_least, at_most, word(observed, at_least, at_most))


def word(training_error: float, at_least: float | None, at_most: float) -> str:
    """The diagnosis.

    >>> word(0.0, 0.83, 0.88), word(0.0, 0.004, 0.031), word(0.3, -0.02, 0.04), word(0.0, 0.01, 0.2)
    ('overfits', 'good fit', 'underfits', 'cannot tell')
    """
    if at_least is not None and at_least > WIDE:
        return OVERFITS
    if training_error > WIDE:
        return UNDERFITS
    return GOOD_FIT if at_most <= WIDE else CANNOT_TELL


def explain(record: Record) -> str:
    """Whether the network learned or memorized, with the reason; empty where no training error is known."""
    fit, found = record.fit, record.derivation
    if fit is None:
        return ""
    own = f"On its own examples it errs on {words.seen_percent(fit.training_error)}"
    if found.lower is not None:
        ends = f"{words.lower_percent(found.lower.risk)} to {words.bound_percent(found.risk_bound)}"
    else:
        ends = f"at most {words.bound_percent(found.risk_bound)}"
    if fit.gap_lower is not None and fit.gap_lower > WIDE:
        gap = f"a certified gap of at least {words.lower_points(fit.gap_lower)}"
    else:
        gap = f"the gap is at most {words.bound_points(max(0.0, fit.gap_upper))}"
    reason = ONE_END if fit.diagnosis == CANNOT_TELL and fit.gap_lower is None else REASONS[fit.diagnosis]
    found_out = f"{own}, on unseen ones on {ends}: {gap}. Diagnosis: {fit.diagnosis} ({reason})."
    return f"{found_out} {SEARCH}" if fit.training_error > 0 and _searchable(record.settings) else found_out


def _searchable(settings: Settings) -> bool:
    """Whether ``truerisk search`` looks for a better network or learning rate of this kind."""
    return bool(settings.prior.fraction) and not settings.own_training and not settings.method.fits_certify
