"""Whether a set of networks can tell measures apart: how far hyperparameters move the gap, against its noise.

Where no hyperparameter moves the gap by clearly more than the gap of a single network varies anyway, a rank correlation
with the gap is a correlation with noise.

The move of a hyperparameter is taken over pairs of networks that differ in it and in nothing else but their seed: the
mean difference of their gaps between two of its values, the largest one over all pairs of values. The noise is the
standard deviation of the gaps around a least-squares fit with a term for each value of each hyperparameter and for each
combination of values of two of them. Interactions of three or more count as noise, so it is too large if anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from truerisk.measures.prediction.pairs import Networks, Row, networks


@dataclass(frozen=True)
class Power:
    """How far each hyperparameter that varies moves the gap, and the noise of a network's gap; None: not known."""

    moves: dict[str, float]
    noise: float | None

    @property
    def strongest(self) -> tuple[str, float]:
        """The hyperparameter with the largest move; ("", 0.0) if none varies."""
        return max(self.moves.items(), key=lambda item: item[1], default=("", 0.0))

    def tells(self, times: float) -> bool:
        """Whether some hyperparameter moves the gap by at least so many times the noise."""
        return self.noise is not None and self.strongest[1] >= times * self.noise


def power(rows: Sequence[Row]) -> Power:
    """Moves and noise over all networks; measures play no part in it.

    >>> rows = [{"hyper": {"width": w, "lr": lr}, "gap": w / 100 + noise, "n_test": 9, "measures": {}, "seed": 0}
    ...         for w in (1, 2) for lr, noise in ((0.1, 0.0), (0.2, 0.001), (0.2, -0.001))]
    >>> found = power(rows)
    >>> found.strongest[0], round(found.strongest[1], 6), round(found.noise, 6), found.tells(3)
    ('width', 0.01, 0.001414, True)
    """
    some = networks(rows)
    return Power({name: _move(some, name) for name in some.names}, _noise(some))


def _move(some: Networks, name: str) -> float:
    first, second = some.single[name]
    codes = some.codes[:, some.names.index(name)]
    up = codes[first] < codes[second]
    low, high = np.where(up, first, second), np.where(up, second, first)
    change = codes[low] * len(codes) + codes[high]
    apart = some.gap[high] - some.gap[low]
    return float(max((abs(apart[change == each].mean()) for each in np.unique(change)), default=0.0))


def _noise(some: Networks) -> float | None:
    """None where the fit leaves no degree of freedom."""
    count = len(some.names)
    groups = list(combinations(range(count), 2)) if count > 1 else [(k,) for k in range(count)]
    columns = [np.ones((len(some), 1))]
    for group in groups:
        _, cell = np.unique(some.codes[:, list(group)], axis=0, return_inverse=True)
        columns.append(np.eye(cell.max() + 1)[cell.reshape(-1)])
    design = np.hstack(columns)
    solution, _, rank, _ = np.linalg.lstsq(design, some.gap, rcond=None)
    free = len(some) - int(rank)
    residual = some.gap - design @ solution
    return float(np.sqrt((residual**2).sum() / free)) if free > 0 else None
