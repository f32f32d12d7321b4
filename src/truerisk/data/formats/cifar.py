"""The binary version of CIFAR-10: plain, or compressed with gzip or xz."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerisk.data.formats.reading import COPY, PathLike, check_size, read_all
from truerisk.errors import TrueriskError

RECORD = 1 + 3 * 32 * 32  # one byte of label, then 32 x 32 pixels in red, green, blue planes


def read_cifar10_binary(paths: Sequence[PathLike]) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) as bytes and labels 0 to 9 from CIFAR-10's binary batches, in the given order."""
    batches = []
    for path in paths:
        content = read_all(path)
        if len(content) % RECORD:
            raise TrueriskError(
                f"{path} holds {len(content):,} bytes, not a multiple of {RECORD}, so it is "
                "truncated or not a binary CIFAR-10 batch; fetch the file again."
            )
        records = np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD)
        if records[:, 0].max() > 9:
            raise TrueriskError(
                f"{path} holds the label {records[:, 0].max()}, but CIFAR-10 has labels 0 to 9; "
                "give a batch of the binary version of CIFAR-10."
            )
        batches.append(records)
    if not batches:
        raise TrueriskError("no CIFAR-10 batch was given; give at least one file such as data_batch_1.bin.")
    check_size(paths[0], (sum(map(len, batches)), RECORD), 1 + COPY)
    records = np.concatenate(batches)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
