"""`truerisk data get NAME`: fetch a named data set once and keep it in its original file format.

The pixels come from openml.org through scikit-learn, so no further library is needed. They are written back
as the original IDX files or CIFAR-10 batches and must match the md5 sums of the originals, so a copy with
other pixels, labels or order is noticed. CIFAR-10 takes about 3 GB of memory while it is converted.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import struct
from pathlib import Path

import numpy as np

from truerisk.atomic import write_atomically
from truerisk.data.openml import fetch_bunch
from truerisk.data.places import CIFAR_FILES, KNOWN, PARTS, file_names, folders
from truerisk.errors import TrueriskError

ON_OPENML = {"mnist": "mnist_784", "fashion-mnist": "Fashion-MNIST", "cifar-10": "CIFAR_10"}

MD5 = {  # of the uncompressed original files
    "mnist": {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    "fashion-mnist": {
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    "cifar-10": {
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
}


def download(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Fetch, check and write one of mnist, fashion-mnist and cifar-10; return the folder it now lies in."""
    target = _writable(name, data_dir)  # before the download, which takes minutes
    pixels, labels = _from_openml(name)
    files = _cifar_files(pixels, labels) if KNOWN[name].format == "cifar" else _idx_files(pixels, labels)
    for file, content in files.items():
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != MD5[name][file]:
            raise TrueriskError(
                f"{name}: what openml.org delivered differs from the original {file}, so nothing was "
                f"written; put the original files into {target} yourself."
            )
    for file, content in files.items():
        if file.endswith(".bin"):
            write_atomically(target / file, content)
        else:
            write_atomically(target / f"{file}.gz", gzip.compress(content, compresslevel=6, mtime=0))
    return target


def encode_idx(array: np.ndarray) -> bytes:
    """An array of bytes as the content of an IDX file.

    >>> encode_idx(np.array([7, 8], dtype=np.uint8)).hex(" ")
    '00 00 08 01 00 00 00 02 07 08'
    """
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def _writable(name: str, data_dir: str | os.PathLike[str] | None) -> Path:
    """The first folder of the search order in which files can be made."""
    for folder in folders(data_dir):
        target = folder / name
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(target, os.W_OK):
            return target
    tried = ", ".join(str(folder) for folder in folders(data_dir))
    raise TrueriskError(f"None of {tried} can be written to; choose another folder for {name}.")


def _from_openml(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All pixels and labels as bytes, in the order of openml.org: the training part, then the test part."""
    # pandas reads these hundreds of megabytes much faster; the md5 sums show that both parsers agree.
    parser = "auto" if importlib.util.find_spec("pandas") else "liac-arff"
    bunch = fetch_bunch(name, name=ON_OPENML[name], version=1, parser=parser)
    rows, columns = sum(KNOWN[name].examples.values()), int(np.prod(KNOWN[name].shape))
    if bunch.data.shape != (rows, columns):
        raise TrueriskError(
            f"{name}: openml.org delivered {bunch.data.shape} numbers instead of {(rows, columns)}; "
            "put the original files into place yourself."
        )
    try:
        # A value that is no byte is cut here, and the md5 sum does not match.
        with np.errstate(invalid="ignore"):
            pixels = np.asarray(bunch.data).astype(np.uint8)
            return pixels, np.asarray(bunch.target).astype(np.float64).astype(np.uint8)
    except (TypeError, ValueError) as error:
        raise TrueriskError(
            f"{name}: openml.org delivered something else than pixels and labels; "
            "put the original files into place yourself."
        ) from error


def _idx_files(pixels: np.ndarray, labels: np.ndarray) -> dict[str, bytes]:
    files, train = {}, KNOWN["mnist"].examples["train"]
    for part, rows in zip(PARTS, (slice(None, train), slice(train, None)), strict=True):
        images_name, labels_name = file_names("idx", part)
        files[images_name] = encode_idx(pixels[rows].reshape(-1, 28, 28))
        files[labels_name] = encode_idx(labels[rows])
    return files


def _cifar_files(pixels: np.ndarray, labels: np.ndarray) -> dict[str, bytes]:
    records = np.concatenate([labels[:, None], pixels], axis=1)
    names = (*CIFAR_FILES["train"], *CIFAR_FILES["test"])
    return {file: batch.tobytes() for file, batch in zip(names, np.split(records, len(names)), strict=True)}
