"""How long a tour will take, and what is left out of one that would take too long.

Both are decided before anything is trained, from a short measurement of speed. No outcome can change what is shown.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from truerisk.errors import TrueriskError
from truerisk.tours.asked import Asked
from truerisk.tours.costs import CODE, CODE_EPOCHS, HOLD_OUT, POSTERIOR, PROGRESSIVE
from truerisk.tours.twin import NOISES, PASSES, ROWS

if TYPE_CHECKING:
    from truerisk.data import Data
    from truerisk.nets import Architecture

LABELS, TWIN = "labels", "twin"
ORDER = (LABELS, HOLD_OUT, TWIN, PROGRESSIVE, POSTERIOR, CODE)  # the last one is left out first
ATTEMPTS = 3  # trainings of act 1, each with twice the epochs of the one before
START = 6.0  # seconds until all processes are there, and for writing at the end
SAMPLE = 512  # examples that speed is measured on
BLOCKS = 5  # of progressive validation
STOCHASTIC = 3  # times as long as plain training, for each example
HESSIAN = 300  # passes over the sample that sharpness takes


@dataclass(frozen=True)
class Speed:
    """Seconds for one example: to train on it in one epoch, to draw a network for it."""

    train: float
    draw: float


@dataclass(frozen=True)
class Outline:
    """What a tour will do: seconds for each part that is kept, parts left out, trainings in act 1."""

    seconds: dict[str, float]
    left_out: tuple[str, ...]
    attempts: int
    workers: int

    @property
    def total(self) -> float:
        return total(self.seconds, self.workers)

    @property
    def sentence(self) -> str:
        """
        >>> Outline({"labels": 8.0}, (), 1, 2).sentence, Outline({"labels": 400.0}, (), 1, 2).sentence
        ('This takes about 14 seconds.', 'This takes about 7 minutes.')
        >>> Outline({"labels": 20.0}, (), 3, 2).sentence
        'This takes about 26 seconds, or up to 2 minutes if random labels are hard to fit.'
        """
        longest = total(self.seconds | {LABELS: repeated(self.seconds[LABELS], self.attempts)}, self.workers)
        more = f", or up to {duration(longest)} if random labels are hard to fit" if longest > 1.5 * self.total else ""
        return f"This takes about {duration(self.total)}{more}."


def duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def repeated(seconds: float, attempts: int) -> float:
    """Seconds of all attempts, each with twice the epochs of the one before."""
    return seconds * (2**attempts - 1)


def total(seconds: dict[str, float], workers: int) -> float:
    """The two networks of act 1 are trained side by side; then everything else, as it fits."""
    rest = [value for name, value in seconds.items() if name != LABELS]
    return START + seconds.get(LABELS, 0.0) + max([0.0, sum(rest) / workers, *rest])


def outline(seconds: dict[str, float], minutes: float, workers: int) -> Outline:
    """Leave out parts from the end of ``ORDER`` until the rest fits; then see how many trainings still fit.

    >>> outline({"labels": 10.0, "twin": 4.0, "progressive": 90.0}, minutes=1, workers=2).left_out
    ('progressive',)
    """
    kept, limit = dict(seconds), 60 * minutes
    left_out: list[str] = []
    for name in reversed(ORDER):
        if total(kept, workers) <= limit:
            break
        if name in kept and name != LABELS:
            left_out.insert(0, name)
            del kept[name]
    if total(kept, workers) > limit:
        needed = total(kept, workers) / 60
        raise TrueriskError(
            f"the first act alone takes about {needed:.1f} minutes, but the limit is {minutes:g}; give --minutes "
            f"{int(needed) + 1}, a smaller network, or fewer examples."
        )
    attempts = 1
    while attempts < ATTEMPTS:
        more = kept | {LABELS: repeated(kept[LABELS], attempts + 1)}
        if total(more, workers) > limit:
            break
        attempts += 1
    return Outline(kept, tuple(left_out), attempts, workers)


def parts(asked: Asked, data: Data, arch: Architecture, speed: Speed) -> dict[str, float]:
    """Seconds of each part at this speed."""
    from truerisk.training.plans import default_plans

    n = len(data)
    half = round(n / 2)
    plans = default_plans(arch.name, data, half, asked.seed, None, asked.lr)
    training = plans["prior"].epochs * half * speed.train
    few = min(n, ROWS)
    return {
        LABELS: training,
        HOLD_OUT: 0.3,
        TWIN: HESSIAN * min(half, 1000) * speed.train + (len(NOISES) * few + PASSES * n) * speed.draw,
        PROGRESSIVE: 0.8 * training + BLOCKS * plans["update"].epochs * 0.8 * n * speed.train,
        POSTERIOR: STOCHASTIC * plans["posterior"].epochs * half * speed.train,
        CODE: CODE_EPOCHS * n * (2 + 0.8) * speed.train,
    }


def measured(asked: Asked, data: Data, arch: Architecture) -> Speed:
    """Train for an epoch and draw for an epoch, on a few examples and a network of its own."""
    from truerisk import progress
    from truerisk.nets import check_network
    from truerisk.pacbayes import Gaussian, gibbs_risk, plan_draws
    from truerisk.threads import limited
    from truerisk.training import Plan, fit

    few = data.take(range(min(SAMPLE, len(data))))
    module = check_network(arch.build(asked.seed), few.X, data.classes)
    with progress.silent(), limited(1):
        fit(module, few.take(range(min(64, len(few)))), Plan(epochs=1, batch_size=32))  # the first steps are slow
        train = _seconds(lambda: fit(module, few, Plan(epochs=1, batch_size=32)))
        posterior = Gaussian.around(module, 1e-3)
        plan = replace(plan_draws(posterior, few.X), passes=1)
        draw = _seconds(lambda: gibbs_risk(posterior, few.X, few.y, 0, plan))
    return Speed(train / len(few), draw / len(few))


def _seconds(work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start
