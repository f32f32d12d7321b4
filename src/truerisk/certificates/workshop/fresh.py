"""The engineer's commonest case: a trained network and labelled data that it never saw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from truerisk.certificates.draws import FRESH, NOTHING_SAID, Draws
from truerisk.data import Data, Split, check_partition, load
from truerisk.data.matching import match_data
from truerisk.errors import TrueriskError

INDEX_FILES = (".npy", ".txt", ".json")


def leave_out(
    data: Data, trained_on: object, data_dir: str | Path | None = None, draws: Draws = NOTHING_SAID
) -> tuple[Split, Draws, Data | None]:
    """The rows of ``data`` that may certify a trained network, what is said about equal ones, and what trained it.

    ``trained_on`` is None, the indices of rows of ``data`` that the network was trained on (an array, or
    a .npy, .txt or .json file): these are left out; or another dataset: then a draw that is in both is an error.
    """
    rows, used = np.arange(len(data)), np.empty(0, dtype=np.int64)
    numbers = _indices(trained_on)
    if numbers is not None:
        if numbers.size and (numbers.min() < 0 or numbers.max() >= len(data)):
            raise TrueriskError(
                f"a row number in trained_on is not between 0 and {len(data) - 1}; give row numbers of {data.name}."
            )
        used = np.unique(numbers)
    parts = Split(prior=used.astype(np.int64), certify=np.setdiff1d(rows, used).astype(np.int64))
    trained = None if trained_on is None or numbers is not None else load(trained_on, data_dir)
    if trained is not None and not data.integers:
        trained = trained.floats()
    if trained is None:
        draws = draws.by_number(parts.certify, len(data))
    else:
        what = "the data that the network was trained on"
        trained = match_data(trained, data, what)
        seen = trained.X
        if seen.shape[1:] != data.X.shape[1:]:
            raise TrueriskError(
                f"the fresh inputs have shape {data.input_shape}, but those of {what} have {seen.shape[1:]}; give data "
                "of one shape."
            )
        draws = draws.between(data.X, seen, FRESH, what)
    if len(parts.certify) < 10:
        raise TrueriskError(f"only {len(parts.certify)} fresh examples are left; give at least 10.")
    check_partition(parts, len(data))
    return parts, draws, trained


def _indices(trained_on: object) -> np.ndarray | None:
    """An index array, or None if ``trained_on`` is something else."""
    if isinstance(trained_on, str | Path) and Path(trained_on).suffix in INDEX_FILES:
        return _read_indices(Path(trained_on))
    if isinstance(trained_on, list) and not all(isinstance(each, int | np.integer) for each in trained_on):
        return None  # perhaps the pair [X, y], whose halves have different shapes
    if isinstance(trained_on, np.ndarray | list):
        array = np.asarray(trained_on)
        if array.ndim == 1 and (array.dtype.kind in "iu" or not array.size):
            return array.astype(np.int64)
    return None


def _read_indices(path: Path) -> np.ndarray:
    if not path.is_file():
        raise TrueriskError(f"the index file {path} does not exist; check the path.")
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        elif path.suffix == ".json":
            array = np.asarray(json.loads(path.read_text()))
        else:
            array = np.asarray([int(word) for word in path.read_text().split()], dtype=np.int64)
    except (ValueError, EOFError, UnicodeDecodeError) as error:
        raise TrueriskError(f"{path} is not a list of integers ({error}); give the training rows.") from error
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TrueriskError(f"{path} is not a list of integers; give one for each training row.")
    return array
