"""The page of a tour: three acts, each one figure, two sentences and a line of code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from truerisk._version import __version__
from truerisk.atomic import write_atomically
from truerisk.report.certificate import templates
from truerisk.report.tour_figures import costs_figure, labels_figure, twin_figure
from truerisk.tours.costs_words import bound_text
from truerisk.tours.labels_words import interval
from truerisk.tours.numbers import seen, times_text
from truerisk.tours.result import Tour

WIDE, NARROW = 780, 340  # pixels: figures are drawn twice, so that their letters keep their size on a phone


def write_tour(tour: Tour, path: str | Path, folder: str | Path | None = None) -> Path:
    """Write the page of a tour to ``path``: one file that needs nothing else.

    ``folder``: where the tour was saved, for the commands of the page; without it OUT stands there.
    """
    path = Path(path)
    write_atomically(path, render_tour(tour, folder).encode())
    return path


def render_tour(tour: Tour, folder: str | Path | None = None) -> str:
    """The page as HTML. All text is escaped."""
    story, commands = tour.story, tour.story.verify if folder is None else tour.verify(str(folder))
    figures = (_labels(tour), _twin(tour), _costs(tour))
    page: str = (
        templates()
        .get_template("tour.html.j2")
        .render(
            story=story,
            acts=list(zip(story.acts, figures, strict=True)),
            version=__version__,
            commands=commands,
            general=folder is None,
        )
    )
    return page


def _drawn(alternative: str, draw: Any, found: Any) -> dict[str, str]:
    return {"alternative": alternative, "wide": draw(found, WIDE), "narrow": draw(found, NARROW)}


def _labels(tour: Tour) -> dict[str, str]:
    rows = (("true", tour.labels.true_labels), ("random", tour.labels.random_labels))
    told = " ".join(
        f"With {name} labels the training error is {seen(each.train_error)}, and the certified interval of the error "
        f"on unseen examples is {interval(each)}."
        for name, each in rows
    )
    return _drawn(f"One axis of error. {told} Guessing errs on {seen(tour.labels.chance)}.", labels_figure, tour.labels)


def _twin(tour: Tour) -> dict[str, str] | None:
    if tour.twin is None:
        return None
    told = "; ".join(f"{move.name} {times_text(move.ratio) if move.moved else 'unchanged'}" for move in tour.twin.moves)
    return _drawn(f"One line for each number, from the trained network to its twin: {told}.", twin_figure, tour.twin)


def _costs(tour: Tour) -> dict[str, str] | None:
    if not tour.costs.ranked:
        return None
    told = "; ".join(f"{each.title} {bound_text(each)}" for each in tour.costs.ranked)
    return _drawn(f"One bar for each method: {told}.", costs_figure, tour.costs)
