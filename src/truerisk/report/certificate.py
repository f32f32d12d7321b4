"""The page of one certificate: its story, laid out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from truerisk.atomic import write_atomically
from truerisk.certificates.record import Record
from truerisk.certificates.story import Story, tell
from truerisk.certificates.tale import Quantity
from truerisk.report.extra import extra
from truerisk.report.figures import bound_figure, segments

WIDE, NARROW = 780, 320  # pixels: the figure is drawn twice, so that its letters keep their size on a phone


def write_report(record: Record, path: str | Path, others: Sequence[Record] = ()) -> Path:
    """Write the page of a certificate to ``path``: one file that needs nothing else.

    ``others`` are records of other methods that share its delta; they get a table.
    """
    path = Path(path)
    write_atomically(path, render(record, others).encode())
    return path


def render(record: Record, others: Sequence[Record] = ()) -> str:
    """The page as HTML. All text of the record is escaped."""
    environment, story = templates(), tell(record)
    environment.filters["cell"] = _cell
    page: str = environment.get_template("certificate.html.j2").render(
        story=story,
        cards=(story.certificate, story.floor, story.seen),
        figure=_figure(story),
        methods=[story, *map(tell, others)] if others else [],
    )
    return page


def templates() -> Any:
    """Where pages come from; all text is escaped, and a name that is not given is an error."""
    jinja2 = extra("jinja2")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("truerisk.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _cell(value: str | Quantity) -> str:
    return value.percent if isinstance(value, Quantity) else value


def _figure(story: Story) -> dict[str, Any]:
    parts, total = segments(story), story.certificate.quantity.percent
    listed = "; ".join(f"{row['part']} {row['label']}" for row in parts)
    return {
        "wide": bound_figure(story, WIDE),
        "narrow": bound_figure(story, NARROW),
        "alternative": f"Two bars on one axis of risk. The certificate, {total}, consists of: {listed}. "
        f"The hold-out baseline is {story.floor.quantity.percent}.",
        "parts": parts,
        "total": total,
    }
