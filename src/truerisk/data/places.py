"""The named data sets, and the folders in which their files are looked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from truerisk.names import TOYS

VARIABLE = "TRUERISK_DATA"
PARTS = ("train", "test")
IDX_PREFIX = {"train": "train", "test": "t10k"}
CIFAR_FILES = {
    "train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    "test": ("test_batch.bin",),
}
CIFAR_FOLDER = "cifar-10-batches-bin"  # what unpacking the original archive makes
PACKED = ("", ".gz", ".xz")


@dataclass(frozen=True)
class Known:
    """A data set that has a name: how many examples each part has, and how its files are written."""

    name: str
    shape: tuple[int, ...]
    examples: dict[str, int]  # by part
    format: str  # "built in", "idx" or "cifar"


KNOWN = {
    known.name: known
    for known in (
        Known("digits", (1, 8, 8), {"train": 1797}, "built in"),
        Known("mnist1d", (40,), {"train": 5000, "test": 5000}, "built in"),
        *(Known(name, (2,), {"train": 2000, "test": 2000}, "built in") for name in TOYS),
        Known("mnist", (1, 28, 28), {"train": 60_000, "test": 10_000}, "idx"),
        Known("fashion-mnist", (1, 28, 28), {"train": 60_000, "test": 10_000}, "idx"),
        Known("cifar-10", (3, 32, 32), {"train": 50_000, "test": 10_000}, "cifar"),
    )
}


@dataclass(frozen=True)
class Files:
    """The files of one part of a data set: (images, labels) for "idx", all batches for "cifar"."""

    format: str
    paths: tuple[Path, ...]


def cache() -> Path:
    """The user's cache folder of this package."""
    return Path(platformdirs.user_cache_dir("truerisk"))


def folders(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where data are looked for, in this order: `data_dir`, $TRUERISK_DATA, the user's cache.

    >>> folders("here")[0] == Path("here").absolute()
    True
    """
    places = [Path(place).expanduser().absolute() for place in (data_dir, os.environ.get(VARIABLE)) if place]
    return list(dict.fromkeys([*places, cache()]))


def spell(name: str, part: str) -> str:
    """The name of a part, as `load` takes it.

    >>> spell("mnist", "train"), spell("mnist", "test")
    ('mnist', 'mnist:test')
    """
    return name if part == "train" else f"{name}:{part}"


def find(name: str, part: str, data_dir: str | os.PathLike[str] | None = None) -> Files | None:
    """The files of a known data set in the first folder that has all of them."""
    for folder in folders(data_dir):
        files = look_in(folder / name, part, formats=(KNOWN[name].format,))
        if files is not None:
            return files
    return None


def look_in(folder: Path, part: str, formats: tuple[str, ...] = ("idx", "cifar")) -> Files | None:
    """The files of one part in this very folder, or None where one of them is missing."""
    for fmt in formats:
        for place in (folder, folder / CIFAR_FOLDER) if fmt == "cifar" else (folder,):
            paths = [_first(place, stem) for stem in file_names(fmt, part)]
            if None not in paths:
                return Files(fmt, tuple(path for path in paths if path is not None))
    return None


def file_names(fmt: str, part: str) -> tuple[str, ...]:
    """The file names of one part, without the ending of a compression.

    >>> file_names("idx", "test")
    ('t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte')
    """
    if fmt == "cifar":
        return CIFAR_FILES[part]
    prefix = IDX_PREFIX[part]
    return (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")


def _first(folder: Path, stem: str) -> Path | None:
    """The file of this name, plain or compressed; some mirrors write `images.idx3` for `images-idx3`."""
    spellings = dict.fromkeys((stem, stem.replace("-idx", ".idx")))
    candidates = (folder / f"{spelling}{ending}" for spelling in spellings for ending in PACKED)
    return next((path for path in candidates if path.is_file()), None)
