"""What an experiment is: a grid of settings, a pure task, claims with thresholds, figures.

Each experiment is one file that ends in ``EXPERIMENT = Experiment(...)`` and knows nothing of how its tasks are run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Exhibit
from truerisk.lab.rows import IncompleteError, Rows

Setting = dict[str, Any]  # plain JSON: what a run depends on, its seed included
Record = dict[str, Any]  # plain JSON: what it found

SCALES = {
    "smoke": "seconds: does everything run? Claims about trained networks may well fail here",
    "quick": "at most 3 minutes on two cores, built-in data only",
    "medium": "subsets of MNIST and CIFAR-10, up to a few hours on two cores",
    "paper": "the published sizes: a cluster, or patience",
}

Word = Literal["seen again", "not seen again", "not checked"]


@dataclass(frozen=True)
class Outcome:
    """What a claim's predicate found: whether the effect is there, and the numbers that say so."""

    seen: bool
    measured: str


@dataclass(frozen=True)
class Claim:
    """One published effect, and the threshold (fixed before the first run) that says whether it was seen again.

    `statement` is the published effect in our words, `published` its published number, `threshold` in words what
    `check` computes. `scales` are the scales at which the claim says anything.
    """

    name: str
    statement: str
    source: str
    published: str
    threshold: str
    check: Callable[[Rows], Outcome]
    scales: tuple[str, ...] = tuple(SCALES)


@dataclass(frozen=True)
class Verdict:
    """A claim together with what was found."""

    claim: Claim
    word: Word
    measured: str

    @property
    def plain(self) -> str:
        """One sentence for people.

        >>> claim = Claim("c", "Networks fit noise.", "Zhang 2017", "100 %", "at least 99 %", lambda rows: ...)
        >>> Verdict(claim, "not seen again", "93 %").plain
        'Not seen again: measured 93 %; asked for: at least 99 %.'
        """
        if self.word == "not checked":
            return f"Not checked: {self.measured}."
        wanted = "" if self.word == "seen again" else f"; asked for: {self.claim.threshold}"
        return f"{self.word.capitalize()}: measured {self.measured}{wanted}."


@dataclass(frozen=True)
class Experiment:
    """One experiment. `grids` maps a scale to the function that lists its settings; `task` is pure.

    `version` is raised when something that the task imports changes its results; changes in the experiment's own
    file are noticed without it. `cost` is a guess of how long a setting takes, relative to the others.
    """

    name: str
    title: str
    about: str  # one paragraph: what is done, and why anyone should care
    papers: tuple[str, ...]
    grids: Mapping[str, Callable[[], list[Setting]]]
    task: Callable[[Setting], Record]
    claims: tuple[Claim, ...]
    figures: Callable[[Rows], Sequence[Exhibit]]
    version: int = 1
    cost: Callable[[Setting], float] = field(default=lambda _: 1.0)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):  # it becomes the name of a folder
            raise TrueriskError(f"the experiment is called {self.name!r}; use small letters, digits and hyphens.")

    def settings(self, scale: str) -> list[Setting]:
        """The grid at a scale; what cannot be a grid is refused."""
        if scale not in SCALES:
            raise TrueriskError(f"there is no scale {scale!r}; the scales are {', '.join(SCALES)}.")
        if scale not in self.grids:
            raise TrueriskError(f"{self.name} has no scale {scale!r}; it has {', '.join(self.grids)}.")
        return self.grids[scale]()

    def judge(self, rows: Rows, scale: str) -> list[Verdict]:
        """A verdict on every claim that says anything at this scale."""
        return [_verdict(claim, rows) for claim in self.claims if scale in claim.scales]


def _verdict(claim: Claim, rows: Rows) -> Verdict:
    try:
        outcome = claim.check(rows)
    except IncompleteError as error:
        return Verdict(claim, "not checked", str(error))
    except Exception as error:  # hours of computing must not be lost over a slip in a claim
        return Verdict(claim, "not checked", f"the check itself failed ({type(error).__name__}: {error})")
    return Verdict(claim, "seen again" if outcome.seen else "not seen again", outcome.measured)
