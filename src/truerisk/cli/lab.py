"""``truerisk lab``: what it does once its options are parsed."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerisk import progress
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from truerisk.lab import Result

MARKS = {"seen again": "[green]seen again[/green]", "not seen again": "[red]not seen again[/red]"}


def show_list(json: bool) -> None:
    """The experiments that come with truerisk."""
    from truerisk.lab import SCALES, load, names
    from truerisk.lab.catalogue import ENTRIES

    if json:  # paragraphs and scales are in the experiments themselves, which load torch
        found = map(load, names())
        entries = [{"name": e.name, "title": e.title, "about": e.about, "scales": list(e.grids)} for e in found]
        print(json_module.dumps({"experiments": entries}))
        return
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("name", "runs (quick)", "claims", "what it shows"):
        table.add_column(
            head, justify="right" if head in ("runs (quick)", "claims") else "left", no_wrap=head == "name"
        )
    for name, entry in ENTRIES.items():
        table.add_row(name, str(entry.runs), str(entry.claims), escape(entry.title))
    console.print(table)
    console.print("\nScales (--scale):")
    for scale, meaning in SCALES.items():
        console.print(f"  {scale:8}{meaning}", soft_wrap=True)
    console.print("\nRun one with: truerisk lab run NAME, everything with: truerisk lab run --all")


def run(
    wanted: list[str],
    every: bool,
    scale: str,
    engine: str,
    out: str,
    workers: int | None,
    json: bool,
    quiet: bool,
) -> None:
    """Run experiments one after the other on one engine; write their pages and the index."""
    from truerisk.engine import Engine, Store
    from truerisk.lab import SCALES, load, names
    from truerisk.lab import run as run_one
    from truerisk.lab.catalogue import refuse_unknown
    from truerisk.report.extra import extra
    from truerisk.report.publish import publish, publish_index

    if every == bool(wanted):
        raise TrueriskError("name the experiments to run, or give --all; `truerisk lab list` shows their names.")
    if scale not in SCALES:
        raise TrueriskError(f"there is no scale {scale!r}; the scales are {', '.join(SCALES)}.")
    for name in wanted:  # without loading any
        refuse_unknown(name)
    for module in ("jinja2", "vl_convert"):  # better missed now than after an hour of computing
        extra(module)
    progress.enable(not quiet)
    chosen = _having(names(), scale, quiet) if every else wanted
    for name in chosen:  # before anything is written: a slip in a name or a scale leaves nothing behind
        load(name).settings(scale)
    store = Store(out)
    results: list[Result] = []
    pages: list[str] = []
    with Engine(engine, workers) as opened:
        store.check()
        for name in chosen:
            result = run_one(name, scale, opened, store)
            results.append(result)
            pages.append(publish(result, store))
            index = publish_index(store)
            if not json:
                _show(result, pages[-1])
    if json:
        entries = [{**result.summary(), "page": page} for result, page in zip(results, pages, strict=True)]
        print(json_module.dumps({"experiments": entries, "index": index}))
    else:
        print(f"\nOpen {index} in a browser.")
    failed = sum(len(result.failures) for result in results)
    if failed:
        raise TrueriskError(
            f"{failed} {'run' if failed == 1 else 'runs'} failed, see above and on the pages; "
            "the same command tries only these again."
        )


def _having(names: list[str], scale: str, quiet: bool) -> list[str]:
    """Those experiments that have this scale."""
    from truerisk.lab import load

    for name in names:
        if scale not in load(name).grids and not quiet:
            print(f"{name} has no scale {scale}: left out", file=sys.stderr)
    return [name for name in names if scale in load(name).grids]


def _show(result: Result, page: str) -> None:
    console = Console(highlight=False)
    seen = sum(verdict.word == "seen again" for verdict in result.verdicts)
    console.print(
        f"\n[bold]{escape(result.experiment.title)}[/bold]  ({escape(result.experiment.name)}, {result.scale})"
    )
    console.print(
        f"{seen} of {len(result.verdicts)} published effects were seen again. "
        f"{result.computed} runs computed, {result.reused} found in the store.\n",
        soft_wrap=True,
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("verdict", "claim", "published", "measured"):
        table.add_column(head, no_wrap=head == "verdict", overflow="fold")
    for verdict in result.verdicts:
        claim = verdict.claim
        mark = MARKS.get(verdict.word, verdict.word)
        table.add_row(mark, escape(claim.statement), escape(claim.published), escape(verdict.measured))
    console.print(table)
    for failure in result.failures:
        setting = ", ".join(f"{name}={value}" for name, value in failure.setting.items())
        console.print(f"[red]failed[/red]  {escape(setting)}: {escape(failure.error)}", soft_wrap=True)
    console.print(f"\n{escape(page)}", soft_wrap=True)
