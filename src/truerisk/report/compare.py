"""The page of two networks, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from truerisk.atomic import write_atomically
from truerisk.measures import BOUNDS, MEASURES
from truerisk.measures.compare import Comparison
from truerisk.measures.finding import (
    compared,
    criterion,
    repeated_sentence,
    short_names,
    tau_sentence,
    zoo_limits,
    zoo_sentence,
)
from truerisk.measures.found import Measures
from truerisk.measures.ratios import factor
from truerisk.measures.registry import key_of, name_of
from truerisk.measures.words import quantity
from truerisk.report.certificate import templates
from truerisk.report.measure_figures import Dot
from truerisk.report.measure_parts import drawn, real_minus, rescaling, short, times
from truerisk.report.measures import encoded, listed, script
from truerisk.words import magnitude, seen_percent

COLUMNS = ["A", "B", "B / A", "Simpler"]


def write_comparison(path: str | Path, found: Comparison, facts: Mapping[str, str]) -> Path:
    """Write the page to ``path``: one file that needs nothing else. ``facts`` says how the numbers were made."""
    path = Path(path)
    write_atomically(path, render_comparison(found, facts).encode())
    return path


def render_comparison(found: Comparison, facts: Mapping[str, str]) -> str:
    """The page as HTML. All text is escaped."""
    rows = [_line(row, found) for row in found.rows()]
    leading = [name_of(vote.name) for vote in found.votes]
    by_name = {row["name"]: row for row in rows}
    families: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault(row["family"], []).append(row)
    page: str = (
        templates()
        .get_template("comparison.html.j2")
        .render(
            headline=compared(found),
            names=found.names,
            subtitle=_errors(found),
            hero=_hero(found) if leading else None,
            leading=[by_name[name] | {"zoo": real_minus(tau_sentence(key_of(name)))} for name in leading],
            told={"zoo": zoo_sentence(), "criterion": criterion(), "limits": zoo_limits()},
            families=[{"name": name, "rows": members} for name, members in families.items()],
            columns=COLUMNS,
            csv=encoded(found.csv()),
            facts=facts,
            script=script(),
        )
    )
    return page


def _line(row: Mapping[str, Any], found: Comparison) -> dict[str, Any]:
    name = row["name"]
    entry = MEASURES.get(key_of(name))
    bound = None if entry is not None else BOUNDS[name]
    source = f"{entry.paper}; {entry.equation}." if entry is not None else ""
    return {
        "name": name,
        "family": "bounds" if bound is not None else row["family"],
        "meaning": row["meaning"],
        "details": source if bound is None else f"{bound.paper}, {bound.theorem}.",
        "cells": [_text(found.a, name), _text(found.b, name), factor(row["ratio_log10"]), row["simpler"]],
        "zoo": "",
        **rescaling(name, row["invariant"], None),
    }


def _text(found: Measures, name: str) -> str:
    """A value of a measure, or of a bound, which is rounded up."""
    number = found.number(name)
    assert number is not None
    return (magnitude if name in found.bounds else quantity)(number.value, number.log)


def _errors(found: Comparison) -> str:
    """Observed errors of both networks, in a sentence."""
    one, two = found.a.observed, found.b.observed
    if one is None or two is None:
        return ""
    said = f"Training errors: {seen_percent(one.train.rate)} (A) and {seen_percent(two.train.rate)} (B)."
    if one.test is None or two.test is None:
        return said
    lows, highs = zip(one.test.interval, two.test.interval, strict=True)
    apart = "" if max(lows) > min(highs) else "; their 95% intervals overlap"
    held = f"{seen_percent(one.test.rate)} (A) and {seen_percent(two.test.rate)} (B) of {one.test.n:,} examples"
    return f"Held-out errors: {held}{apart}. {said}{repeated_sentence(one)}"


def _hero(found: Comparison) -> dict[str, str]:
    """B over A, of the measures that predict best, colored by the network that they rate simpler."""
    one, two = short_names(found)
    kinds, said = ("even", "own", "other"), ("no difference", f"{one} simpler", f"{two} simpler")
    rows = [
        Dot(name_of(v.name), v.orders, f"{times(v.orders)} ({said[v.simpler]})", kinds[v.simpler], short(v.name))
        for v in found.votes
    ]
    brief = [replace(row, words=f"{times(row.orders)} ({'-AB'[kinds.index(row.kind)]})") for row in rows]
    return {
        **drawn(rows, f"value of {two} / value of {one}", f"1: {one}", brief),
        "title": "Ratios of the measures that predict best",
        "alternative": listed(rows, f"Value of {two} over the value of {one}"),
        "caption": f"Value of {two} divided by the value of {one}, for the measures that predict best in the zoo. "
        f"Blue dots rate {one} simpler, yellow dots {two}: simpler means a smaller predicted gap, by the sign of the "
        "measure in the zoo.",
    }
