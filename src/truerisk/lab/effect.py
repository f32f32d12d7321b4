"""What an effect may return besides a number. Kept small: a change here is a change of every claim that uses it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Above:
    """The number is at least this: a run stopped at its limit before the event that it waited for."""

    value: float
