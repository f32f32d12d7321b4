"""One seed from the user, many independent streams for the program.

Each use of randomness gets its own seed, named by what it is for. So training longer never changes
the split, and where or in which order things run never changes a result.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager


def derive(seed: int, *purpose: object) -> int:
    """A 63-bit seed for ``purpose``, a function of its arguments alone.

    >>> derive(0, "split") == derive(0, "split")
    True
    >>> derive(0, "split") == derive(0, "draws")
    False
    """
    text = "\x1f".join([str(int(seed)), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seed the global generators of torch, numpy and Python inside the block; put their old state back.

    Users' factories and training functions may draw from any of the three.
    """
    import numpy as np
    import torch

    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)
