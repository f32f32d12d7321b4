"""What a certificate spends its delta on, in exact decimals.

Every probability event that could make the certificate false has an entry; by the union bound the
certificate fails with probability at most the sum. Configurations (network, prior, seed) that were
compared on the same data each need their own share, also those that lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import TypedDict

from truerisk.errors import TrueriskError

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
        raise TrueriskError(f"delta is {delta}, but must lie strictly between 0 and 1; 0.05 is usual.")
    if tried < 1:
        raise TrueriskError(f"tried is {tried}, but at least this one configuration was tried; give 1 or more.")
    if methods < 1:
        raise TrueriskError(f"methods is {methods}, but at least this one method was tried; give 1 or more.")
    parts = [part for _, part in events]
    if min(parts) <= 0 or sum(parts) > 1:
        raise TrueriskError("the parts of delta must be positive and add up to at most 1.")
    configuration = exact(paid(delta, tried))
    own = (configuration / methods).quantize(DIGITS, ROUND_DOWN)
    entries = [_entry(event, (own * part).quantize(DIGITS, ROUND_DOWN)) for event, part in events]
    if min(entry["delta"] for entry in entries) <= 0:
        raise TrueriskError(
            "delta is too small to be shared among so many events; give a larger one, try fewer configurations or "
            "methods, or choose among fewer prior scales (--scales fixed, or grid:2)."
        )
    if methods > 1:
        others = f"the same for {methods - 1} other method{'s' if methods > 2 else ''} that certified on this data"
        entries.append(_entry(others, configuration - own))
    if tried > 1:
        others = f"the same for {tried - 1} other configurations that may have been compared on this data"
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
