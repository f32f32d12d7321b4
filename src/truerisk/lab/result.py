"""What a run of an experiment gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from truerisk.lab.experiment import Experiment, Setting
from truerisk.lab.rows import Rows
from truerisk.lab.tally import tally
from truerisk.lab.verdict import Verdict


@dataclass(frozen=True)
class Failure:
    """A task that raised: its setting, one line of what happened, and the whole traceback."""

    setting: Setting
    error: str
    trace: str


@dataclass(frozen=True)
class Result:
    """All finished runs of an experiment at one scale, and the verdicts on its claims."""

    experiment: Experiment
    scale: str
    rows: Rows
    verdicts: Sequence[Verdict]
    failures: Sequence[Failure]
    computed: int  # tasks run just now
    reused: int  # tasks found in the store
    seconds: float  # of computing, summed over all tasks, whenever and wherever they ran
    command: str  # runs it again
    software: Mapping[str, str]  # versions of what computed or read it
    first_run: str = ""  # UTC; "" where the date of some run is not known
    data: str = ""  # a user's own data set

    @property
    def stem(self) -> str:
        """The name of its page below the output folder, without the ending."""
        return f"{self.experiment.name}/{self.scale}" + (f"-{self.data}" if self.data else "")

    def summary(self) -> dict[str, Any]:
        """Plain values for the index page and for ``--json``."""
        claims = [
            {**verdict.json(), "commitment": verdict.commitment.words(self.first_run) if verdict.commitment else ""}
            for verdict in self.verdicts
        ]
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "about": self.experiment.about,
            "scale": self.scale,
            "data": self.data,
            "runs": len(self.rows),
            "missing": len(self.rows.missing),
            "computed": self.computed,
            "reused": self.reused,
            "seconds": self.seconds,
            "first_run": self.first_run or None,
            "tally": tally((verdict.claim.group, verdict.word) for verdict in self.verdicts),
            "claims": claims,
            "failures": [{"setting": f.setting, "error": f.error} for f in self.failures],
            "software": dict(self.software),
            "command": self.command,
        }
