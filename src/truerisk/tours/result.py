"""The result of a tour: three acts in numbers, the story that they tell, and the certificates as files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from functools import cached_property
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk._version import __version__
from truerisk.atomic import write_atomically
from truerisk.certificates.given import Given
from truerisk.tours.costs import OPTIONS, Costs
from truerisk.tours.labels import DATA_FILE, RANDOM, TRUE, Labels
from truerisk.tours.twin import Twin

if TYPE_CHECKING:
    from truerisk.tours.story import Story

FOLDER, NUMBERS = "tour", "tour.json"
OUT = "OUT"  # stands for where a tour was saved


@dataclass(frozen=True)
class Subject:
    """The network and the data of a tour, in words, and what ``verify`` must be given of them."""

    model: str
    data: str
    n: int
    classes: int
    delta: float
    seed: int
    given: Given = field(default_factory=Given)


@dataclass(frozen=True)
class Tour:
    """What a tour found. ``twin`` is None where it was left out, to stay within the limit of time, or refused.

    ``refusal`` says why a network has no twin. ``save`` writes the numbers and the certificates.
    """

    subject: Subject
    labels: Labels
    twin: Twin | None
    costs: Costs
    left_out: tuple[str, ...] = ()
    refusal: str = ""
    seconds: float = 0.0
    files: dict[str, bytes] = field(default_factory=dict, repr=False)  # certificates, by path under FOLDER

    @cached_property
    def story(self) -> Story:
        """The tour in sentences."""
        from truerisk.tours.story import tell

        return tell(self)

    def verify(self, folder: str = OUT) -> tuple[str, ...]:
        """The commands, or calls in Python, that check the certificates after ``save(folder)``."""
        given, place = self.subject.given, f"{folder}/{FOLDER}"
        lines = [given.verify(f"{place}/{TRUE}")]
        if DATA_FILE in self.files:
            made = replace(given, data=f"{place}/{DATA_FILE}", data_dir=None)
            lines.append(made.verify(f"{place}/{RANDOM}"))
        saved = [each.name for each in self.costs.ranked if each.saved]
        return (*lines, *(given.verify(f"{place}/{name}") for name in saved))

    def to_json(self) -> dict[str, Any]:
        """Plain values: what ``truerisk tour --json`` prints."""
        labels = self.labels.to_json()
        return {
            "true_labels": labels["true_labels"],
            "random_labels": labels["random_labels"],
            "chance": self.labels.chance,
            "majority": self.labels.majority,
            "attempts": self.labels.attempts,
            "twin": None if self.twin is None else self.twin.to_json(),
            "methods": self.costs.to_json(),
            "default_method": self.costs.default,
            "left_out": list(self.left_out),
            "model": self.subject.model,
            "data": self.subject.data,
            "n": self.subject.n,
            "delta": self.subject.delta,
            "seed": self.subject.seed,
            "version": __version__,
        }

    def save(self, folder: str | Path) -> Path:
        """Write the certificates, which ``verify`` checks, and ``tour.json``; return where that is.

        ``truerisk.report.write_tour(tour, path)`` writes the page.
        """
        folder = Path(folder)
        (folder / NUMBERS).unlink(missing_ok=True)  # it comes last, so that a tour is never half there
        for name in (TRUE, RANDOM, *OPTIONS):  # an earlier tour may have had more parts
            shutil.rmtree(folder / FOLDER / name, ignore_errors=True)
        (folder / FOLDER / DATA_FILE).unlink(missing_ok=True)
        for name, content in self.files.items():
            write_atomically(folder / FOLDER / name, content)
        write_atomically(folder / NUMBERS, (dumps(self.to_json(), indent=2, allow_nan=False) + "\n").encode())
        return folder / NUMBERS
