"""`Data`: inputs, labels and a fingerprint, checked once so that nobody downstream has to check again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from truerisk.errors import TrueriskError

MINIMUM = 10  # fewer examples than this certify nothing worth printing
DIGEST_BYTES = 16  # per row; two different rows collide with probability 2^-128
ROWS_AT_ONCE = 4096  # rows normalised at a time, so that hashing needs no second copy of the data
MANY_VALUES, SPARSE = 100, 10  # more different labels than this, or one in ten integers used, may be measurements
MANY_CLASSES = 10_000  # more classes than this and than examples means that y holds something else


@dataclass(frozen=True, eq=False)  # arrays have no single truth value: compare `sha256` instead
class Data:
    """A classification dataset held in memory.

    `X` is float32, or int64 where integers were given (token ids, counts), and C-contiguous with shape
    (n, *input_shape). `y` is int64 with values 0 to classes - 1. `class_names` are the names of these values, and
    `feature_names` those of the columns of a table, where the data has names. `source` is what `load` takes to give
    the very same data again; None where there is no such string.

    >>> data = Data("toy", np.eye(3), [0, 1, 1], classes=2)
    >>> len(data), data.input_shape, data.counts.tolist()
    (3, (3,), [1, 2])
    >>> data.take([2, 0]).y.tolist()
    [1, 0]
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: int
    note: str = ""
    source: str | None = None
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", _as_inputs(self.X, self.name))
        object.__setattr__(self, "y", as_labels(self.y, self.name))
        object.__setattr__(self, "classes", int(self.classes))

    def __len__(self) -> int:
        return len(self.y)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.X.shape[1:])

    @property
    def integers(self) -> bool:
        """Whether the inputs are integers, such as token ids."""
        return self.X.dtype.kind == "i"

    @property
    def blank(self) -> np.ndarray:
        """One input of zeros, of the right shape and type: for all that depends on nothing else."""
        return np.zeros((1, *self.input_shape), dtype=self.X.dtype)

    def floats(self) -> Data:
        """The same examples with float32 inputs, for networks that take real numbers."""
        return replace(self, X=self.X.astype(np.float32)) if self.integers else self

    @property
    def counts(self) -> np.ndarray:
        """Examples per class; classes that do not occur count 0."""
        return np.bincount(self.y, minlength=self.classes)

    def take(self, indices: Any) -> Data:
        """The rows with these indices, in this order; `source` is dropped because it names all the rows."""
        rows = np.asarray(indices)
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TrueriskError(f"{self.name}: rows are taken by a list of integers, not by {indices!r}.")
        # A negative index would silently count from the end, and the same example could enter two sets.
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            raise TrueriskError(
                f"{self.name}: a row index lies outside 0 to {len(self) - 1}; "
                f"take indices of these {len(self)} examples only."
            )
        return replace(self, X=self.X[rows], y=self.y[rows], source=None)

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of shape, inputs, labels and number of classes; the same on every machine."""
        numbers = "<i8" if self.integers else "<f4"
        header = {"classes": self.classes, "shape": list(self.X.shape), "X": numbers, "y": "<i8"}
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode() + b"\n")
        digest.update(np.ascontiguousarray(self.X, dtype=numbers).data)
        digest.update(np.ascontiguousarray(self.y, dtype="<i8").data)
        return digest.hexdigest()

    @cached_property
    def known(self) -> str | None:
        """The training set that more than 1% of the rows belong to, if the built-in networks were chosen on it."""
        from truerisk.data.known import known_rows

        return known_rows(self.X)


def from_arrays(
    X: Any,
    y: Any,
    *,
    name: str,
    classes: int | None = None,
    note: str = "",
    source: str | None = None,
    where: str | None = None,
    class_names: Sequence[str] = (),
    feature_names: Sequence[str] = (),
) -> Data:
    """Checked `Data` from two arrays; `where` names the file in error messages.

    Unsigned bytes are divided by 255, the largest value the format can hold. That number is known before
    any data are seen; a mean or a standard deviation would not be. All other numbers stay as they are.
    Integers of other types stay integers; where a network takes real numbers, `Data.floats` gives these.
    """
    place = where or name
    given, labels = as_array(X, place), as_labels(y, place)
    inputs = as_inputs(given, place)
    if np.shares_memory(inputs, given):
        # The caller may continue to write into the array; the fingerprint must stay true.
        inputs = inputs.copy()
    if not class_names:  # these were counted when they were numbered
        _refuse_measurements(labels, place)
    if classes is not None and not 1 <= classes <= max(MANY_CLASSES, len(labels)):
        raise TrueriskError(
            f"{place}: the number of classes is {classes:,}, but must be from 1 to {max(MANY_CLASSES, len(labels)):,}; "
            "give the real number."
        )
    if classes is None:
        classes = int(labels.max(initial=-1)) + 1
        if classes > max(MANY_CLASSES, len(labels)):
            raise TrueriskError(
                f"{place}: the largest label is {classes - 1} with only {len(labels)} examples; "
                "number the classes 0, 1, 2, ... without gaps."
            )
    data = Data(name, inputs, labels, classes, note, source, tuple(class_names), tuple(feature_names))
    validate(data, where=where)
    return data


def validate(data: Data, minimum: int = MINIMUM, where: str | None = None) -> None:
    """Refuse data that nothing can be certified on, in one sentence that names the fix."""
    place, n = where or data.name, len(data)
    if len(data.X) != n:
        raise TrueriskError(
            f"{place}: there are {len(data.X)} inputs but {n} labels; give exactly one label per input."
        )
    if n == 0:
        raise TrueriskError(f"{place}: the dataset is empty; give at least {minimum} examples.")
    if n < minimum:
        raise TrueriskError(f"{place}: {n} examples are too few; give at least {minimum}.")
    if data.X.ndim < 2 or data.X[0].size == 0:
        raise TrueriskError(
            f"{place}: inputs of shape {data.X.shape} hold no features; give an array of shape (n, features...)."
        )
    check_finite(data.X, place)
    check_not_negative(data.y, place)
    low, high = int(data.y.min()), int(data.y.max())
    if high >= data.classes:
        raise TrueriskError(
            f"{place}: the label {high} does not fit {data.classes} classes; "
            f"labels must run from 0 to {data.classes - 1}."
        )
    if low == high:
        raise TrueriskError(f"{place}: all {n} labels are {low}; a classifier needs examples of at least two classes.")


def check_finite(X: np.ndarray, place: str) -> None:
    """Refuse inputs that no network answers sensibly."""
    if not np.isfinite(X).all():
        raise TrueriskError(
            f"{place}: some inputs are NaN or infinite (or too large for 32 bits); remove or repair these examples."
        )


def check_not_negative(y: np.ndarray, place: str) -> None:
    """Refuse labels below 0."""
    low = int(y.min(initial=0))
    if low < 0:
        if set(np.unique(y).tolist()) == {-1, 1}:
            raise TrueriskError(f"{place}: the labels are -1 and 1, but must be 0 and 1; give (y + 1) // 2.")
        raise TrueriskError(f"{place}: the label {low} is negative; number the classes 0, 1, 2, ...")


def row_hashes(X: np.ndarray) -> np.ndarray:
    """One 16-byte digest per row, equal exactly where the rows are equal as numbers of one kind (integers or floats).

    >>> a, b, c = row_hashes(np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]]))
    >>> bool(a == b), bool(a == c)
    (True, False)
    """
    rows = np.asarray(X)
    digests = np.empty(len(rows), dtype=f"V{DIGEST_BYTES}")
    for start in range(0, len(rows), ROWS_AT_ONCE):
        chunk = rows[start : start + ROWS_AT_ONCE]
        if rows.dtype.kind == "i":  # as floats, large integers would collide
            block = np.ascontiguousarray(chunk, dtype="<i8")
        else:
            # Adding 0.0 turns -0.0 into 0.0: equal numbers, but different bytes.
            block = np.ascontiguousarray(chunk.astype("<f4") + np.float32(0)).astype("<f4", copy=False)
        for i, row in enumerate(block, start):
            digests[i] = np.void(hashlib.blake2b(row.tobytes(), digest_size=DIGEST_BYTES).digest())
    return digests


def as_array(X: Any, place: str) -> np.ndarray:
    """A numpy array of numbers from arrays, nested lists, data frames or torch tensors."""
    try:
        array = np.asarray(_from_torch(X))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TrueriskError(f"{place}: the inputs do not form one array; give examples of one common shape.") from error
    _refuse_masked(X, place)
    if array.dtype.kind not in "buif":
        raise TrueriskError(f"{place}: the inputs are of type {array.dtype}; turn them into real numbers first.")
    return array


def _from_torch(values: Any) -> Any:
    """A torch tensor, recognised without importing torch, as an array; everything else as it is."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu().resolve_neg()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def _refuse_masked(values: Any, place: str) -> None:
    """numpy would show what lies below a mask."""
    if np.ma.is_masked(values):
        raise TrueriskError(f"{place}: some values are masked; fill in these values, or drop their rows.")


def as_inputs(X: Any, place: str) -> np.ndarray:
    """Inputs as `Data` holds them; unsigned bytes are divided by 255."""
    array = as_array(X, place)
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array, dtype=np.float32) / np.float32(255)
    return _as_inputs(array, place)


def _as_inputs(X: Any, place: str) -> np.ndarray:
    """int64 for integers, apart from bytes, and float32 for everything else."""
    array = as_array(X, place)
    if array.dtype.kind in "iu" and array.dtype != np.uint8:
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise TrueriskError(f"{place}: some inputs do not fit into 64 bits with a sign; give smaller integers.")
        return np.ascontiguousarray(array, dtype=np.int64)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and `validate` says so
        return np.ascontiguousarray(array, dtype=np.float32)


def as_labels(y: Any, place: str) -> np.ndarray:
    """Labels as int64; truth values and floats without a fraction are accepted, everything else is refused."""
    try:
        labels = np.asarray(_from_torch(y))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TrueriskError(f"{place}: the labels do not form a list; give one per example.") from error
    _refuse_masked(y, place)
    if labels.size == 0:
        return np.zeros(0, dtype=np.int64)
    if labels.ndim != 1:
        raise TrueriskError(
            f"{place}: labels of shape {labels.shape} were given; give one integer per example "
            "(y.argmax(1) for one-hot labels, y.ravel() for a column)."
        )
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise TrueriskError(f"{place}: some labels are NaN or infinite; drop these examples or label them.")
        fractions = labels[labels != np.round(labels)]
        if len(fractions):
            raise _measurements(labels, float(fractions[0]), place)
    elif labels.dtype.kind not in "bui":
        raise TrueriskError(
            f"{place}: labels of type {labels.dtype} are not integers; "
            "number the classes, for instance with np.unique(y, return_inverse=True)[1]."
        )
    if np.abs(labels.astype(np.float64)).max() >= 2.0**53:
        raise TrueriskError(f"{place}: some labels are too large to be classes; number them 0, 1, 2, ...")
    return np.array(labels, dtype=np.int64)  # a copy, as of the inputs


def _refuse_measurements(labels: np.ndarray, place: str) -> None:
    """Refuse integers that are not classes: many values, all different or far apart."""
    values = np.unique(labels)
    if len(values) <= MANY_VALUES:
        return
    # A small sample of 1,000 classes has as many values, but they lie close together, and some occur twice.
    if len(values) == len(labels) or values[-1] - values[0] >= SPARSE * len(values):
        raise _measurements(labels, int(values[-1]), place)


def _measurements(labels: np.ndarray, example: float, place: str) -> TrueriskError:
    values = f"{len(np.unique(labels)):,} different values, such as {example:g}"
    return TrueriskError(
        f"{place}: the labels look like measurements ({values}), but truerisk certifies classifiers; "
        "bin them into classes 0, 1, 2, ..."
    )
