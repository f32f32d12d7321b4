"""Tables with named columns: one is the label, all others are features in their order.

Nothing is guessed about the meaning of a column: text, missing values, and row numbers are refused with a fix, because
whatever is done about them is a choice that belongs to the user.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from truerisk.data.formats.labels import number_classes, tell
from truerisk.data.formats.reading import MAX_BYTES, Content, shown
from truerisk.errors import TrueriskError
from truerisk.progress import note

LABEL_NAMES = frozenset("label labels target class y".split())
INDEX_NAMES = ("", "__index_level_0__")  # of the index that pandas writes: in CSV, in Parquet
FEW_ROWS = 10  # in fewer rows than these a column may count up by chance
DECIMAL_COMMA = re.compile(r"-?\d+,\d+")


def check_columns(names: list[str], path: Path, labeled: bool) -> None:
    """Refuse names that cannot be told apart, and tables too narrow to hold inputs and labels."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise TrueriskError(f"{path}: two columns are named {twice!r}; give every column its own name.")
    if labeled and len(names) < 2:
        raise TrueriskError(f"{path} has a single column ({shown(names)}); give at least one feature and one label.")


def from_frame(frame: Any, names: list[str], path: Path, choice: str, labeled: bool) -> Content:
    """Inputs (rows, features) and labels from a data frame whose columns have these names."""
    if not len(frame):
        raise TrueriskError(f"{path} has column names but no rows; give at least one row for each example.")
    columns = {name: frame.iloc[:, place] for place, name in enumerate(names)}
    columns = _without_index(columns, path)
    label = _label_column(list(columns), path, choice, labeled)
    features = [name for name in columns if name != label]
    if not features:
        raise TrueriskError(f"{path} has no feature columns next to the label {label}; add at least one.")
    X = _features({name: columns[name] for name in features}, path)
    if label is None:
        return Content(X, None)
    return _labeled(X, columns[label], label, path)


def _without_index(columns: dict[str, Any], path: Path) -> dict[str, Any]:
    """All columns but the index that pandas writes unless it is told not to."""
    for name in INDEX_NAMES:
        if name not in columns:
            continue
        # In Parquet the name says that it is an index, whatever it holds.
        if not name and not _counts_up(columns[name], starts=(0,)):
            raise TrueriskError(f"{path}: a column has no name; name it, or leave it out (to_csv with index=False).")
        note(f"{path.name}: left out the index column that pandas wrote.")
        columns = {other: values for other, values in columns.items() if other != name}
    return columns


def _label_column(names: list[str], path: Path, choice: str, labeled: bool) -> str | None:
    """The column that the user names, or the only one with a well-known name; None where labels are optional."""
    if choice:
        if choice not in names:
            raise TrueriskError(f"{path} does not have a column {choice!r}; choose from {shown(names)}.")
        return choice
    known = [name for name in names if name.lower() in LABEL_NAMES]
    if len(known) == 1:
        return known[0]
    if not labeled and not known:
        return None
    raise TrueriskError(f"{path} has the columns {shown(names)}; say which holds the labels: type {path}:COLUMN.")


def _features(columns: dict[str, Any], path: Path) -> np.ndarray:
    """One array of all columns: integers if all of them are (or truth values), otherwise 32-bit floats."""
    kinds = {name: _kind(values, name, path) for name, values in columns.items()}
    n = len(next(iter(columns.values())))
    if n * len(columns) * 8 > MAX_BYTES:
        raise TrueriskError(f"{path} holds {n:,} rows of {len(columns):,} numbers, too many; give a smaller table.")
    whole = all(kind in "biu" for kind in kinds.values())
    X = np.empty((n, len(columns)), dtype=np.int64 if whole else np.float32)
    for place, (name, values) in enumerate(columns.items()):
        if n >= FEW_ROWS and kinds[name] in "iu" and _counts_up(values, starts=(0, 1)):
            raise TrueriskError(
                f"{path}: column {name!r} only numbers the rows, and new examples have no such numbers; "
                "remove this column."
            )
        array = values.to_numpy(dtype=_plain_type(kinds[name]))
        if whole and kinds[name] == "u" and array.max() > np.iinfo(np.int64).max:
            raise TrueriskError(f"{path}: column {name!r} holds integers above 2^63; give smaller ones.")
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused where all data is checked
            X[:, place] = array
    return X


def _labeled(X: np.ndarray, values: Any, name: str, path: Path) -> Content:
    """Inputs with labels: numbers as they are, texts as the numbers of their classes."""
    import pandas as pd

    place = f"{path}: column {name!r}"
    _refuse_missing(values, name, path)
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    if _is_number(values):
        kind = _kind(values, name, path)
        return Content(X, values.to_numpy(dtype=_plain_type(kind)))
    texts = values.tolist()
    odd = next((each for each in texts if not isinstance(each, str)), None)
    if odd is not None:
        raise TrueriskError(f"{place} holds {type(odd).__name__} values; give labels that are integers or text.")
    labels, names = number_classes(texts, place)
    tell(names, path.name)
    return Content(X, labels, len(names), names)


def _kind(values: Any, name: str, path: Path) -> str:
    """numpy's letter (b, i, u or f) for a column of numbers without gaps; everything else is refused."""
    _refuse_missing(values, name, path)
    if _is_number(values):
        dtype = getattr(values.dtype, "numpy_dtype", values.dtype)  # pandas' own types hide numpy's
        return str(np.dtype(dtype).kind)
    example = _not_a_number(values)
    if DECIMAL_COMMA.fullmatch(example):
        raise TrueriskError(f"{path}: column {name!r} holds {example!r}; write decimals with a point.")
    raise TrueriskError(
        f"{path}: column {name!r} is not numeric (it holds {example[:20]!r}); encode it as numbers, for instance with "
        "pd.get_dummies."
    )


def _not_a_number(values: Any) -> str:
    """The first value of a column that keeps it from being numeric."""
    import pandas as pd

    texts = values.astype(str)
    odd = pd.to_numeric(texts, errors="coerce").isna().to_numpy()
    return str(texts.iloc[int(odd.argmax())])


def _is_number(values: Any) -> bool:
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    return bool(is_bool_dtype(values) or is_numeric_dtype(values)) and not is_complex_dtype(values)


def _refuse_missing(values: Any, name: str, path: Path) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        raise TrueriskError(
            f"{path}: column {name!r} has {int(missing.sum()):,} missing values, the first in row "
            f"{int(missing.argmax()) + 1:,}; fill in the values or drop the rows."
        )


def _plain_type(kind: str) -> type:
    return {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}[kind]


def _counts_up(values: Any, starts: tuple[int, ...]) -> bool:
    """Whether a column holds 0, 1, 2, ... in order, or begins at another of the starts."""
    array = values.to_numpy()
    if array.dtype.kind not in "iu":
        return False
    return any(np.array_equal(array, np.arange(start, start + len(array))) for start in starts)
