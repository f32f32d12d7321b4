"""The page of one certificate: its story, laid out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from truerisk.atomic import write_atomically
from truerisk.certificates.given import Commands
from truerisk.certificates.record import Record
from truerisk.certificates.story import Story, tell
from truerisk.certificates.tale import Quantity
from truerisk.report.extra import extra
from truerisk.report.figures import bound_figure, segments
from truerisk.report.scale import Scale, scale_svg

WIDE, NARROW = 780, 320  # pixels: each figure is drawn twice, so that its letters keep their size on a phone


def write_report(
    record: Record, path: str | Path, others: Sequence[Record] = (), check: Commands | None = None
) -> Path:
    """Write the page of a certificate to ``path``: one file that needs nothing else.

    ``others`` are records of other methods that share its delta; they get a table. ``check``: how to verify it, as
    ``cert.commands(folder)`` says; without it the page names files and folders in general.
    """
    path = Path(path)
    write_atomically(path, render(record, others, check).encode())
    return path


def render(record: Record, others: Sequence[Record] = (), check: Commands | None = None) -> str:
    """The page as HTML. All text of the record is escaped."""
    environment, story = templates(), tell(record, check)
    scale = scale_of(story)
    environment.filters["cell"] = _cell
    page: str = environment.get_template("certificate.html.j2").render(
        story=story,
        cards=[line for line in (story.certificate, story.lower, story.seen, story.floor) if line is not None],
        hero={"wide": scale_svg(scale, WIDE), "narrow": scale_svg(scale, NARROW)},
        figure=_figure(story),
        methods=[story, *map(tell, others)] if others else [],
    )
    return page


def scale_of(story: Story) -> Scale:
    """The certificate on a scale from 0 to guessing, without a baseline that is printed as the same number."""
    certificate, baseline = story.certificate.quantity, story.floor.quantity
    return Scale(
        chance=story.chance,
        upper=certificate.value,
        lower=story.lower.quantity.value if story.lower else None,
        observed=story.seen.quantity.value,
        baseline=None if baseline.percent == certificate.percent else baseline.value,
        training=story.training.quantity.value if story.training else None,
    )


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
