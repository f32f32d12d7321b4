"""Training and test examples of an experiment, by name, size and seed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from truerisk.data import Data, load, shuffle
from truerisk.data.mnist1d import generate_mnist1d
from truerisk.data.toy import generate_toy
from truerisk.errors import TrueriskError
from truerisk.names import TOYS
from truerisk.seeds import derive

WITH_TEST = ("mnist", "fashion-mnist", "cifar-10")  # of all others, both parts come from one shuffle


def samples(name: str, n: int, n_test: int, seed: int, sha256: str | None = None) -> tuple[Data, Data]:
    """``n`` training and ``n_test`` test examples of a data set (a name or a path), disjoint, determined by the seed.

    ``sha256`` is the fingerprint that a user's data set had when the run was planned.

    >>> train, test = samples("digits", 1000, 500, seed=0)
    >>> len(train), len(test), train.input_shape
    (1000, 500, (1, 8, 8))
    """
    if name == "mnist1d" or name in TOYS:
        return _drawn(name, n, seed, "train"), _drawn(name, n_test, seed, "test")
    data = _loaded(name, _stamp(name))
    if sha256 is not None and data.sha256 != sha256:
        raise TrueriskError(f"{name} has changed since this run was planned; run the same command again.")
    rows = shuffle(len(data), derive(seed, "training examples"))
    if name not in WITH_TEST:
        _enough(name, len(data), n + n_test)
        return data.take(rows[:n]), data.take(rows[n : n + n_test])
    test = _loaded(f"{name}:test", 0)
    _enough(name, len(data), n)
    _enough(f"{name}:test", len(test), n_test)
    return data.take(rows[:n]), test.take(shuffle(len(test), derive(seed, "test examples"))[:n_test])


@lru_cache(maxsize=4)  # tasks of one grid ask for the same few sets again and again
def _loaded(name: str, stamp: int) -> Data:
    return load(name)


def _stamp(name: str) -> int:
    """When a user's file was last changed: a file with new content is another data set."""
    path = Path(name)
    return path.stat().st_mtime_ns if path.is_file() else 0


@lru_cache(maxsize=8)
def _drawn(name: str, n: int, seed: int, part: str) -> Data:
    own = derive(seed, name, part) % 2**32
    return generate_toy(name, n, own) if name in TOYS else generate_mnist1d(n, own)


def _enough(name: str, there: int, wanted: int) -> None:
    if there < wanted:
        raise TrueriskError(f"{name} has {there} examples, but {wanted} are needed; ask for fewer.")
