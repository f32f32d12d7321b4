"""The engineer's commonest case: a trained network and labelled data that it never saw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from truerisk.data import Data, Split, check_partition, load, row_hashes
from truerisk.errors import TrueriskError

INDEX_FILES = (".npy", ".txt", ".json")


def leave_out(data: Data, trained_on: object, data_dir: str | Path | None = None) -> Split:
    """The rows of ``data`` that may certify a trained network.

    ``trained_on`` is None, the indices of rows of ``data`` that the network was trained on (an array, or
    a .npy, .txt or .json file): these are left out; or another data set: then an example that is in both
    is an error.
    """
    rows = np.arange(len(data))
    used = _indices(trained_on)
    if used is None:
        used = np.empty(0, dtype=np.int64)
        if trained_on is not None:
            refuse_overlap(data.X, load(trained_on, data_dir).X, "the data that the network was trained on")
    else:
        if used.size and (used.min() < 0 or used.max() >= len(data)):
            raise TrueriskError(f"an index in trained-on lies outside 0 to {len(data) - 1}, the rows of {data.name}.")
        used = np.unique(used)
        rest = np.setdiff1d(rows, used)
        refuse_overlap(data.X[rest], data.X[used], "the rows that the network was trained on")
    parts = Split(prior=used.astype(np.int64), certify=np.setdiff1d(rows, used).astype(np.int64))
    if len(parts.certify) < 10:
        raise TrueriskError(f"only {len(parts.certify)} fresh examples are left; at least 10 are needed.")
    check_partition(parts, len(data))
    return parts


def refuse_overlap(fresh: np.ndarray, seen: np.ndarray, what: str, kind: str = "fresh") -> None:
    """Refuse inputs that also occur, number for number, among those that were seen."""
    if fresh.shape[1:] != seen.shape[1:]:
        raise TrueriskError(
            f"the {kind} inputs have shape {fresh.shape[1:]}, but {what} has {seen.shape[1:]}; they can't be compared."
        )
    known = set(row_hashes(seen).tolist())
    both = [i for i, digest in enumerate(row_hashes(fresh).tolist()) if digest in known]
    if both:
        raise TrueriskError(
            f"{len(both):,} of {len(fresh):,} {kind} examples (the first: row {both[0]}) also occur in {what}; a "
            "network can't be certified on examples it has seen, so remove them."
        )


def _indices(trained_on: object) -> np.ndarray | None:
    """An index array, or None if ``trained_on`` is something else."""
    if isinstance(trained_on, str | Path) and Path(trained_on).suffix in INDEX_FILES:
        return _read_indices(Path(trained_on))
    if isinstance(trained_on, np.ndarray | list):
        array = np.asarray(trained_on)
        if array.ndim == 1 and array.dtype.kind in "iu":
            return array
    return None


def _read_indices(path: Path) -> np.ndarray:
    if not path.is_file():
        raise TrueriskError(f"the index file {path} does not exist.")
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        elif path.suffix == ".json":
            array = np.asarray(json.loads(path.read_text()))
        else:
            array = np.asarray([int(word) for word in path.read_text().split()], dtype=np.int64)
    except (ValueError, EOFError, UnicodeDecodeError) as error:
        raise TrueriskError(f"{path} holds no list of whole numbers ({error}).") from error
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TrueriskError(f"{path} holds no list of whole numbers, one for each row that was trained on.")
    return array
