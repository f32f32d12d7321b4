"""Has the network learned or memorized? The training error beside both ends of the true risk, in one word.

The training error is counted, the true risk lies between the two ends, so the gap between them is certified as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerisk.certificates.record import Derivation, Fit

if TYPE_CHECKING:
    from truerisk.certificates.counts import Counts
    from truerisk.certificates.settings import Settings

WIDE = 0.05  # a gap, or a training error, of more than five points is called large
UNDERFITS, GOOD_FIT, OVERFITS, CANNOT_TELL = "underfits", "good fit", "overfits", "cannot tell"


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
