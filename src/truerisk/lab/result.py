"""What a run of an experiment gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from truerisk.lab.claim import Exact
from truerisk.lab.experiment import Experiment, Setting
from truerisk.lab.rows import Rows
from truerisk.lab.tally import headline, tally
from truerisk.lab.verdict import Verdict

STARTED = "started at"


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
    started: Sequence[tuple[Setting, str]] = ()  # each finished run, and when it began (UTC, "" if not known)
    data: str = ""  # a user's own data set
    demo: Mapping[str, Any] | None = None  # the record of the lesson's demo
    demo_failed: str = ""  # why there is none

    @property
    def finding(self) -> str:
        """What was found, in one sentence: the first finding of the lesson that speaks at this scale, else counts."""
        verdicts = {verdict.claim.name: verdict for verdict in self.verdicts}
        every = self.experiment.lesson.findings if self.experiment.lesson else ()
        spoken = next((one for one in every if one.applies(verdicts)), None)
        return spoken.sentence(verdicts) if spoken else headline(self.tally)

    @property
    def tally(self) -> dict[str, dict[str, int]]:
        return tally((self.group(verdict), verdict.word) for verdict in self.verdicts)

    @property
    def stem(self) -> str:
        """The name of its page below the output folder, without the ending."""
        return f"{self.experiment.name}/{self.scale}" + (f"-{self.data}" if self.data else "")

    def first_run(self, verdict: Verdict) -> str:
        """When the first of the runs began that a verdict is about; "" where the date of one of them is not known."""
        seeds = verdict.commitment.seeds if verdict.commitment else None
        every = ({**setting, STARTED: start} for setting, start in self.started)
        runs = Rows(every, fields={*self.rows.fields, STARTED}).where(**verdict.claim.where)
        times = [run[STARTED] for run in runs if seeds is None or run.get("seed") in seeds or not seeds]
        return min(times) if times and all(times) else ""

    def committed(self, verdict: Verdict) -> str:
        """Whether the claim was committed before these runs, in words; "" for an exact theorem."""
        if verdict.commitment is None or _exempt(verdict):
            return ""
        return verdict.commitment.words(self.first_run(verdict))

    def group(self, verdict: Verdict) -> str:
        """Where a verdict is counted: with its kind only if its claim is known to have been committed first.

        A theorem needs no commitment. Nothing was committed for data of a user's own.
        """
        first = verdict.commitment is not None and verdict.commitment.first(self.first_run(verdict))
        return verdict.claim.group if (first or _exempt(verdict)) and not self.data else "late"

    def summary(self) -> dict[str, Any]:
        """Plain values for the index page and for ``--json``."""
        claims = [
            {**verdict.json(), "group": self.group(verdict), "commitment": self.committed(verdict)}
            for verdict in self.verdicts
        ]
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "about": self.experiment.about,
            "finding": self.finding,
            "scale": self.scale,
            "data": self.data,
            "runs": len(self.rows),
            "missing": len(self.rows.missing),
            "computed": self.computed,
            "reused": self.reused,
            "seconds": self.seconds,
            "tally": self.tally,
            "claims": claims,
            "failures": [{"setting": f.setting, "error": f.error} for f in self.failures],
            "software": dict(self.software),
            "command": self.command,
        }


def _exempt(verdict: Verdict) -> bool:
    """Whether nobody chose a threshold: a theorem that is checked exactly."""
    return isinstance(verdict.claim, Exact) and verdict.claim.group == "theorem"
