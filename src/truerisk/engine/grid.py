"""Run a grid of tasks: reuse what is stored, run what is missing, store each result as soon as it is there."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Any

from truerisk import progress
from truerisk.engine.call import THREADS, Answer, Task, call
from truerisk.engine.clock import stamp
from truerisk.engine.executors import Engine
from truerisk.engine.forecast import Forecast, order
from truerisk.engine.key import key
from truerisk.engine.store import Store
from truerisk.engine.version import fingerprint
from truerisk.errors import TrueriskError

DEATHS = 2  # how often a task's process may die before the task is blamed
LOOK = 0.5  # seconds between two forecasts of the time left
UNITS = 10_000  # of time in a grid, for the progress display

Setting = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """A finished task. ``at`` is the UTC time at which it finished; "" if it was stored before dates were kept."""

    setting: Setting
    record: dict[str, Any]
    seconds: float
    reused: bool
    at: str = ""


@dataclass(frozen=True)
class Failed:
    """A task without a result."""

    setting: Setting
    error: str
    trace: str


@dataclass(frozen=True)
class Grid:
    """The tasks of one experiment. ``version`` counts changes outside its own code (see `engine.version`).

    ``same`` are versions of earlier code with the same results, as records name them ("1-0123456789abcdef"): what such
    code has stored is found as well.
    """

    experiment: str
    task: Task
    settings: Sequence[Setting]
    version: int = 1
    cost: Callable[[Setting], float] = field(default=lambda _: 1.0)
    same: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """What a run of a grid gave: the finished tasks in the order of the grid, and those that failed."""

    done: list[Done]
    failed: list[Failed]


def pending(grid: Grid, store: Store) -> list[Setting]:
    """The settings whose results are not stored yet."""
    run = _Run(grid, store)
    run.found()
    return [setting for name, setting in run.settings.items() if name not in run.done]


def stored(grid: Grid, store: Store) -> list[Done]:
    """The finished tasks that are stored, in the order of the grid; nothing is run."""
    return _Run(grid, store).found()


def run_grid(grid: Grid, store: Store, engine: Engine) -> Report:
    """Run what is not stored yet. A task that fails is reported at the end and stops nothing."""
    return _Run(grid, store).run(engine)


class _Run:
    def __init__(self, grid: Grid, store: Store) -> None:
        self.grid, self.store = grid, store
        self.code = fingerprint(grid.task)
        self.version = f"{grid.version}-{self.code}"
        self.settings = {key(grid.experiment, self.version, setting): setting for setting in grid.settings}
        if len(self.settings) < len(grid.settings):
            raise TrueriskError(f"{grid.experiment}: the grid holds a setting twice; remove one of them.")
        self.done: dict[str, Done] = {}
        self.failed: dict[str, Failed] = {}
        self.deaths: Counter[str] = Counter()

    def run(self, engine: Engine) -> Report:
        self.engine = engine
        self.found()
        missing = {name: setting for name, setting in self.settings.items() if name not in self.done}
        if missing:
            self._compute(missing)
        return Report(
            [self.done[name] for name in self.settings if name in self.done],
            [self.failed[name] for name in self.settings if name in self.failed],
        )

    def found(self) -> list[Done]:
        """What the store holds."""
        for version in (self.version, *self.grid.same):
            left = {name: setting for name, setting in self.settings.items() if name not in self.done}
            names = {key(self.grid.experiment, version, setting): name for name, setting in left.items()}
            wanted = {stored: left[name] for stored, name in names.items()}
            for stored, entry in self.store.find(self.grid.experiment, wanted).items():
                at, name = str(entry.get("at", "")), names[stored]
                self.done[name] = Done(left[name], entry["record"], float(entry["seconds"]), reused=True, at=at)
        return [self.done[name] for name in self.settings if name in self.done]

    def _compute(self, missing: dict[str, Setting]) -> None:
        cost = {name: max(float(self.grid.cost(setting)), 1e-9) for name, setting in self.settings.items()}
        width = None if "://" in self.engine.spec else self.engine.width  # the number of workers, if it is known
        waiting = deque(order(missing, cost, width or 0))
        running: dict[Future[Answer], str] = {}
        self.forecast = Forecast(
            {name: missing[name] for name in waiting},
            cost,
            width,
            [(done.setting, cost[name], done.seconds) for name, done in self.done.items()],
        )
        shown, left, due = 0, None, 0.0
        with progress.bar(self.grid.experiment, total=UNITS) as advance:
            while waiting or running:
                now = time.monotonic()  # before tasks start: an inline engine returns when its task has finished
                self._hand_over(waiting, running)
                for name in [name for name in running.values() if name in self.forecast.waiting]:
                    self.forecast.start(name, now)
                finished, _ = wait(running, timeout=LOOK, return_when=FIRST_COMPLETED)
                broken = any(_broken(future) for future in finished)
                if broken:  # all that ran beside it are lost too; they say so one after the other
                    finished, _ = wait(running)
                for future in sorted(finished, key=Future.cancelled):  # what has arrived is kept first
                    name = running.pop(future)
                    if not self._settle(name, future):
                        waiting.appendleft(name)
                if broken:
                    self.engine.close()  # the next task opens a new pool
                # Asking a scheduler takes a message to it and back: only where nothing else happens.
                trouble = "" if finished else self.engine.trouble()
                now, step = time.monotonic(), 0
                if now >= due:  # not after each of a thousand short tasks: a forecast goes through all that are left
                    left, due = self.forecast.left(now), now + LOOK
                    step = round(UNITS * self.forecast.share(now, left)) - shown
                    shown += step
                advance(step, note=f"{len(self.done)} of {len(self.settings)} runs{trouble}", left=left)

    def _hand_over(self, waiting: deque[str], running: dict[Future[Answer], str]) -> None:
        """Give the engine its fill; a task with several threads counts as so many.

        A task whose process died runs alone: if it dies again, it is to blame.
        """
        if any(self.deaths[name] for name in running.values()):
            return  # it is alone until it is done, however often this is called
        while waiting and len(running) < self.engine.width:
            alone = self.deaths[waiting[0]] > 0
            threads = sum(int(self.settings[name].get(THREADS, 1)) for name in [waiting[0], *running.values()])
            if running and (alone or threads > self.engine.width):
                return
            name = waiting[0]
            try:
                future = self.engine.submit(call, self.grid.task, self.settings[name], self.code)
            except BrokenExecutor:  # a process died between two tasks
                if not running:
                    self.engine.close()
                return
            running[future] = waiting.popleft()
            if alone:
                return

    def _settle(self, name: str, future: Future[Answer]) -> bool:
        """Keep the answer of a finished task; False if the task has to run again."""
        setting = self.settings[name]
        try:
            answer = future.result()
        except BrokenExecutor:
            self.deaths[name] += 1
            if self.deaths[name] < DEATHS:
                self.forecast.again(name)
                return False
            answer = Answer(None, 0.0, "its process died, probably for want of memory; use fewer --workers")
        except CancelledError as error:
            raise TrueriskError(
                "the connection to the cluster was lost; finished runs are kept, the same command goes on."
            ) from error
        except Exception as error:  # the engine could not run it at all
            answer = Answer(None, 0.0, f"{type(error).__name__}: {error}")
        if answer.record is None:
            self.forecast.finish(name, time.monotonic(), None)
            self.failed[name] = Failed(setting, answer.error, answer.trace)
            return True
        self.forecast.finish(name, time.monotonic(), answer.seconds)
        at = stamp()
        self.store.save(self.grid.experiment, name, setting, answer.record, answer.seconds, version=self.version, at=at)
        self.done[name] = Done(setting, answer.record, answer.seconds, reused=False, at=at)
        return True


def _broken(future: Future[Answer]) -> bool:
    return not future.cancelled() and isinstance(future.exception(), BrokenExecutor)
