"""Parquet tables, where pyarrow is installed; the rules for columns are those of CSV."""

from __future__ import annotations

import re
from typing import Any

from truerisk.data.formats.reading import Content, PathLike, check_readable, check_size, reason
from truerisk.data.formats.tables import check_columns, from_frame
from truerisk.errors import TrueriskError

SAFE = (14, 0, 1)  # older versions could run code from a file (CVE-2023-47248)


def read_parquet(path: PathLike, choice: str = "", *, labeled: bool = True) -> Content:
    """Inputs and labels of a Parquet table; `choice` names the label column."""
    path = check_readable(path)
    arrow, parquet = _pyarrow(str(path))
    try:
        # An open file: from a path, pyarrow would also read columns out of the names of folders.
        with path.open("rb") as stream, parquet.ParquetFile(stream) as file:
            names = [str(name).strip() for name in file.schema_arrow.names]
            check_columns(names, path, labeled)
            check_size(path, (file.metadata.num_rows, len(names)), 8)
            frame = file.read(use_threads=False).to_pandas(ignore_metadata=True)
    except TrueriskError:
        raise
    except (arrow.ArrowException, ValueError, TypeError, KeyError, OSError, MemoryError) as error:
        raise TrueriskError(
            f"{path} is not a readable Parquet file ({reason(error)}); save it again with to_parquet."
        ) from error
    return from_frame(frame, names, path, choice, labeled)


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
