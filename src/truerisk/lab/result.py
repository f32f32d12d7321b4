"""What a run of an experiment gives back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from truerisk.lab.experiment import Experiment, Setting, Verdict
from truerisk.lab.rows import Rows


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

    def summary(self) -> dict[str, Any]:
        """Plain values for the index page and for ``--json``."""
        words = Counter(verdict.word for verdict in self.verdicts)
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "about": self.experiment.about,
            "scale": self.scale,
            "runs": len(self.rows),
            "missing": len(self.rows.missing),
            "computed": self.computed,
            "reused": self.reused,
            "seconds": self.seconds,
            "seen": words["seen again"],
            "not_seen": words["not seen again"],
            "not_checked": words["not checked"],
            "claims": [
                {
                    "name": verdict.claim.name,
                    "statement": verdict.claim.statement,
                    "source": verdict.claim.source,
                    "published": verdict.claim.published,
                    "threshold": verdict.claim.threshold,
                    "measured": verdict.measured,
                    "verdict": verdict.word,
                    "plain": verdict.plain,
                }
                for verdict in self.verdicts
            ],
            "failures": [{"setting": f.setting, "error": f.error} for f in self.failures],
            "software": dict(self.software),
            "command": self.command,
        }
