"""NumPy's npz files, without pickles."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np

from truerisk.data.formats.labels import numbered
from truerisk.data.formats.naming import CLASSES, Sketch, choose
from truerisk.data.formats.npy import read_header
from truerisk.data.formats.reading import COPY, MAX_BYTES, Content, PathLike, check_readable, check_size, reason, shown
from truerisk.errors import TrueriskError

DEFLATE_RATIO = 1032  # deflate cannot shrink anything more than this
MOST_ARRAYS = 10_000  # a header is read for each


def read_npz(path: PathLike, choice: str = "", *, labeled: bool = True) -> Content:
    """Inputs and labels of an npz file, and its number `classes` if it has one; pickles are refused.

    `choice` names the two arrays, or says `test`; without it, well-known names decide (see `naming`). With
    `labeled=False` a file without labels is fine, and y is None.
    """
    path = check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            sketches = _sketches(path, archive)
            inputs, labels = choose(sketches, path, choice, labeled)
            wanted = [inputs, *([labels] if labels else []), *([CLASSES] if CLASSES in sketches else [])]
            for name in wanted:
                _check_size(path, archive, name)
        with np.load(path, allow_pickle=False) as arrays:
            loaded = {name: arrays[name] for name in wanted}
    except TrueriskError:
        raise
    except (ValueError, OSError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise TrueriskError(
            f"{path} is not a readable npz file ({reason(error)}); "
            "save it again with np.savez(path, X=inputs, y=labels)."
        ) from error
    except (NotImplementedError, RuntimeError) as error:  # an unknown compression, or an encrypted member
        raise TrueriskError(f"{path} is packed in a way npz files are not; save it with np.savez.") from error
    classes = None if CLASSES in (inputs, labels) else _classes(loaded.get(CLASSES), path)
    y = None if labels is None else loaded[labels]
    return numbered(Content(loaded[inputs], y, classes), str(path), path.name)


def _classes(array: np.ndarray | None, path: Path) -> int | None:
    if array is None:
        return None
    if array.size != 1 or array.dtype.kind not in "iu":
        raise TrueriskError(f"{path}: `classes` must be one integer, the number of classes; save it again.")
    return int(array.item())


def _sketches(path: Path, archive: zipfile.ZipFile) -> dict[str, Sketch]:
    """Shape and type of every array by name, read from the headers alone; other members are passed over."""
    members = archive.namelist()
    if len(members) > MOST_ARRAYS:
        raise TrueriskError(f"{path} holds {len(members):,} arrays; save it with np.savez(path, X=inputs, y=labels).")
    found = {}
    for member in members:
        try:
            with archive.open(member) as stream:
                shape, dtype = read_header(stream)
        except ValueError:  # not an array; a broken one that is needed is found when it is read
            continue
        name = member.removesuffix(".npy")
        if name in found:
            raise TrueriskError(f"{path} holds two arrays named {shown([name])}; save it again with np.savez.")
        found[name] = Sketch(shape, dtype.kind if not dtype.hasobject else "O")
    return found


def _check_size(path: Path, archive: zipfile.ZipFile, name: str) -> None:
    """Compare what an array's header promises with what is stored, before numpy allocates room for it."""
    info = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name)
    with archive.open(info) as stream:
        shape, dtype = read_header(stream)
    if dtype.hasobject:
        raise TrueriskError(
            f"{path}: the array {name} holds pickled Python objects, which are never loaded because they can run code; "
            "save plain numbers."
        )
    promised = math.prod(shape) * dtype.itemsize
    if promised > info.file_size or promised > MAX_BYTES or promised > DEFLATE_RATIO * (info.compress_size + 64):
        raise TrueriskError(
            f"{path}: the array {name} promises {promised:,} bytes, more than the file can hold; "
            "the file is corrupt, save it again."
        )
    check_size(path, shape, dtype.itemsize + COPY)
