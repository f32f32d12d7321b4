"""The page of one experiment: its lesson."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from truerisk.atomic import write_atomically
from truerisk.lab.catalogue import names
from truerisk.lab.claim import Claim
from truerisk.lab.effect import Above
from truerisk.lab.lesson import Formula
from truerisk.lab.result import Result
from truerisk.lab.scales import SCALES
from truerisk.lab.tally import headline
from truerisk.lab.verdict import Verdict
from truerisk.report.certificate import templates
from truerisk.report.extra import extra
from truerisk.report.lab.exhibits import Shown, shown
from truerisk.report.lab.palette import LEVELS_ON_DARK, LEVELS_ON_LIGHT, ON_DARK, ON_LIGHT
from truerisk.report.lab.picture import picture
from truerisk.report.lab.words import facts, minus, missing, one_line

SIGNS = {
    "reproduced": {"sign": "\u2713", "css": "yes"},
    "exact": {"sign": "=", "css": "yes"},
    "not reproduced": {"sign": "\u2717", "css": "no"},
    "no verdict": {"sign": "\u2013", "css": "open"},
}
PALETTE = tuple(zip(ON_LIGHT + LEVELS_ON_LIGHT, ON_DARK + LEVELS_ON_DARK, strict=True))


def write_lab(result: Result, path: str | Path, index: str = "") -> Path:
    """Write the page of an experiment's result to ``path``: one file that needs nothing else.

    ``index``: a relative link to the page over all experiments, if there is one.
    """
    path = Path(path)
    write_atomically(path, render_lab(result, index).encode())
    return path


def render_lab(result: Result, index: str = "", page: Shown | None = None) -> str:
    """The page as HTML. All text is escaped; figures are drawn by JavaScript that the page carries."""
    environment = templates()
    environment.filters |= {"setting": one_line, "minus": minus}
    page, lesson = page or shown(result), result.experiment.lesson
    text: str = environment.get_template("lab.html.j2").render(
        result=result,
        index=quote(index),
        experiment=result.experiment,
        finding=result.finding,
        counts=headline(result.tally),
        claims=[_claim(result, verdict, page) for verdict in result.verdicts],
        signs_of={verdict.claim.name: SIGNS[verdict.word] for verdict in result.verdicts},
        missing=" ".join(filter(None, [missing(result), *(f"{t[0].upper()}{t[1:]}." for t in page.trouble)])),
        scale=SCALES[result.scale] if result.experiment.name in names() else "",
        signs=SIGNS,
        palette=PALETTE,
        page=page,
        alternatives={each["name"]: _alternative(each, result) for each in page.numbered},
        clickable=any(data["clickable"] for data in page.live),
        questions=lesson.questions if lesson else (),
        formulas=[(_mathml(formula), formula.says) for formula in (lesson.formulas if lesson else ())],
        facts=facts(result),
        figures=json_in_html(page.live) if page.live else "",
        vega=vega() if page.live else "",
        notice=notice() if page.live else "",
    )
    return text


def _claim(result: Result, verdict: Verdict, page: Shown) -> dict[str, Any]:
    """A claim as the template needs it: its picture, its figure, and a row for each of its cells."""
    claim, cells = verdict.claim, []
    if isinstance(claim, Claim):
        number = claim.wants.unit.number
        for cell in verdict.cells:
            found = cell.interval
            values = [number(v.value if isinstance(v, Above) else v) for v in cell.values.values()]
            ends = (number(found.mean), number(found.low), number(found.high)) if found else ("", "", "")
            cells.append((cell.name or "all runs", *ends, ", ".join(values)))
    committed = result.committed(verdict)
    return {
        "claim": claim,
        "verdict": verdict,
        "picture": picture(verdict),
        "figure": page.figure_of(claim.name),
        "cells": cells,
        "suffix": claim.wants.unit.suffix.strip() if isinstance(claim, Claim) else "",
        "committed": committed[:1].upper() + committed[1:],
        "restated": verdict.commitment.restated if verdict.commitment else (),
        "said": verdict.commitment.said if verdict.commitment else "",
    }


def _alternative(exhibit: dict[str, Any], result: Result) -> str:
    """What a reader who does not see a figure is told: its title, and what its claims came to."""
    told = [v.sentence for v in result.verdicts if v.claim.name in exhibit["claims"]]
    return " ".join([f"{exhibit['title'].rstrip('.?')}.", *(told or [exhibit["caption"]])])


def _mathml(formula: Formula) -> str:
    """The formula as MathML, which browsers typeset without help; TeX that cannot be read stays as it is."""
    converter = extra("latex2mathml.converter")
    try:
        made: str = converter.convert(formula.tex, display="block")
    except Exception:  # the library has many errors of its own
        return f"<code>{escape(formula.tex)}</code>"
    return made


@cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that needs no network."""
    script: str = extra("vl_convert").javascript_bundle()
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


@cache
def notice() -> str:
    """The notice that the license of Vega asks for wherever its code goes."""
    return (files("truerisk.report") / "templates" / "vega_notice.txt").read_text(encoding="utf-8")


def json_in_html(value: Any) -> str:
    """JSON that is safe between script tags: nothing in it can end the element or start a comment.

    >>> json_in_html("</script><!-- &")
    '"\\\\u003c/script\\\\u003e\\\\u003c!-- \\\\u0026"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # all but ASCII is escaped
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
