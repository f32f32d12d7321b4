"""The nearest-neighbor rule: answer with the label of the nearest stored example. Nothing is trained, all is stored.

Its training error is 0 unless two examples with the same input have different labels. With infinitely many examples it
errs at most twice as often as the best possible classifier: see `truerisk.bounds.cover_hart`.
"""

from __future__ import annotations

import math

import numpy as np

from truerisk.errors import TrueriskError

ENTRIES = 4_000_000  # of a block of distances


def nearest_examples(stored: np.ndarray, X: np.ndarray) -> np.ndarray:
    """For each row of ``X`` the index of the nearest stored row in Euclidean distance; of equal rows the first.

    Squared distances come from one product of matrices in float64, around the mean of the stored rows. Which of several
    different rows at the same distance is taken depends on rounding.

    >>> nearest_examples(np.array([[0.0], [1.0], [3.5]]), np.array([[0.1], [2.0]])).tolist()
    [0, 1]
    """
    kept, new = (np.asarray(part, np.float64).reshape(len(part), math.prod(np.shape(part)[1:])) for part in (stored, X))
    if not len(kept) or kept.shape[1] != new.shape[1]:
        raise TrueriskError(
            f"stored examples of shape {np.shape(stored)} and inputs of shape {np.shape(X)} do not match; "
            "store at least one example of the same shape."
        )
    center = kept.mean(axis=0)
    kept, new = kept - center, new - center
    lengths = np.einsum("ij,ij->i", kept, kept)
    rows, found = max(1, ENTRIES // len(kept)), np.empty(len(new), np.int64)
    for at in range(0, len(new), rows):  # |x|^2 is the same for all stored rows
        found[at : at + rows] = (lengths - 2 * new[at : at + rows] @ kept.T).argmin(axis=1)
    return found


def nearest_labels(stored: np.ndarray, labels: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The answers of the rule.

    >>> nearest_labels(np.array([[0.0], [4.0]]), np.array([7, 9]), np.array([[1.0], [3.0]])).tolist()
    [7, 9]
    """
    if len(stored) != len(labels):
        raise TrueriskError(f"{len(stored)} examples have {len(labels)} labels; give one label for each.")
    return np.asarray(np.asarray(labels)[nearest_examples(stored, X)])
