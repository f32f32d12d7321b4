"""Weights from files, without ever running code from them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from truerisk.errors import TrueriskError


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read safetensors, or a ``.pt`` state dict with ``weights_only=True`` (which refuses pickled code)."""
    path = Path(path)
    if not path.is_file():
        raise TrueriskError(f"the weights file {path} does not exist.")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise TrueriskError(f"{path} is not a readable safetensors file ({error}).") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd pickle protocol; what matters is refused below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a hostile file can make the reader stumble in any way
        raise TrueriskError(
            f"{path} is not a plain state dict, and files that hold Python objects are never loaded because "
            "loading them runs code; save torch.save(model.state_dict(), ...) or safetensors."
        ) from error
    if isinstance(content, dict) and "state_dict" in content:
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in content.items()
    ):
        raise TrueriskError(f"{path} holds no state dict (a mapping from names to tensors).")
    return dict(content)


def load_weights(module: nn.Module, weights: str | Path | Mapping[str, Tensor]) -> None:
    """Put the weights of a file or of a state dict into ``module``; every name and shape must fit."""
    given, where = (weights, "the state dict") if isinstance(weights, Mapping) else (read_weights(weights), weights)
    try:
        module.load_state_dict(given)
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise TrueriskError(f"the weights in {where} do not fit the model: {detail}") from error
