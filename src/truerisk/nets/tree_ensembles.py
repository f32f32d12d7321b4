"""Regression trees for one-hot labels, on the axis of Belkin et al. 2019: larger trees first, then more of them.

Both models predict a vector of class scores and have the squared loss |f(x) - y|^2, summed over classes.

- *forest*: an average of trees with a limited number of leaves, each grown best first on all examples (no bootstrap);
  trees differ because each split chooses among a random part of the features.
- *L2-boosting*: f_0 = 0, then f_m = f_(m-1) + r t_m, where the small tree t_m is fitted to the residuals y - f_(m-1)
  and r is the rate (shrinkage). One tree serves all classes. An ensemble averages runs with different random splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.seeds import derive

FEATURES = "sqrt"  # features that a split chooses among: the square root of their number


@dataclass(frozen=True)
class Scores:
    """Outputs of one member on several sets of inputs, and the number of leaves behind them."""

    outputs: list[np.ndarray]  # (inputs, classes) for each set
    leaves: int


def tree_scores(
    inputs: np.ndarray, targets: np.ndarray, sets: Sequence[np.ndarray], leaves: int | None, seed: int
) -> Scores:
    """Grow one tree with at most so many leaves (None: until it fits all targets that inputs can tell apart).

    >>> X, Y = np.arange(4.0)[:, None], np.eye(2)[[0, 1, 0, 1]]
    >>> full, stump = (tree_scores(X, Y, [X], leaves, seed=0) for leaves in (None, 2))
    >>> full.leaves, stump.leaves, float(np.square(full.outputs[0] - Y).sum())
    (4, 2, 0.0)
    """
    _check(inputs, targets, leaves)
    tree = _tree(leaves, seed).fit(inputs, targets)
    return Scores([_predicted(tree, X, targets) for X in sets], int(tree.get_n_leaves()))


def boosted_scores(
    inputs: np.ndarray,
    targets: np.ndarray,
    sets: Sequence[np.ndarray],
    at: Sequence[int],
    seed: int,
    leaves: int = 10,
    rate: float = 0.85,
) -> list[Scores]:
    """L2-boosting with trees of so many leaves: the scores after each number of rounds of ``at``, in increasing order.

    >>> X, Y = np.arange(4.0)[:, None], np.eye(2)[[0, 1, 0, 1]]
    >>> one, three = boosted_scores(X, Y, [X], at=[1, 3], seed=0, leaves=4, rate=0.5)
    >>> float(np.abs(one.outputs[0] - Y).max()), float(np.abs(three.outputs[0] - Y).max()), three.leaves
    (0.5, 0.125, 12)
    """
    _check(inputs, targets, leaves)
    if list(at) != sorted(set(at)) or not at or at[0] < 1:
        raise TrueriskError(f"scores are needed after {list(at)} rounds; give increasing numbers of at least 1.")
    if not 0 < rate <= 1:
        raise TrueriskError(f"the rate is {rate:g}, but must be above 0 and at most 1; try 0.85.")
    fitted, scores = np.zeros_like(targets, np.float64), [np.zeros((len(X), targets.shape[1])) for X in sets]
    found, total = [], 0
    for k in range(1, at[-1] + 1):
        tree = _tree(leaves, derive(seed, "round", k)).fit(inputs, targets - fitted)
        total += int(tree.get_n_leaves())
        fitted += rate * _predicted(tree, inputs, targets)
        for score, X in zip(scores, sets, strict=True):
            score += rate * _predicted(tree, X, targets)
        if k in at:
            found.append(Scores([score.copy() for score in scores], total))
    return found


def _tree(leaves: int | None, seed: int) -> Any:
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(max_features=FEATURES, max_leaf_nodes=leaves, random_state=seed % 2**32)


def _predicted(tree: Any, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return np.asarray(tree.predict(inputs)).reshape(len(inputs), targets.shape[1])


def _check(inputs: np.ndarray, targets: np.ndarray, leaves: int | None) -> None:
    if np.ndim(inputs) != 2 or np.ndim(targets) != 2 or len(inputs) != len(targets) or not len(inputs):
        raise TrueriskError(
            f"inputs of shape {np.shape(inputs)} and targets of shape {np.shape(targets)} do not match; give a row of "
            "features and a row of targets for each example."
        )
    if leaves is not None and leaves < 2:
        raise TrueriskError(f"a tree has {leaves} leaves, but must have at least 2; give more, or None.")
