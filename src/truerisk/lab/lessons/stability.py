"""The lesson of `stability`: twins that differ in one training example."""

from __future__ import annotations

from truerisk.lab.figure import Exhibit
from truerisk.lab.lesson import Finding, Lesson, Question
from truerisk.lab.rows import Rows


def figures(rows: Rows) -> list[Exhibit]:
    return []


LESSON = Lesson(
    figures=figures,
    findings=(Finding(("distance-halves",), "Yes.", "No.", "Not settled."),),
    questions=(Question("Is it so?", "truerisk lab run stability"),),
)
