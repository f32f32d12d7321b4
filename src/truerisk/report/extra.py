"""The libraries of the ``[report]`` extra, loaded when a page is made."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from truerisk.errors import TrueriskError


def extra(name: str) -> Any:
    """The module ``name``, or one sentence that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise TrueriskError(
            f'the HTML report needs {name}, which is not installed: pip install "truerisk[report]".'
        ) from error
