"""Votes and averages: what an ensemble says, with which margin, and how its error falls with the number of members.

A member gives each input a class (a tree) or probabilities (a network). The margin of an example under a vote with
weights a_t >= 0 is that of Schapire, Freund, Bartlett, and Lee (1998):

    margin(x, y) = sum_t a_t 1[h_t(x) = y] / sum_t a_t  -  max over y' != y of sum_t a_t 1[h_t(x) = y'] / sum_t a_t.

It lies between -1 and 1, is positive where the vote is correct, and says how far the vote is from a tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from truerisk.errors import TrueriskError


def running_shares(
    labels: np.ndarray, classes: int, at: Sequence[int], weights: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """The share of the vote for each class after the first k members, for each k of ``at`` in increasing order.

    ``labels`` has one row per member, a result one row per input. Without ``weights`` all members count alike.

    >>> first, both = running_shares(np.array([[0, 1], [1, 1]]), 2, at=[1, 2])
    >>> first.tolist(), both.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]])
    """
    labels = np.asarray(labels)
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    if len(weights) != len(labels) or not (weights >= 0).all() or not weights[:1].sum() > 0:
        raise TrueriskError(
            f"{len(labels)} members have weights of shape {weights.shape}; give one weight of at least 0 to each, the "
            "first one above 0."
        )
    if list(at) != sorted(set(at)) or not at or at[0] < 1 or at[-1] > len(labels):
        raise TrueriskError(
            f"votes are counted after {list(at)} members; give increasing numbers from 1 to {len(labels)}."
        )
    total, rows, done = np.zeros((labels.shape[1], classes)), np.arange(labels.shape[1]), 0
    for k in at:
        for member in range(done, k):
            total[rows, labels[member]] += weights[member]
        done = k
        yield total / weights[:k].sum()


def voting_margins(shares: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The margin of each example: the share of its own class minus the largest share of any other.

    >>> voting_margins(np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]]), np.array([0, 2])).round(3).tolist()
    [0.5, -0.5]
    """
    shares, rows = np.asarray(shares, np.float64), np.arange(len(shares))
    others = shares.copy()
    others[rows, labels] = -np.inf
    return np.asarray(shares[rows, labels] - others.max(axis=1))


def average_errors(outputs: np.ndarray, labels: np.ndarray, at: Sequence[int]) -> list[float]:
    """The mean error of averages of k members, for each k of ``at``; of ties, the smallest class counts.

    ``outputs`` are classes (members, inputs) or probabilities (members, inputs, classes). Members are taken in disjoint
    groups of k, all of them where k divides their number, so the first entry of ``at=[1, ...]`` is the mean error of a
    single member. This is for members whose order means nothing.

    >>> average_errors(np.array([[0, 1], [1, 1], [0, 0]]), np.array([0, 1]), at=[1, 3])
    [0.3333333333333333, 0.0]
    """
    outputs, labels = np.asarray(outputs), np.asarray(labels)
    if not at or min(at) < 1 or max(at) > len(outputs):
        raise TrueriskError(f"averages of {list(at)} members are needed; give numbers from 1 to {len(outputs)}.")
    if outputs.ndim == 2:
        outputs = np.eye(int(outputs.max()) + 1, dtype=np.float32)[outputs]
    found = []
    for k in at:
        groups = [outputs[i : i + k].sum(axis=0) for i in range(0, len(outputs) - k + 1, k)]
        found.append(float(np.mean([np.mean(group.argmax(axis=1) != labels) for group in groups])))
    return found
