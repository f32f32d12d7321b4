"""IDX, the format of MNIST: plain, or compressed with gzip or xz."""

from __future__ import annotations

import math

import numpy as np

from truerisk.data.formats.reading import COPY, PathLike, check_size, read_all
from truerisk.errors import TrueriskError

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: PathLike) -> np.ndarray:
    """The array in an IDX file, of any of its six number types and any number of dimensions."""
    content = read_all(path)
    if len(content) < 4:
        raise TrueriskError(f"{path} ends inside its header; fetch the file again.")
    zero, kind, dims = content[:2], content[2], content[3]
    if zero != b"\0\0" or kind not in TYPES or dims == 0:
        raise TrueriskError(
            f"{path} is not an IDX file (it starts with {bytes(content[:4]).hex(' ')}); "
            "give the original file, for instance train-images-idx3-ubyte."
        )
    start = 4 + 4 * dims
    if len(content) < start:
        raise TrueriskError(f"{path} ends inside its header; fetch the file again.")
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=dims, offset=4))
    dtype = np.dtype(TYPES[kind])
    # In Python's integers, because a corrupt header easily overflows 64 bits. Nothing is allocated from it.
    promised, found = math.prod(shape) * dtype.itemsize, len(content) - start
    if promised != found:
        what = "is truncated" if found < promised else "is longer than it says"
        raise TrueriskError(
            f"{path} {what}: its header promises {promised:,} bytes of data, it holds {found:,}; fetch the file again."
        )
    check_size(path, shape, dtype.itemsize + COPY)
    if promised == 0:
        raise TrueriskError(f"{path} holds no examples (shape {shape}); give a file with data.")
    return np.frombuffer(content, dtype=dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_pair(images: PathLike, labels: PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Images and their labels; a channel axis is added to plain gray images (n, rows, columns)."""
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
