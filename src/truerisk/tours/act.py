"""One act of the tour in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Act:
    """One act: a question, the answer with its numbers, two or three sentences, and a line of code for one's own."""

    question: str
    answer: str
    text: tuple[str, ...]
    brief: str  # for the terminal
    code: str
    yours: str  # what the line of code gives
    caption: str
    notes: tuple[str, ...] = ()
    table: tuple[tuple[str, str, str], ...] = ()  # of act 1: a quantity, with true labels, with random labels
