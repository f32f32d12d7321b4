"""Which rows are separate draws. Their values do not show it: identities do, or your word.

A sample of discrete data holds equal rows. To delete them by value leaves a sample of another distribution, without
what is frequent, and a bound from it can lie far below the true risk. So nothing is deleted. Rows of one data set are
told apart by their row numbers. Where rows come from two sets, or where a longer list would pass for more evidence
(unlabeled inputs), equal rows stop the certificate until identities or a word say that they are separate draws.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from truerisk.data import row_hashes
from truerisk.errors import TrueriskError

FILES = (".npy", ".txt", ".json")
ROWS_AT_ONCE = 4096
ROUNDING = 1e-5  # relative; bytes divided by 255 differ by far more
FRESH, UNLABELLED = "fresh examples", "unlabeled inputs"


@dataclass(frozen=True)
class Draws:
    """What says that rows are separate draws, and how many rows it speaks for."""

    word: bool = False
    ids: tuple[str, ...] | None = None  # of the rows that the network never saw
    seen_ids: tuple[str, ...] | None = None  # of the rows that it was trained on
    repeats: int = 0  # rows that equal another one

    @classmethod
    def of(cls, repeats_are_draws: bool, ids: object, trained_on_ids: object) -> Draws:
        return cls(bool(repeats_are_draws), read_ids(ids, "ids"), read_ids(trained_on_ids, "trained_on_ids"))

    def recorded(self) -> dict[str, Any]:
        """The fields of ``Settings`` that are about this; a word is kept where there are rows that it is about."""
        given = self.ids is not None or self.seen_ids is not None
        digest = hashlib.sha256(json.dumps([self.ids, self.seen_ids]).encode()).hexdigest() if given else ""
        return {"repeats_are_draws": self.word and self.repeats > 0, "repeats": self.repeats, "row_ids": digest}

    def by_number(self, fresh: np.ndarray, n: int) -> Draws:
        """For the rows ``fresh`` of one set of n: row numbers tell them apart, so values are not compared."""
        if self.seen_ids is not None:
            raise TrueriskError(
                "trained_on_ids needs training data of its own in trained_on; give the identities of all rows (--ids)."
            )
        if self.ids is not None:
            _check_length(self.ids, n, "fresh examples")
            numbered = np.asarray(self.ids, dtype=object)
            seen = np.setdiff1d(np.arange(n), fresh)
            _refuse_one_draw(
                dict(zip(fresh.tolist(), numbered[fresh], strict=True)),
                dict(zip(seen.tolist(), numbered[seen], strict=True)),
                FRESH,
                "the rows that the network was trained on",
            )
        return self

    def between(self, new: np.ndarray, seen: np.ndarray, kind: str, what: str) -> Draws:
        """For two sets: refuse one draw in both, and equal rows that nothing tells apart.

        ``kind`` and ``what`` name the new rows and the others. Labelled rows that equal one another are told apart by
        their row numbers, unlabelled ones are not: a longer list of them would pass for more evidence.
        """
        ids, seen_ids = self.ids, self.seen_ids
        if seen_ids is not None:
            _check_length(seen_ids, len(seen), f"rows of {what}")
            if kind == UNLABELLED:  # then the others certify the surrogate
                _refuse_one_draw(dict(enumerate(seen_ids)), {}, what.removeprefix("the "), "")
        if ids is not None:
            _check_length(ids, len(new), kind)
            _refuse_one_draw(dict(enumerate(ids)), dict(enumerate(seen_ids or ())), kind, what)
        within, across = equal_rows(new, seen)
        within = within if kind == UNLABELLED else []
        if within and not self.word and ids is None:
            raise TrueriskError(unexplained(len(within), len(new)))
        if across and not self.word and (ids is None or seen_ids is None):
            raise TrueriskError(
                f"{len(across):,} of {len(new):,} {kind} (the first: row {across[0]}) equal one in {what}"
                f"{_scaled(new, seen)}; give --ids and --trained-on-ids, or --repeats-are-draws "
                "if they are separate draws."
            )
        return replace(self, repeats=len({*within, *across}))


NOTHING_SAID = Draws()


def unexplained(count: int, n: int) -> str:
    """What to do about unlabeled inputs that equal another one."""
    return (
        f"{count:,} of {n:,} {UNLABELLED} equal another one; give row identities (--ids FILE), or "
        "--repeats-are-draws if they are separate draws."
    )


def sentences(repeats_are_draws: bool, repeats: int, row_ids: str) -> list[str]:
    """What a certificate states about it, from the fields that ``recorded`` gives."""
    lines = []
    if row_ids:
        vouched = "" if repeats_are_draws or not repeats else f", including {repeats:,} rows equal to another one"
        lines.append(f"The row identities that you gave decide which rows are separate draws{vouched}.")
    if repeats_are_draws and repeats:
        lines.append(f"You vouch that rows equal to another one ({repeats:,}) are separate draws, not copies.")
    return lines


def _scaled(new: np.ndarray, seen: np.ndarray) -> str:
    """Words where rows are equal although the one set holds bytes, and the other one bytes divided by 255."""
    largest = [float(X.max(initial=0)) for X in (new, seen)]
    return " up to the factor 255" if min(largest) <= 1 < max(largest) else ""


def equal_rows(new: np.ndarray, seen: np.ndarray) -> tuple[list[int], list[int]]:
    """Rows of ``new`` that equal an earlier one, and rows of ``new`` that equal one of ``seen``.

    Bytes are divided by 255 where a file says that they are bytes, and not where it holds them as other numbers. So
    rows of two sets are also equal if one of them is the other one divided by 255.

    >>> equal_rows(np.array([[1.0], [2.0], [1.0]]), np.array([[2.0]]))
    ([2], [1])
    >>> equal_rows(np.array([[0.2, 1.0]]), np.array([[51, 255]]))
    ([], [0])
    """
    raw, scaled = _as_bytes(new, 1), _as_bytes(new, 255)
    seen_raw, seen_scaled = (set(_as_bytes(seen, factor).values()) for factor in (1, 255))
    seen_bytes = seen_raw | seen_scaled
    if new.dtype.kind != seen.dtype.kind:  # token ids in one file, the same numbers as floats in the other
        new, seen = new.astype(np.float32), seen.astype(np.float32)
    known, earlier = set(row_hashes(seen).tolist()), set()
    within, across = [], []
    for row, digest in enumerate(row_hashes(new).tolist()):
        if digest in earlier:
            within.append(row)
        if digest in known or raw.get(row) in seen_scaled or scaled.get(row) in seen_bytes:
            across.append(row)
        earlier.add(digest)
    return within, across


def _as_bytes(X: np.ndarray, factor: int) -> dict[int, bytes]:
    """By number, a digest of each row that holds nothing but bytes once it is multiplied by this factor."""
    found: dict[int, bytes] = {}
    for start in range(0, len(X), ROWS_AT_ONCE):
        chunk = X[start : start + ROWS_AT_ONCE].reshape(len(X[start : start + ROWS_AT_ONCE]), -1) * np.float64(factor)
        rounded = np.rint(chunk)
        # Division by 255 in 32 bits is exact to seven digits, and 0 stays 0.
        near = (np.abs(chunk - rounded) <= ROUNDING * rounded) & (rounded <= 255)
        for row in np.flatnonzero(near.all(axis=1)).tolist():
            content = rounded[row].astype(np.uint8).tobytes()
            found[start + row] = hashlib.blake2b(content, digest_size=16).digest()
    return found


def read_ids(given: object, name: str) -> tuple[str, ...] | None:
    """Identities from an array, a list or a file; 7 and "7" are the same identity.

    >>> read_ids(["a", 7], "ids")
    ('a', '7')
    """
    if given is None:
        return None
    try:
        if isinstance(given, str | Path):
            given = _read(Path(given))
        values = given.tolist() if hasattr(given, "tolist") else list(given)  # type: ignore[call-overload]
    except (TypeError, ValueError, EOFError, UnicodeDecodeError) as error:
        raise TrueriskError(f"{name} cannot be read ({error}); give one integer or word per row.") from error
    if not isinstance(values, list) or not all(isinstance(v, int | str) and not isinstance(v, bool) for v in values):
        raise TrueriskError(f"{name} is not a list of integers or words; give one per row.")
    return tuple(map(str, values))


def _read(path: Path) -> object:
    if path.suffix not in FILES:
        raise TrueriskError(f"the identity file {path} must end in {', '.join(FILES)}; save it as one of these.")
    if not path.is_file():
        raise TrueriskError(f"the identity file {path} does not exist; check the path.")
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    text = path.read_text()
    if path.suffix == ".json":
        found = json.loads(text)
        if not isinstance(found, list):
            raise ValueError("it does not hold a list")
        return found
    return [line.strip() for line in text.splitlines() if line.strip()]


def _check_length(ids: Sequence[str], n: int, kind: str) -> None:
    if len(ids) != n:
        raise TrueriskError(f"there are {len(ids):,} identities for {n:,} {kind}; give exactly one per row.")


def _refuse_one_draw(new: dict[int, str], seen: dict[int, str], kind: str, what: str) -> None:
    """Refuse an identity that two new rows share, or a new row and one that was seen."""
    known = {name: row for row, name in seen.items()}
    earlier: dict[str, int] = {}
    for row, name in new.items():
        if name in known:
            raise TrueriskError(
                f"row {row} of the {kind} and row {known[name]} of {what} share the identity {name!r}; leave row {row} "
                f"out of the {kind}."
            )
        if name in earlier:
            raise TrueriskError(
                f"rows {earlier[name]} and {row} of the {kind} share the identity {name!r}; keep one of them."
            )
        earlier[name] = row
