"""From a torch Dataset, or anything that is indexed like one, to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerisk.data.dataset import Data, as_array, from_arrays
from truerisk.data.formats.reading import tell_bytes
from truerisk.errors import TrueriskError
from truerisk.progress import bar

ASKED_TWICE = 8  # items, spread over all, compared with a second look, to notice random augmentation


def is_map_style(spec: Any) -> bool:
    """Whether this object has a length and is indexed by numbers."""
    return hasattr(spec, "__getitem__") and hasattr(spec, "__len__")


def collect(dataset: Any) -> Data:
    """Read every item (x, y) of a map-style dataset once, in order."""
    name = type(dataset).__name__
    n = _length(dataset, name)
    if n == 0:
        raise TrueriskError(f"{name}: the dataset is empty; give at least 10 examples.")
    first, _ = _item(dataset, 0, name)
    X, labels = np.empty((n, *first.shape), dtype=first.dtype), []
    asked = set(np.linspace(0, n - 1, ASKED_TWICE).astype(int).tolist())
    with bar("reading the dataset", total=n) as advance:
        for i in range(n):
            x, y = _item(dataset, i, name)
            if x.shape != first.shape or x.dtype != first.dtype:
                raise TrueriskError(
                    f"{name}: item {i} has an input of shape {x.shape} and type {x.dtype}, item 0 of shape "
                    f"{first.shape} and type {first.dtype}; give all inputs one shape and type."
                )
            if i in asked and not _alike((x, y), _item(dataset, i, name)):
                raise TrueriskError(
                    f"{name}: item {i} changes each time it is read; switch off random augmentation, "
                    "so that the certified data are fixed."
                )
            X[i] = x
            labels.append(y)
            advance()
    tell_bytes(X, name)
    return from_arrays(X, labels, name=name)


def _alike(one: tuple[np.ndarray, Any], two: tuple[np.ndarray, Any]) -> bool:
    """Whether two readings of an item agree in input and label."""
    return np.array_equal(one[0], two[0], equal_nan=True) and np.array_equal(one[1], two[1], equal_nan=True)


def _length(dataset: Any, name: str) -> int:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError) as error:
        raise TrueriskError(
            f"{name} has no length; give a map-style dataset with __len__ and __getitem__, or arrays (X, y)."
        ) from error


def _item(dataset: Any, i: int, name: str) -> tuple[np.ndarray, Any]:
    """Item i as an array and a plain label."""
    try:
        item = dataset[i]
    except IndexError as error:
        raise TrueriskError(f"{name} ends before item {i}, sooner than its length says; correct __len__.") from error
    except NotImplementedError as error:
        raise TrueriskError(f"{name} cannot be read by index; give a map-style dataset, or arrays (X, y).") from error
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise TrueriskError(f"{name}: item {i} is not a pair (input, label); let __getitem__ return these two.")
    x, y = item
    if not (hasattr(x, "detach") or isinstance(x, np.ndarray | np.generic | list | tuple | float | int)):
        # numpy would accept a PIL image, but with its colors in the last axis, unlike any torch network.
        raise TrueriskError(
            f"{name}: the input of item {i} is a {type(x).__name__}; give the dataset a transform that makes tensors."
        )
    return as_array(x, name), _label(y, i, name)


def _label(y: Any, i: int, name: str) -> Any:
    """One number; whether it is an integer is checked later for all labels together."""
    value = y.item() if hasattr(y, "item") and getattr(y, "ndim", 0) == 0 else y
    if not isinstance(value, bool | int | float):
        raise TrueriskError(f"{name}: the label of item {i} is a {type(y).__name__}; give an integer.")
    return value
