"""What a person sees in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerisk import words

if TYPE_CHECKING:
    from truerisk.certificates import Verification
    from truerisk.certificates.story import Story


def certificate(story: Story, others: list[Story], report: Path | None) -> None:
    """The sentence, the numbers with what they mean, the other methods, the ledger, where the files are."""
    console = Console(highlight=False)
    console.print(f"\n[bold]{escape(story.headline)}[/bold]")
    console.print(f"{escape(story.subtitle)}\n" if story.subtitle else "")
    console.print(_numbers(story))
    if story.fit:
        console.print(f"\n{escape(story.fit)}")
    if others:
        console.print(_methods([story, *others]))
    console.print(_ledger(story))
    for warning in story.warnings:
        console.print(f"[yellow]Note:[/yellow] {escape(warning)}")
    console.print("\nAssumptions:")
    for line in story.assumptions:
        console.print(f"  - {escape(line)}")
    console.print()
    console.print(f"Threads  {story.threads} (change with --threads)")
    if report:
        console.print(f"Report   {escape(str(report))}", soft_wrap=True)
    console.print(f"Verify   {escape(story.check.verify)}", soft_wrap=True)
    console.print(f"Predict  {escape(story.check.predict)}", soft_wrap=True)


def _numbers(story: Story) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="bold")
    table.add_column(justify="right")
    table.add_column()
    ends = [story.certificate, *filter(None, [story.lower])]
    for line in (*ends, story.floor, story.seen, *filter(None, [story.training]), *story.lines, story.delta):
        table.add_row(escape(line.label), line.quantity.plain, escape(line.brief or line.meaning))
    return table


def _methods(stories: list[Story]) -> Table:
    """One row for each method; the certificate is the first."""
    table = Table(
        title="\nAll methods, each with an equal share of delta", title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    table.add_column("method")
    table.add_column("predictor")
    for column in ("certificate", "observed error", "KL", "baseline"):
        table.add_column(column, justify="right")
    for story in stories:
        quantities = (story.certificate.quantity, story.seen.quantity, story.kl, story.floor.quantity)
        numbers = ("" if quantity is None else quantity.plain for quantity in quantities)
        table.add_row(escape(story.method), story.predictor, *numbers)
    return table


def _ledger(story: Story) -> Table:
    table = Table(
        title="\nLedger: how the union bound splits delta",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        show_header=False,
    )
    table.add_column(justify="right")
    table.add_column()
    for event, share in story.ledger:
        table.add_row(share.plain, escape(event))
    return table


def verification(result: Verification) -> None:
    """The bound derived here, then what was checked, what was noticed, and what cannot be known from here."""
    console = Console(highlight=False)
    sure, most = words.confidence_percent(result.delta), words.bound(result.risk_bound, 6)
    least = "" if result.risk_lower is None else f"at least {words.lower(result.risk_lower, 6)} and "
    console.print(f"\n[bold]Confirmed: with {sure} confidence, the true risk is {least}at most {most}[/bold]")
    console.print(f"This bound was derived here; the certificate claims {words.bound(result.claimed, 6)}.\n")
    for line in result.checked:
        console.print(f"[green]ok[/green]           {escape(line)}")
    for line in result.noticed:
        console.print(f"[yellow]note[/yellow]         {escape(line)}")
    for line in result.unchecked:
        console.print(f"[dim]not checked[/dim]  {escape(line)}")
    console.print(
        "\nIf someone had secretly tried 1,000,000 seeds, splits, or draws and kept the best, the bound would be "
        f"{words.bound(result.after_tries, 6)}."
    )


def catalogue(rows: list[dict[str, Any]], places: list[str]) -> None:
    """Datasets and folders."""
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "examples", "shape", "where", "how to get it"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(row[k])) for k in ("name", "examples", "shape", "where", "how_to_get")))
    console.print(table)
    console.print("\ntruerisk searches these folders for files:")
    for place in places:
        console.print(f"  {escape(place)}", soft_wrap=True)
