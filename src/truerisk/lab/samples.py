"""Training and test examples of an experiment, by name, size and seed."""

from __future__ import annotations

from functools import lru_cache

from truerisk.data import Data, load, shuffle
from truerisk.data.mnist1d import generate_mnist1d
from truerisk.errors import TrueriskError
from truerisk.seeds import derive

ONE_SET = ("digits",)  # data without a test part: both come from one shuffle


def samples(name: str, n: int, n_test: int, seed: int) -> tuple[Data, Data]:
    """``n`` training and ``n_test`` test examples of a named data set, disjoint, determined by the seed.

    >>> train, test = samples("digits", 1000, 500, seed=0)
    >>> len(train), len(test), train.input_shape
    (1000, 500, (1, 8, 8))
    """
    if name == "mnist1d":
        return _drawn(n, seed, "train"), _drawn(n_test, seed, "test")
    data = _loaded(name)
    rows = shuffle(len(data), derive(seed, "training examples"))
    if name in ONE_SET:
        _enough(name, len(data), n + n_test)
        return data.take(rows[:n]), data.take(rows[n : n + n_test])
    test = _loaded(f"{name}:test")
    _enough(name, len(data), n)
    _enough(f"{name}:test", len(test), n_test)
    return data.take(rows[:n]), test.take(shuffle(len(test), derive(seed, "test examples"))[:n_test])


@lru_cache(maxsize=4)  # tasks of one grid ask for the same few sets again and again
def _loaded(name: str) -> Data:
    return load(name)


@lru_cache(maxsize=8)
def _drawn(n: int, seed: int, part: str) -> Data:
    return generate_mnist1d(n, derive(seed, "mnist1d", part) % 2**32)


def _enough(name: str, there: int, wanted: int) -> None:
    if there < wanted:
        raise TrueriskError(f"{name} has {there} examples where {wanted} were asked for; ask for fewer.")
