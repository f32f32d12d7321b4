"""Readers of data files that trust nothing: every broken file ends in one sentence, no file runs code.

Formats: IDX (the format of MNIST), the binary version of CIFAR-10, and NumPy's npz without pickles. IDX and
CIFAR files may be compressed with gzip or xz; which one is decided by their first bytes, not by their name.
"""

from __future__ import annotations

import gzip
import lzma
import math
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np

from truerisk.errors import TrueriskError

IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CIFAR_RECORD = 1 + 3 * 32 * 32  # one byte of label, then 32 x 32 pixels in red, green, blue planes
CHUNK = 1 << 20
MAX_BYTES = 1 << 33  # 8 GiB: larger than any data set this tool fits in memory, smaller than a corrupt size
DEFLATE_RATIO = 1032  # deflate cannot shrink anything more than this

PathLike = str | os.PathLike[str]


class Npz(NamedTuple):
    """What an npz file holds: inputs, labels, and the number of classes where the file tells it."""

    X: np.ndarray
    y: np.ndarray | None  # None only where labels were not asked for
    classes: int | None


def read_idx(path: PathLike) -> np.ndarray:
    """The array in an IDX file, of any of its six number types and any number of dimensions."""
    content = _read_all(Path(path))
    if len(content) < 4:
        raise TrueriskError(f"{path} ends inside its header; fetch the file again.")
    zero, kind, dims = content[:2], content[2], content[3]
    if zero != b"\0\0" or kind not in IDX_TYPES or dims == 0:
        raise TrueriskError(
            f"{path} is not an IDX file (it starts with {bytes(content[:4]).hex(' ')}); "
            "give the original file, for instance train-images-idx3-ubyte."
        )
    start = 4 + 4 * dims
    if len(content) < start:
        raise TrueriskError(f"{path} ends inside its header; fetch the file again.")
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=dims, offset=4))
    dtype = np.dtype(IDX_TYPES[kind])
    # In Python's integers, because a corrupt header easily overflows 64 bits. Nothing is allocated from it.
    promised, found = math.prod(shape) * dtype.itemsize, len(content) - start
    if promised != found:
        what = "is truncated" if found < promised else "is longer than it says"
        raise TrueriskError(
            f"{path} {what}: its header promises {promised:,} bytes of data, it holds {found:,}; fetch the file again."
        )
    if promised == 0:
        raise TrueriskError(f"{path} holds no examples (shape {shape}); give a file with data.")
    return np.frombuffer(content, dtype=dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_pair(images: PathLike, labels: PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Images and their labels; a channel axis is added to plain grey images (n, rows, columns)."""
    X, y = read_idx(images), read_idx(labels)
    if X.ndim < 2:
        raise TrueriskError(f"{images} holds a plain list, so it looks like a labels file; give the images file.")
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise TrueriskError(f"{labels} holds an array of shape {y.shape}, not labels; give the labels file.")
    if len(X) != len(y):
        raise TrueriskError(
            f"{images} holds {len(X)} images but {labels} holds {len(y)} labels; give two files that belong together."
        )
    return (X[:, None] if X.ndim == 3 else X), y


def read_cifar10_binary(paths: Sequence[PathLike]) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) as bytes and labels 0 to 9 from CIFAR-10's binary batches, in the given order."""
    batches = []
    for path in paths:
        content = _read_all(Path(path))
        if len(content) % CIFAR_RECORD:
            raise TrueriskError(
                f"{path} holds {len(content):,} bytes, which is no multiple of {CIFAR_RECORD}, so it is "
                "truncated or no binary CIFAR-10 batch; fetch the file again."
            )
        records = np.frombuffer(content, dtype=np.uint8).reshape(-1, CIFAR_RECORD)
        if records[:, 0].max() > 9:
            raise TrueriskError(
                f"{path} holds the label {records[:, 0].max()}, but CIFAR-10 has labels 0 to 9; "
                "give a batch of the binary version of CIFAR-10."
            )
        batches.append(records)
    if not batches:
        raise TrueriskError("No CIFAR-10 batch was given; give at least one file such as data_batch_1.bin.")
    records = np.concatenate(batches)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def read_npz(path: PathLike, *, labelled: bool = True) -> Npz:
    """The arrays `X` and `y` of an npz file, and its number `classes` if it has one; pickles are refused.

    With `labelled=False` a file without `y` is fine, and y is None.
    """
    path = Path(path)
    _check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            needed = ("X", "y") if labelled else ("X",)
            missing = [key for key in needed if key not in names]
            if missing:
                raise TrueriskError(
                    f"{path} holds {', '.join(names) or 'nothing'} but not {' and '.join(missing)}; "
                    "save it with np.savez(path, X=inputs, y=labels)."
                )
            wanted = [key for key in ("X", "y", "classes") if key in names]
            for key in wanted:
                _check_npy(path, archive, key)
        with np.load(path, allow_pickle=False) as arrays:
            loaded = {key: arrays[key] for key in wanted}
    except TrueriskError:
        raise
    except (ValueError, OSError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise TrueriskError(
            f"{path} is not a readable npz file ({reason(error)}); "
            "save it again with np.savez(path, X=inputs, y=labels)."
        ) from error
    except (NotImplementedError, RuntimeError) as error:  # an unknown compression, or an encrypted member
        raise TrueriskError(f"{path} is packed in a way npz files are not; save it with np.savez.") from error
    classes = loaded.get("classes")
    if classes is not None and (classes.size != 1 or classes.dtype.kind not in "iu"):
        raise TrueriskError(f"{path}: `classes` must be one whole number, the number of classes.")
    return Npz(loaded["X"], loaded.get("y"), None if classes is None else int(classes.item()))


def _check_npy(path: Path, archive: zipfile.ZipFile, key: str) -> None:
    """Compare what an array's header promises with what is stored, before numpy allocates room for it."""
    member = f"{key}.npy" if f"{key}.npy" in archive.namelist() else key
    info = archive.getinfo(member)
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise TrueriskError(
            f"{path}: the array {key} holds pickled Python objects, which are never loaded because "
            "they can run code; save plain numbers."
        )
    promised = math.prod(shape) * dtype.itemsize
    if promised > info.file_size or promised > MAX_BYTES or promised > DEFLATE_RATIO * (info.compress_size + 64):
        raise TrueriskError(
            f"{path}: the array {key} promises {promised:,} bytes, more than the file can hold; "
            "the file is corrupt, save it again."
        )


def _read_all(path: Path) -> bytearray:
    """The whole content, decompressed; grows with what is really there, never with what a header says."""
    _check_readable(path)
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


def _check_readable(path: Path) -> None:
    if not path.exists():
        raise TrueriskError(f"{path} does not exist; check the path.")
    if not path.is_file():
        raise TrueriskError(f"{path} is not a file; give the path of a file.")
    if path.stat().st_size == 0:
        raise TrueriskError(f"{path} is empty; fetch the file again.")


def reason(error: object) -> str:
    """An exception's message as part of a sentence: one line, no full stop, never empty."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")
