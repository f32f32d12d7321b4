"""The page over all experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from truerisk.atomic import write_atomically
from truerisk.lab.tally import added, headline
from truerisk.report.certificate import templates
from truerisk.report.lab.page import PALETTE
from truerisk.report.lab.words import duration, first_sentence, runs

Summary = Mapping[str, Any]  # as made by Result.summary(), and "page": a relative link


def write_index(summaries: Sequence[Summary], path: str | Path) -> Path:
    """Write the page over all experiments to ``path``; it needs no JavaScript."""
    path = Path(path)
    write_atomically(path, render_index(summaries).encode())
    return path


def render_index(summaries: Sequence[Summary]) -> str:
    """The page as HTML. All text is escaped."""
    found = added(summary["tally"] for summary in summaries)
    page: str = (
        templates()
        .get_template("lab_index.html.j2")
        .render(
            headline=headline(found),
            tally=found,
            palette=PALETTE,
            cards=[_card(summary) for summary in summaries],
            failed=_claims(summaries, "not reproduced"),
            undecided=_claims(summaries, "no verdict"),
        )
    )
    return page


def _card(summary: Summary) -> dict[str, Any]:
    own = f" on {summary['data']}" if summary.get("data") else ""
    gone = f", {summary['missing']:,} missing" if summary["missing"] else ""
    done = f"{runs(summary['runs'])}{gone}, {duration(summary['seconds'])} of computing"
    return {
        "title": summary["title"],
        "page": _link(summary),
        "about": first_sentence(summary["about"]),
        "tally": summary["tally"],
        "words": headline(summary["tally"]),
        "size": f"{summary['scale']} scale{own}: {done}",
    }


def _claims(summaries: Sequence[Summary], word: str) -> list[dict[str, Any]]:
    """All claims with this verdict, each with its experiment and one sentence."""
    return [
        {"claim": claim, "summary": summary, "page": _link(summary)}
        for summary in summaries
        for claim in summary["claims"]
        if claim["verdict"] == word
    ]


def _link(summary: Summary) -> str:
    """Relative, whatever the name is: a colon would make it an address of another kind."""
    return quote(summary["page"])
