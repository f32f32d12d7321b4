"""Deliberate changes to a data set whose effect on a certificate is known beforehand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerisk.data.dataset import Data
from truerisk.data.splits import bit_stream

LABELS = 1  # the stream for labels: independent of the stream that shuffles with the same seed


def random_labels(data: Data, seed: int) -> Data:
    """Replace every label by an independent, uniformly random class.

    Nothing can be learned from such data: the true risk of every classifier is 1 - 1/classes. A certificate
    below that number is wrong, whatever it says about itself.
    """
    labels = _uniform(data.classes, len(data), seed)
    note = f"labels drawn uniformly at random with seed {seed}"
    return replace(
        data,
        name=f"{data.name} with random labels",
        y=labels,
        note=f"{data.note}; {note}" if data.note else note,
        source=None,  # loading the original again would not give these labels
    )


def _uniform(classes: int, n: int, seed: int) -> np.ndarray:
    """n independent integers from 0 to classes - 1 with exactly equal probabilities.

    >>> bool(np.bincount(_uniform(3, 3000, seed=0)).min() > 800)
    True
    """
    bits = bit_stream(seed, purpose=LABELS)
    # Raw words at or above the last multiple of `classes` are thrown away: they would favour small classes.
    largest = 2**64 - 2**64 % classes - 1
    kept = np.empty(0, dtype=np.uint64)
    while len(kept) < n:
        words = bits.random_raw(n - len(kept))
        kept = np.concatenate([kept, words[words <= np.uint64(largest)]])
    return (kept % np.uint64(classes)).astype(np.int64)
