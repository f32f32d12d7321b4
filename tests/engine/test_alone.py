"""Who is to blame for a process that died: a task that died runs alone, and nothing is put beside it meanwhile."""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import Future
from types import SimpleNamespace

from truerisk.engine.grid import _Run


def handing(settings: dict[str, dict], deaths: dict[str, int]):
    """A run of two tasks at a time, and the names of the tasks that it has handed over."""
    handed = []

    def submit(call, task, setting, code):
        handed.append(setting["name"])
        return Future()

    run = SimpleNamespace(
        deaths=Counter(deaths),
        engine=SimpleNamespace(width=2, submit=submit),
        grid=SimpleNamespace(task=None),
        settings={name: {"name": name, **more} for name, more in settings.items()},
        code=None,
    )
    return run, handed


def test_nothing_is_put_beside_a_task_whose_process_died():
    names = ["died", "fresh", "other"]
    run, handed = handing({name: {} for name in names}, {"died": 1})
    waiting, running = deque(names), {}
    for _ in range(3):  # it is called again each time that nothing finished for a while
        _Run._hand_over(run, waiting, running)
    assert handed == ["died"]
    running.clear()
    _Run._hand_over(run, waiting, running)
    assert handed == names, "then two at a time"


def test_a_task_with_several_threads_counts_as_so_many():
    names = ["plain", "large", "huge", "last"]
    run, handed = handing({"plain": {}, "large": {"threads": 2}, "huge": {"threads": 8}, "last": {}}, {})
    waiting, running = deque(names), {}
    for expected in names:
        _Run._hand_over(run, waiting, running)
        assert handed[-1] == expected
        assert len(running) == 1  # one that needs more threads than there are places runs alone
        running.clear()
