"""CSV and TSV: plain text with column names in the first line, separated by commas, semicolons or tabs.

The lines are counted and measured before pandas reads them: pandas fills up short lines, and takes a column that the
header lacks for an index, without a word.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from truerisk.data.formats.labels import TRUTH, read_texts, tell_truth_values
from truerisk.data.formats.reading import MAX_BYTES, Content, PathLike, check_readable, reason
from truerisk.data.formats.tables import check_columns, from_frame, label_column
from truerisk.errors import TrueriskError

SEPARATORS = (",", ";", "\t")
LONGEST_LINE = 1 << 24  # characters; a longer one is not a line of a table


def read_csv(path: PathLike, choice: str = "", *, labeled: bool = True) -> Content:
    """Inputs and labels of a table; `choice` names the label column.

    Without it, the label is the only column named label, labels, target, class, or y.
    """
    path = check_readable(path)
    if path.stat().st_size > MAX_BYTES:
        raise TrueriskError(f"{path} holds more than {MAX_BYTES:,} bytes; give a smaller file.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            separator = _separator(path, stream)
            names, rows = _measure(path, stream, separator)
            check_columns(names, path, labeled)
            stream.seek(0)
            label = label_column(names, path, choice, labeled)
            frame = _read(stream, separator, names, label)
    except TrueriskError:
        raise
    except UnicodeError as error:
        raise TrueriskError(f"{path} is not UTF-8 text; save it as plain UTF-8, uncompressed.") from error
    # pandas raises ParserError, a ValueError, and now and then others where a file is odd enough.
    except (csv.Error, ValueError, OSError, OverflowError, MemoryError) as error:
        raise TrueriskError(f"{path} is not a readable table ({reason(error)}); save it again with to_csv.") from error
    if len(frame) != rows:  # two parsers disagree, so one of them is wrong
        raise TrueriskError(f"{path} has lines that can be read in two ways; save it again with to_csv.")
    if label is not None:
        _settle_labels(frame, names.index(label), path, label)
    return from_frame(frame, names, path, label, labeled)


def _settle_labels(frame: Any, place: int, path: Path, name: str) -> None:
    """Turn the label column, read as text, into numbers where all of it is numbers."""
    import numpy as np

    texts = [text.removeprefix("=") for text in frame[place].tolist()]
    numbers = read_texts(texts, f"{path}: column {name!r}")
    if numbers is not None:
        whole = (
            np.isfinite(numbers).all() and (np.abs(numbers) < 2.0**53).all() and (numbers == np.round(numbers)).all()
        )
        frame[place] = numbers.astype(np.int64) if whole else numbers
        if texts and texts[0].strip().lower() in TRUTH:
            tell_truth_values(path.name)
    else:
        frame[place] = [text if text.strip() else None for text in texts]


def _separator(path: Path, stream: IO[str]) -> str:
    """The separator that occurs most often in the first line that is not empty, outside quotes."""
    for line in _lines(path, stream):
        if line.strip():
            bare = "".join(line.split('"')[::2])
            stream.seek(0)
            return max(SEPARATORS, key=bare.count)  # a comma where none occurs
    raise TrueriskError(f"{path} holds empty lines only; give a table with column names and rows.")


def _measure(path: Path, stream: IO[str], separator: str) -> tuple[list[str], int]:
    """Column names and the number of rows, all of which must be as long as the header."""
    names: list[str] = []
    rows = 0
    reader = csv.reader(_lines(path, stream), delimiter=separator, skipinitialspace=True, strict=True)
    for row in reader:
        if not row:
            continue
        if not names:
            names = [name.strip() for name in row]
            _check_header(names, path)
        elif len(row) != len(names):
            raise TrueriskError(
                f"{path}: line {reader.line_num:,} has {len(row):,} fields, but the header has {len(names):,}; "
                "correct this line."
            )
        else:
            rows += 1
    return names, rows


def _check_header(names: list[str], path: Path) -> None:
    """Refuse a first line that is data: its numbers would become names, and one example would be lost."""
    numbers = [_number(name) for name in names if name]
    if numbers and all(number is not None for number in numbers):
        raise TrueriskError(f"{path} starts with a line of numbers; add a first line with column names.")
    if any(number is not None and number != round(number) for number in numbers):
        raise TrueriskError(f"{path} starts with a line that looks like data; add a first line with column names.")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None  # "nan" and "inf" are names as good as any


def _read(stream: IO[str], separator: str, names: list[str], label: str | None) -> Any:
    """The rows as a data frame with columns 0, 1, 2, ...; each number is the nearest to its text.

    The label column stays text, as it stands in the file: pandas would read a class "NA" as missing, and 007 as 7.
    """
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on columns of several types, which are refused by name later
        return pd.read_csv(
            stream,
            sep=separator,
            header=0,
            names=list(range(len(names))),
            index_col=False,
            skipinitialspace=True,
            float_precision="round_trip",
            low_memory=False,
            converters={} if label is None else {names.index(label): _marked},
        )


def _marked(text: str) -> str:
    """A text that pandas takes for nothing but a text."""
    return f"={text}"


def _lines(path: Path, stream: IO[str]) -> Iterator[str]:
    """The lines of a text, none of which may be endless or binary."""
    while line := stream.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE or "\0" in line:
            raise TrueriskError(f"{path} is not a text file with lines; give a table in plain text.")
        yield line
