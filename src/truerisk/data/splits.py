"""Seeded splits into examples that shape the prior and examples that certify, and checks of both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from truerisk.data.dataset import MINIMUM, Data, row_hashes
from truerisk.errors import TrueriskError


@dataclass(frozen=True, eq=False)
class Split:
    """Row indices (int64, in any order) of the prior's examples and of the certifying examples."""

    prior: np.ndarray
    certify: np.ndarray


def shuffle(n: int, seed: int) -> np.ndarray:
    """A seeded permutation of 0, ..., n - 1.

    >>> sorted(shuffle(5, seed=1).tolist())
    [0, 1, 2, 3, 4]
    """
    # numpy promises that the raw bits of a bit generator never change between versions; it makes no such
    # promise for `Generator.permutation`. A certificate must give the same split years later: sort raw bits.
    keys = bit_stream(seed).random_raw(n)
    return np.argsort(keys, kind="stable").astype(np.int64)


def split(n: int, fraction: float, seed: int) -> Split:
    """Shuffle n examples; the first round(fraction * n) shape the prior, the others certify.

    >>> parts = split(100, 0.3, seed=0)
    >>> len(parts.prior), len(parts.certify)
    (30, 70)
    """
    if not (math.isfinite(fraction) and 0 <= fraction < 1):
        raise TrueriskError(
            f"A fraction of {fraction} of the examples cannot shape the prior; "
            "choose one from 0 up to, but not including, 1."
        )
    size = round(fraction * n)
    if n - size < MINIMUM:
        raise TrueriskError(
            f"Using {size} of {n} examples for the prior leaves {n - size} to certify; "
            f"leave at least {MINIMUM} by a smaller fraction or more data."
        )
    order = shuffle(n, seed)
    parts = Split(prior=order[:size], certify=order[size:])
    check_partition(parts, n)
    return parts


def check_partition(parts: Split, n: int) -> None:
    """Refuse a split in which some index of 0, ..., n - 1 is not in exactly one set exactly once."""
    for name, rows in (("prior", parts.prior), ("certify", parts.certify)):
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TrueriskError(
                f"The {name} set must be a list of whole-number indices, not {rows.dtype} {rows.shape}."
            )
        if rows.size and (rows.min() < 0 or rows.max() >= n):
            raise TrueriskError(
                f"The {name} set has an index outside 0 to {n - 1}; make the split for these {n} examples."
            )
        if len(np.unique(rows)) != len(rows):
            raise TrueriskError(f"The {name} set holds an index twice; every example may be counted once.")
    both = np.intersect1d(parts.prior, parts.certify)
    if len(both):
        raise TrueriskError(
            f"Example {both[0]} is in the prior set and in the certify set; a prior that has seen an example "
            "must not certify on it, so make the sets disjoint."
        )
    missing = n - len(parts.prior) - len(parts.certify)
    if missing:
        raise TrueriskError(f"{missing} of {n} examples are in neither set; put every example into one of them.")


def duplicates_across(data: Data, parts: Split) -> int:
    """How many certifying examples have an input that also occurs, number for number, in the prior set."""
    if not len(parts.prior):
        return 0  # nothing to compare with: don't hash all rows
    digests = row_hashes(data.X)
    seen = set(digests[parts.prior].tolist())
    return sum(digest in seen for digest in digests[parts.certify].tolist())


def bit_stream(seed: int, purpose: int | None = None) -> np.random.PCG64:
    """Raw random bits; one seed gives an independent stream for each `purpose`."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise TrueriskError(f"The seed {seed!r} is not usable; give a whole number, 0 or larger.")
    key = () if purpose is None else (purpose,)
    return np.random.PCG64(np.random.SeedSequence(int(seed), spawn_key=key))
