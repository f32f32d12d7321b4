"""Shared by all tests: small, quick certificates made once, and the folder of real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from truerisk import progress

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny networks: threads cost more than they bring


@pytest.fixture(autouse=True, scope="session")
def _quiet():
    progress.enable(False)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Where MNIST is; only $TRUERISK_DATA says so."""
    folder = os.environ.get("TRUERISK_DATA")
    if not folder:
        pytest.skip("$TRUERISK_DATA is not set: no MNIST files")
    return Path(folder)
