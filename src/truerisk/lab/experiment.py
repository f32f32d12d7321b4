"""What an experiment is: a grid of settings, a pure task, and claims about effects.

Each experiment is one file that ends in ``EXPERIMENT = Experiment(...)``. It knows nothing of how its tasks are run.
Nor does it know its page: that is its lesson (`lab.lesson`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.engine import canonical
from truerisk.errors import TrueriskError
from truerisk.lab import commitment
from truerisk.lab.cells import refuse_fields, slices, step
from truerisk.lab.claim import AnyClaim, Claim, Paper
from truerisk.lab.lesson import Lesson
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.scales import refuse_scale
from truerisk.lab.verdict import Verdict, judge, line_of

if TYPE_CHECKING:
    from truerisk.data import Data

Setting = dict[str, Any]  # plain JSON: what a run depends on, its seed included
Record = dict[str, Any]  # plain JSON: what it found

SEEDS = {"quick": 5, "medium": 3, "paper": 3}  # for each cell of a claim, at least


@dataclass(frozen=True)
class Experiment:
    """One experiment. `grids` maps a scale to the function that lists its settings; `task` is pure.

    `version` is raised when something that the task imports changes its results; changes in the experiment's own
    file are noticed without it. `cost` is a guess of how long a setting takes, relative to the others. `own_data`
    turns a setting into one for a user's data set, or into None where it makes no sense there; without it the
    experiment takes no ``--data``. `same` names versions of earlier task code whose stored runs are still good.
    """

    name: str
    title: str
    about: str  # one paragraph: what is done, and why anyone should care
    papers: tuple[Paper, ...]
    grids: Mapping[str, Callable[[], list[Setting]]]
    task: Callable[[Setting], Record]
    claims: tuple[AnyClaim, ...]
    lesson: Lesson | None = None  # its page; `catalogue.load` finds that of a built-in experiment
    version: int = 1
    cost: Callable[[Setting], float] = field(default=lambda _: 1.0)
    own_data: Callable[[Setting, Data], Setting | None] | None = None
    committed: Path = commitment.FILE
    same: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()  # fields of settings that `own_data` has left out; claims may name them

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):  # it becomes the name of a folder
            raise TrueriskError(f"the experiment is named {self.name!r}; use small letters, digits, and hyphens.")
        names = [claim.name for claim in self.claims]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise TrueriskError(f"two claims of {self.name} are named {twice}; rename one.")
        spoken = (name for finding in (self.lesson.findings if self.lesson else ()) for name in finding.claims)
        unknown = next((name for name in spoken if name not in names), None)
        if unknown:  # it would never be a headline
            raise TrueriskError(f"a finding of {self.name} rests on {unknown!r}; its claims are {', '.join(names)}.")

    def settings(self, scale: str) -> list[Setting]:
        """The grid at a scale; what cannot be a grid is refused."""
        refuse_scale(scale)
        if scale not in self.grids:
            raise TrueriskError(f"{self.name} has no scale {scale!r}; choose one of {', '.join(self.grids)}.")
        return _listed(self.name, scale, self.grids[scale])

    @property
    def handle(self) -> str:
        """What `truerisk lab run` and `lab commit` call it: its name, or the file that it is in."""
        file = str(self.committed)
        return self.name if self.committed == commitment.FILE else file.replace(".committed.json", ".py")

    def check(self, scale: str) -> None:
        """Refuse claims about fields that no setting has, before hours are spent on runs."""
        commitment.read(self.committed)  # a damaged file is better known now
        rows = Rows([], settings := self.settings(scale), self.fields(settings))
        for claim in self.speaking(scale):
            if isinstance(claim, Claim):
                with suppress(IncompleteError):  # at this scale no run is what it is about
                    for _, some in slices(claim, rows):
                        step(claim, some)
            else:
                refuse_fields(claim.name, claim.where, rows)

    def fields(self, settings: Iterable[Setting]) -> set[str]:
        """The names that claims may use: those of settings, with those that a grid for own data has left out."""
        return {name for setting in settings for name in setting} | self.left_out

    def speaking(self, scale: str) -> list[AnyClaim]:
        """The claims that say anything at this scale; a smoke run tries them all, for slips in their code."""
        return [claim for claim in self.claims if scale in claim.scales or scale == "smoke"]

    def judge(self, rows: Rows, scale: str) -> list[Verdict]:
        """A verdict on every claim that says anything at this scale."""
        copies = _copies(rows)
        found = []
        for claim in self.speaking(scale):
            verdict = judge(claim, rows, scale, commitment.find(self, claim, scale))
            if copies and isinstance(claim, Claim):  # a spread of 0 would be the task's, not the world's
                verdict = Verdict(claim, "no verdict", "broken", copies, commitment=verdict.commitment)
            found.append(_doubted(verdict))
        return found


def product(fixed: Setting | None = None, /, **varied: Iterable[Any]) -> list[Setting]:
    """All combinations of the varied fields, each with the fixed ones; the last field varies fastest.

    >>> product({"n": 100}, p=(0, 1), seed=range(2))[:2]
    [{'n': 100, 'p': 0, 'seed': 0}, {'n': 100, 'p': 0, 'seed': 1}]
    """
    for name, values in varied.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise TrueriskError(f"product has {name}={values!r}; give a list or range, or put it into the first dict.")
    rows = itertools.product(*map(list, varied.values()))
    return [{**(fixed or {}), **dict(zip(varied, row, strict=True))} for row in rows]


def _doubted(verdict: Verdict) -> Verdict:
    """No verdict where all seeds agree exactly: numbers in coarse steps, or a limit that all runs hit."""
    still = [cell for cell in verdict.cells if cell.interval is not None and cell.interval.error == 0]
    if not still or verdict.word == "no verdict":
        return verdict
    return replace(verdict, word="no verdict", reason="no spread", decisive=still[0])


def _copies(rows: Rows) -> str:
    """What is said where the task ignores its seed: all seeds have the same records in all settings."""
    told: dict[str, list[str]] = {}
    for row in rows:
        if "seed" in row:
            setting = canonical({name: row[name] for name in sorted(rows.fields & row.keys()) if name != "seed"})
            record = canonical({name: row[name] for name in row if name not in rows.fields})
            told.setdefault(setting, []).append(record)
    several = [records for records in told.values() if len(records) > 1]
    if not several or any(len(set(records)) > 1 for records in several):
        return ""
    return "all seeds have the same records; use setting['seed'] in the task"


def _listed(name: str, scale: str, grid: Any) -> list[Setting]:
    """What a grid's function returns, as a list of settings; anything else is refused."""
    if not callable(grid):
        raise TrueriskError(
            f"the {scale} grid of {name} is a {type(grid).__name__}; give the function, without calling it."
        )
    try:
        found = grid()
        settings = [] if isinstance(found, Mapping | str) else list(found)
    except TrueriskError:
        raise
    except Exception as error:
        line, kind = line_of(error), type(error).__name__
        raise TrueriskError(f"the {scale} grid of {name} fails in line {line} ({kind}: {error}); repair it.") from error
    if not settings or not all(isinstance(setting, dict) for setting in settings):
        raise TrueriskError(f"the {scale} grid of {name} is not a list of dicts; return one dict for each run.")
    return settings


def unsettled(experiment: Experiment, scale: str) -> dict[str, str]:
    """The claims that the grid of a scale cannot settle, whatever its runs find, each with the reason."""
    rows = Rows([], experiment.settings(scale))
    found = {}
    for claim in experiment.speaking(scale):
        if not isinstance(claim, Claim):
            continue
        try:
            few = min(len(some.seeds()) for _, some in slices(claim, rows))
        except IncompleteError as error:
            found[claim.name] = str(error)
            continue
        least = SEEDS.get(scale, 1)
        if few < least:
            found[claim.name] = f"a cell has {few} {'seed' if few == 1 else 'seeds'}, but needs at least {least}"
    return found
