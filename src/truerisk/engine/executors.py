"""Where tasks run: in this process, in local processes (loky), or on a Dask cluster. All are `Executor`s."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from truerisk.errors import TrueriskError

CONNECT = 15  # seconds to wait for a scheduler


class Inline(Executor):
    """Runs each task at once, in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Engine:
    """An executor that is opened when it is first needed, can be opened again after a crash, and is closed at the end.

    ``spec`` is ``inline``, ``local`` or the address of a Dask scheduler (``tcp://host:port``). ``width`` is how many
    tasks it is given at a time.
    """

    def __init__(self, spec: str = "local", workers: int | None = None) -> None:
        if spec not in ("inline", "local") and "://" not in spec:
            raise TrueriskError(f"there is no engine {spec!r}; the engines are local, inline and tcp://host:port.")
        if workers is not None and workers < 1:
            raise TrueriskError(f"{workers} workers cannot run anything; give at least 1.")
        self.spec = spec
        self.workers = workers
        self._executor: Executor | None = None
        self._client: Any = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def width(self) -> int:
        """Tasks that are handed over at a time. A scheduler has its own queue and gets plenty."""
        if self.spec == "inline":
            return 1
        return (self.workers or _cores()) if self.spec == "local" else 1000

    def submit(self, fn: Callable[..., Any], *args: Any) -> Future[Any]:
        if self._executor is None:
            self._executor = self._open()
        return self._executor.submit(fn, *args)

    def trouble(self) -> str:
        """What keeps tasks from running, for people who wait."""
        if self._client is None or self._client.scheduler_info()["workers"]:
            return ""
        return "; no worker is connected to the scheduler"

    def close(self) -> None:
        """Stop the workers; tasks that still run are given up."""
        executor, client = self._executor, self._client
        self._executor = self._client = None
        if self.spec == "local" and executor is not None:
            executor.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]
        elif executor is not None:
            executor.shutdown(wait=False)
        if client is not None:
            client.close()

    def _open(self) -> Executor:
        if self.spec == "inline":
            return Inline()
        if self.spec == "local":
            from joblib.externals.loky import ProcessPoolExecutor

            # loky replaces a worker that has grown by 300 MB, which torch does to every worker, and warns in the thread
            # that hands out tasks: where warnings are errors, the thread would end there, and the tasks would wait for
            # ever.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            pool: Executor = ProcessPoolExecutor(self.width, initializer=_end_with, initargs=(os.getpid(),))
            return pool
        self._client = _connect(self.spec)
        executor: Executor = self._client.get_executor(pure=False)
        return executor


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise TrueriskError("a Dask cluster needs the extra [cluster]: pip install 'truerisk[cluster]'.") from error
    for name in ("distributed.client", "distributed.utils"):  # a lost scheduler is told in one sentence
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise TrueriskError(
            f"no Dask scheduler answers at {address}; start one with `dask scheduler` and give its address."
        ) from error


def _end_with(parent: int) -> None:
    """In a worker: end when the driver is gone. A worker whose driver was killed would wait for tasks for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _cores() -> int:
    from joblib import cpu_count  # knows the limits of containers

    return int(cpu_count())
