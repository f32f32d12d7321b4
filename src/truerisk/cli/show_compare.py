"""What a person sees of ``truerisk measure A B`` in the terminal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerisk.cli.show_measures import files, more
from truerisk.cli.tables import table
from truerisk.measures.compare import Comparison
from truerisk.measures.finding import compared, criterion, errors_sentence, zoo_sentence
from truerisk.measures.ratios import factor
from truerisk.measures.registry import name_of
from truerisk.measures.words import quantity
from truerisk.words import magnitude


def comparison(found: Comparison, full: bool, family: str | None, out: Path, report: Path | None) -> None:
    """The finding, the errors, the votes of the measures that predict best; all numbers on request."""
    console = Console(highlight=False)
    console.print(f"\n[bold]{escape(compared(found))}[/bold]\n")
    for side, name, one in zip("AB", found.names, (found.a, found.b), strict=True):
        errors = "" if one.observed is None else f": {errors_sentence(one.observed)}"
        console.print(f"{side} is {escape(name)}{errors}")
    rows = {row["name"]: row for row in found.rows()}
    leading = [rows[name_of(vote.name)] for vote in found.votes]
    if leading:
        console.print(_table(leading))
        console.print(f"\nSimpler: a smaller gap, going by the sign of tau in the zoo. {zoo_sentence()} {criterion()}")
    shown = [row for row in rows.values() if full or row["family"] == family]
    if shown:
        console.print(_table(shown))
    if not full:
        more(console, len(rows), family)
    files(console, out, report, "comparison")


def _table(rows: list[dict[str, Any]]) -> Table:
    made = table("measure", "A", "B", "B / A", "simpler", "tau", numbers=(1, 2, 3, 5))
    for row in rows:
        tau = "" if row["zoo_tau"] is None else f"{row['zoo_tau']:+.2f}"
        cells = [_number(row, side) for side in "ab"]
        made.add_row(escape(row["name"]), *cells, factor(row["ratio_log10"]), row["simpler"], tau)
    return made


def _number(row: dict[str, Any], side: str) -> str:
    """A value of a measure, or of a bound, which is rounded up."""
    log = row[f"{side}_log10"]
    natural = None if log is None else log * math.log(10)
    return (magnitude if row["family"] == "bound" else quantity)(row[side], natural)
