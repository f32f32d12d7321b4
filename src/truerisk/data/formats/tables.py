"""Tables with named columns: one is the label, all others are features in their order.

Nothing is guessed about the meaning of a column: text, missing values, and row numbers are refused with a fix, because
whatever is done about them is a choice that belongs to the user.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from truerisk.data.formats.labels import number_classes, tell, tell_truth_values
from truerisk.data.formats.reading import MAX_BYTES, Content, shown
from truerisk.errors import TrueriskError
from truerisk.progress import note, printable

LABEL_NAMES = frozenset("label labels target class y".split())
INDEX_NAMES = ("", "__index_level_0__")  # of the index that pandas writes: in CSV, in Parquet
FEW_ROWS = 10  # in fewer rows than these a column may count up by chance
UNNAMED = re.compile(r"Unnamed: \d+")  # what pandas calls a column without a name, such as its index, when it reads it
DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")


def check_columns(names: list[str], path: Path, labeled: bool) -> None:
    """Refuse names that cannot be told apart, and tables too narrow to hold inputs and labels."""
    met: set[str] = set()
    twice = next((name for name in names if name in met or met.add(name)), None)  # type: ignore[func-returns-value]
    if twice is not None:
        raise TrueriskError(f"{path}: two columns are named {twice!r}; give every column its own name.")
    if labeled and len(names) < 2:
        raise TrueriskError(f"{path} has a single column ({shown(names)}); give at least one feature and one label.")


def from_frame(frame: Any, names: list[str], path: Path, label: str | None, labeled: bool) -> Content:
    """Inputs (rows, features) and labels from a data frame whose columns have these names.

    Columns that number the rows are refused in labeled data; in inputs to predict on, the certified columns decide.
    """
    if not len(frame):
        raise TrueriskError(f"{path} has column names but no rows; give at least one row for each example.")
    columns = {name: frame.iloc[:, place] for place, name in enumerate(names)}
    columns = _without_index(columns, path, label)
    features = [name for name in columns if name != label]
    if not features:
        raise TrueriskError(f"{path} has no feature columns next to the label {label}; add at least one.")
    X = _features({name: columns[name] for name in features}, path, FEW_ROWS if labeled else len(frame) + 1)
    content = Content(X, None, feature_names=_printable(features))
    return content if label is None else _labeled(content, columns[label], label, path)


def _printable(names: list[str]) -> tuple[str, ...]:
    """Column names as a certificate can hold them; none of them where two would become equal."""
    found = tuple(dict.fromkeys(printable(" ".join(name.split())) for name in names))
    return found if len(found) == len(names) else ()


def _without_index(columns: dict[str, Any], path: Path, label: str | None) -> dict[str, Any]:
    """All columns but the index that pandas writes unless it is told not to."""
    odd = next((name for name in columns if UNNAMED.fullmatch(name) and name != label), None)
    if odd is not None:
        raise TrueriskError(
            f"{path}: column {odd!r} is an index that pandas wrote; remove it (to_csv with index=False)."
        )
    for name in INDEX_NAMES:
        if name not in columns or name == label:
            continue
        # In Parquet the name says that it is an index, whatever it holds.
        if not name and not _counts_up(columns[name]):
            raise TrueriskError(f"{path}: a column has no name; name it, or leave it out (to_csv with index=False).")
        note(f"{path.name}: left out the index column that pandas wrote.")
        columns = {other: values for other, values in columns.items() if other != name}
    return columns


def label_column(names: list[str], path: Path, choice: str, labeled: bool) -> str | None:
    """The column that the user names, or the only one with a well-known name; None where labels are optional."""
    names = [name for name in names if name not in INDEX_NAMES]
    if choice:
        if choice not in names:
            alike = [name for name in names if name.casefold() == choice.casefold()]
            if len(alike) == 1:
                return alike[0]
            raise TrueriskError(f"{path} does not have a column {choice!r}; choose from {shown(names)}.")
        return choice
    known = [name for name in names if name.lower() in LABEL_NAMES]
    if len(known) == 1:
        return known[0]
    if not labeled and not known:
        return None
    raise TrueriskError(f"{path} has the columns {shown(names)}; say which holds the labels: type {path}:COLUMN.")


def _features(columns: dict[str, Any], path: Path, few: int) -> np.ndarray:
    """One array of all columns: integers if all of them are (or truth values), otherwise 32-bit floats.

    From ``few`` rows on, a column that numbers them is refused.
    """
    kinds = {name: _kind(values, name, path) for name, values in columns.items()}
    n = len(next(iter(columns.values())))
    if n * len(columns) * 8 > MAX_BYTES:
        raise TrueriskError(f"{path} holds {n:,} rows of {len(columns):,} numbers, too many; give a smaller table.")
    whole = all(kind in "biu" for kind in kinds.values())
    X = np.empty((n, len(columns)), dtype=np.int64 if whole else np.float32)
    for place, (name, values) in enumerate(columns.items()):
        array = values.to_numpy(dtype=_plain_type(kinds[name]))
        if n >= few and _numbers_rows(array):
            raise TrueriskError(
                f"{path}: column {name!r} only numbers the rows, and new examples have no such numbers; "
                "remove this column."
            )
        if whole and kinds[name] == "u" and array.max() > np.iinfo(np.int64).max:
            raise TrueriskError(f"{path}: column {name!r} holds integers above 2^63; give smaller ones.")
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused where all data is checked
            X[:, place] = array
    return X


def _labeled(content: Content, values: Any, name: str, path: Path) -> Content:
    """Content with labels: numbers as they are, texts as the numbers of their classes."""
    import pandas as pd

    place = f"{path}: column {name!r}"
    _refuse_missing(values, name, path)
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    if _is_number(values):
        kind = _kind(values, name, path)
        if kind == "b":
            tell_truth_values(path.name)
        return content._replace(y=values.to_numpy(dtype=_plain_type(kind)))
    texts = values.tolist()
    odd = next((each for each in texts if not isinstance(each, str)), None)
    if odd is not None:
        raise TrueriskError(f"{place} holds {type(odd).__name__} values; give labels that are integers or text.")
    labels, names = number_classes(texts, place)
    tell(names, path.name)
    return content._replace(y=labels, classes=len(names), class_names=names)


def _kind(values: Any, name: str, path: Path) -> str:
    """numpy's letter (b, i, u or f) for a column of numbers without gaps; everything else is refused."""
    _refuse_missing(values, name, path)
    if _is_number(values):
        dtype = getattr(values.dtype, "numpy_dtype", values.dtype)  # pandas' own types hide numpy's
        return str(np.dtype(dtype).kind)
    example = _not_a_number(values)
    if THOUSANDS.fullmatch(example):
        raise TrueriskError(
            f"{path}: column {name!r} holds {example[:20]!r}; remove separators of thousands, "
            "and write decimals with a point."
        )
    if DECIMAL_COMMA.fullmatch(example):
        raise TrueriskError(f"{path}: column {name!r} holds {example!r}; write decimals with a point.")
    raise TrueriskError(
        f"{path}: column {name!r} is not numeric (it holds {example[:20]!r}); encode it as numbers (pd.get_dummies), "
        f"or type {path}:{name} if it is the label."
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


def _counts_up(values: Any) -> bool:
    """Whether a column holds 0, 1, 2, ... in order."""
    array = values.to_numpy()
    return array.dtype.kind in "iu" and np.array_equal(array, np.arange(len(array)))


def _numbers_rows(array: np.ndarray) -> bool:
    """Whether a column holds consecutive integers, each of them once, in any order and from any start."""
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        return False
    low, high = array.min(), array.max()
    if float(high) - float(low) != len(array) - 1 or (array != np.round(array)).any():
        return False
    return len(np.unique(array)) == len(array)
