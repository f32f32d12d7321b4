"""Time two ways of doing the same thing in turns, so that a busy machine slows both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One comparison. The seconds are a hint; the ratio is what two machines may compare."""

    what: str
    opponent: str
    ours_seconds: float
    opponent_seconds: float
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times longer the opponent takes; below 1 the opponent is faster."""
        return self.opponent_seconds / self.ours_seconds


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def in_turns(ours: Callable[[], object], opponent: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The best time of each out of ``repeats``, taken alternately."""
    pairs = [(seconds(ours), seconds(opponent)) for _ in range(repeats)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)
