"""One seed from the user, many independent streams for the program.

Each use of randomness gets its own seed, named by what it is for. So training longer never changes
the split, and where or in which order things run never changes a result.
"""

from __future__ import annotations

import hashlib
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
def torch_seed(seed: int) -> Iterator[None]:
    """Seed torch's global generator inside the block and put its old state back afterwards."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
