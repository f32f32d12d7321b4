"""What was counted and measured for a certificate, kept apart from the arithmetic that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from truerisk.plan import DrawPlan

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

FLOOR = "floor"  # errors of the network that the hold-out baseline tests
DRAWS = "draws"  # errors of drawn networks
TRAINING = "training"  # wrong answers on the examples that the network was trained on
SURE = ", without ties"  # added to the name of a count that a lower end is made of


@dataclass(frozen=True)
class Count:
    """``value`` of ``trials``. ``near_ties`` are answers that another machine's rounding could flip."""

    value: int
    near_ties: int
    trials: int
    drawn: bool = False  # a random estimate: verify makes one of its own
    size: int = 1  # of the trials, so many neighbors share one draw


@dataclass(frozen=True)
class RescaledKL:
    """The KLs of a certificate in nats; ``free`` is the number of log-scales, None where none were found."""

    kl: float
    original: float
    tuned_scale: float | None = None
    both: float | None = None
    free: int | None = None

    def columns(self) -> dict[str, Any] | None:
        """The four KLs that belong together, as JSON has them; None where nothing was rescaled."""
        if self.free is None:
            return None
        return {
            "free_log_scales": self.free,
            "original": self.original,
            "tuned_scale": self.tuned_scale,
            "rescaled": self.kl,
            "both": self.both,
        }


@dataclass(frozen=True)
class Counts:
    """All that a method counted and measured; the same evidence gives the same counts.

    KLs and plans of draws are listed step by step; most methods have one of each, or none.
    """

    items: dict[str, Count]
    n_certify: int
    n_prior: int
    duplicates: int = 0  # certifying examples whose inputs also occur outside the certifying set
    kls: tuple[RescaledKL, ...] = ()
    plans: tuple[DrawPlan, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Count:
        return self.items[name]

    def sure(self, name: str) -> Count:
        """The errors under ``name`` that are no ties."""
        return self.items[f"{name}{SURE}"]

    def adding(self, items: dict[str, Count], **more: Any) -> Counts:
        """These counts and others."""
        return replace(self, items={**self.items, **items}, **more)

    def claiming(self, values: dict[str, int]) -> Counts:
        """The same counts with other values."""
        return replace(self, items={name: replace(self.items[name], value=values[name]) for name in self.items})


def both_counts(name: str, network: nn.Module, X: np.ndarray, y: np.ndarray, two_sided: bool) -> dict[str, Count]:
    """Errors of a network under ``name``; for a lower end also those that are no ties, however ties are broken."""
    from truerisk.nets import count_wrong

    found = count_wrong(network, X, y)
    counts = {name: Count(found.errors, found.near_ties, len(X))}
    return counts | ({f"{name}{SURE}": Count(found.sure, found.near_ties, len(X))} if two_sided else {})


def wrong_answers(network: nn.Module, X: np.ndarray, y: np.ndarray) -> Count:
    """Answers of a network that are wrong, ties broken as it breaks them: an observation, not part of a bound."""
    from truerisk.nets import count_wrong

    found = count_wrong(network, X, y)
    return Count(found.answered, found.near_ties, len(X))


def errors_of(network: nn.Module, X: np.ndarray, y: np.ndarray) -> Count:
    """Errors of a network on labelled examples; a tie counts as one."""
    from truerisk.nets import count_errors

    errors, ties = count_errors(network, X, y)
    return Count(errors, ties, len(X))
