"""What an experiment is: a grid of settings, a pure task, claims about effects, figures.

Each experiment is one file that ends in ``EXPERIMENT = Experiment(...)`` and knows nothing of how its tasks are run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.errors import TrueriskError
from truerisk.lab import commitment
from truerisk.lab.cells import slices
from truerisk.lab.claim import AnyClaim, Claim, Paper
from truerisk.lab.figure import Exhibit
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.scales import refuse_scale
from truerisk.lab.verdict import Verdict, judge

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
    figures: Callable[[Rows], Sequence[Exhibit]]
    version: int = 1
    cost: Callable[[Setting], float] = field(default=lambda _: 1.0)
    own_data: Callable[[Setting, Data], Setting | None] | None = None
    committed: Path = commitment.FILE
    same: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):  # it becomes the name of a folder
            raise TrueriskError(f"the experiment is named {self.name!r}; use small letters, digits, and hyphens.")
        names = [claim.name for claim in self.claims]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise TrueriskError(f"two claims of {self.name} are named {twice}; rename one.")

    def settings(self, scale: str) -> list[Setting]:
        """The grid at a scale; what cannot be a grid is refused."""
        refuse_scale(scale)
        if scale not in self.grids:
            raise TrueriskError(f"{self.name} has no scale {scale!r}; choose one of {', '.join(self.grids)}.")
        return self.grids[scale]()

    def speaking(self, scale: str) -> list[AnyClaim]:
        """The claims that say anything at this scale; a smoke run tries them all, for slips in their code."""
        return [claim for claim in self.claims if scale in claim.scales or scale == "smoke"]

    def judge(self, rows: Rows, scale: str) -> list[Verdict]:
        """A verdict on every claim that says anything at this scale."""
        return [judge(claim, rows, scale, commitment.find(self, claim, scale)) for claim in self.speaking(scale)]


def product(fixed: Setting | None = None, /, **varied: Iterable[Any]) -> list[Setting]:
    """All combinations of the varied fields, each with the fixed ones; the last field varies fastest.

    >>> product({"n": 100}, p=(0, 1), seed=range(2))[:2]
    [{'n': 100, 'p': 0, 'seed': 0}, {'n': 100, 'p': 0, 'seed': 1}]
    """
    rows = itertools.product(*map(list, varied.values()))
    return [{**(fixed or {}), **dict(zip(varied, row, strict=True))} for row in rows]


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
