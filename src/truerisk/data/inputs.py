"""Inputs to predict on: like data, but labels are optional and one example is enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from truerisk.data.dataset import as_array
from truerisk.data.readers import read_npz
from truerisk.data.sources import Folder, load
from truerisk.errors import TrueriskError


def load_inputs(spec: object, data_dir: Folder = None) -> tuple[np.ndarray, np.ndarray | None]:
    """(X, y or None) from an array, an .npy file, an .npz file (`X`, maybe `y`), or whatever `load` takes."""
    path = Path(spec) if isinstance(spec, str | Path) else Path("inputs")
    y = None
    if isinstance(spec, np.ndarray) or hasattr(spec, "detach"):  # a torch tensor, recognised without importing torch
        X = spec
    elif path.suffix == ".npz":
        content = read_npz(path, labelled=False)
        X, y = content.X, content.y
    elif path.suffix == ".npy":
        X = _read_npy(path)
    else:
        data = load(spec, data_dir)
        return data.X, data.y
    inputs = as_array(X, str(path))
    scale = np.float32(255) if inputs.dtype == np.uint8 else np.float32(1)
    inputs = inputs.astype(np.float32) / scale
    if not np.isfinite(inputs).all():
        raise TrueriskError(f"{path}: some inputs are NaN or infinite; remove or repair these examples.")
    return inputs, y


def _read_npy(path: Path) -> np.ndarray:
    if not path.is_file():
        raise TrueriskError(f"the file {path} does not exist.")
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise TrueriskError(f"{path} is no readable .npy file of plain numbers ({error}).") from error
