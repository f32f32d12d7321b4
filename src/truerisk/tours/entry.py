"""``truerisk.tour``: one call from a network and data to the three acts."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk import progress
from truerisk.certificates.given import Given
from truerisk.tours import costs, labels, twin
from truerisk.tours.asked import Asked
from truerisk.tours.estimate import LABELS, START, TWIN, Outline, measured, outline, parts
from truerisk.tours.result import Subject, Tour

if TYPE_CHECKING:
    from truerisk.data import Data
    from truerisk.engine import Engine
    from truerisk.nets import Architecture

WORKERS = 2  # processes; the parts are few
MINUTES = 10.0


def tour(
    model: object = None,
    data: object = None,
    *,
    seed: int = 0,
    delta: float = 0.05,
    minutes: float = MINUTES,
    data_dir: str | Path | None = None,
    outputs: str | None = None,
    work: str | Path | None = None,
    workers: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Tour:
    """Three acts about a network: learned or memorized, the same function with other weights, what certificates cost.

    ``model`` and ``data`` are as for ``certify``; without them the tour is about handwritten digits. Each certificate
    fails with probability at most ``delta``.

    * ``minutes``: parts that would exceed this limit are left out, last ones first. A measurement of speed decides
      that before anything is trained.
    * ``outputs``: as for ``certify``.
    * ``work``: a folder for checkpoints; the same call resumes the training of an interrupted one.
    * ``workers``: processes that compute, by default two; 1 computes everything in this process.
    * ``tell``: a function that is given the estimated time, in a sentence.

    ``tour(...).save("out")`` writes the numbers and the certificates, which ``verify`` checks; ``report.write_tour``
    writes the page.
    """
    asked = Asked(model, data, seed, delta, float(minutes), data_dir, outputs)
    number = min(WORKERS, os.cpu_count() or 1) if workers is None else workers
    from truerisk.engine import Engine

    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place, Engine("local" if number > 1 else "inline", number) as engine:
        folder = Path(place) / "tour"
        folder.mkdir()
        kept = Path(place) / "work" if work is None else Path(work)
        for _ in range(number if number > 1 else 0):
            engine.submit(_wake)  # loading torch takes a worker two seconds: meanwhile speed is measured here
        arch, loaded = asked.material()
        plan = outline(parts(asked, loaded, arch, measured(asked, loaded, arch)), asked.minutes, number)
        if tell is not None:
            for sentence in filter(None, (_empty_classes(loaded), plan.sentence)):
                tell(sentence)
        acts = _Acts(asked, loaded, plan, engine, folder, kept)
        found = acts.play()
        files = {str(path.relative_to(folder)): path.read_bytes() for path in _saved(folder)}
    first, second, third, refusal = found
    subject, seconds = _subject(asked, loaded, arch), time.monotonic() - started
    return Tour(subject, first, second, third, plan.left_out, refusal, seconds, files)


class _Acts:
    """The acts in their order, with as much at a time as there are processes."""

    def __init__(self, asked: Asked, data: Data, plan: Outline, engine: Engine, folder: Path, work: Path) -> None:
        self.asked, self.data, self.plan, self.engine, self.folder, self.work = asked, data, plan, engine, folder, work
        self.places = (asked, folder, work)

    @property
    def _first(self) -> float:
        """Seconds of work in act 1, the start of the processes included: no other work can be done beside it."""
        return self.plan.workers * (START + self.plan.seconds[LABELS])

    def play(self) -> tuple[labels.Labels, twin.Twin | None, costs.Costs, str]:
        whole = self._first + sum(self.plan.seconds.values()) - self.plan.seconds[LABELS]
        with progress.bar("tour", total=round(100 * whole)) as advance:
            first = self._labels(advance)
            second, third, refusal = self._rest(advance)
        return first, second, third, refusal

    def _labels(self, advance: Callable[..., None]) -> labels.Labels:
        """Train both networks alike; with twice the epochs until both fit their labels, up to the planned attempts.

        Only training errors decide whether to go on, so the test examples stay unseen.
        """
        epochs: int | None = None
        for attempt in range(1, self.plan.attempts + 1):
            names = (labels.TRUE, labels.RANDOM)
            jobs = [self.engine.submit(_train, *self.places, name, epochs) for name in names]
            first, second = (job.result() for job in jobs)
            chance, majority = 1 - 1 / self.data.classes, 1 - int(self.data.counts.max()) / len(self.data)
            found = labels.Labels(first, second, chance, attempt, majority)
            advance(round(100 * self._first) if attempt == 1 else 0, note="learned or memorized?")
            if found.fitted:
                break
            epochs = 2 * first.epochs
        return found

    def _rest(self, advance: Callable[..., None]) -> tuple[twin.Twin | None, costs.Costs, str]:
        """All methods and the twin, the longest first."""
        seconds = {name: value for name, value in self.plan.seconds.items() if name != LABELS}
        order = sorted(seconds, key=lambda name: -seconds[name])
        jobs: dict[Future[Any], str] = {}
        for name in [costs.HOLD_OUT, *(each for each in order if each != costs.HOLD_OUT)]:
            if name in seconds:
                task = (_twin, *self.places) if name == TWIN else (_cost, *self.places, name)
                jobs[self.engine.submit(*task)] = name
        results: dict[str, Any] = {}
        for job, name in _finished(jobs):
            results[name] = job.result()
            advance(round(100 * seconds[name]), note=name)
        other = results.pop(TWIN, None)
        methods = [results[name] for name in costs.OPTIONS if name in results]
        if isinstance(other, twin.Twin):
            methods += costs.from_twin(other)
        refusal = other if isinstance(other, str) else ""
        return None if refusal else other, costs.Costs(tuple(methods), costs.default_method()), refusal


def _finished(jobs: dict[Future[Any], str]) -> Iterator[tuple[Future[Any], str]]:
    waiting = set(jobs)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for job in done:
            yield job, jobs[job]


# ---- what workers run: functions of this module, so that a new process finds them --------------------------------


def _wake() -> None:
    import truerisk.certificates.pipeline
    import truerisk.measures  # noqa: F401


def _train(asked: Asked, folder: Path, work: Path, name: str, epochs: int | None) -> labels.Network:
    with _alone():
        return labels.trained(asked, name, epochs, folder, work)


def _twin(asked: Asked, folder: Path, work: Path) -> twin.Twin | str:
    with _alone():
        return twin.compared(asked, folder)


def _cost(asked: Asked, folder: Path, work: Path, name: str) -> costs.Cost:
    with _alone():
        return costs.cost(asked, name, folder, work)


@contextmanager
def _alone() -> Iterator[None]:
    """One thread, and no progress but that of the tour."""
    from truerisk.threads import limited

    with progress.silent(), limited(1):
        yield


def _empty_classes(data: Data) -> str:
    """A hint where labels below the largest one never occur: often they start at 1."""
    empty = [str(label) for label, count in enumerate(data.counts) if not count]
    if not empty:
        return ""
    listed = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
    return f"note: no example has label {listed}, yet labels count from 0; subtract 1 if yours start at 1."


def _saved(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _subject(asked: Asked, data: Data, arch: Architecture) -> Subject:
    """Names for people, and what names the same things on the command line."""
    given = Given.of(asked.data, asked.model, asked.data_dir, data.source, arch.kind)
    return Subject(arch.name, data.name, len(data), data.classes, asked.delta, asked.seed, given)


__all__ = ["Tour", "tour"]
