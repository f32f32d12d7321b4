"""The linear equations that log-scales have to satisfy, and their exact solution.

Every unknown log-scale has a number, its label; label 0 stands for the log-scale 0. Operations of a network
ask for equations with small rational coefficients between labels, nearly all of them ties (a = b) and pins
(a = 0). The solution writes each label as a combination of a few free ones.

Labels of a tensor are an integer tensor of as many axes; an axis of size 1 means "the same along this axis".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from torch import Tensor

Term = tuple[Fraction | int, Tensor]  # coefficient and labels
Row = dict[int, Fraction]  # label -> coefficient; the sum of both is 0


@dataclass(frozen=True)
class Solution:
    """``log-scales of all labels = basis @ t``; the label ``free[k]`` itself is ``t[k]``."""

    basis: sparse.csr_matrix
    free: np.ndarray


class System:
    """Labels and equations, collected while walking over a network."""

    def __init__(self) -> None:
        self.size = 1
        self.starts: list[int] = []  # first label of each batch of fresh ones
        self.origins: list[str] = []  # and where it came from
        self._ties: list[np.ndarray] = []  # [rows, 2]
        self._rows: list[tuple[tuple[Fraction, ...], np.ndarray]] = []  # coefficients, labels [rows, terms]

    def copy(self) -> System:
        """A system that further equations can be added to."""
        twin = System()
        twin.size, twin.starts, twin.origins = self.size, list(self.starts), list(self.origins)
        twin._ties, twin._rows = list(self._ties), list(self._rows)
        return twin

    def fresh(self, shape: Sequence[int], origin: str) -> Tensor:
        """New unknowns, one for each entry of a tensor of this shape."""
        count = int(np.prod(shape, dtype=np.int64))
        labels = torch.arange(self.size, self.size + count).reshape(tuple(shape))
        self.starts.append(self.size)
        self.origins.append(origin)
        self.size += count
        return labels

    def tie(self, a: Tensor, b: Tensor) -> None:
        """a = b, entry by entry."""
        left, right = torch.broadcast_tensors(a, b)
        pairs = torch.stack([left.reshape(-1), right.reshape(-1)], 1)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        if len(pairs):
            self._ties.append(torch.unique(pairs, dim=0).numpy())

    def equate(self, terms: Iterable[Term]) -> None:
        """The sum of coefficient * log-scale is 0 at each entry of the common shape.

        Terms that share no axis add up: f(i) + g(j) = 0 for all i and j follows from the equations with
        j = 0 and those with i = 0. So each set of connected axes is gone through alone, the others held at 0.
        """
        present = [(Fraction(c), labels) for c, labels in terms if c and bool((labels != 0).any())]
        if not present:
            return
        ndim = max(labels.ndim for _, labels in present)
        present = [(c, labels.reshape((1,) * (ndim - labels.ndim) + labels.shape)) for c, labels in present]
        supports = [{d for d in range(ndim) if labels.shape[d] > 1} for _, labels in present]
        for axes in _clusters(supports) or [set()]:
            held = [_hold(labels, set(range(ndim)) - axes) for _, labels in present]
            columns = [t.reshape(-1) for t in torch.broadcast_tensors(*held)]
            self._add(tuple(c for c, _ in present), torch.stack(columns, 1))

    def combine(self, terms: Iterable[Term], origin: str) -> Tensor:
        """Labels whose log-scale is the sum of coefficient * log-scale of the terms."""
        present = [(Fraction(c), labels) for c, labels in terms if c and bool((labels != 0).any())]
        if not present:
            return torch.zeros((), dtype=torch.int64)
        if len(present) == 1 and present[0][0] == 1:
            return present[0][1]
        grids = torch.broadcast_tensors(*[labels for _, labels in present])
        rows, inverse = torch.unique(torch.stack([g.reshape(-1) for g in grids], 1), dim=0, return_inverse=True)
        new = self.fresh((len(rows),), origin)
        self._add((*(c for c, _ in present), Fraction(-1)), torch.cat([rows, new[:, None]], 1))
        return new[inverse].reshape(grids[0].shape)

    def _add(self, coefficients: tuple[Fraction, ...], labels: Tensor) -> None:
        if len(coefficients) == 1:
            self._ties.append(np.hstack([labels.numpy(), np.zeros_like(labels)]))
        elif coefficients in ((1, -1), (-1, 1)):
            self._ties.append(labels.numpy())
        else:
            self._rows.append((coefficients, torch.unique(labels, dim=0).numpy()))

    def origin(self, labels: np.ndarray) -> np.ndarray:
        """The number of the batch of fresh labels that each label belongs to."""
        return np.searchsorted(self.starts, labels, side="right") - 1

    def solve(self) -> Solution:
        """All solutions of the equations.

        Ties are contracted first; what is left is eliminated exactly, in fractions. The earliest label of
        each class stays as its free one, so a channel is named after the operation that made it.
        """
        ties = np.concatenate([np.zeros((1, 2), dtype=np.int64), *self._ties])
        graph = sparse.coo_matrix((np.ones(len(ties), dtype=bool), (ties[:, 0], ties[:, 1])), (self.size, self.size))
        _, classes = connected_components(graph, directed=False)
        _, first = np.unique(classes, return_index=True)
        leader = first[classes]  # the smallest label of each class
        pivots: dict[int, Row] = {}  # each equation fixes one label, its pivot: what that label equals
        for row in _rows(self._rows, leader):
            _pivot(row, pivots)
        return _solution(leader, pivots)


def _clusters(supports: list[set[int]]) -> list[set[int]]:
    """Unite overlapping sets of axes."""
    clusters: list[set[int]] = []
    for support in supports:
        if support:
            touching = [c for c in clusters if c & support]
            clusters = [c for c in clusters if not c & support] + [support.union(*touching)]
    return clusters


def _hold(labels: Tensor, axes: set[int]) -> Tensor:
    for axis in axes:
        labels = labels.narrow(axis, 0, 1)
    return labels


def _rows(stored: list[tuple[tuple[Fraction, ...], np.ndarray]], leader: np.ndarray) -> Iterator[Row]:
    for coefficients, labels in stored:
        for row in np.unique(leader[labels], axis=0).tolist():
            merged: Row = {}
            for label, c in zip(row, coefficients, strict=True):
                merged[label] = merged.get(label, Fraction(0)) + c
            yield {label: c for label, c in merged.items() if c and label}


def _pivot(row: Row, pivots: dict[int, Row]) -> None:
    row = _substitute(row, pivots)
    if not row:
        return
    # The latest label with coefficient 1 or -1: earlier labels stay free, and numbers stay whole.
    pivot = max(row, key=lambda label: (abs(row[label]) == 1, label))
    pivots[pivot] = {label: -c / row[pivot] for label, c in row.items() if label != pivot}


def _substitute(row: Row, pivots: dict[int, Row]) -> Row:
    """The same sum in free labels only. It ends: what a pivot equals holds no pivot found before it."""
    row = dict(row)
    pending = [label for label in row if label in pivots]
    while pending:
        label = pending.pop()
        coefficient = row.pop(label, None)
        if coefficient is None:  # cancelled in the meantime
            continue
        for other, c in pivots[label].items():
            total = row.pop(other, Fraction(0)) + coefficient * c
            if total:
                row[other] = total
                if other in pivots:
                    pending.append(other)
    return row


def _solution(leader: np.ndarray, pivots: dict[int, Row]) -> Solution:
    leaders = np.unique(leader)
    fixed_ones = np.fromiter(pivots, dtype=np.int64, count=len(pivots))
    free = leaders[(leaders != 0) & ~np.isin(leaders, fixed_ones)]
    position = np.full(len(leader), -1, dtype=np.int64)
    position[free] = np.arange(len(free))
    plain = position[leader] >= 0  # labels that equal one free label
    labels = np.flatnonzero(plain)
    entries = [(labels, position[leader[labels]], np.ones(len(labels)))]
    fixed = {label: _substitute({label: Fraction(1)}, pivots) for label in pivots}
    for label in np.flatnonzero(~plain & (leader != 0)).tolist():
        row = fixed[int(leader[label])]
        columns = position[np.array(list(row), dtype=np.int64)]
        entries.append((np.full(len(row), label), columns, np.array([float(c) for c in row.values()])))
    at, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    basis = sparse.csr_matrix((value, (at, column)), shape=(len(leader), len(free)))
    return Solution(basis, free)
