"""The page of one experiment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from truerisk.atomic import write_atomically
from truerisk.errors import TrueriskError
from truerisk.lab.catalogue import names
from truerisk.lab.claim import Claim
from truerisk.lab.effect import Above
from truerisk.lab.figure import Exhibit, Figure
from truerisk.lab.result import Result
from truerisk.lab.scales import SCALES
from truerisk.lab.tally import headline
from truerisk.lab.verdict import Verdict
from truerisk.progress import note
from truerisk.report.certificate import templates
from truerisk.report.extra import extra
from truerisk.report.lab.figures import WIDTHS, lab_spec, safe_name, static_svg
from truerisk.report.lab.palette import ON_DARK, ON_LIGHT
from truerisk.report.lab.picture import picture
from truerisk.report.lab.rows import SERIES, Drawable, drawable
from truerisk.report.lab.words import facts, missing, one_line, table

STATIC = (820, 350)  # pixels: drawn for readers without JavaScript, on a screen and on a phone
SIGNS = {
    "reproduced": {"sign": "\u2713", "css": "yes"},
    "exact": {"sign": "=", "css": "yes"},
    "not reproduced": {"sign": "\u2717", "css": "no"},
    "no verdict": {"sign": "\u2013", "css": "open"},
}
PALETTE = tuple(zip(ON_LIGHT, ON_DARK, strict=True))


def write_lab(result: Result, path: str | Path, index: str = "") -> Path:
    """Write the page of an experiment's result to ``path``: one file that needs nothing else.

    ``index``: a relative link to the page over all experiments, if there is one.
    """
    path = Path(path)
    write_atomically(path, render_lab(result, index).encode())
    return path


def render_lab(result: Result, index: str = "") -> str:
    """The page as HTML. All text is escaped; figures are drawn by JavaScript that the page carries."""
    environment = templates()
    environment.filters["setting"] = one_line
    exhibits, live, trouble = _drawn(result)
    page: str = environment.get_template("lab.html.j2").render(
        result=result,
        index=quote(index),
        experiment=result.experiment,
        tally=(found := result.summary()["tally"]),
        headline=headline(found),
        claims=[_claim(result, verdict) for verdict in result.verdicts],
        missing=" ".join(filter(None, [missing(result), trouble])),
        scale=SCALES[result.scale] if result.experiment.name in names() else "",
        signs=SIGNS,
        palette=PALETTE,
        exhibits=exhibits,
        clickable=any(data["clickable"] for data in live),
        facts=facts(result),
        figures=json_in_html(live) if live else "",
        vega=vega() if live else "",
    )
    return page


def _claim(result: Result, verdict: Verdict) -> dict[str, Any]:
    """A claim as the template needs it: its picture, and a row for each of its cells."""
    claim, cells = verdict.claim, []
    if isinstance(claim, Claim):
        number = claim.wants.unit.number
        for cell in verdict.cells:
            found = cell.interval
            values = [number(v.value if isinstance(v, Above) else v) for v in cell.values.values()]
            ends = (number(found.mean), number(found.low), number(found.high)) if found else ("", "", "")
            cells.append((cell.name or "all runs", *ends, ", ".join(values)))
    committed = result.committed(verdict)
    restated = verdict.commitment.restated if verdict.commitment else ()
    return {
        "claim": claim,
        "verdict": verdict,
        "picture": picture(verdict),
        "cells": cells,
        "suffix": claim.wants.unit.suffix.strip() if isinstance(claim, Claim) else "",
        "committed": committed[:1].upper() + committed[1:],
        "restated": restated,
        "said": verdict.commitment.said if verdict.commitment else "",
    }


def _drawn(result: Result) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """The figures and tables, and what went wrong: a slip in a figure must not cost the page."""
    try:
        return *_exhibits(result, result.experiment.figures(result.rows)), ""
    except Exception as error:
        kind = "" if isinstance(error, TrueriskError) else f"{type(error).__name__}: "
        told = f"the figures could not be drawn ({kind}{error})"
        note(f"{result.experiment.name}: {told}")
        return [], [], f"{told[0].upper()}{told[1:]}."


def _exhibits(result: Result, exhibits: Sequence[Exhibit]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the template needs of each figure and table, and what the script needs of each figure."""
    shown: dict[str, dict[str, Any]] = {}
    live = []
    for exhibit in exhibits:
        name = safe_name(exhibit.name)
        if name in shown:
            raise TrueriskError(f"two figures or tables of {result.experiment.name} are named {name}; rename one.")
        if isinstance(exhibit, Figure):
            drawn = drawable(exhibit)
            shown[name] = {"kind": "figure", "name": name, **_figure(exhibit, drawn)}
            if drawn.rows:
                file_name = f"{safe_name(result.experiment.name)}-{name}"
                live.append({"name": name, "file_name": file_name, **_script(exhibit, drawn)})
        else:
            shown[name] = {"kind": "table", "name": name, **table(exhibit)}
    return list(shown.values()), live


@cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that needs no network."""
    script: str = extra("vl_convert").javascript_bundle()
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def json_in_html(value: Any) -> str:
    """JSON that is safe between script tags: nothing in it can end the element or start a comment.

    >>> json_in_html("</script><!-- &")
    '"\\\\u003c/script\\\\u003e\\\\u003c!-- \\\\u0026"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # all but ASCII is escaped
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _figure(figure: Figure, drawn: Drawable) -> dict[str, Any]:
    note, wide, narrow = "", "", ""
    if drawn.left_out:
        are = "point is" if drawn.left_out == 1 else "points are"
        note = f"{drawn.left_out:,} {are} not drawn: a logarithmic axis has no place for 0 and below."
    if drawn.rows:
        wide, narrow = (static_svg(figure, drawn, width) for width in STATIC)
    return {"title": figure.title, "caption": figure.caption, "note": note, "wide": wide, "narrow": narrow}


def _script(figure: Figure, drawn: Drawable) -> dict[str, Any]:
    return {
        "clickable": figure.mark != "heat" and len(drawn.values(SERIES)) > 1,
        "columns": [asdict(column) for column in drawn.columns],
        "rows": drawn.rows,
        "layouts": [{"width": width, "spec": lab_spec(figure, drawn, width)} for width in WIDTHS],
        "file": lab_spec(figure, drawn, WIDTHS[-1], titled=True),
    }
