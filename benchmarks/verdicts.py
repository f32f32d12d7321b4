"""The table of the lab's verdicts: docs/verdicts.rst, from the summaries of a run of everything.

Run it with ``make verdicts`` (about forty minutes on two cores, it resumes where it was stopped), or after

    truerisk lab run --all --out runs

with ``python -m benchmarks.verdicts runs``. Names after the folder (``runs rescaling-bounds``) replace the numbers of
these experiments only. ``docs/verdicts.json`` keeps the numbers; README quotes their sentence, and a test compares both
pages with them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from truerisk.engine import Store
from truerisk.lab import load, names
from truerisk.lab.tally import added, headline
from truerisk.report.publish import summaries

DOCS = Path(__file__).parents[1] / "docs"
FILE = DOCS / "verdicts.json"
KEPT = ("name", "says", "source", "group", "published", "threshold", "verdict", "reason", "measured", "sentence")
SCALE = "quick"


def collect(folder: str, only: Sequence[str] = ()) -> dict[str, Any]:
    """What the pages of a folder say at quick scale; with ``only``, other experiments stay as they are recorded."""
    found = {s["name"]: s for s in summaries(Store(folder)) if s["scale"] == SCALE and not s["data"]}
    absent = [name for name in only or names() if name not in found]
    if absent:
        sys.exit(f"{folder} has no quick run of {', '.join(absent)}; run truerisk lab run --all --out {folder} first.")
    kept = {entry["name"]: entry for entry in json.loads(FILE.read_text())["experiments"]} if only else {}
    fresh = {name: _entry(found[name]) for name in only or names()}
    return {"scale": SCALE, "experiments": [{**kept, **fresh}[name] for name in names()]}


def _entry(summary: dict[str, Any]) -> dict[str, Any]:
    """One experiment without the parts that change from run to run."""
    claims = [
        {**{key: claim[key] for key in KEPT}, "cells": len(claim["cells"]), "commitment": claim["commitment"]}
        for claim in summary["claims"]
    ]
    return {"name": summary["name"], "runs": summary["runs"], "tally": summary["tally"], "claims": claims}


def sentence(record: dict[str, Any]) -> str:
    """How many claims of papers are reproduced, and the other groups."""
    return headline(added(entry["tally"] for entry in record["experiments"]))


def page(record: dict[str, Any]) -> str:
    """The page of the manual."""
    lines = [
        "Verdicts of the lab",
        "===================",
        "",
        sentence(record),
        "",
        f"All experiments at {record['scale']} scale: digits, MNIST-1D, and drawn points, five seeds per cell.",
        "Intervals are 95% intervals over seeds. Of several cells, the one nearest to the threshold (or farthest",
        "beyond it) is shown. ``truerisk lab run --all`` repeats everything; :doc:`lab` says what the words mean.",
        "",
    ]
    for entry in record["experiments"]:
        title = f"{load(entry['name']).title} (``{entry['name']}``)"
        lines += [title, "-" * len(title), "", headline(entry["tally"]), ""]
        lines += [".. list-table::", "   :header-rows: 1", "   :widths: 34 18 16 32", ""]
        lines += _row("claim", "threshold", "verdict", "measured")
        for claim in entry["claims"]:
            told = claim["measured"] if claim["reason"] in ("", "straddles") else claim["sentence"]
            source = f"{claim['source']}{'; threshold from a trial' if claim['group'] == 'trial' else ''}"
            lines += _row(
                f"{plain(claim['says'])} *{plain(source)}*",
                plain(claim["threshold"]),
                claim["verdict"],
                plain(told),
            )
        lines.append("")
    return "\n".join(lines)


def _row(*cells: str) -> list[str]:
    first, *rest = cells
    return [f"   * - {first}", *(f"     - {cell}" for cell in rest)]


def plain(text: str) -> str:
    """Text without reStructuredText's own signs."""
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("`", "\\`").replace("|", "\\|")


def write(folder: str, only: Sequence[str] = ()) -> None:
    record = collect(folder, only)
    FILE.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    FILE.with_suffix(".rst").write_text(page(record))
    print(sentence(record))


if __name__ == "__main__":
    write(sys.argv[1] if len(sys.argv) > 1 else "runs", sys.argv[2:])
