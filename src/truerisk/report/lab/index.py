"""The page over all experiments: the scoreboard, then a card for each experiment, then every claim in words."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

from truerisk.atomic import write_atomically
from truerisk.lab.tally import headline
from truerisk.report.certificate import templates
from truerisk.report.lab.palette import LEVELS_ON_DARK, LEVELS_ON_LIGHT, ON_DARK, ON_LIGHT
from truerisk.report.lab.picture import number
from truerisk.report.lab.scoreboard import (
    Entry,
    Summary,
    board,
    chance,
    counted,
    entries,
    in_words,
    key,
    link,
    minus,
    text,
)
from truerisk.report.lab.words import duration, runs

LARGEST = 400_000  # bytes of a hero figure
SVG = "http://www.w3.org/2000/svg"


def write_index(summaries: Sequence[Summary], path: str | Path) -> Path:
    """Write the page over all experiments to ``path``; it needs no JavaScript."""
    path = Path(path)
    write_atomically(path, render_index(summaries).encode())
    return path


def render_index(summaries: Sequence[Summary]) -> str:
    """The page as HTML. All text is escaped."""
    found = entries(summaries)
    scales = {text(summary.get("scale")) for summary in summaries}
    page: str = (
        templates()
        .get_template("lab_index.html.j2")
        .render(
            headline=headline(counted(found)),
            scale=scales.pop() if len(scales) == 1 else "",
            board=board(found),
            key=key(),
            chance=chance(found),
            cards=[_card(summary) for summary in summaries],
            claims=in_words(found),
            total=len(found),
        )
    )
    return page


def _card(summary: Summary) -> dict[str, Any]:
    own = entries([summary])
    counts, finding = headline(counted(own)), minus(text(summary.get("finding")))
    return {
        "title": text(summary.get("title")) or "(no title)",
        "page": link(summary),
        "hero": picture_of(summary.get("hero")),
        "finding": finding or counts,
        "counts": counts if finding not in ("", counts) else "",
        "signs": _signs(own),
        "size": _size(summary),
    }


def _signs(own: Sequence[Entry]) -> list[Entry]:
    """One sign for each claim: groups are never counted together."""
    return sorted(own, key=lambda entry: ("yes", "exact", "no", "open").index(entry.sign))


def _size(summary: Summary) -> str:
    scale, data = text(summary.get("scale")), text(summary.get("data"))
    count, gone, seconds = (number(summary.get(name)) for name in ("runs", "missing", "seconds"))
    parts = [
        runs(int(count)) if count is not None else "",
        f"{int(gone):,} missing" if gone else "",
        f"{duration(seconds)} of computing" if seconds is not None else "",
    ]
    where = " ".join(filter(None, [f"{scale} scale" if scale else "", f"on {data}" if data else ""]))
    done = ", ".join(filter(None, parts))
    line = f"{where}: {done}" if where and done else where or done
    return line[:1].upper() + line[1:]


def picture_of(svg: Any) -> str:
    """A stored SVG as the address of an image, in which nothing can run or be fetched; "" if it is not one.

    >>> picture_of("<svg><script>"), picture_of(None), picture_of("<html xmlns='http://www.w3.org/1999/xhtml'/>")
    ('', '', '')
    """
    if not isinstance(svg, str) or len(svg) > LARGEST or "<!" in svg:  # no entities, which could grow without end
        return ""
    drawn = svg[max(svg.find("<svg"), 0) :]  # without a declaration of its encoding
    content = drawn.replace(">", f"><style>{_dark_colors()}</style>", 1).encode("utf-8", "replace")
    if len(content) > LARGEST or not _is_svg(content):
        return ""
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"


def _dark_colors() -> str:
    """An image does not see the style sheet of its page: the colors for dark paper must be in it."""
    pairs = zip((*ON_LIGHT, *LEVELS_ON_LIGHT), (*ON_DARK, *LEVELS_ON_DARK), strict=True)
    rules = "".join(f'[fill="{a}"]{{fill:{b}}}[stroke="{a}"]{{stroke:{b}}}' for a, b in pairs)
    ink = 'text[fill="#808080"]{fill:%s}[fill="#fdfdfb"]{fill:%s}[stroke="#fdfdfb"]{stroke:%s}'
    light, dark = ink % ("#565b63", "#f4f4ef", "#f4f4ef"), ink % ("#a9adb5", "#1e2127", "#1e2127")
    return f"{light}@media (prefers-color-scheme: dark){{{rules}{dark}}}"


def _is_svg(content: bytes) -> bool:
    """Whether a browser will draw it: one that is not well-formed would be shown as a broken image."""
    roots: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = lambda name, _: roots.append(name) if not roots else None
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError):
        return False
    return roots == [f"{SVG} svg"]
