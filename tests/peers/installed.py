"""Other programs, where they are installed: ``make test-peers`` gives them an environment of their own."""

from __future__ import annotations

import warnings
from types import ModuleType

import pytest


def peer(name: str) -> ModuleType:
    """Import a peer without its warnings, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = f"{name} is not installed; run make test-peers."
        return pytest.importorskip(name, reason=reason, exc_type=ImportError)
