"""Parquet tables, where pyarrow is installed; the rules for columns are those of CSV."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from truerisk.data.formats.labels import LONGEST
from truerisk.data.formats.reading import Content, PathLike, check_readable, check_size, reason, shown
from truerisk.data.formats.tables import check_columns, from_frame, label_column
from truerisk.errors import TrueriskError
from truerisk.progress import note

SAFE = (14, 0, 1)  # older versions could run code from a file (CVE-2023-47248)


def read_parquet(path: PathLike, choice: str = "", *, labeled: bool = True) -> Content:
    """Inputs and labels of a Parquet table; `choice` names the label column."""
    path = check_readable(path)
    arrow, parquet = _pyarrow(str(path))
    try:
        # An open file: from a path, pyarrow would also read columns out of the names of folders.
        with path.open("rb") as stream:
            texts = _text_columns(path, parquet.read_schema(stream), arrow.types)
            stream.seek(0)
            # A text that stands in a thousand rows is stored once, and stays a single one in memory.
            file = parquet.ParquetFile(stream, read_dictionary=texts)
            names = [str(name).strip() for name in file.schema_arrow.names]
            check_columns(names, path, labeled)
            check_size(path, (file.metadata.num_rows, len(names)), 8)
            _check_pages(path, file.metadata)
            label = label_column(names, path, choice, labeled)
            table = file.read(use_threads=False)
            _check_texts(path, table, arrow)
            frame = table.to_pandas(ignore_metadata=True)
            index = _index_columns(file.schema_arrow.metadata) - {label}
    except TrueriskError:
        raise
    except (arrow.ArrowException, ValueError, TypeError, KeyError, OSError, MemoryError) as error:
        raise TrueriskError(
            f"{path} is not a readable Parquet file ({reason(error)}); save it again with to_parquet."
        ) from error
    for name in [name for name in names if name in index]:
        note(f"{path.name}: left out the index column {name} that pandas wrote.")
    kept = [place for place, name in enumerate(names) if name not in index]
    return from_frame(frame.iloc[:, kept], [names[place] for place in kept], path, label, labeled)


def _check_pages(path: Path, metadata: Any) -> None:
    """Refuse columns that unpack to more than fits in memory."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    sizes = [group.column(place).total_uncompressed_size for group in groups for place in range(group.num_columns)]
    check_size(path, (sum(max(0, int(size)) for size in sizes),), 1)


def _text_columns(path: Path, schema: Any, types: Any) -> list[str]:
    """The columns of text; those of lists and the like are refused before they are read."""
    for field in schema:
        if types.is_nested(field.type) or types.is_fixed_size_binary(field.type):
            raise TrueriskError(
                f"{path}: column {shown([field.name])} is not numeric (its type is {str(field.type)[:60]}); "
                "give columns of numbers."
            )
    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return [field.name for field in schema if any(kind(field.type) for kind in kinds)]


def _check_texts(path: Path, table: Any, arrow: Any) -> None:
    """Refuse long texts, which would be copied for every row."""
    import pyarrow.compute as compute

    for name, column in zip(table.column_names, table.columns, strict=True):
        if not arrow.types.is_dictionary(column.type):
            continue
        for chunk in column.chunks:
            length = compute.max(compute.binary_length(chunk.dictionary)).as_py() if len(chunk.dictionary) else 0
            if (length or 0) > LONGEST:
                raise TrueriskError(
                    f"{path}: column {shown([name])} holds a text of {length:,} bytes; give numbers, and "
                    "short names of classes."
                )
            check_size(path, (len(chunk), length or 0), 1)


def _index_columns(metadata: Any) -> set[str]:
    """The columns of which pandas noted that they were the index; a note that cannot be read says nothing."""
    try:
        found = json.loads((metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
        return {name.strip() for name in found if isinstance(name, str)}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return set()


def _pyarrow(place: str) -> tuple[Any, Any]:
    """pyarrow and its Parquet module, if it is there and does not run code from files."""
    try:
        import pyarrow as arrow
    except ImportError as error:
        raise TrueriskError(f"{place} needs pyarrow; run `pip install pyarrow`, or save the table as CSV.") from error
    version = tuple(int(number) for number in re.findall(r"\d+", arrow.__version__)[:3])
    if version < SAFE:
        raise TrueriskError(
            f"{place} is not read by pyarrow {arrow.__version__}, which may run code from files; "
            "run `pip install -U pyarrow`."
        )
    import pyarrow.parquet as parquet

    return arrow, parquet
