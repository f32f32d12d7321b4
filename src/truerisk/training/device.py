"""Where classifiers are trained: on the CPU, or on a GPU. What is certified is computed on the CPU all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from truerisk.errors import TrueriskError
from truerisk.names import CPU, CUDA, DEVICES

_chosen: ContextVar[str] = ContextVar("device", default=CPU)


def device() -> torch.device:
    """Where ``fit`` trains."""
    return torch.device(_chosen.get())


@contextmanager
def training_on(name: str) -> Iterator[None]:
    """Train on this device inside the block; ``auto`` is a GPU if there is one.

    >>> with training_on("auto"):
    ...     device().type in ("cpu", "cuda")
    True
    """
    if name not in DEVICES:
        raise TrueriskError(f"the device is {name!r}, but must be one of {', '.join(DEVICES)}.")
    there = torch.cuda.is_available()
    if name == CUDA and not there:
        raise TrueriskError("there is no GPU that torch can use (cuda); give --device cpu or auto.")
    token = _chosen.set(CUDA if there and name != CPU else CPU)
    try:
        yield
    finally:
        _chosen.reset(token)
