"""Which free log-scales tensors that are not drawn hold at 0, where they come from, and which tensors hold them.

A rescaling leaves a bound as it is only if it moves nothing but weights that both distributions draw (rule 6 of
docs/design.rst). A running mean of batch norm that is not 0, or a frozen parameter, is part of the network: a log-scale
that would move it stays at 0 in ``tighten``. ``rescale`` may move it, for it makes another network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from torch import Tensor

from truerisk.words import several

if TYPE_CHECKING:
    from truerisk.symmetry.group import Symmetry

IN_TIGHTEN = "held in tighten"


@dataclass(frozen=True)
class Held:
    """Free log-scales that ``tighten`` holds at 0: the layer that makes them, how many, and why.

    >>> print(Held("0 (conv2d)", 16, "rescaling them would move 1.running_mean, which is not drawn"))
    0 (conv2d): 16 channels, because rescaling them would move 1.running_mean, which is not drawn
    """

    where: str
    count: int
    why: str

    @property
    def reason(self) -> str:
        return f"{several(self.count, 'channel')}, because {self.why}"

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def tell_held(
    symmetry: Symmetry, smaller: Symmetry, to_all: sparse.csr_matrix, fixed: Mapping[str, Tensor]
) -> tuple[Held, ...]:
    """The log-scales of ``symmetry`` that ``smaller`` does not have, by layer and by the tensors that hold them.

    ``smaller, to_all = symmetry.holding(fixed)``. Held is what is 0 in every rescaling of ``smaller``. Where a frozen
    matrix ties the channels on its two sides to one another, one of them stays and the others count as held. So the
    counts add up to ``symmetry.dim - smaller.dim``.
    """
    if smaller is symmetry:
        return ()
    zero = np.diff(to_all.indptr) == 0
    tied = np.flatnonzero(~zero & ~np.isin(symmetry.solution.free, smaller.solution.free))
    lost = np.concatenate([np.flatnonzero(zero), tied])[: symmetry.dim - smaller.dim]
    holders: dict[int, list[str]] = {variable: [] for variable in lost.tolist()}
    for name, variables in _moving(symmetry, fixed):
        for variable in np.intersect1d(variables, lost).tolist():
            holders[variable].append(name)
    counts = Counter((int(symmetry.group_of[v]), tuple(dict.fromkeys(names))) for v, names in sorted(holders.items()))
    return tuple(Held(symmetry.system.origins[g], count, _why(names, count)) for (g, names), count in counts.items())


def _moving(symmetry: Symmetry, fixed: Mapping[str, Tensor]) -> list[tuple[str, np.ndarray]]:
    """Each fixed tensor, with the free log-scales that would move one of its entries; 0 moves nowhere."""
    found = []
    for part in symmetry.parts:
        if part.terms and part.name in fixed:
            values = fixed[part.name].reshape(-1)
            still = (values if part.at is None else values[part.at]).reshape(-1) != 0
            labels = [np.unique(labels.expand(part.shape).reshape(-1)[still].numpy()) for _, labels in part.terms]
            found.append((part.name, np.unique(symmetry.solution.basis[np.concatenate(labels)].indices)))
    return found


def _why(names: tuple[str, ...], count: int) -> str:
    """Name the tensors: all of them, for freeing one of them frees nothing."""
    move = f"rescaling {'it' if count == 1 else 'them'} would move {listed(names)}"
    return f"{move}, which {'is' if len(names) == 1 else 'are'} not drawn"


def listed(names: tuple[str, ...], most: int = 4) -> str:
    """
    >>> listed(("a", "b", "c"), most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
