"""What a person sees of ``truerisk measure`` in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerisk import words
from truerisk.measures import BOUNDS, MEASURES, Measures
from truerisk.measures.audit import Audit, Moved
from truerisk.measures.registry import COSTS, NEEDS
from truerisk.measures.words import by_family, by_reason, quantity, verdict


def measures(found: Measures, how: str, delta: float, layers: bool, out: Path, report: Path | None) -> None:
    """The measures by family, the bounds, what was skipped and why, where the files are."""
    console = Console(highlight=False)
    console.print(f"\n{escape(how)}\n")
    if found.values:
        console.print(_measures(found))
        if any(value.error for value in found.values.values()):
            console.print(
                "\nAfter +-: one standard error of an estimate from random draws or from some of the examples."
            )
    if layers:
        console.print(_layers(found))
    if found.bounds:
        console.print(_bounds(found))
        console.print(
            f"\nEach bound alone is right with probability {words.confidence(delta)}, whatever the network, if the "
            "examples are independent draws. The smallest of several, picked afterwards, is not."
        )
    _skipped(console, found.skipped)
    _files(console, out, report)


def _measures(found: Measures) -> Table:
    table = _table("measure", "value", "invariant", "what it is")
    for family, members in by_family(MEASURES[name] for name in found.values).items():
        table.add_row(f"[bold]{escape(family)}[/bold]")
        for entry in members:
            value = found.values[entry.name]
            invariant = "yes" if entry.invariant else "[yellow]no[/yellow]"
            number = quantity(value.value, value.log) + (f" +- {value.error:.2g}" if value.error else "")
            table.add_row(escape(entry.name), number, invariant, escape(entry.meaning))
    return table


def _layers(found: Measures) -> Table:
    table = _table("measure", "value", "layer", title="Layer by layer")
    for name, value in found.values.items():
        for number, (layer, part) in enumerate(value.layers.items()):
            table.add_row("" if number else escape(name), quantity(float(part)), escape(layer))
    return table


def _bounds(found: Measures) -> Table:
    table = _table("bound", "value", "what it says", "theorem", title="Bounds on the true risk")
    for bound in sorted(found.bounds.values(), key=lambda bound: bound.orders if bound.vacuous else bound.value - 1):
        style = "" if bound.vacuous else "green"
        source = f"{bound.paper}, {bound.theorem}"
        value = words.magnitude(bound.value, bound.log)
        table.add_row(escape(bound.name), value, verdict(bound), escape(source), style=style)
    return table


def audit(found: Audit, how: str, out: Path, report: Path | None) -> None:
    """How far each measure and bound moved, worst first within its family, and whether it was declared so."""
    console = Console(highlight=False)
    console.print(f"\n{escape(how)}\n")
    again = "once" if found.times == 1 else f"{found.times} times"
    console.print(
        f"Rescaled {again}: {found.channels:,} channels, each by a factor exp(u), u ~ N(0, {found.std:g}^2). No output "
        f"changed by more than {words.at_most(found.change)} of the largest one: all of this is one and the same "
        "function.\n"
    )
    table = _table("measure or bound", "before", "declared", "verdict")
    for family, members in by_family(found.moves.values()).items():
        table.add_row(f"[bold]{escape(family)}[/bold]")
        for moved in members:
            value = words.magnitude(moved.value) if moved.kind == "bound" else quantity(moved.value)
            table.add_row(escape(moved.name), value, *_declared(moved))
    console.print(table)
    stayed = len(found.moves) - len(found.fooled)
    console.print(
        f"\n[bold]{len(found.fooled)} of {len(found.moves)} are fooled by a rescaling; {stayed} are not.[/bold]"
    )
    if found.wrongly_declared:
        names = ", ".join(found.wrongly_declared)
        console.print(f"[red]Declared wrongly: {escape(names)}. This is a mistake in truerisk: please report it.[/red]")
    _skipped(console, found.before.skipped)
    _files(console, out, report)


def _declared(moved: Moved) -> tuple[str, str]:
    colour = "red" if moved.wrongly_declared else "yellow" if moved.fooled else "green"
    return "invariant" if moved.invariant else "not", f"[{colour}]{escape(moved.verdict)}[/{colour}]"


def catalogue() -> None:
    """All measures and bounds with what they mean, what they need and what they cost."""
    console = Console(highlight=False)
    table = _table("measure", "invariant", "cost", "needs", "what it is", number=-1)
    for family, members in by_family(MEASURES.values()).items():
        table.add_row(f"[bold]{escape(family)}[/bold]")
        for entry in members:
            needs, invariant = ", ".join(sorted(entry.needs)), "yes" if entry.invariant else "no"
            table.add_row(escape(entry.name), invariant, entry.cost, needs, escape(entry.meaning))
    console.print(table)
    bounds = _table("bound", "invariant", "what it is", title="Bounds on the true risk", number=-1)
    for bound in BOUNDS.values():
        source = f"[dim]({escape(f'{bound.paper}, {bound.theorem}')})[/dim]"
        bounds.add_row(escape(bound.name), "yes" if bound.invariant else "no", f"{escape(bound.meaning)} {source}")
    console.print(bounds)
    console.print("\nCosts and needs:")
    for name, meaning in (COSTS | NEEDS).items():
        console.print(f"  {name:11}{escape(meaning)}", soft_wrap=True)
    count = f"{len(MEASURES)} measures, {len(BOUNDS)} bounds"
    console.print(f"\n{count}. Compute some of them with: truerisk measure --only NAME,NAME")


def _skipped(console: Console, skipped: dict[str, str]) -> None:
    """Names that share a reason in one line."""
    if not skipped:
        return
    console.print("\nSkipped:")
    for reason, names in by_reason(skipped).items():
        console.print(f"  {escape(', '.join(names))}: {escape(reason)}")


def _files(console: Console, out: Path, report: Path | None) -> None:
    console.print()
    if report:
        console.print(f"Look at  {escape(str(report))}", soft_wrap=True)
    console.print(f"Numbers  {escape(str(out / 'measures.csv'))}, {escape(str(out / 'measures.json'))}", soft_wrap=True)


def _table(*heads: str, title: str = "", number: int = 1) -> Table:
    """``number``: which column holds numbers."""
    table = Table(title=f"\n{title}" if title else None, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place == number else "left", no_wrap=place in (0, number))
    return table
