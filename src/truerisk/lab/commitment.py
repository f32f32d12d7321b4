"""Commitments: what a claim asked for before its runs, in a file that only grows.

``committed.json`` beside the experiments (for a file of your own: ``NAME.committed.json`` beside it) has one line for
each claim and each time that it was committed: hashes of its rule, of the code of effect and task, and of the settings
with their seeds at each scale; the time; and the git commit at which it was written. `truerisk lab commit NAME` appends
lines and never edits one. A claim that differs from its newest line gets no verdict. A claim that was changed or added
is judged on seeds that no earlier line of the experiment names: its threshold may have been chosen by looking at those.
So is a claim that got more seeds, because looking at 3, 6, then 10 seeds and stopping when it suits is wrong in 12% of
cases.

``restated``: why code reads differently although nothing was chosen anew; rule, settings, and seeds must be the same,
and then the earlier line's time counts. So does it for a claim that has merely another name.

The code of an effect is followed through all of truerisk, that of a task through the lab, that of a file of your own
within that file. The times are
those that the file names. They bind an honest author, and git shows who edited them; they prove nothing against a
forger.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.atomic import write_atomically
from truerisk.engine import canonical
from truerisk.engine.clock import stamp
from truerisk.errors import TrueriskError
from truerisk.lab.claim import AnyClaim, Claim
from truerisk.lab.hashes import EFFECT, TASK, code_of, hash_of, rule_of
from truerisk.lab.rows import Rows

if TYPE_CHECKING:
    from truerisk.lab.experiment import Experiment

FILE = Path(__file__).with_name("committed.json")
RENAMED = "renamed from "


@dataclass(frozen=True)
class Line:
    """One claim as it was committed once. ``settings`` and ``seeds`` are by scale."""

    experiment: str
    claim: str
    says: str
    wants: str  # the threshold, in words
    rule: str  # region, unit, cells, group: a hash
    code: str  # of effect and task: a hash
    settings: Mapping[str, str]  # hashes of the settings that the claim is about, with their seeds
    seeds: Mapping[str, Sequence[int]]
    at: str  # UTC
    commit: str  # of git, "" where there is none
    batch: int  # lines that were written in one go have the same number
    restated: str = ""


@dataclass(frozen=True)
class Commitment:
    """How a claim stands to its lines at one scale. ``seeds`` are those that it is judged on; None: all."""

    changed: str = ""  # why it gets no verdict; "" if it agrees with its newest line
    seeds: frozenset[int] | None = None
    at: str = ""
    restated: tuple[str, ...] = ()
    said: str = ""  # the sentence as it was committed, where it reads differently today
    spent: int = 0  # seeds that do not count, because earlier lines name them
    earlier: int = 0  # times that the claim was committed before, with other rules or seeds

    def first(self, first_run: str) -> bool:
        """Whether it is known to have come before the earliest run, whose time is "" where that is not known."""
        return bool(self.at and not self.changed and first_run and self.at <= first_run)

    def words(self, first_run: str) -> str:
        """What a page says about it.

        >>> Commitment(at="2026-11-18T04:40:12Z").words("2026-11-18T05:00:00Z")
        'committed 2026-11-18, before its runs'
        >>> Commitment(at="2026-11-18T04:40:12Z").words("")
        'committed 2026-11-18; the dates of its runs are not known'
        """
        if not self.at:
            return "not committed before its runs"
        if self.changed:
            return f"changed since it was committed {self.at[:10]}"
        when = f"committed {self.at[:10]}" + (f" for {len(self.seeds)} new seeds" if self.spent and self.seeds else "")
        when += f" (after {self.earlier} earlier {'form' if self.earlier == 1 else 'forms'})" if self.earlier else ""
        if not first_run:
            return f"{when}; the dates of its runs are not known"
        return f"{when}, before its runs" if self.first(first_run) else f"{when}, after its first run"

    def json(self) -> dict[str, Any]:
        found = {"at": self.at or None, "changed": self.changed, "restated": list(self.restated)}
        return {**found, "said": self.said, "spent": self.spent, "earlier": self.earlier}


# ---- reading --------------------------------------------------------------------------------------------------------


def find(experiment: Experiment, claim: AnyClaim, scale: str) -> Commitment:
    """How this claim stands to its committed lines."""
    if scale not in claim.scales:  # a smoke run, which tries all claims
        return Commitment()
    every = [line for line in read(experiment.committed) if line.experiment == experiment.name]
    lines = _history(every, claim.name)
    if not lines:
        return Commitment()
    newest, now = lines[-1], line_of(experiment, claim)
    differs = _differs(newest, now, scale)
    if differs:
        return Commitment(
            f"{differs} differ from what was committed {newest.at[:10]}; commit the claim again with "
            f"`truerisk lab commit {experiment.handle}` and new seeds, or undo the change",
            at=newest.at,
        )
    chain = [newest]  # back to the line that chose anew at this scale
    for line in reversed(lines[:-1]):
        if not chain[-1].restated and _differs(line, chain[-1], scale):
            break
        chain.append(line)
    first = chain[-1]
    seeds = frozenset(newest.seeds.get(scale, ())) - _named(every, scale, first.batch)
    if isinstance(claim, Claim) and not seeds:
        return Commitment("all its seeds were used before the claim was changed; give its grid new seeds", at=first.at)
    restated = tuple(line.restated for line in reversed(chain) if line.restated)
    said = first.says if first.says != claim.says else ""
    spent = len(newest.seeds.get(scale, ())) - len(seeds)
    forms = [line for line in lines[: len(lines) - len(chain)] if not line.restated]
    return Commitment("", seeds, first.at, restated, said, spent, len(forms))


def read(path: Path) -> list[Line]:
    """The lines of a file; none where there is no file."""
    return list(_parsed(path, path.stat().st_mtime_ns)) if path.exists() else []


@cache
def _parsed(path: Path, _changed: int) -> tuple[Line, ...]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list):
            raise TypeError("it is not a list")
        return tuple(_checked(entry) for entry in entries)
    except (ValueError, TypeError, OSError, RecursionError) as error:
        told = " ".join(str(error).split())[:100]
        raise TrueriskError(f"{path} is not a file of commitments ({told}); restore or delete it.") from error


def _checked(entry: Any) -> Line:
    """A line whose fields have their types; the time is one that sorts."""
    if not isinstance(entry, dict):
        raise TypeError("a line is not an object")
    texts = ("experiment", "claim", "says", "wants", "rule", "code", "at", "commit", "restated")
    wrong = [name for name in texts if not isinstance(entry.get(name), str)]
    wrong += [name for name in ("settings", "seeds") if not isinstance(entry.get(name), dict)]
    wrong += ["batch"] if type(entry.get("batch")) is not int else []
    if wrong or set(entry) - {each.name for each in fields(Line)}:
        raise TypeError(f"a line has no proper field {wrong[0]!r}" if wrong else "a line has unknown fields")
    if not all(isinstance(some, list) and all(type(s) is int for s in some) for some in entry["seeds"].values()):
        raise TypeError("seeds are not lists of integers")
    if stamp(datetime.fromisoformat(entry["at"])) != entry["at"]:
        raise ValueError("a time is not in UTC with milliseconds")
    return Line(**entry)


def _history(lines: list[Line], name: str) -> list[Line]:
    """The lines of a claim, and before them those of the name that it had."""
    mine = [line for line in lines if line.claim == name]
    if mine and mine[0].restated.startswith(RENAMED):
        return _history(lines[: lines.index(mine[0])], mine[0].restated.removeprefix(RENAMED)) + mine
    return mine


def _named(lines: Iterable[Line], scale: str, batch: int) -> set[int]:
    """The seeds that lines of earlier batches name at a scale."""
    return {seed for line in lines if line.batch < batch for seed in line.seeds.get(scale, ())}


def _differs(line: Line, now: Line, scale: str) -> str:
    """Which part of a claim differs from a line at this scale."""
    parts = {
        "its region, unit, or cells": (line.rule, now.rule),
        "the code of its effect or task": (line.code, now.code),
        f"its settings or seeds at {scale} scale": (line.settings.get(scale), now.settings.get(scale)),
    }
    return next((words for words, (then, today) in parts.items() if then != today), "")


# ---- writing --------------------------------------------------------------------------------------------------------


def commit(experiment: Experiment, restated: str = "") -> list[Line]:
    """Append a line for each claim that is new or differs from its newest line; return these lines."""
    for scale in experiment.grids:
        experiment.check(scale)
    lines = read(experiment.committed)
    every = [line for line in lines if line.experiment == experiment.name]
    fresh, batch = [], 1 + max((line.batch for line in every), default=0)
    at, head = stamp(), _head(experiment.committed.parent)
    for claim in experiment.claims:
        mine = _history(every, claim.name)
        now = line_of(experiment, claim)
        why = restated if mine else _renamed(experiment, now, every)
        now = replace(now, at=at, commit=head, batch=batch, restated=why)
        if mine and not any(_differs(mine[-1], now, scale) for scale in {*now.settings, *mine[-1].settings}):
            continue
        _refuse(claim, every, mine, now)
        fresh.append(now)
    if fresh:
        text = json.dumps([asdict(line) for line in [*lines, *fresh]], indent=1)
        write_atomically(experiment.committed, f"{text}\n".encode())
        _parsed.cache_clear()
    return fresh


def line_of(experiment: Experiment, claim: AnyClaim) -> Line:
    """The line that this claim would have now, without time and place."""
    settings, seeds = {}, {}
    for scale in claim.scales:
        if scale in experiment.grids:
            chosen = Rows(experiment.settings(scale)).where(**claim.where)
            seeds[scale] = chosen.seeds()
            settings[scale] = hash_of(sorted(map(canonical, chosen)))
    effect = claim.effect if isinstance(claim, Claim) else claim.check
    code = hash_of([code_of(effect, EFFECT), code_of(experiment.task, TASK)])
    rule = hash_of([experiment.version, rule_of(claim)])
    names = (experiment.name, claim.name, claim.says, claim.threshold)
    return Line(*names, rule, code, settings, seeds, at="", commit="", batch=0)


def _renamed(experiment: Experiment, now: Line, every: list[Line]) -> str:
    """What a new claim is restated as, where it is a committed one that has merely another name now."""
    known = {each.name for each in experiment.claims}
    for line in reversed(every):
        same = (line.rule, line.code, dict(line.settings)) == (now.rule, now.code, now.settings)
        if same and line.claim not in known:
            return f"{RENAMED}{line.claim}"
    return ""


def _refuse(claim: AnyClaim, every: list[Line], mine: list[Line], now: Line) -> None:
    """Refuse a claim that would be judged on seeds that may have informed it."""
    if now.restated:
        if mine and (now.rule, now.settings) != (mine[-1].rule, dict(mine[-1].settings)):
            raise TrueriskError(
                f"{claim.name} has another region, other cells, or other seeds, so it is not restated; "
                "leave out --restated."
            )
        return
    for scale, seeds in now.seeds.items():
        changed = not mine or _differs(mine[-1], now, scale)
        if changed and isinstance(claim, Claim) and seeds and not set(seeds) - _named(every, scale, now.batch):
            raise TrueriskError(
                f"{claim.name} is new or was changed, but its {scale} grid has no new seeds; add some, or say with "
                "--restated why only code differs."
            )


def _head(folder: Path) -> str:
    """The git commit of a folder, "" where there is none."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
