"""What the page of an experiment teaches: its finding, figures, pictures of data, and questions for a class.

An experiment (grid, task, claims) knows nothing of its page. The lesson of a built-in experiment is
``lab/lessons/NAME.py``; a file of your own gives its lesson to `Experiment`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Exhibit
from truerisk.lab.rows import Rows

if TYPE_CHECKING:
    from truerisk.lab.verdict import Verdict

UNSETTLED = ("incomplete", "diverged", "broken", "changed", "smoke", "one seed", "no spread")


@dataclass(frozen=True)
class Finding:
    """The headline of a page: one sentence for each verdict, so that no page claims what was not found.

    ``claims`` names the claims that it rests on. If all of them are reproduced (or exact), the first sentence is used;
    if one is not, the second; else the third. ``{0.mean}``, ``{0.low}``, ``{0.high}`` are numbers of the first claim's
    decisive cell with their unit, ``{0.cell}`` is its name, ``{0.threshold}`` the threshold. At most 14 words each.
    """

    claims: tuple[str, ...]
    reproduced: str
    not_reproduced: str
    no_verdict: str

    def applies(self, verdicts: Mapping[str, Verdict]) -> bool:
        """Whether all its claims say something at this scale."""
        return all(name in verdicts for name in self.claims)

    def sentence(self, verdicts: Mapping[str, Verdict]) -> str:
        """The sentence that these verdicts allow."""
        found = [verdicts[name] for name in self.claims]
        unsettled = next((one for one in found if one.word == "no verdict" and one.reason in UNSETTLED), None)
        if unsettled is not None:
            return unsettled.sentence
        words = {one.word for one in found}
        text = self.no_verdict if "no verdict" in words else self.reproduced
        text = self.not_reproduced if "not reproduced" in words else text
        try:
            return text.format(*map(Told, found))
        except (AttributeError, IndexError, KeyError, ValueError):  # numbers that the claims do not have
            return found[0].sentence


class Told:
    """The numbers of a verdict in words, for the sentences of a `Finding`."""

    def __init__(self, verdict: Verdict) -> None:
        self.threshold = verdict.claim.threshold
        self.detail, self.cell = verdict.detail, verdict.decisive.name if verdict.decisive else ""
        unit = getattr(getattr(verdict.claim, "wants", None), "unit", None)
        found = verdict.decisive.interval if verdict.decisive else None
        if unit is not None and found is not None:
            self.mean, self.low, self.high = (unit.say(end) for end in (found.mean, found.low, found.high))
            if found.censored:  # some runs stopped at their limit
                self.mean = f"over {self.mean}"


@dataclass(frozen=True)
class Question:
    """A question for a class, and the command that answers it."""

    asks: str
    command: str

    def __post_init__(self) -> None:
        if not self.asks.endswith("?"):
            raise TrueriskError(f"the question {self.asks!r} has no question mark; end it with one.")


@dataclass(frozen=True)
class Formula:
    """A formula in TeX, typeset on the page, and what it says in one sentence."""

    tex: str
    says: str


@dataclass(frozen=True)
class Lesson:
    """The page of an experiment.

    ``figures`` turns runs into exhibits; runs that are missing leave gaps. ``hero`` names the one on the first screen.
    ``demo`` is one more task: it gets the first setting of the grid (so it sees a user's own data, where the experiment
    takes them) and returns plain JSON, stored like a run; ``pictures`` turns that into exhibits, images of data mostly.
    ``findings``: the first one whose claims all speak at the scale is the headline.
    """

    figures: Callable[[Rows], Sequence[Exhibit]]
    hero: str = ""  # "": the first figure
    findings: tuple[Finding, ...] = ()
    demo: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    pictures: Callable[[dict[str, Any]], Sequence[Exhibit]] | None = None
    questions: tuple[Question, ...] = ()
    formulas: tuple[Formula, ...] = ()

    def __post_init__(self) -> None:
        if (self.demo is None) != (self.pictures is None):
            raise TrueriskError("a lesson has a demo without pictures, or pictures without a demo; give both.")
