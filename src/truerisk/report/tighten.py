"""The page of ``truerisk tighten``: bounds before and after rescaling, for the user's own networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truerisk._version import __version__
from truerisk.atomic import write_atomically
from truerisk.errors import TrueriskError
from truerisk.pacbayes.columns import COLUMNS, FORMS
from truerisk.pacbayes.rescaling import NAMES, RescalingReport, Walked, says_nothing
from truerisk.pacbayes.rescaling_words import (
    CERTIFY,
    FORM_NAMES,
    MEANINGS,
    NOT_ONE,
    assumptions,
    headline,
    lifted,
    moving,
    no_command,
    number,
    pinned,
    setting,
)
from truerisk.report.certificate import templates
from truerisk.report.svg import shortened
from truerisk.report.tighten_figures import bounds_figure
from truerisk.report.tighten_walk import walk_figure
from truerisk.words import at_most, bound_percent, magnitude, nats, seen_percent

LETTERS = 20  # of a name in the table
WIDE, NARROW = 780, 340  # pixels: figures are drawn twice, so that their letters keep their size on a phone

RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


@dataclass(frozen=True)
class Shown:
    """A network of the page: its report, the command that certifies it ("": there is none), and its walk.

    Without a walk the network is in the figure and the table only.
    """

    report: RescalingReport
    certify: str = ""
    walked: Walked | None = None


def write_tighten(path: str | Path, networks: Sequence[Shown], command: str = "") -> Path:
    """Write the page to ``path``: one file that needs nothing else. ``command`` makes it again."""
    path = Path(path)
    write_atomically(path, render_tighten(networks, command).encode(errors="replace"))
    return path


def render_tighten(networks: Sequence[Shown], command: str = "") -> str:
    """The page as HTML, networks in the order of their size. All text is escaped."""
    if not networks:
        raise TrueriskError("there is no network to show; give at least one report.")
    networks = sorted(networks, key=lambda shown: shown.report.weights)
    reports = [shown.report for shown in networks]
    page: str = (
        templates()
        .get_template("tighten.html.j2")
        .render(
            headline=headline(reports),
            setting=setting(reports),
            hero=_hero(reports),
            forms=[FORM_NAMES[form] for form in FORMS],
            meanings=[(NAMES[column], MEANINGS[column]) for column in COLUMNS],
            rows=[_row(report) for report in reports],
            full=[_full(shown, place) for place, shown in enumerate(networks) if shown.walked is not None],
            assumptions=assumptions(reports),
            certify=[(shown.report.name, shown.certify, no_command(shown.report)) for shown in networks],
            why=f"{NOT_ONE} {CERTIFY}",
            command=command,
            version=__version__,
        )
    )
    return page


def _hero(reports: Sequence[RescalingReport]) -> dict[str, str]:
    told = "; ".join(
        f"{r.name} {number(r.bound['original'])} before and {number(r.bound['rescaled'])} after" for r in reports
    )
    return {
        "wide": bounds_figure(reports, WIDE),
        "narrow": bounds_figure(reports, NARROW),
        "alternative": f"Bounds of each network before and after rescaling: {told}. Bounds of 1 or more are vacuous.",
    }


def _row(report: RescalingReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "short": shortened(report.name, LETTERS),
        "weights": f"{report.weights:,}",
        "error": seen_percent(report.risk),
        "kls": [magnitude(report.kl["original"]), magnitude(report.kl["rescaled"])],
        "bounds": _cells(report.bound),
    }


def _cells(numbers: Mapping[str, float]) -> list[dict[str, Any]]:
    """The bounds of a form in the order of the columns."""
    return [{"value": number(numbers[column]), "vacuous": says_nothing(numbers[column])} for column in COLUMNS]


def _full(shown: Shown, place: int) -> dict[str, Any]:
    """All numbers of one network."""
    report, walked = shown.report, shown.walked
    assert walked is not None
    by_form = [_cells(report.bounds[form]) for form in FORMS]
    return {
        "name": report.name,
        "weights": f"{report.weights:,}",
        "error": seen_percent(report.risk),
        "error_upper": bound_percent(report.risk_upper),
        "columns": [
            {"name": NAMES[column], "kl": nats(report.kl[column]), "bounds": [cells[i] for cells in by_form]}
            for i, column in enumerate(COLUMNS)
        ],
        "figure": _walk(report, walked, place) if walked.steps else None,
        "sweeps": [nats(kl) for kl in report.best.kls],
        "moving": moving(report),
        "moved": report.moved.replace(" -", " \u2212") if report.best.free else "",
        "pinned": pinned(report),
        "lifted": lifted(report),
    }


def _power(words: str) -> str:
    """A number as pages write it.

    >>> _power("6e-16"), _power("0")
    ('6 \u00d7 10\u207b\u00b9\u2076', '0')
    """
    digits, e, power = words.partition("e")
    return f"{digits} \u00d7 10{power.lstrip('+').translate(RAISED)}" if e else words


def _walk(report: RescalingReport, walked: Walked, place: int) -> dict[str, str]:
    largest = _power(at_most(max(step.change for step in walked.steps)))
    return {
        "wide": walk_figure(report, walked, WIDE, f"walk-{place}-wide"),
        "narrow": walk_figure(report, walked, NARROW, f"walk-{place}-narrow"),
        "alternative": f"Along the orbit, the bound is smallest at the best rescaling, "
        f"{number(report.bound['rescaled'])}; outputs change by at most {largest} of the largest one.",
        "largest": largest,
        "examples": f"{len(report.inputs):,}",
    }
