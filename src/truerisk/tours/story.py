"""The tour in sentences. Every number comes from the run, and every claim has a text for each outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truerisk import words
from truerisk.tours.act import Act
from truerisk.tours.costs import CODE, HOLD_OUT, POSTERIOR, PROGRESSIVE
from truerisk.tours.costs_words import tell_costs
from truerisk.tours.estimate import TWIN
from truerisk.tours.labels import Labels
from truerisk.tours.labels_words import tell_labels
from truerisk.tours.twin_words import tell_twin

if TYPE_CHECKING:
    from truerisk.tours.result import Tour

PARTS = {
    TWIN: "act 2 with its two PAC-Bayes bounds",
    PROGRESSIVE: "progressive validation",
    POSTERIOR: "the trained posterior",
    CODE: "the compressed network",
    HOLD_OUT: "the hold-out test",
}


@dataclass(frozen=True)
class Story:
    """The whole tour."""

    title: str
    headline: str
    lead: str
    acts: tuple[Act, ...]
    left_out: str
    verify: tuple[str, ...]


def tell(tour: Tour) -> Story:
    """The story of a tour."""
    subject, found = tour.subject, tour.labels
    acts = (
        tell_labels(found, subject.delta),
        tell_twin(tour.twin, tour.refusal),
        tell_costs(tour.costs, found, subject.delta),
    )
    return Story(
        title=f"{subject.model} on {subject.data} ({subject.n:,} examples)",
        headline=_headline(found),
        lead="truerisk certifies how often a network errs on unseen examples. Each certificate on this page is wrong "
        f"with probability at most {words.delta(subject.delta)}.",
        acts=acts,
        left_out=_left_out(tour.left_out),
        verify=tour.verify(),
    )


def _headline(found: Labels) -> str:
    """The finding. That a network learned is said only where it certainly beats the most common class."""
    if not found.apart:
        return "These certificates do not tell learning from memorizing."
    if not found.learned:
        return "Whether this network beats always giving the most common class stays open."
    if found.fitted:
        return "Two networks make no training error. Only one of them has learned."
    if found.random_labels.train_error > 0:
        return "This network learned the true labels and did not memorize all random ones."
    return "One network memorized random labels. The other learned the true ones."


def _left_out(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    listed = ", ".join(PARTS[name] for name in names)
    return f"Left out, by the estimate before the start, to stay within the time limit: {listed}."
