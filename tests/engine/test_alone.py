"""Who is to blame for a process that died: a task that died runs alone, and nothing is put beside it meanwhile."""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import Future
from types import SimpleNamespace

from truerisk.engine.grid import _Run


def test_nothing_is_put_beside_a_task_whose_process_died():
    handed = []

    def submit(call, task, setting, code):
        handed.append(setting)
        return Future()

    names = ["died", "fresh", "other"]
    run = SimpleNamespace(
        deaths=Counter({"died": 1}),
        engine=SimpleNamespace(width=2, submit=submit),
        grid=SimpleNamespace(task=None),
        settings={name: name for name in names},
        code=None,
    )
    waiting, running = deque(names), {}
    for _ in range(3):  # it is called again each time that nothing finished for a while
        _Run._hand_over(run, waiting, running)
    assert handed == ["died"]
    running.clear()
    _Run._hand_over(run, waiting, running)
    assert handed == names, "then two at a time"
