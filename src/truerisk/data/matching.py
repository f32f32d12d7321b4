"""Two files that belong together may order their columns, or number their classes, in different ways.

Nothing here touches the certified data: the other file is brought into its order, or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from truerisk.data.dataset import Data
from truerisk.errors import TrueriskError
from truerisk.progress import note

LONGEST = 60  # characters of a name in a message


def match_columns(X: np.ndarray, names: Sequence[str], wanted: Sequence[str], what: str) -> np.ndarray:
    """The inputs with their columns in the order that is wanted; `what` names them in messages.

    >>> match_columns(np.array([[1, 2]]), ("a", "b"), ("b", "a"), "the inputs").tolist()
    [[2, 1]]
    """
    if not names or not wanted or tuple(names) == tuple(wanted):
        return X
    other = sorted(set(names) ^ set(wanted))
    if other:
        raise TrueriskError(
            f"the column {other[0][:LONGEST]!r} is in one of {what} and the certified data only; give both the same "
            "columns."
        )
    note(f"the columns of {what} are in another order than those of the certified data; they are matched by name.")
    places = {name: place for place, name in enumerate(names)}
    return np.ascontiguousarray(X[:, [places[name] for name in wanted]])


def match_data(other: Data, certified: Data, what: str) -> Data:
    """Other data with the columns of the certified data."""
    X = match_columns(other.X, other.feature_names, certified.feature_names, what)
    return other if X is other.X else replace(other, X=X, feature_names=certified.feature_names, source=None)


def match_classes(other: Data, certified: Data, what: str) -> Data:
    """Other data with the class numbers of the certified data, where one of the two has names and one has numbers.

    Names are numbered in each file. A class that one of them lacks would shift the numbers of the others, so different
    names are refused.
    """
    theirs, ours = other.class_names, certified.class_names
    if theirs == ours:
        return other
    if theirs and ours:
        lacking = sorted(set(theirs) ^ set(ours))
        why = f"the class {lacking[0][:LONGEST]!r} is in one of them only" if lacking else "their order differs"
        raise TrueriskError(
            f"{what} and the certified data number their classes differently ({why}); give integer labels in both."
        )
    if theirs:
        known = {str(number): number for number in range(certified.classes)}
        labels = [theirs[label] for label in other.y.tolist()]
    else:
        known = {name: number for number, name in enumerate(ours)}
        labels = [str(label) for label in other.y.tolist()]
    strange = next((label for label in labels if label not in known), None)
    if strange is not None:
        raise TrueriskError(
            f"the label {strange[:LONGEST]!r} of {what} is not a class of the certified data, because one has "
            "names and one has numbers; give integer labels in both."
        )
    y = np.array([known[label] for label in labels], dtype=np.int64)
    return replace(other, y=y, classes=certified.classes, class_names=ours, source=None)
