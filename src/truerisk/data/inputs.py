"""Inputs to predict on: like data, but labels are optional and one example is enough."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from truerisk.data.dataset import as_inputs, as_labels, check_finite, check_not_negative
from truerisk.data.files import read_path
from truerisk.data.formats.reading import Content, in_memory
from truerisk.data.sources import Folder, is_name, load
from truerisk.errors import TrueriskError


class Inputs(NamedTuple):
    """Inputs, their labels where the data has some, and the names of classes and columns where the data has names."""

    X: np.ndarray  # float32, or int64 where integers were given; bytes are divided by 255
    y: np.ndarray | None
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()


def load_inputs(spec: Any, data_dir: Folder = None) -> Inputs:
    """Inputs from an array, an .npy file, a folder of images, or whatever `load` takes; labels are optional.

    A table without a label column holds features only.

    >>> load_inputs(np.array([[0, 51]], dtype=np.uint8)).X
    array([[0. , 0.2]], dtype=float32)
    """
    with in_memory("the dataset"):
        return _load_inputs(spec, data_dir)


def _load_inputs(spec: Any, data_dir: Folder) -> Inputs:
    if isinstance(spec, np.ndarray) or hasattr(spec, "detach"):  # a torch tensor, recognised without importing torch
        return _checked(Content(spec, None), "inputs")
    if isinstance(spec, str | os.PathLike) and not is_name(spec):
        found = read_path(os.fspath(spec), labeled=False)
        return _checked(found.content, found.where)
    data = load(spec, data_dir)
    return Inputs(data.X, data.y, data.class_names, data.feature_names)


def _checked(content: Content, place: str) -> Inputs:
    X = as_inputs(content.X, place)
    check_finite(X, place)
    if content.y is None:
        return Inputs(X, None, feature_names=content.feature_names)
    y = as_labels(content.y, place)
    if len(y) != len(X):
        raise TrueriskError(f"{place}: there are {len(X)} inputs but {len(y)} labels; give one label per input.")
    check_not_negative(y, place)
    return Inputs(X, y, content.class_names, content.feature_names)
