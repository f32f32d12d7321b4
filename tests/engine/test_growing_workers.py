"""Workers that grow: loky replaces them, and no task waits for ever."""

import os
import time

import pytest

from truerisk.engine import Engine

pytest.importorskip("psutil", reason="without psutil loky does not notice that a worker has grown")

GROWTH = 400 * 2**20  # bytes; loky replaces a worker after 300 MB more
kept: list[bytearray] = []


def small() -> int:
    return os.getpid()


def growing() -> int:
    """Keep memory, and stay until loky measures it again, which it does once a second."""
    kept.append(bytearray(GROWTH))
    time.sleep(1.2)
    return os.getpid()


@pytest.mark.long
def test_a_worker_that_has_grown_is_replaced_even_where_warnings_are_errors():
    with Engine("local", 2) as engine:
        first = {engine.submit(small).result(timeout=60)}
        jobs = [engine.submit(growing) for _ in range(6)]
        used = {job.result(timeout=60) for job in jobs}
    assert len(used | first) > 2
