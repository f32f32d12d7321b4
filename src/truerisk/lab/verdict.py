"""`judge`: from a claim and its runs to a verdict. The verdict is where the interval lies.

*Reproduced*: the interval of every cell lies inside the claim's region (each at 95%, so that a false "all inside" has
at most 2.5% on either side: an intersection-union test needs no correction). *Not reproduced*: some cell's interval
lies outside, corrected for the number of cells (`interval.refuted`). *No verdict* otherwise, with the reason. *Exact*:
a count or a theorem that holds. One rule serves thresholds ("at least") and equivalence ("between") alike.
"""

from __future__ import annotations

import math
import traceback
from dataclasses import dataclass, replace
from typing import Any, Literal

from truerisk.errors import TrueriskError
from truerisk.lab.cells import Cell, cells, refuse_fields
from truerisk.lab.claim import AnyClaim, Claim, Exact
from truerisk.lab.commitment import Commitment
from truerisk.lab.effect import Above
from truerisk.lab.interval import doubt, inside, refuted, seeds_needed
from truerisk.lab.rows import DivergedError, IncompleteError, Rows

Word = Literal["reproduced", "not reproduced", "no verdict", "exact"]
Reason = Literal["", "straddles", "one seed", "no spread", "incomplete", "diverged", "broken", "smoke", "changed"]


@dataclass(frozen=True)
class Verdict:
    """A claim together with what was found; sentences, JSON, and pictures follow from these fields alone."""

    claim: AnyClaim
    word: Word
    reason: Reason = ""
    detail: str = ""  # what is missing or broken; for an exact claim, the numbers that say so
    cells: tuple[Cell, ...] = ()
    decisive: Cell | None = None  # the cell nearest to the threshold, or farthest beyond it
    needed: int | None = None  # seeds that would settle it at today's spread
    commitment: Commitment | None = None

    @property
    def measured(self) -> str:
        """The decisive cell's mean with its interval."""
        if isinstance(self.claim, Exact) or self.decisive is None:
            return self.detail
        return f"{_reading(self.claim, self.decisive)}{self._which}"

    @property
    def sentence(self) -> str:
        """One sentence for people."""
        threshold = f"the threshold is {self.claim.threshold}"
        if self.word != "no verdict":
            return f"{self.word.capitalize()}: {self.measured}; {threshold}."
        if self.reason in ("incomplete", "diverged", "broken", "changed"):
            return f"No verdict: {self.detail}."
        if self.reason == "smoke":
            return "No verdict: a smoke run only shows that the program works."
        if self.reason == "one seed":
            return f"No verdict: {self.measured}; with one seed its spread is unknown."
        if self.reason == "no spread":
            return f"No verdict: {self.measured}; all seeds agree exactly, so give the claim counted_on."
        settle = f"; about {self.needed} new seeds would settle it" if self.needed else ""
        if self._outside:
            return (
                f"No verdict: {self.measured} misses {self.claim.threshold}, but not clearly enough for so many cells."
            )
        return f"No verdict: {self.measured} is too close to the threshold, {self.claim.threshold}{settle}."

    @property
    def _outside(self) -> bool:
        """Whether the decisive cell alone would refute the claim: not enough where there are many."""
        found = self.decisive.interval if self.decisive else None
        return isinstance(self.claim, Claim) and found is not None and refuted([doubt(found, self.claim.wants)])

    @property
    def _which(self) -> str:
        name = self.decisive.name if self.decisive else ""
        if len(self.cells) < 2 or not name:
            return ""
        if self.reason in ("one seed", "no spread"):
            return f" in {name}"
        which = "nearest" if self.word != "not reproduced" else "farthest"
        return f" in {name} ({which} of {len(self.cells)} cells)"

    def json(self) -> dict[str, Any]:
        """Numbers, not prose; `sentence` is added for readers of the index."""
        claim, region = self.claim, getattr(self.claim, "wants", None)
        return {
            "name": claim.name,
            "says": claim.says,
            "whose": claim.whose.kind,
            "source": claim.whose.cited,
            "group": claim.group,
            "published": claim.published,
            "published_at": claim.published_at,
            "unit": region.unit.name if region else None,
            "log": region.unit.log if region else None,
            "factor": region.unit.factor if region else None,
            "wants": [_finite(region.low), _finite(region.high)] if region else None,
            "threshold": claim.threshold,
            "pilot": claim.pilot,
            "note": claim.note,
            "verdict": self.word,
            "reason": self.reason,
            "detail": self.detail,
            "needed": self.needed,
            "cells": [_cell_json(cell) for cell in self.cells],
            "decisive": self.cells.index(self.decisive) if self.decisive else None,
            "committed": self.commitment.json() if self.commitment else None,
            "measured": self.measured,
            "sentence": self.sentence,
        }


def judge(claim: AnyClaim, rows: Rows, scale: str, commitment: Commitment | None = None) -> Verdict:
    """The verdict on a claim. A slip in an effect must not cost hours of computing: it is told in the verdict."""
    if commitment is not None and commitment.changed:
        return Verdict(claim, "no verdict", "changed", commitment.changed, commitment=commitment)
    try:
        if isinstance(claim, Exact):
            verdict = _check(claim, rows)
        else:
            verdict = _weigh(claim, tuple(cells(claim, rows, commitment.seeds if commitment else None)))
    except DivergedError as error:
        verdict = Verdict(claim, "no verdict", "diverged", str(error))
    except IncompleteError as error:
        verdict = Verdict(claim, "no verdict", "incomplete", str(error))
    except TrueriskError as error:
        verdict = Verdict(claim, "no verdict", "broken", str(error).rstrip("."))
    except Exception as error:
        said = f"the effect itself failed in line {line_of(error)} ({type(error).__name__}: {error})"
        verdict = Verdict(claim, "no verdict", "broken", said)
    if scale == "smoke" and verdict.reason != "broken":
        return Verdict(claim, "no verdict", "smoke", verdict.detail, verdict.cells, commitment=commitment)
    return replace(verdict, commitment=commitment)


def line_of(error: BaseException) -> int:
    """The line at which an error arose."""
    return traceback.extract_tb(error.__traceback__)[-1].lineno or 0


def _check(claim: Exact, rows: Rows) -> Verdict:
    """All runs must be there: a theorem is not checked on survivors."""
    refuse_fields(claim.name, claim.where, rows)
    chosen = rows.where(**claim.where)
    chosen.complete("the claim")
    found = claim.check(chosen)
    if not isinstance(found.holds, bool):
        raise TrueriskError(f"the check of {claim.name} answered {found.holds!r}; use bool(...).")
    return Verdict(claim, "exact" if found.holds else "not reproduced", detail=found.measured)


def _weigh(claim: Claim, found: tuple[Cell, ...]) -> Verdict:
    alone = next((cell for cell in found if cell.interval is None), None)
    if alone is not None:
        return Verdict(claim, "no verdict", "one seed", "", found, alone)
    region = claim.wants
    intervals = [(cell, cell.interval) for cell in found if cell.interval is not None]
    doubts = [doubt(each, region) for _, each in intervals]
    if refuted(doubts):
        worst = min(range(len(found)), key=lambda i: (doubts[i], -_distance(found[i], claim)))
        return Verdict(claim, "not reproduced", "", "", found, found[worst])
    nearest = max(intervals, key=lambda pair: _overhang(pair[0], claim))
    if all(inside(each, region) for _, each in intervals):
        return Verdict(claim, "reproduced", "", "", found, nearest[0])
    return Verdict(claim, "no verdict", "straddles", "", found, nearest[0], seeds_needed(nearest[1], region))


def _overhang(cell: Cell, claim: Claim) -> float:
    """How far an interval reaches beyond the region, on the unit's scale; negative where it lies inside."""
    each, region = cell.interval, claim.wants
    assert each is not None
    read = math.log if region.unit.log else float
    gaps = []
    if math.isfinite(region.low) and not (region.unit.log and region.low <= 0):
        gaps.append(read(region.low) - read(each.low) if not region.unit.log or each.low > 0 else math.inf)
    if math.isfinite(region.high):
        gaps.append(read(each.high) - read(region.high) if math.isfinite(each.high) else math.inf)
    return max(gaps)


def _distance(cell: Cell, claim: Claim) -> float:
    """How far a mean lies from the region."""
    assert cell.interval is not None
    return max(claim.wants.low - cell.interval.mean, cell.interval.mean - claim.wants.high)


def _reading(claim: Claim, cell: Cell) -> str:
    unit, found = claim.wants.unit, cell.interval
    if found is None:
        [value] = cell.values.values()
        return f"over {unit.say(value.value)}" if isinstance(value, Above) else unit.say(value)
    if found.censored:
        return f"over {unit.say(found.mean)} (95%: at least {unit.number(found.low)}, {found.seeds} seeds)"
    return f"{unit.say(found.mean)} ({unit.number(found.low)} to {unit.number(found.high)}, {found.seeds} seeds)"


def _cell_json(cell: Cell) -> dict[str, Any]:
    found = cell.interval
    return {
        "where": dict(cell.where),
        "rival": cell.rival,
        "seeds": {str(seed): v.value if isinstance(v, Above) else float(v) for seed, v in cell.values.items()},
        "above": [seed for seed, value in cell.values.items() if isinstance(value, Above)],
        "mean": found.mean if found else None,
        "low": _finite(found.low) if found else None,
        "high": _finite(found.high) if found else None,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
