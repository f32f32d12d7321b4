"""Ten figures of the lab for the manual: docs/gallery.rst and its pictures, from the records of a run of everything.

Run it with ``make gallery`` (about half an hour on two cores if nothing was run before, seconds afterwards), or after

    truerisk lab run --all --out runs

with ``python -m benchmarks.gallery runs``. Nothing is computed here: a figure is drawn as its page draws it. Of a
figure with a slider, the value that ``CHOSEN`` names is shown.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.verdicts import plain
from truerisk import lab
from truerisk.atomic import write_atomically
from truerisk.lab import Figure, Result
from truerisk.report.lab.figures import static_svg
from truerisk.report.lab.keys import FACET
from truerisk.report.lab.rows import drawable

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures" / "gallery"
WIDTH, WIDE = 720, 1040  # pixels: of a figure, and of one with many panels
MANY = 3  # panels


class Chosen(NamedTuple):
    """A figure of an experiment, and the value of its slider that is shown (None: the first)."""

    experiment: str
    figure: str
    at: object = None

    @property
    def file(self) -> str:
        return f"{self.experiment}-{self.figure}.svg"


CHOSEN = (
    Chosen("random-labels", "errors"),
    Chosen("convex-regularization", "curve", 15),
    Chosen("rademacher", "complexity"),
    Chosen("shattering", "lines-3"),
    Chosen("memorizer", "broken-line", 32),
    Chosen("easy-examples", "easy-examples"),
    Chosen("critical-samples", "plane"),
    Chosen("memory-regularizers", "dropout"),
    Chosen("rescaling-bounds", "bounds"),
    Chosen("predictiveness", "one-at-a-time"),
)


def main(folder: str) -> None:
    """Draw all figures and write the page that shows them."""
    lines = [
        "Gallery of the lab",
        "==================",
        "",
        "Ten figures of the lab's pages at quick scale, with the headline of the page that each one is from. ``make",
        "gallery`` draws them anew from stored runs; on the pages themselves legends, sliders, and tooltips work.",
        "",
    ]
    for chosen in CHOSEN:
        result = lab.run(chosen.experiment, engine="inline", out=folder)
        figure = find(result, chosen)
        write_atomically(PICTURES / chosen.file, drawn(figure, chosen).encode())
        lines += section(result, figure, chosen)
    write_atomically(DOCS / "gallery.rst", ("\n".join(lines)).encode())
    print(f"{len(CHOSEN)} figures: {DOCS / 'gallery.rst'}")


def find(result: Result, chosen: Chosen) -> Figure:
    """The figure, from the runs or from the demo."""
    lesson = result.experiment.lesson
    assert lesson is not None
    every = [*lesson.figures(result.rows), *(lesson.pictures(dict(result.demo or {})) if lesson.pictures else [])]
    return next(each for each in every if isinstance(each, Figure) and each.name == chosen.figure)


def drawn(figure: Figure, chosen: Chosen) -> str:
    """The figure on white paper, without its title: the manual has its own."""
    if figure.slider and chosen.at is not None:
        field, at = figure.slider.field, chosen.at
        some = {"rows": figure.rows, "dots": figure.dots}
        kept = {name: [row for row in rows if row.get(field, at) == at] for name, rows in some.items()}
        figure = replace(figure, **kept)
    shown = drawable(figure)
    width = WIDE if len(shown.values(FACET)) > MANY else WIDTH
    return static_svg(figure, shown, width, medium="file").replace("\n", "") + "\n"


def section(result: Result, figure: Figure, chosen: Chosen) -> list[str]:
    """A heading, the picture, its caption, and the command that makes its page."""
    title = f"{figure.title.rstrip('.')}"
    return [
        title,
        "-" * len(title),
        "",
        f"*{plain(result.finding)}*",
        "",
        f".. image:: pictures/gallery/{chosen.file}",
        f"   :alt: {figure.title}",
        f"   :width: {picture_width(chosen)}px",
        "",
        plain(" ".join(filter(None, [figure.caption, drawable(figure).sentence]))),
        f"(``truerisk lab run {chosen.experiment}``)",
        "",
    ]


def picture_width(chosen: Chosen) -> int:
    """The width of a picture as it was drawn: squares are not stretched."""
    found = re.match(r'<svg[^>]*? width="([\d.]+)"', (PICTURES / chosen.file).read_text())
    assert found is not None
    return round(float(found[1]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs")
