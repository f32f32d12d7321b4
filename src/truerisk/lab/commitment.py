"""Commitments: what a claim asked for before its runs, in a file that only grows.

``committed.json`` beside the experiments (for a file of your own: ``NAME.committed.json`` beside it) has one line for
each claim and each time that it was committed: fingerprints of the effect with its region and cells, of the task, and
of the grid, the seeds of each scale, the time, and the git commit at which it was written. `truerisk lab commit NAME`
appends lines and never edits one. A claim that differs from its newest line gets no verdict. A claim that was changed
is judged on seeds that no earlier line of it names: the threshold may have been chosen by looking at those. So is a
claim that got more seeds, because looking at 3, 6, then 10 seeds and stopping when it suits is wrong in 12% of cases.

``restated``: why a line differs from the one before it although nothing was chosen anew (code that moved, say); region
and seeds must be the same, and then the earlier line's time counts. The times are those that the file names. They bind
an honest author, and git shows who edited them; they prove nothing against a forger.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk.atomic import write_atomically
from truerisk.engine import canonical, fingerprint, hash_code
from truerisk.errors import TrueriskError
from truerisk.lab.claim import AnyClaim, Claim
from truerisk.lab.rows import Rows

if TYPE_CHECKING:
    from truerisk.lab.experiment import Experiment

FILE = Path(__file__).with_name("committed.json")
SOURCE = "__source__"  # of a module that was executed from a user's file


@dataclass(frozen=True)
class Line:
    """One claim as it was committed once. ``recipe`` and ``seeds`` are by scale."""

    experiment: str
    claim: str
    asks: str  # effect, region, cells, scales: a hash
    wants: str  # the threshold, in words
    task: str  # a hash
    recipe: Mapping[str, str]  # hashes of the settings without their seeds
    seeds: Mapping[str, Sequence[int]]
    at: str  # UTC
    commit: str  # of git, "" where there is none
    restated: str = ""


@dataclass(frozen=True)
class Commitment:
    """How a claim stands to its lines at one scale. ``seeds`` are those that it is judged on; None: all."""

    changed: str = ""  # why it gets no verdict; "" if it agrees with its newest line
    seeds: frozenset[int] | None = None
    at: str = ""
    restated: tuple[str, ...] = field(default=())

    def words(self, first_run: str) -> str:
        """What a page says about it; ``first_run`` is the time of the earliest run, "" where that is not known.

        >>> Commitment(at="2026-11-18T04:40:12Z").words("2026-11-18T05:00:00Z")
        'committed 2026-11-18, before its runs'
        >>> Commitment(at="2026-11-18T04:40:12Z").words("")
        'committed 2026-11-18; the dates of its runs are not known'
        """
        if not self.at:
            return "not committed before its runs"
        when = f"committed {self.at[:10]}"
        if not first_run:
            return f"{when}; the dates of its runs are not known"
        return f"{when}, before its runs" if self.at <= first_run else f"{when}, after its first run"

    def json(self) -> dict[str, Any]:
        return {"at": self.at or None, "changed": self.changed, "restated": list(self.restated)}


def find(experiment: Experiment, claim: AnyClaim, scale: str) -> Commitment:
    """How this claim stands to its committed lines."""
    lines = [
        line for line in read(experiment.committed) if (line.experiment, line.claim) == (experiment.name, claim.name)
    ]
    if not lines:
        return Commitment()
    newest, now = lines[-1], line_of(experiment, claim)
    differs = _differs(newest, now, scale)
    if differs:
        return Commitment(
            f"{differs} than what was committed {newest.at[:10]}; commit it again with "
            f"`truerisk lab commit {experiment.name}`, or undo the change"
        )
    chain = [newest]  # back to the line that chose anew at this scale
    for line in reversed(lines[:-1]):
        if not chain[-1].restated and _differs(line, chain[-1], scale):
            break
        chain.append(line)
    earlier = {seed for line in lines[: len(lines) - len(chain)] for seed in line.seeds.get(scale, ())}
    seeds = frozenset(newest.seeds.get(scale, ())) - earlier
    if isinstance(claim, Claim) and not seeds:
        return Commitment("all its seeds were used before the claim was changed; give its grid new seeds", at=newest.at)
    restated = tuple(line.restated for line in reversed(chain) if line.restated)
    return Commitment("", seeds, chain[-1].at, restated)


def commit(experiment: Experiment, restated: str = "") -> list[Line]:
    """Append a line for each claim that is new or differs from its newest line; return these lines."""
    lines = read(experiment.committed)
    fresh = []
    for claim in experiment.claims:
        mine = _about(lines, experiment, claim)
        now = line_of(experiment, claim, restated if mine else "")
        if mine and not any(_differs(mine[-1], now, scale) for scale in {*now.seeds, *mine[-1].seeds, ""}):
            continue
        if mine:
            _refuse(experiment, claim, mine, now)
        fresh.append(now)
    if fresh:
        text = json.dumps([asdict(line) for line in [*lines, *fresh]], indent=1)
        write_atomically(experiment.committed, f"{text}\n".encode())
        _parsed.cache_clear()
    return fresh


def line_of(experiment: Experiment, claim: AnyClaim, restated: str = "") -> Line:
    """The line that this claim would have now."""
    recipe, seeds = {}, {}
    for scale in claim.scales:
        if scale not in experiment.grids:
            continue
        settings = Rows(experiment.settings(scale)).where(**claim.where)
        seeds[scale] = settings.seeds()
        bare = {canonical({k: v for k, v in setting.items() if k != "seed"}) for setting in settings}
        recipe[scale] = _hash(sorted(bare))
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    task = f"{experiment.version}-{fingerprint(experiment.task)}"
    asks = _hash(_asks(claim))
    where = experiment.committed.parent
    return Line(experiment.name, claim.name, asks, claim.threshold, task, recipe, seeds, now, _head(where), restated)


def read(path: Path) -> list[Line]:
    """The lines of a file; none where there is no file."""
    return list(_parsed(path, path.stat().st_mtime_ns)) if path.exists() else []


def _about(lines: list[Line], experiment: Experiment, claim: AnyClaim) -> list[Line]:
    return [line for line in lines if (line.experiment, line.claim) == (experiment.name, claim.name)]


@cache
def _parsed(path: Path, _changed: int) -> tuple[Line, ...]:
    try:
        return tuple(Line(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, OSError) as error:
        raise TrueriskError(f"{path} is not a file of commitments ({error}); restore it from git.") from error


def _differs(line: Line, now: Line, scale: str) -> str:
    """Which part of a claim differs from a line at this scale; the scale "" asks about what all scales share."""
    parts = {
        "its effect or region is another": (line.asks, now.asks),
        "its task has other code": (line.task, now.task),
        f"its grid at {scale} scale is another": (line.recipe.get(scale), now.recipe.get(scale)),
        f"its seeds at {scale} scale are others": (list(line.seeds.get(scale, [])), list(now.seeds.get(scale, []))),
    }
    return next((words for words, (then, today) in parts.items() if then != today), "")


def _refuse(experiment: Experiment, claim: AnyClaim, mine: list[Line], now: Line) -> None:
    """Refuse a change that would be judged on seeds that may have informed it."""
    if now.restated:
        if (now.wants, now.seeds) != (mine[-1].wants, dict(mine[-1].seeds)):
            raise TrueriskError(
                f"{claim.name} has another threshold or other seeds, so it is not restated; leave out --restated."
            )
        return
    for scale, seeds in now.seeds.items():
        used = {seed for line in mine for seed in line.seeds.get(scale, ())}
        changed = _differs(mine[-1], now, scale)
        if changed and isinstance(claim, Claim) and seeds and not set(seeds) - used:
            raise TrueriskError(
                f"{experiment.name}: {claim.name} was changed, but its {scale} grid has no new seeds; add some, "
                "or say why nothing was chosen anew with --restated."
            )


def _asks(claim: AnyClaim) -> dict[str, Any]:
    """Everything that decides a verdict, as plain values."""
    common = {"name": claim.name, "where": _plain(claim.where), "scales": list(claim.scales), "group": claim.group}
    if not isinstance(claim, Claim):
        return {**common, "check": _code(claim.check)}
    region = claim.wants
    return {
        **common,
        "effect": _code(claim.effect),
        "region": [repr(region.low), repr(region.high), region.unit.name],
        "every": list(claim.every),
        "counted_on": claim.counted_on,
    }


def _code(effect: Callable[..., Any]) -> Any:
    """The code of an effect, with the arguments that `functools.partial` has set."""
    if isinstance(effect, partial):
        return [_code(effect.func), _plain(effect.args), _plain(effect.keywords)]
    source = getattr(sys.modules.get(effect.__module__), SOURCE, None)
    return fingerprint(effect) if source is None else hash_code(source, effect.__qualname__)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if inspect.isfunction(value):
        return _code(value)
    return value


def _hash(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def _head(folder: Path) -> str:
    """The git commit of a folder, "" where there is none."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
