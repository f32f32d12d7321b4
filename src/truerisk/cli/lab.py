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
    from collections.abc import Sequence

    from truerisk.lab import Failure, Result

MARKS = {
    "reproduced": "[green]reproduced[/green]",
    "exact": "[green]exact[/green]",
    "not reproduced": "[red]not reproduced[/red]",
}


def show_list(scale: str, json: bool) -> None:
    """The experiments that come with truerisk, with their sizes at a scale."""
    from truerisk.lab.entries import ENTRIES
    from truerisk.lab.scales import SCALES, refuse_scale

    refuse_scale(scale)
    if json:
        sizes = {
            name: {each: {"runs": runs, "claims": claims} for each, (runs, claims) in entry.sizes.items()}
            for name, entry in ENTRIES.items()
        }
        entries = [
            {
                "name": name,
                "title": entry.title,
                "chapter": entry.chapter,
                "own_data": entry.own_data,
                "scales": sizes[name],
            }
            for name, entry in ENTRIES.items()
        ]
        print(json_module.dumps({"experiments": entries}))
        return
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("name", "runs", "claims", "what it shows"):
        table.add_column(head, justify="right" if head in ("runs", "claims") else "left", no_wrap=head == "name")
    chapter = ""
    for name, entry in ENTRIES.items():
        if entry.chapter != chapter:
            chapter = entry.chapter
            table.add_row(f"[bold]{chapter}[/bold]", "", "", "", end_section=False)
        runs, claims = entry.sizes.get(scale, ("-", "-"))
        table.add_row(f"  {name}{'*' if entry.own_data else ''}", str(runs), str(claims), escape(entry.title))
    console.print(table)
    console.print("\n* takes a dataset of your own: truerisk lab run NAME --data mine.npz")
    console.print(f"Runs and claims are those of the {scale} scale. Scales (--scale):")
    for each, meaning in SCALES.items():
        console.print(f"  {each:8}{meaning}", soft_wrap=True)
    console.print("\nRun one with: truerisk lab run NAME, everything with: truerisk lab run --all")


def commit(name: str, restated: str, json: bool) -> None:
    """Append the claims of an experiment that are new or have changed to its file of commitments."""
    from truerisk.lab import load
    from truerisk.lab.commitment import commit as append

    experiment = load(name)
    lines = append(experiment, restated)
    if json:
        written = [{"claim": line.claim, "threshold": line.wants, "at": line.at} for line in lines]
        print(json_module.dumps({"file": str(experiment.committed), "lines": written}))
        return
    for line in lines:
        seeds = ", ".join(f"{scale}: seeds {_range(some)}" for scale, some in line.seeds.items() if some)
        print(progress.printable(f"{line.claim}: {line.wants}{f' ({seeds})' if seeds else ''}"))
    count = f"{len(lines)} {'claim' if len(lines) == 1 else 'claims'}"
    print(f"{count} committed to {experiment.committed}." if lines else "Nothing to commit: no claim has changed.")


def _range(seeds: Sequence[int]) -> str:
    """
    >>> _range([0, 1, 2]), _range([1, 3])
    ('0 to 2', '1, 3')
    """
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def run(
    wanted: list[str],
    every: bool,
    scale: str,
    engine: str,
    out: str,
    workers: int | None,
    json: bool,
    quiet: bool,
    data: str | None = None,
) -> None:
    """Run experiments one after the other on one engine; write their pages and the index."""
    from truerisk.engine import Engine, Store
    from truerisk.lab import load, names
    from truerisk.lab import run as run_one
    from truerisk.lab.catalogue import refuse_unknown
    from truerisk.lab.own_data import on_own_data
    from truerisk.lab.scales import refuse_scale
    from truerisk.report.extra import extra
    from truerisk.report.publish import publish, publish_index

    if every == bool(wanted):
        raise TrueriskError("name the experiments to run, or give --all; `truerisk lab list` shows their names.")
    if every and data is not None:
        raise TrueriskError("not every experiment takes --data; name those that do, such as random-labels.")
    refuse_scale(scale)
    for name in wanted:  # without loading any
        refuse_unknown(name)
    for module in ("jinja2", "vl_convert"):  # better missed now than after an hour of computing
        extra(module)
    progress.enable(not quiet)
    chosen = _having(names(), scale, quiet) if every else wanted
    for name in chosen:  # before anything is written: a slip in a name or a scale leaves nothing behind
        load(name).check(scale)
        if data is not None:
            on_own_data(load(name), scale, data)
    store = Store(out)
    results: list[Result] = []
    pages: list[str] = []
    with Engine(engine, workers) as opened:
        store.check()
        for name in chosen:
            result = run_one(name, scale, opened, store, data=data)
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
    # A built-in effect that does not exist on a user's dataset, such as a descent to follow, is not theirs to repair.
    own = [result for result in results if not (result.data and result.experiment.name in names())]
    broken = sum(verdict.reason == "broken" for result in own for verdict in result.verdicts)
    failed = sum(len(result.failures) for result in results)
    if failed:
        raise TrueriskError(
            f"{failed} {'run' if failed == 1 else 'runs'} failed, see above and on the pages; "
            "the same command tries only these again."
        )
    if broken:
        raise TrueriskError(
            f"{broken} {'claim is' if broken == 1 else 'claims are'} broken, see above; repair and rerun."
        )


def _having(names: list[str], scale: str, quiet: bool) -> list[str]:
    """Those experiments that have this scale."""
    from truerisk.lab import load

    for name in names:
        if scale not in load(name).grids and not quiet:
            print(f"{name} has no scale {scale}: left out", file=sys.stderr)
    return [name for name in names if scale in load(name).grids]


def _show(result: Result, page: str) -> None:
    from truerisk.lab.tally import headline

    console = Console(highlight=False)
    console.print(
        f"\n[bold]{escape(result.experiment.title)}[/bold]  ({escape(result.experiment.name)}, {result.scale})"
    )
    console.print(f"{escape(progress.printable(result.finding))}\n", soft_wrap=True)
    console.print(
        f"{headline(result.tally)} {result.computed} runs computed, {result.reused} found in the store.\n",
        soft_wrap=True,
    )
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    told = [] if all(verdict.reason == "smoke" for verdict in result.verdicts) else result.verdicts
    if result.verdicts and not told:
        console.print("A smoke run only shows that the program works: claims get no verdict.")
    for verdict in told:
        texts = (verdict.claim.says, str(verdict.claim.whose), _upper(verdict.sentence.partition(": ")[2]))
        says, whose, found = (escape(progress.printable(text)) for text in texts)
        table.add_row(MARKS.get(verdict.word, verdict.word), f"{says} [dim]{whose}[/dim]\n{found}")
    console.print(table)
    for error, alike in _alike(result.failures).items():
        setting = ", ".join(f"{name}={value}" for name, value in alike[0].setting.items())
        more = f" (and {len(alike) - 1} more runs)" if len(alike) > 1 else ""
        console.print(f"[red]failed[/red]  {escape(setting)}: {escape(error)}{more}", soft_wrap=True)
    console.print(f"\n{escape(page)}", soft_wrap=True)


def _alike(failures: Sequence[Failure]) -> dict[str, list[Failure]]:
    """Failed runs by what happened: one slip in a task makes all of them fail."""
    found: dict[str, list[Failure]] = {}
    for failure in failures:
        found.setdefault(failure.error, []).append(failure)
    return found


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
