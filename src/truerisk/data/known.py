"""Recognize rows of the training sets that the built-in networks were chosen on.

A sketch of each set lies beside this module: the 64-bit keys of its rows that are 0 modulo ``KEEP``, as sorted prefixes
of five bytes, made by ``python -m benchmarks.sketches``. No data set is loaded. The key of a row does not depend on the
other rows, nor on how its numbers are spelled: flat or as an image, from 0 to 1 or from 0 to 255, or standardized with
one mean and one scale for each color. Inverted images are looked up as well. A key does not survive a change of pixels,
such as cropping or noise.
"""

from __future__ import annotations

import hashlib
import math
from functools import cache
from importlib.resources import files

import numpy as np

from truerisk.data.splits import shuffle

# Number of features, and which share of the keys is kept: one in so many.
KNOWN_ROWS = {"digits": (64, 1), "mnist": (784, 16), "fashion-mnist": (784, 16), "cifar-10": (3072, 16)}
COLORS = {3072: 3}  # by number of features; one color otherwise
SHARE = 0.01  # of the rows; more than this many must be known
MOST = 20_000  # rows that are compared; of more, a random sample
PREFIX_BYTES = 5  # two different rows have the same prefix with probability 2^-40
# Rows are compared in this many steps between the smallest and the largest number of each color. No fraction a/b with
# b below 256 lies halfway between two steps, so rounding does not change the step.
STEPS = np.float32(100.37)
ROWS_AT_ONCE = 2048


def known_rows(X: np.ndarray) -> str | None:
    """The set that more than 1% of these rows are rows of, or None.

    >>> from truerisk.data import load
    >>> known_rows(255 * load("digits").X[5:900].reshape(895, 64))
    'digits'
    """
    features = math.prod(X.shape[1:])
    names = [name for name, (size, _) in KNOWN_ROWS.items() if size == features]
    if not names or not len(X):
        return None
    X = X if len(X) <= MOST else X[np.sort(shuffle(len(X), 0)[:MOST])]
    return _found(row_keys(X), names) or _found(row_keys(-X.astype(np.float32)), names)  # black on white, or inverted


def _found(keys: np.ndarray, names: list[str]) -> str | None:
    """The first of these sets that more than 1% of the keys are keys of."""
    for name in names:
        chosen = keys[keys % np.uint64(KNOWN_ROWS[name][1]) == 0]
        hits = int(np.isin(_prefixes(chosen), _sketch(name)).sum())
        if hits > SHARE * len(chosen):
            return name
    return None


def row_keys(X: np.ndarray) -> np.ndarray:
    """A 64-bit key for each row."""
    colors = COLORS.get(math.prod(X.shape[1:]), 1)
    if X.ndim == 4 and X.shape[-1] == colors != X.shape[1]:
        X = np.moveaxis(X, -1, 1)
    digests = []
    for start in range(0, len(X), ROWS_AT_ONCE):
        chunk = X[start : start + ROWS_AT_ONCE].astype(np.float32)
        planes = chunk.reshape(len(chunk), colors, -1)
        planes = planes - planes.min(axis=2, keepdims=True)
        top = planes.max(axis=2, keepdims=True)
        planes *= STEPS / np.where(top > 0, top, 1)
        steps = np.rint(planes).astype(np.uint8).reshape(len(chunk), -1)
        digests += [hashlib.blake2b(row, digest_size=8).digest() for row in steps]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def sketch(X: np.ndarray, keep: int) -> bytes:
    """The content of a sketch: sorted prefixes of the keys that are 0 modulo ``keep``."""
    keys = row_keys(X)
    prefixes = np.unique(_prefixes(keys[keys % np.uint64(keep) == 0]))
    return prefixes.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - PREFIX_BYTES :].tobytes()


def _prefixes(keys: np.ndarray) -> np.ndarray:
    return keys >> np.uint64(8 * (8 - PREFIX_BYTES))


@cache
def _sketch(name: str) -> np.ndarray:
    content = (files("truerisk.data") / "sketches" / f"{name}.bin").read_bytes()
    short = np.frombuffer(content, dtype=np.uint8).reshape(-1, PREFIX_BYTES)
    padded = np.zeros((len(short), 8), dtype=np.uint8)
    padded[:, 8 - PREFIX_BYTES :] = short
    return padded.view(">u8").ravel().astype(np.uint64)
