"""What a person sees in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerisk import words
from truerisk.certificates.sentences import seen

if TYPE_CHECKING:
    from truerisk.certificates import Verification


def certificate(record: dict[str, Any], others: list[dict[str, Any]], out: Path, report: Path | None) -> None:
    """The sentence, the numbers with what they mean, the other methods, the ledger, where the files are."""
    console = Console(highlight=False)
    console.print(f"\n[bold]{escape(record['sentence'])}[/bold]\n")
    console.print(_numbers(record))
    if others:
        console.print(_methods([record, *others]))
    console.print(_ledger(record))
    for warning in record["warnings"]:
        console.print(f"[yellow]Note:[/yellow] {escape(warning)}")
    console.print("\nThis takes for granted:")
    for line in record["assumptions"]:
        console.print(f"  - {escape(line)}")
    console.print()
    console.print(f"Threads   {record['settings']['threads']}, by the size of the network unless --threads says so")
    if report:
        console.print(f"Look at   {escape(str(report))}", soft_wrap=True)
    console.print(f"Check it  truerisk verify {escape(str(out))}", soft_wrap=True)


def _numbers(record: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="bold")
    table.add_column(justify="right")
    table.add_column()
    floor = record["floor_detail"]
    certified = f"at most {words.bound_percent(record['risk_bound'])} wrong on unseen data"
    table.add_row("certificate", words.bound(record["risk_bound"]), certified)
    table.add_row("floor", words.bound(record["floor"]), f"the hold-out bound: {escape(floor['what'])}")
    table.add_row("seen", words.seen(record["empirical_risk"]), seen(record))
    for name, value, meaning in _own(record):
        table.add_row(name, value, meaning)
    if record["kl"] is not None:
        meaning = "nats between posterior and prior: what the network learnt from the certifying examples"
        table.add_row("KL", words.nats(record["kl"]), meaning)
        if record["rescaling"] is not None:
            table.add_row("", words.nats(record["kl_unrescaled"]), f"before {_moved(record['rescaling'])}")
    table.add_row("delta", words.delta(record["delta"]), "the probability with which the certificate may be wrong")
    return table


def _own(record: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Numbers that only some methods have."""
    rows = []
    if "log_ratio" in record:
        meaning = "nats: how much likelier the drawn weights are under the posterior than under the prior"
        rows.append(("log ratio", words.nats(record["log_ratio"]), meaning))
    for i, block in enumerate(record.get("progressive", {}).get("blocks", []), start=1):
        meaning = (
            f"{block['errors']:,} wrong out of {block['n']:,}: model {i} on the block that came after its training"
        )
        rows.append(("blocks" if i == 1 else "", words.seen(block["errors"] / block["n"]), meaning))
    if "bits" in record:
        rows.append(("bits", f"{record['bits']:,}", "the length of the file that the network fits into"))
    if "disagreement" in record:
        found = record["disagreement"]
        meaning = f"certified for the surrogate, a new network, by {found['surrogate']}"
        rows.append(("surrogate", words.bound(found["surrogate_bound"]), meaning))
        meaning = f"bound on the disagreement: {found['disagreements']:,} of {found['unlabelled']:,} unlabelled inputs"
        rows.append(("differs", words.bound(found["upper"]), meaning))
    return rows


def _methods(records: list[dict[str, Any]]) -> Table:
    """One row for each method; the certificate is the first."""
    table = Table(
        title="\nAll methods, each with its part of delta", title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    table.add_column("method")
    table.add_column("predictor")
    for column in ("certificate", "seen", "KL", "floor"):
        table.add_column(column, justify="right")
    for record in records:
        kl = "" if record["kl"] is None else words.nats(record["kl"])
        numbers = (words.bound(record["risk_bound"]), words.seen(record["empirical_risk"]), kl)
        table.add_row(escape(record["method"]), record["predictor"], *numbers, words.bound(record["floor"]))
    return table


def _moved(rescaling: dict[str, Any]) -> str:
    """How the KL was rescaled, with what tuning the prior's width would have done beside it."""
    tuned, both = words.nats(rescaling["tuned_scale"]), words.nats(rescaling["both"])
    return (
        f"rescaling {rescaling['free_log_scales']:,} channels (by tuning the prior's width, which is not free: "
        f"{tuned}; by both: {both})"
    )


def _ledger(record: dict[str, Any]) -> Table:
    table = Table(
        title="\nWhat delta is spent on",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        show_header=False,
    )
    table.add_column(justify="right")
    table.add_column()
    for entry in record["ledger"]:
        table.add_row(words.delta(entry["delta"]), escape(entry["event"]))
    return table


def verification(result: Verification) -> None:
    """The bound derived here, then what was checked, what was noticed, and what can't be known from here."""
    console = Console(highlight=False)
    sure, most = words.confidence_percent(result.delta), words.bound(result.risk_bound, 6)
    console.print(f"\n[bold]Confirmed: with {sure} confidence, the true risk is at most {most}[/bold]")
    console.print(f"Derived here; the certificate claims {words.bound(result.claimed, 6)}.\n")
    for line in result.checked:
        console.print(f"[green]ok[/green]           {escape(line)}")
    for line in result.noticed:
        console.print(f"[yellow]note[/yellow]         {escape(line)}")
    for line in result.unchecked:
        console.print(f"[dim]not checked[/dim]  {escape(line)}")
    console.print(
        "\nHad someone tried 1,000,000 seeds, splits or draws in secret and kept the best, the bound would be "
        f"{words.bound(result.after_tries, 6)}."
    )


def catalogue(rows: list[dict[str, Any]], places: list[str]) -> None:
    """Data sets and folders."""
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "examples", "shape", "where", "how to get it"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(row[k])) for k in ("name", "examples", "shape", "where", "how_to_get")))
    console.print(table)
    console.print("\nFiles are looked for in:")
    for place in places:
        console.print(f"  {escape(place)}", soft_wrap=True)
