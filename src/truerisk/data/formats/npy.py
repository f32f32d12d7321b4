"""NumPy's npy files, without pickles: one array, so inputs without labels."""

from __future__ import annotations

import math
from tokenize import TokenError
from typing import IO

import numpy as np

from truerisk.data.formats.reading import COPY, MAX_BYTES, Content, PathLike, check_readable, check_size, reason
from truerisk.errors import TrueriskError


def read_npy(path: PathLike) -> Content:
    """The array of an npy file as inputs."""
    path = check_readable(path)
    try:
        with path.open("rb") as stream:
            shape, dtype = read_header(stream)
            stored = path.stat().st_size - stream.tell()
        if dtype.hasobject:
            raise TrueriskError(
                f"{path} holds pickled Python objects, which are never loaded because they can run code; "
                "save plain numbers."
            )
        promised = math.prod(shape) * dtype.itemsize
        if promised > min(stored, MAX_BYTES):
            raise TrueriskError(
                f"{path} promises {promised:,} bytes, but holds {stored:,}; the file is corrupt, save it again."
            )
        check_size(path, shape, dtype.itemsize + COPY)
        return Content(np.load(path, allow_pickle=False), None)
    except TrueriskError:
        raise
    except (ValueError, EOFError, OSError, MemoryError) as error:
        raise TrueriskError(
            f"{path} is not a readable npy file of plain numbers ({reason(error)}); save it again with np.save."
        ) from error


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type that an array's header promises; ValueError where there is no such header."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read(stream)
    # numpy reads the header as Python's syntax, and lets some errors of the parser through.
    except (TokenError, SyntaxError, TypeError, RecursionError) as error:
        raise ValueError(f"broken header, {type(error).__name__}") from error
    return shape, dtype
