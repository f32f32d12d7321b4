"""Tensors that torch.save wrote: a pair (X, y), a dictionary with names, or a single tensor as inputs."""

from __future__ import annotations

import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from truerisk.data.dataset import as_array
from truerisk.data.formats.naming import CLASSES, Sketch, choose
from truerisk.data.formats.reading import COPY, MAX_BYTES, Content, PathLike, check_readable, check_size
from truerisk.errors import TrueriskError

REWRITE = "save it with torch.save((X, y), path)"
KINDS = {"bool": "b", "uint8": "u", "uint16": "u", "uint32": "u", "uint64": "u"}
KINDS |= dict.fromkeys(("int8", "int16", "int32", "int64"), "i")
KINDS |= dict.fromkeys(("float16", "bfloat16", "float32", "float64"), "f")


def read_tensors(path: PathLike, choice: str = "", *, labeled: bool = True) -> Content:
    """Inputs and labels of a .pt file; nothing but tensors is loaded from it.

    In a dictionary, names are as in npz files, and `choice` may give them.
    """
    path = check_readable(path)
    content = _load(path)
    if isinstance(content, dict):
        return _from_names(content, path, choice, labeled)
    if choice:
        raise TrueriskError(f"{path} holds tensors without names; give {path} without {choice!r} after a colon.")
    if _is_tensor(content):
        if labeled:
            raise TrueriskError(f"{path} holds one tensor, so labels are missing; {REWRITE}.")
        return Content(_plain(content, path), None)
    if isinstance(content, tuple | list) and len(content) == 2 and all(map(_is_tensor, content)):
        return Content(_plain(content[0], path), _plain(content[1], path))
    raise TrueriskError(f"{path} does not hold a pair of tensors, but a {type(content).__name__}; {REWRITE}.")


def _from_names(content: dict[Any, Any], path: Path, choice: str, labeled: bool) -> Content:
    tensors = {name: each for name, each in content.items() if isinstance(name, str) and _is_tensor(each)}
    sketches = {name: Sketch(tuple(each.shape), _kind(each) or "O") for name, each in tensors.items()}
    inputs, labels = choose(sketches, path, choice, labeled)
    classes: Any = content.get(CLASSES)
    if _is_tensor(classes) and classes.numel() == 1 and _kind(classes) in ("i", "u"):
        classes = classes.item()
    if classes is not None and (isinstance(classes, bool) or not isinstance(classes, int)):
        raise TrueriskError(f"{path}: `classes` must be one integer, the number of classes; save it again.")
    y = None if labels is None else _plain(tensors[labels], path)
    return Content(_plain(tensors[inputs], path), y, classes)


def _load(path: Path) -> Any:
    """Whatever torch finds in a file without running code."""
    import torch

    _check_zip(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on old formats
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zip and torch errors of many kinds: none of them loads
        raise TrueriskError(
            f"{path} is broken, or holds Python objects, which are never loaded because they can run code; {REWRITE}."
        ) from error


def _check_zip(path: Path) -> None:
    """Refuse an archive that would unpack to more than fits in memory."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return  # torch's format before zip, or a broken file: torch decides
    if size > MAX_BYTES:
        raise TrueriskError(f"{path} unpacks to {size:,} bytes, more than {MAX_BYTES:,}; give a smaller dataset.")


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _kind(tensor: Any) -> str | None:
    """numpy's letter for the type of a tensor; None for types that numpy does not have."""
    return KINDS.get(str(tensor.dtype).removeprefix("torch."))


def _plain(tensor: Any, path: Path) -> np.ndarray:
    """A tensor as an array."""
    if _kind(tensor) is None or str(tensor.layout) != "torch.strided" or tensor.device.type != "cpu":
        raise TrueriskError(f"{path} holds a tensor of type {tensor.dtype} that is not plain; save dense real numbers.")
    size = math.prod(tensor.shape)
    check_size(path, (size,), tensor.element_size() + COPY)
    if size * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise TrueriskError(f"{path} holds a view that repeats a few stored numbers; save its .contiguous() copy.")
    return np.array(as_array(tensor, str(path)))
