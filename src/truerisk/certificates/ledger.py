"""How a certificate splits its delta, in exact decimals.

Every probability event that could make the certificate false has an entry; by the union bound the
certificate fails with probability at most the sum. Configurations (network, prior, seed) that were
compared on the same data each need their own share, including those that lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import TypedDict

from truerisk.errors import TrueriskError
from truerisk.words import several

DIGITS = Decimal("1e-15")  # shares are rounded down to this, so that they never add up to too much


class Entry(TypedDict):
    """One event and the largest probability it is allowed to have."""

    event: str
    delta: float


def ledger(delta: float, tried: int, events: Sequence[tuple[str, Decimal]], methods: int = 1) -> list[Entry]:
    """Split ``delta`` among ``tried`` configurations, this one's share among ``methods``, and this one's among events.

    >>> for entry in ledger(0.05, 1, [("one", Decimal("0.9")), ("two", Decimal("0.1"))]):
    ...     print(entry["delta"])
    0.045
    0.005
    """
    total = exact(delta)
    if not 0 < total < 1:
        raise TrueriskError(f"delta is {delta}, but must be more than 0 and less than 1; try --delta 0.05.")
    if tried < 1:
        raise TrueriskError(f"tried is {tried}, but must be at least 1; count this configuration too.")
    if methods < 1:
        raise TrueriskError(f"methods is {methods}, but must be at least 1; count this method too.")
    parts = [part for _, part in events]
    if min(parts) <= 0 or sum(parts) > 1:
        raise TrueriskError("the parts of delta must be positive and sum to at most 1; correct the method's events.")
    configuration = exact(paid(delta, tried))
    own = (configuration / methods).quantize(DIGITS, ROUND_DOWN)
    entries = [_entry(event, (own * part).quantize(DIGITS, ROUND_DOWN)) for event, part in events]
    if min(entry["delta"] for entry in entries) <= 0:
        raise TrueriskError(
            "delta is too small for so many events; give a larger --delta, a smaller --tried, or fewer prior scales "
            "(--scales fixed or grid:2)."
        )
    if methods > 1:
        others = f"the certificates of {several(methods - 1, 'other method')} on this data"
        entries.append(_entry(others, configuration - own))
    if tried > 1:
        others = (
            f"{several(tried - 1, 'other configuration')} that you or truerisk's authors may have tried on this data"
        )
        entries.append(_entry(others, total - configuration))
    return entries


def paid(delta: float, tried: int) -> float:
    """The part of ``delta`` that one of ``tried`` configurations gets.

    >>> paid(0.05, 32)
    0.0015625
    """
    return float((exact(delta) / tried).quantize(DIGITS, ROUND_DOWN))


def share(entries: list[Entry], event: str) -> float:
    """The delta of ``event``."""
    return next(entry["delta"] for entry in entries if entry["event"] == event)


def exact(number: float) -> Decimal:
    """The decimal that a person would read: 0.05, not 0.05000000000000000277."""
    return Decimal(repr(float(number)))


def _entry(event: str, amount: Decimal) -> Entry:
    return {"event": event, "delta": float(amount)}
