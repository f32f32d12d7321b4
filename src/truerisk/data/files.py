"""From a path, perhaps with a choice after a colon, to the content of a file or folder.

A specification is `PATH` or `PATH:CHOICE`: `iris.csv:species`, `cells.npz:images,types`, `photos:test`. A path that
exists as it is wins, so that files may have colons in their names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from truerisk.data.formats.cifar import read_cifar10_binary
from truerisk.data.formats.csv import read_csv
from truerisk.data.formats.idx import read_idx_pair
from truerisk.data.formats.images import class_names, find_classes, read_classes, read_flat
from truerisk.data.formats.npy import read_npy
from truerisk.data.formats.npz import read_npz
from truerisk.data.formats.parquet import read_parquet
from truerisk.data.formats.reading import Content, tell_bytes
from truerisk.data.formats.tensors import read_tensors
from truerisk.data.places import KNOWN, Files, file_names, look_in, spell
from truerisk.errors import TrueriskError
from truerisk.progress import printable

READERS: dict[str, Callable[..., Content]] = {
    ".npz": read_npz,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
    ".pt": read_tensors,
    ".pth": read_tensors,
}
WITH_PARTS = (".npz", ".pt", ".pth")  # elsewhere `:test` is a column
ARRAYS = (".npy", *WITH_PARTS)
PICKLES = (".pkl", ".pickle", ".joblib")
SAVE = 'np.savez("data.npz", X=X, y=y)'


class Found(NamedTuple):
    """What a path holds, and how to speak of it."""

    content: Content
    name: str
    source: str  # the file as the user calls it, without the folders in which it lies
    where: str  # for error messages


def read_path(text: str, labeled: bool = True) -> Found:
    """Inputs and labels of the file or folder that this text names; labels may be missing if not `labeled`."""
    path, choice = parse(text)
    if path.is_dir():
        return _read_folder(path, choice, labeled)
    content = _read_file(path, choice, labeled)
    part = "test" if choice == "test" and path.suffix.lower() in WITH_PARTS else "train"
    if path.suffix.lower() in ARRAYS:
        tell_bytes(content.X, path.name)
    return Found(content, printable(spell(path.stem, part)), printable(_source(path.name, choice)), str(path))


def parse(text: str) -> tuple[Path, str]:
    """A path that exists, and what stands after its colon."""
    end = len(text)
    while end > 0:
        path = Path(os.path.expanduser(text[:end]))
        if os.path.exists(path):  # False for names that no file can have, where Path.exists raises
            return path, text[end + 1 :].strip()
        end = text.rfind(":", 0, end)
    raise TrueriskError(f"{_meant(text)} does not exist; check the path, or give a name such as digits.")


def read_files(files: Files) -> Content:
    """The files of one part of a dataset in its original format."""
    if files.format == "cifar":
        return Content(*read_cifar10_binary(files.paths), classes=10)
    return Content(*read_idx_pair(*files.paths))


def _meant(text: str) -> str:
    """The path in a specification whose path does not exist: up to the colon after a known ending."""
    for ending in READERS:
        start = text.lower().find(f"{ending}:")
        if start >= 0:
            return text[: start + len(ending)]
    return text


def _read_file(path: Path, choice: str, labeled: bool) -> Content:
    ending = path.suffix.lower()
    if ending in READERS:
        return READERS[ending](path, choice, labeled=labeled)
    if ending == ".npy":
        if labeled:
            raise TrueriskError(f"{path} holds one array, so labels are missing; save both with {SAVE}.")
        return read_npy(path)
    if ending in PICKLES:
        raise TrueriskError(f"{path} is a pickle, never loaded because loading runs code; save arrays with {SAVE}.")
    if path.name.split(".")[0].endswith("ubyte") or ending in (".idx3", ".idx1", ".bin"):
        raise TrueriskError(f"{path} is one file of several; give the folder that holds all of them.")
    raise TrueriskError(
        f"{path} is not .npz, .csv, .tsv, .parquet, .pt or a folder; convert it, for instance with {SAVE}."
    )


def _read_folder(folder: Path, choice: str, labeled: bool) -> Found:
    if choice not in ("", "test"):
        raise TrueriskError(f"{folder} is a folder, which has no {choice!r}; give {folder}, or {folder}:test.")
    part, called = choice or "train", folder.resolve().name
    content = _folder_content(folder, part, labeled)
    if content is None:
        raise _nothing(folder, part)
    return Found(content, printable(spell(called, part)), printable(_source(called, choice)), str(folder))


def _folder_content(folder: Path, part: str, labeled: bool) -> Content | None:
    """The first format of which this folder has all files."""
    files = look_in(folder, part)
    if files is not None:
        return read_files(files)
    classes = find_classes(folder, part)
    if classes is not None:
        # The train part numbers the classes, so that a number means the same in both parts.
        train = find_classes(folder, "train") if part == "test" else None
        return read_classes(classes, class_names(train) if train else ())
    return read_flat(folder) if part == "train" and not labeled else None


def _nothing(folder: Path, part: str) -> TrueriskError:
    """What to say about a folder that does not have this part."""
    if part == "train" and (look_in(folder, "test") or find_classes(folder, "test")):
        return TrueriskError(f"{folder} holds only a test part; load it as {folder}:test.")
    inside = "CLASS" if part == "train" else "test/CLASS"
    cifar = " to ".join(dict.fromkeys((file_names("cifar", part)[0], file_names("cifar", part)[-1])))
    return TrueriskError(
        f"{folder} holds neither {' and '.join(file_names('idx', part))} nor {cifar} nor images as {inside}/*.png; "
        "put one of these there."
    )


def _source(called: str, choice: str) -> str:
    """What `load` takes to read this again, in the folder that holds it."""
    text = f"{called}:{choice}" if choice else called
    # A folder of one's own that is called mnist must not pass for MNIST: a certificate would vouch for it.
    return f"./{text}" if called.removesuffix(":test") in KNOWN or called.startswith("openml:") else text
