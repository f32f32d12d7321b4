"""Poisoned training sets: true examples, and further examples with wrong labels that a network is made to fit as well.

A network with room to spare fits all of them. It then has training error 0 on the true examples, as any other network
that fits them, but errs where the poison was (Wu, Zhu and E 2017; Huang et al. 2019). The wrong label of an example is
the class after its own,

    y' = (y + 1) mod classes,

so poison is consistent: of two classes it takes the other one, and nearby examples get the same wrong label.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerisk.data.dataset import Data
from truerisk.errors import TrueriskError


def wrong_labels(data: Data) -> Data:
    """The examples, each labeled as the class after its own.

    >>> wrong_labels(Data("toy", np.eye(3), [0, 1, 2], classes=3)).y.tolist()
    [1, 2, 0]
    """
    if data.classes < 2:
        raise TrueriskError(f"{data.name} has {data.classes} class, but must have at least 2; give labeled examples.")
    note = "each label replaced by the next class"
    return replace(
        data,
        name=f"{data.name} with wrong labels",
        y=(data.y + 1) % data.classes,
        note=f"{data.note}; {note}" if data.note else note,
        source=None,
    )


def poison(train: Data, pool: Data, count: int) -> Data:
    """The training examples, followed by the first ``count`` examples of ``pool`` with wrong labels.

    ``pool`` must be examples that are in neither the training nor the test set: poison that repeats a training input
    could not be fitted.

    >>> train, pool = (Data("toy", np.eye(2) * size, [0, 1], classes=2) for size in (1, 2))
    >>> poison(train, pool, 1).y.tolist()
    [0, 1, 1]
    """
    if not 0 <= count <= len(pool):
        raise TrueriskError(f"count is {count}, but must be from 0 to {len(pool)}; give a pool with more examples.")
    if (train.input_shape, train.classes) != (pool.input_shape, pool.classes):
        raise TrueriskError(
            f"{train.name} and {pool.name} differ in input shape or classes; take the pool from the same data."
        )
    wrong = wrong_labels(pool.take(np.arange(count)))
    return replace(
        train,
        name=f"{train.name} with {count} poisoned examples",
        X=np.concatenate([train.X, wrong.X]),
        y=np.concatenate([train.y, wrong.y]),
        note=f"{train.note}; {count} examples with wrong labels added" if train.note else f"{count} wrong labels added",
        source=None,
    )
