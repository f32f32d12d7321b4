"""How long a grid of tasks will still take, learned from finished tasks instead of guessed costs alone.

A guessed cost may be ten times too low for one kind of task and right for all others. So a task is expected to take as
many seconds per unit of cost as the finished tasks that are most similar: those that share the most fields of its
setting, above all fields that explain how far guesses have been off so far. For tasks that differ only in their seed,
this is the mean of their seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from truerisk.engine.key import canonical

Setting = Mapping[str, Any]
_Kind = tuple[int, ...]  # one code for each field but the seed
_Totals = dict[_Kind, tuple[float, float]]  # guessed cost and seconds of the finished tasks of each kind

SEED = "seed"  # tasks that differ in nothing else are siblings: they take about the same time
EARLY = 0.2  # share of the guessed cost that may run early, to learn how long each kind of task takes
WEIGHT = 0.3  # of a field that explains nothing so far; one that explains everything has 1 more
MOST = 200  # kinds of finished tasks that a new kind is compared to: a forecast must not take long itself
REST = 0.1  # share of its expected seconds that a running task still needs at least
TINY = 1e-9
EDGE = 0.05  # share of a task's seconds, at both ends, that is no evidence of two tasks at the same time


def order(settings: Mapping[str, Setting], cost: Mapping[str, float], width: int = 0) -> list[str]:
    """The order in which tasks start: first a few cheap ones of every kind, then the longest first.

    With the longest first, no long task starts when all others have finished. But a kind of task whose cost is guessed
    far too low would then come last, and nobody would know until then. So the cheapest task with each value of each
    field runs early, up to a fifth of the guessed cost. This adds hardly any time, because every task has to run. The
    first ``width`` tasks do not count: their workers have to start, so their seconds teach less.

    >>> settings = {f"{m}{s}": {"model": m, "seed": s} for m in ("big", "small") for s in range(3)}
    >>> order(settings, {name: 9.0 if "big" in name else 1.0 for name in settings})
    ['small0', 'big0', 'big1', 'big2', 'small1', 'small2']
    """
    budget = EARLY * sum(cost[name] for name in settings)
    seen: set[tuple[str, str]] = set()
    early: dict[str, None] = {}
    for name in sorted(settings, key=lambda name: cost[name]):
        fields = _fields(settings[name])
        if fields <= seen:
            continue
        budget -= cost[name]
        if budget < 0:
            break
        seen |= fields if len(early) >= width else set()
        early[name] = None
    longest = sorted(settings, key=lambda name: -cost[name])
    return [*early, *(name for name in longest if name not in early)]


def makespan(running: Iterable[float], waiting: Iterable[float], width: int) -> float:
    """Seconds until all tasks have finished, if each waiting task starts as soon as one of ``width`` places is free.

    >>> makespan([1.0], [5.0, 2.0, 2.0], width=2)
    5.0
    """
    places = list(running)
    places += [0.0] * (width - len(places))
    heapq.heapify(places)
    for seconds in waiting:
        heapq.heapreplace(places, places[0] + seconds)
    return max(places)


class Forecast:
    """The time left of a grid. It has no clock: callers pass the time, in seconds from any origin.

    ``settings`` are the tasks in the order in which they start, ``cost`` their guessed costs, and ``stored`` the
    setting, guessed cost, and seconds of every run that was stored earlier. ``width`` is the number of tasks at a time,
    or None for a scheduler with a queue of its own, whose number of workers is unknown.

    >>> settings = {"a": {"n": 1, "seed": 0}, "b": {"n": 1, "seed": 1}, "c": {"n": 2, "seed": 0}}
    >>> forecast = Forecast(settings, {"a": 1.0, "b": 1.0, "c": 2.0}, width=1)
    >>> forecast.start("a", now=0.0)
    >>> forecast.left(now=3.0) is None  # nothing is known yet
    True
    >>> forecast.finish("a", now=10.0, seconds=10.0)
    >>> forecast.left(now=10.0)  # 10 for b, and 20 for c
    30.0
    >>> forecast.share(now=10.0, left=30.0)
    0.25
    """

    def __init__(
        self,
        settings: Mapping[str, Setting],
        cost: Mapping[str, float],
        width: int | None,
        stored: Iterable[tuple[Setting, float, float]] = (),
    ) -> None:
        earlier = list(stored)
        kinds = _kinds([*settings.values(), *(setting for setting, _, _ in earlier)])
        self.kind = dict(zip(settings, kinds, strict=False))
        self.cost, self.width = cost, width
        # First tasks of a worker also load libraries: they count for little where anything else is known.
        self.first: _Totals = {}
        self.own: _Totals = {}
        self.stored: _Totals = {}
        for kind, (_, guess, seconds) in zip(kinds[len(settings) :], earlier, strict=True):
            _add(self.stored, kind, guess, seconds)
        self.waiting = dict.fromkeys(settings)
        self.running: dict[str, float] = {}  # since when
        self.spans: list[tuple[float, float]] = []  # beginning and end of each finished task
        self.begin: float | None = None
        self.shown = 0.0

    def start(self, name: str, now: float) -> None:
        """A task was handed to the engine."""
        self.begin = now if self.begin is None else self.begin
        del self.waiting[name]
        self.running[name] = now

    def again(self, name: str) -> None:
        """A running task was lost and waits again, as the next one."""
        del self.running[name]
        self.waiting = {name: None, **self.waiting}

    def finish(self, name: str, now: float, seconds: float | None) -> None:
        """A task has finished after so many seconds of its own; None if it failed, which teaches nothing."""
        del self.running[name]
        if seconds is None:
            return
        first = not self.spans or now - seconds < self.spans[0][1]  # it began before any other had finished
        _add(self.first if first else self.own, self.kind[name], self.cost[name], seconds)
        self.spans.append((now - seconds, now))

    def left(self, now: float) -> float | None:
        """Seconds until all tasks have finished; None before anything is known."""
        if not self.spans and not self.stored:
            return None
        width, running, waiting = self._places(now)
        if width is None:
            return None
        ratios = self._ratios([*running, *waiting])
        expected = {name: self.cost[name] * ratios[self.kind[name]] for name in [*running, *waiting]}
        remaining = {name: _remaining(expected[name], now - start) for name, start in running.items()}
        # A late task is the first sign that its kind takes long; where a sibling has finished, it says nothing more.
        slow: dict[_Kind, float] = {}
        for name, start in running.items():
            if (kind := self.kind[name]) not in self.own and kind not in self.first:
                slow[kind] = max(slow.get(kind, 0.0), (now - start + remaining[name]) / self.cost[name])
        later = [max(expected[name], self.cost[name] * slow.get(self.kind[name], 0.0)) for name in waiting]
        return float(makespan(remaining.values(), later, width))

    def share(self, now: float, left: float | None) -> float:
        """The share of the whole time that has passed, from 0 to 1. It never falls, even if the time left rises."""
        if left is not None and self.begin is not None:
            passed = now - self.begin
            self.shown = max(self.shown, passed / (passed + left) if left else 1.0)
        return self.shown

    def _ratios(self, names: Iterable[str]) -> dict[_Kind, float]:
        """Seconds per unit of cost for the kinds of these tasks, from the finished kinds that are most similar.

        Runs of this call come before stored ones of the same kind, and these before first tasks of workers. The machine
        of stored runs may have been faster or slower, by a factor that is measured on the kinds that have both.
        """
        both = self.own.keys() & self.stored.keys()
        foretold = sum(self.own[kind][0] * self.stored[kind][1] / self.stored[kind][0] for kind in both)
        factor = sum(self.own[kind][1] for kind in both) / foretold if foretold else 1.0
        stored = {kind: (cost, factor * seconds) for kind, (cost, seconds) in self.stored.items()}
        known = self.first | stored | self.own
        ratios = {kind: seconds / cost for kind, (cost, seconds) in known.items()}
        new = [kind for kind in {self.kind[name]: None for name in names} if kind not in ratios]
        if new:
            few = list(known)[:: -(-len(known) // MOST)]
            doubts = np.array([kind not in stored and kind not in self.own for kind in few])
            found = _nearest(new, few, np.array([known[kind] for kind in few]), doubts)
            ratios.update(zip(new, found, strict=True))
        return ratios

    def _places(self, now: float) -> tuple[int | None, dict[str, float], Sequence[str]]:
        """The number of tasks at a time, the running tasks with their beginnings, and the waiting tasks.

        A scheduler is given up to 1,000 tasks and starts them when its workers are free. It could be asked for its
        workers, but they come and go, and the question takes a message there and back. Finished tasks tell it, too: the
        largest number of tasks that ran at the same time. This is too low while most workers run their first task, so
        nothing is said until some worker has finished its second task, or half of all tasks have finished. Tasks that
        were handed over first are taken to be running, each since the end of one of the last finished tasks.
        """
        if self.width is not None:
            return self.width, self.running, list(self.waiting)
        ends = sorted(end for _, end in self.spans)
        unfinished = [*self.running, *self.waiting]
        enough = len(ends) >= len(unfinished) or any(start > ends[0] for start, _ in self.spans)
        if self.begin is None or not ends or not enough:
            return None, {}, unfinished
        width = at_once(self.spans)
        starts = ([self.begin] * width + ends)[-width:]
        running = dict(zip(self.running, starts, strict=False))
        return width, running, unfinished[len(running) :]


def at_once(spans: Iterable[tuple[float, float]]) -> int:
    """The largest number of spans that overlap, without their edges: the end of a task is noticed a little late.

    >>> at_once([(0, 10), (0.1, 8), (7.9, 12), (12, 14)])
    2
    """
    events: list[tuple[float, int]] = []
    for start, end in spans:
        edge = EDGE * (end - start)
        events += [(start + edge, 1), (end - edge, -1)]
    most = count = 0
    for _, step in sorted(events):
        count += step
        most = max(most, count)
    return max(most, 1)


def relevance(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each field (a column of codes), the share of the variance of ``values`` that it explains.

    The share is the adjusted R squared, so a field with as many values as rows explains nothing.

    >>> relevance(np.array([[0, 0, 0], [0, 1, 1], [1, 0, 2], [1, 1, 3]]), np.array([1.0, 1.0, 5.0, 5.0])).tolist()
    [1.0, 0.0, 0.0]
    """
    n, fields = codes.shape
    variance = np.var(values, ddof=1) if n > 1 else 0.0
    found = np.zeros(fields)
    for field in range(fields) if variance > TINY else ():
        _, group = np.unique(codes[:, field], return_inverse=True)
        groups = int(group.max()) + 1
        if groups < n:
            within = values - (np.bincount(group, values) / np.bincount(group))[group]
            found[field] = max(0.0, 1 - (within**2).sum() / (n - groups) / variance)
    return found


def _nearest(new: list[_Kind], known: list[_Kind], totals: np.ndarray, doubts: np.ndarray) -> list[float]:
    """For each new kind, seconds per unit of cost of the most similar known kinds, whose totals of both are given.

    Of equally similar kinds, those with doubts do not count.

    >>> totals = np.array([[1, 2], [1, 9], [1, 2], [1, 2]])
    >>> _nearest([(0, 1), (1, 1)], [(0, 0), (1, 0), (2, 0), (2, 1)], totals, np.zeros(4))
    [2.0, 9.0]
    """
    cost, seconds = totals.T
    weights = WEIGHT + relevance(np.array(known), np.log(np.maximum(seconds, TINY) / cost))
    similar = np.zeros((len(new), len(known))) - WEIGHT / 2 * doubts
    for weight, ours, theirs in zip(weights, np.array(new).T, np.array(known).T, strict=True):
        similar += weight * (ours[:, None] == theirs)
    nearest = similar >= similar.max(axis=1, keepdims=True) - TINY
    found: list[float] = ((nearest @ seconds) / (nearest @ cost)).tolist()
    return found


def _remaining(expected: float, ran: float) -> float:
    """Seconds that a running task still needs. A late task is expected to need as long again as it is late.

    >>> [_remaining(10.0, ran) for ran in (4.0, 9.9, 15.0)]
    [6.0, 1.0, 5.0]
    """
    return max(abs(expected - ran), REST * expected)


def _add(totals: _Totals, kind: _Kind, cost: float, seconds: float) -> None:
    before = totals.get(kind, (0.0, 0.0))
    totals[kind] = (before[0] + cost, before[1] + seconds)


def _fields(setting: Setting) -> set[tuple[str, str]]:
    return {(field, canonical(value)) for field, value in setting.items() if field != SEED}


def _kinds(settings: Sequence[Setting]) -> list[_Kind]:
    """The kind of each setting: codes that are equal where the values of a field are equal; a field may be absent."""
    rows = [dict(_fields(setting)) for setting in settings]
    fields = sorted({field for row in rows for field in row})
    numbers: dict[str | None, int] = {}
    return [tuple(numbers.setdefault(row.get(field), len(numbers)) for field in fields) for row in rows]
