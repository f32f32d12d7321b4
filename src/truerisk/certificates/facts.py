"""What was counted for a certificate, kept apart from the arithmetic that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from torch import nn

from truerisk.certificates.rescaling import RescaledKL
from truerisk.nets import count_errors
from truerisk.pacbayes import DrawPlan

FLOOR = "floor"  # errors of the network that the floor tests
DRAWS = "draws"  # errors of drawn networks


@dataclass(frozen=True)
class Count:
    """``value`` of ``trials``. ``near_ties`` are answers that another machine's rounding could flip."""

    value: int
    near_ties: int
    trials: int
    drawn: bool = False  # a random estimate: verify makes one of its own
    size: int = 1  # of the trials, so many neighbors share one draw


def errors_of(network: nn.Module, X: np.ndarray, y: np.ndarray) -> Count:
    """Errors of a network on labelled examples; a tie counts as one."""
    errors, ties = count_errors(network, X, y)
    return Count(errors, ties, len(X))


@dataclass(frozen=True)
class Facts:
    """All that a method counted and measured; the same evidence gives the same facts."""

    counts: dict[str, Count]
    duplicates: int = 0
    kl: RescaledKL | None = None
    plan: DrawPlan | None = None
    numbers: dict[str, float] = field(default_factory=dict)

    def having(self, name: str, value: int) -> Facts:
        """The same facts with another value of one count."""
        return replace(self, counts={**self.counts, name: replace(self.counts[name], value=value)})
