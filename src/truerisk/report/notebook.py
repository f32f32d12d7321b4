"""A certificate in a notebook: one small piece of HTML that needs nothing else, and runs nothing."""

from __future__ import annotations

from html import escape
from importlib.util import find_spec

from truerisk.certificates.record import Record
from truerisk.certificates.story import Story, tell

WIDTH = 640  # pixels


def html(record: Record) -> str:
    """The sentence with a picture, or with a table where the extra that draws pages is not installed."""
    story = tell(record)
    subtitle = f"<p>{escape(story.subtitle)}</p>" if story.subtitle else ""
    shown = _picture(story) if find_spec("jinja2") else _table(story)
    about = f"{story.method}: {story.title}"
    return f"<div><p><strong>{escape(story.headline)}</strong></p>{subtitle}{shown}<p>{escape(about)}</p></div>"


def _picture(story: Story) -> str:
    from truerisk.report.certificate import scale_of
    from truerisk.report.scale import scale_svg

    picture = scale_svg(scale_of(story), WIDTH)
    return f'<div style="max-width: {WIDTH}px; background: #ffffff; padding: 8px">{picture}</div>'


def _table(story: Story) -> str:
    lines = [line for line in (story.certificate, story.lower, story.seen, story.floor) if line is not None]
    rows = (
        f"<tr><th>{escape(line.label)}</th><td>{escape(line.quantity.percent)}</td><td>{escape(line.meaning)}</td></tr>"
        for line in lines
    )
    return f"<table>{''.join(rows)}</table>"
