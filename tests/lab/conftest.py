"""Results at smoke scale, computed once and shared by all tests and by the processes that run them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from truerisk import lab
from truerisk.lab.rows import Rows


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory, worker_id) -> Path:
    """Where all processes that run tests find each other's results."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "runs"


@pytest.fixture(scope="session")
def smoke_rows(runs_folder) -> Callable[[str], Rows]:
    """``smoke_rows(name)``: the rows of an experiment. What another process computes is waited for."""

    def rows(name: str) -> Rows:
        with FileLock(f"{runs_folder}-{name}.lock"):
            result = lab.run(name, "smoke", engine="inline", out=runs_folder)
        assert result.failures == []
        return result.rows

    return rows
