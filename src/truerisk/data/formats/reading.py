"""Shared by the readers of data files, which trust nothing: a broken file ends in one sentence, no file runs code."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from truerisk.errors import TrueriskError
from truerisk.progress import note, printable

CHUNK = 1 << 20
MAX_BYTES = 1 << 33  # 8 GiB: larger than any dataset this tool fits in memory, smaller than a corrupt size
COPY = 8  # bytes of a value in the copy that is checked: 4 for a float, 8 for an integer
LONGEST_REASON = 120  # characters; some messages quote the file
SHOWN = 8  # names listed in a message; a table may have thousands of columns

PathLike = str | os.PathLike[str]


class Content(NamedTuple):
    """Inputs and labels as a file holds them; checked and brought to one type later."""

    X: Any
    y: Any  # None only where labels are optional
    classes: int | None = None  # None: as many as the labels show
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()  # of the columns of X, where a table has some


@contextmanager
def in_memory(what: str) -> Iterator[None]:
    """What memory does not hold ends in one sentence."""
    try:
        yield
    except MemoryError as error:
        raise TrueriskError(f"{what} does not fit in memory; give a smaller dataset.") from error


def tell_bytes(X: Any, title: str) -> None:
    """Say what happens to bytes, where the user may expect the numbers themselves."""
    if str(getattr(X, "dtype", "")).removeprefix("torch.") == "uint8":
        note(f"{title}: bytes are divided by 255.")


def read_all(path: PathLike) -> bytearray:
    """The whole content, decompressed; grows with what is really there, never with what a header says."""
    path = check_readable(path)
    content = bytearray()
    try:
        with path.open("rb") as raw:
            first = raw.read(6)
            raw.seek(0)
            stream = _unpacked(raw, first)
            # To the very end: gzip and xz keep their checksums there.
            while chunk := stream.read(CHUNK):
                content += chunk
                if len(content) > MAX_BYTES:
                    raise TrueriskError(f"{path} holds more than {MAX_BYTES:,} bytes; give a smaller file.")
    except TrueriskError:
        raise
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise TrueriskError(f"{path} cannot be read ({reason(error)}); fetch the file again.") from error
    if not content:
        raise TrueriskError(f"{path} is empty; fetch the file again.")
    return content


def _unpacked(raw: IO[bytes], first: bytes) -> IO[bytes]:
    """The stream behind the compression that the first bytes tell; closing `raw` is enough to release it."""
    if first.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if first.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(raw)
    return raw


def check_readable(path: PathLike) -> Path:
    """The path of a file that is there and not empty."""
    path = Path(path)
    if not path.exists():
        raise TrueriskError(f"{path} does not exist; check the path.")
    if not path.is_file():
        raise TrueriskError(f"{path} is not a file; give the path of a file.")
    if path.stat().st_size == 0:
        raise TrueriskError(f"{path} is empty; fetch the file again.")
    return path


def reason(error: object) -> str:
    """An exception's message as part of a sentence: one short line, no full stop, never empty."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:LONGEST_REASON].rstrip(".")


def shown(names: list[str]) -> str:
    """The first few names and the last one, where labels often are, as part of a sentence.

    >>> shown(["a", "b"]), shown(list("abcdefghij"))
    ('a, b', 'a, b, c, d, e, f, g, ..., j')
    """
    listed = names if len(names) <= SHOWN else [*names[: SHOWN - 1], "...", names[-1]]
    return printable(", ".join(listed))  # names come from a file


def check_size(place: PathLike, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse what does not fit in memory, before anything is allocated; in Python's integers, which never overflow."""
    size = itemsize
    for side in shape:
        size *= int(side)
    if size > MAX_BYTES:
        raise TrueriskError(f"{place} needs {size:,} bytes, more than {MAX_BYTES:,}; give a smaller dataset.")
