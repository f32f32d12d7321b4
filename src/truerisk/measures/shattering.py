"""Which labelings of a few points can a family of classifiers realize? Decided for every labeling, not sampled.

A family shatters m points if it realizes all 2^m labelings of them; its VC dimension is the largest m for which some
m points are shattered (Vapnik and Chervonenkis 1971). The growth function is the largest number of labelings of any m
points. Half-planes are decided by linear programming; intervals, rectangles, sine waves, and nearest neighbors by
exact combinatorics. Networks have no exact test here: they are trained on every labeling, and the number of labelings
that training finds is a lower estimate.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from truerisk.errors import TrueriskError

INFEASIBLE = 2  # the status of linprog
MOST_SINE = 17  # points: beyond, the parameter of `count_sine` needs more than 64 bits


def all_labelings(m: int) -> np.ndarray:
    """All 2^m labelings of m points, one row each, True for the positive class.

    >>> all_labelings(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    return (np.arange(2**m)[:, None] >> np.arange(m)) % 2 == 1


def separable(X: np.ndarray, positive: np.ndarray) -> bool:
    """Is there an affine function that is positive exactly on the points labeled True?

    The linear program demands w and b with s_i (<w, x_i> + b) >= 1 for all i. Any separator can be scaled to meet it,
    so the labeling is realized if and only if the program is feasible. The solver's answer is checked.

    >>> square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> separable(square, np.array([True, True, False, False])), separable(square, np.array([True, False, False, True]))
    (True, False)
    """
    signs = np.where(positive, 1.0, -1.0)
    rows = signs[:, None] * np.column_stack([X, np.ones(len(X))])
    answer = linprog(np.zeros(rows.shape[1]), A_ub=-rows, b_ub=-np.ones(len(X)), bounds=(None, None), method="highs")
    if answer.status == INFEASIBLE:
        return False
    if answer.status != 0 or not (rows @ answer.x > 0).all():
        raise TrueriskError("a linear program could not be solved; take points that are farther from degenerate.")
    return True


def count_affine(X: np.ndarray) -> int:
    """How many labelings of the rows of X affine classifiers realize.

    Negating w and b turns a labeling into its opposite, so only those with a positive last point are decided.
    """
    half = all_labelings(len(X))[2 ** (len(X) - 1) :]
    return 2 * sum(separable(X, labels) for labels in half)


def cover(m: int, d: int) -> int:
    """Labelings of m points in general position in R^d that hyperplanes realize: 2 sum_{k <= d} C(m - 1, k).

    Cover 1965, Theorem 1, for homogeneous functions of d + 1 coordinates, the last of which is 1.

    >>> [cover(m, 2) for m in (1, 2, 3, 4, 5)]
    [2, 4, 8, 14, 22]
    """
    return 2 * sum(math.comb(m - 1, k) for k in range(d + 1))


def sauer(m: int, vc: int) -> int:
    """The largest number of labelings of m points for a VC dimension of `vc` (Sauer 1972, Shelah 1972).

    >>> sauer(5, 4)
    31
    """
    return sum(math.comb(m, k) for k in range(vc + 1))


def count_intervals(m: int) -> int:
    """Labelings of m different points of a line that intervals realize: those whose positives are neighbors.

    Only the order of the points matters, so this is the count for every m points.

    >>> [count_intervals(m) for m in (1, 2, 3, 4)]
    [2, 4, 7, 11]
    """
    labels = all_labelings(m)
    rises = labels[:, 0].astype(int) + (~labels[:, :-1] & labels[:, 1:]).sum(axis=1)
    return int((rises <= 1).sum())


def count_rectangles(m: int) -> np.ndarray:
    """Labelings that axis-parallel rectangles realize, for each of the m! orders in which m points can lie.

    Point i has the i-th smallest first coordinate, and each order says which rank its second coordinate has. Up to
    monotone changes of both axes, which leave the rectangles' labelings unchanged, these are all sets of m points
    without a tie. A labeling is realized if and only if the smallest rectangle around the positive points (their
    bounding box) holds no negative one.
    """
    labels = all_labelings(m)
    counts = []
    for order in itertools.permutations(range(m)):
        inside = np.ones_like(labels)
        for coordinate in (np.arange(m), np.array(order)):
            low = np.where(labels, coordinate, m).min(axis=1, keepdims=True)
            high = np.where(labels, coordinate, -1).max(axis=1, keepdims=True)
            inside &= (low <= coordinate) & (coordinate <= high)
        counts.append(int((inside == labels).all(axis=1).sum()))
    return np.array(counts)


def count_sine(m: int) -> int:
    """Labelings of the points 10^-1, ..., 10^-m that sign(sin(a x)) realizes, a being its only parameter.

    The classical choice is a = pi (1 + sum of 10^i over the negative points i). Then a x_j / pi = N / 10^j with an
    integer N, and the sine is positive exactly where N mod 2 10^j lies strictly between 0 and 10^j. That is decided in
    integers: a sine in floating point would be wrong from about 15 points on.
    """
    if m > MOST_SINE:
        raise TrueriskError(f"the number of points is {m}, but must be at most {MOST_SINE}; take fewer.")
    labels = all_labelings(m)
    powers = 10 ** np.arange(1, m + 1, dtype=np.int64)
    parameter = 1 + np.where(labels, 0, powers).sum(axis=1)
    remainder = parameter[:, None] % (2 * powers)
    positive = (remainder > 0) & (remainder < powers)
    return int((positive == labels).all(axis=1).sum())


def count_nearest(X: np.ndarray) -> int:
    """Labelings that the rule of the nearest neighbor realizes on the very points that it has stored."""
    labels = all_labelings(len(X))
    nearest = ((X[:, None] - X[None]) ** 2).sum(axis=2).argmin(axis=1)
    return int((labels[:, nearest] == labels).all(axis=1).sum())


def count_trained(X: np.ndarray, width: int, steps: int, rounds: int, seed: int) -> int:
    """Labelings of the rows of X that gradient descent finds for a ReLU network with one hidden layer.

    One network per labeling, all trained side by side by Adam; those that fail start anew, `rounds` times in all.
    A lower estimate: a labeling that was not found may still be realized by weights that training misses.
    Negating the output weights turns a labeling into its opposite, so one of each pair is trained.
    """
    points = torch.from_numpy(X.astype(np.float32))
    half = all_labelings(len(X))[2 ** (len(X) - 1) :]
    signs = torch.from_numpy(np.where(half, 1.0, -1.0).astype(np.float32))
    generator = torch.Generator().manual_seed(seed)
    left = signs
    for _ in range(rounds):
        if len(left):
            left = left[~_train(points, left, width, steps, generator)]
    return 2 * (len(signs) - len(left))


def _train(points: Tensor, signs: Tensor, width: int, steps: int, generator: torch.Generator) -> Tensor:
    """Which rows of `signs` are realized after training one network on each."""

    def drawn(*shape: int) -> Tensor:
        return torch.randn(len(signs), *shape, generator=generator).requires_grad_()

    inner, shift, outer, constant = drawn(width, points.shape[1]), drawn(width, 1), drawn(width), drawn(1)

    def outputs() -> Tensor:
        return torch.einsum("nh,nhm->nm", outer, torch.relu(inner @ points.T + shift)) + constant

    optimizer = torch.optim.Adam([inner, shift, outer, constant], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        # The sum over networks leaves each its own gradient, and Adam works weight by weight: they never mix.
        torch.nn.functional.softplus(-signs * outputs()).sum().backward()
        optimizer.step()
    with torch.no_grad():
        return (signs * outputs() > 0).all(dim=1)
