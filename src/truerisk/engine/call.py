"""One task, where it runs: a fixed number of threads, a seed of its own, and an answer in plain values.

Nothing in here depends on the machine, the process or the order of tasks, so the same setting gives the same
record inline, in a local process and on a cluster.
"""

from __future__ import annotations

import contextlib
import json
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from truerisk import progress
from truerisk.engine.key import canonical
from truerisk.engine.version import fingerprint
from truerisk.errors import TrueriskError
from truerisk.seeds import derive, seeded_globals
from truerisk.threads import limited

Task = Callable[[dict[str, Any]], dict[str, Any]]

THREADS = "threads"  # a setting may ask for more than one: its rounding, so its result, may depend on the number

# Seeds and thread numbers are global to a process. A Dask worker may run several tasks in one; they take turns.
_turn = threading.RLock()


@dataclass(frozen=True)
class Answer:
    """What came of a task: a record, or an error in one line with its traceback."""

    record: dict[str, Any] | None
    seconds: float
    error: str = ""
    trace: str = ""


def call(task: Task, setting: dict[str, Any], code: str) -> Answer:
    """Run ``task(setting)``. ``code`` is the fingerprint that the driver expects of the task."""
    with _turn:
        start = time.perf_counter()
        try:
            if fingerprint(task) != code:
                raise TrueriskError(
                    "this worker has other code of the experiment; install the same truerisk and Python there "
                    f"(Python {platform.python_version()} runs here)."
                )
            prepare = getattr(task, "prepare", None)
            if prepare is not None:  # what runs at import must not use up the task's own random numbers
                prepare()
            with limited(int(setting.get(THREADS, 1))), seeded_globals(derive(0, canonical(setting))), _silence():
                record = _checked(setting, task(dict(setting)))
        except (Exception, SystemExit) as error:
            line = (
                f"{type(error).__name__}: {error}{_place(error)}"
                if not isinstance(error, TrueriskError)
                else str(error)
            )
            return Answer(None, time.perf_counter() - start, " ".join(line.split()), traceback.format_exc())
        return Answer(record, time.perf_counter() - start)


def _place(error: BaseException) -> str:
    """Where an error arose, for people who wrote the task."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f" ({frame.filename.rpartition('/')[2]}, line {frame.lineno})"


def _checked(setting: dict[str, Any], record: Any) -> dict[str, Any]:
    """The record as it will be read back."""
    if not isinstance(record, dict):
        raise TrueriskError(f"the task returned a {type(record).__name__}; return a dict.")
    plain: dict[str, Any] = json.loads(canonical(record))
    both = sorted(setting.keys() & record.keys())
    if both:
        raise TrueriskError(f"the record repeats names of its setting ({', '.join(both)}); choose others.")
    return {name: plain[name] for name in record}  # in its own order


@contextmanager
def _silence() -> Iterator[None]:
    """No progress from inside a task, as the engine shows its own; what it prints goes to standard error."""
    with progress.silent(), contextlib.redirect_stdout(sys.stderr):
        yield
