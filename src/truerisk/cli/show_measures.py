"""What a person sees of ``truerisk measure`` in the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerisk import words
from truerisk.cli.tables import described, table
from truerisk.measures import BOUNDS, MEASURES, Measures
from truerisk.measures.audit import Audit, Moved
from truerisk.measures.finding import bounds_sentences, criterion, errors_sentence, headline, zoo_sentence
from truerisk.measures.ratios import factor
from truerisk.measures.registry import COSTS, NEEDS, Measure, key_of, name_of
from truerisk.measures.words import before_after, by_family, by_reason, quantity, verdict
from truerisk.measures.zoo import zoo


@dataclass(frozen=True)
class Shown:
    """What to print besides the finding: everything, one family, the layers."""

    delta: float
    layers: bool = False
    full: bool = False
    family: str | None = None


def measures(found: Measures, how: str, shown: Shown, out: Path, report: Path | None) -> None:
    """The finding, the measures that predict best, bounds in a line each; all numbers on request."""
    console = Console(highlight=False)
    console.print(f"\n{escape(how)}\n")
    console.print(f"[bold]{escape(headline(found))}[/bold]")
    for sentence in _told(found):
        console.print(escape(sentence))
    leading = zoo().leading(found.values)
    if leading:
        console.print(_leading(found, leading))
        console.print(f"\n{escape(zoo_sentence())} {escape(criterion())}")
    if shown.full or shown.family:
        _everything(console, found, shown)
    else:
        console.print()
        for sentence in bounds_sentences(found):
            console.print(escape(sentence))
        if found.skipped:
            console.print(f"{len(found.skipped)} are skipped; {out / 'measures.json'} has the reasons.", soft_wrap=True)
    if shown.layers:
        console.print(_layers(found))
    if not shown.full:
        more(console, len(found.values) + len(found.bounds), shown.family)
    files(console, out, report)


def _told(found: Measures) -> list[str]:
    """Observed errors, and the reference or why there is none."""
    note = found.no_reference if found.reference is None else found.reference.note
    return [said for said in ("" if found.observed is None else errors_sentence(found.observed), note) if said]


def _leading(found: Measures, names: list[str]) -> Table:
    """The few that predict best, with their references."""
    random = ("random labels", "ratio") if found.reference is not None else ()
    made = table("leading measure", "value", *random, "larger than", "tau", numbers=range(1, 6))
    for name in names:
        value, place = found.values[name], zoo().place(name, found.values[name])
        other = None if found.reference is None else found.reference.found.values.get(name)
        cells = ["" if other is None else quantity(other.value, other.log), factor(found.ratio(name))] if random else []
        tau, where = zoo().measures[name].tau, "" if place is None else str(place)
        made.add_row(escape(name_of(name)), quantity(value.value, value.log), *cells, where, f"{tau:+.2f}")
    return made


def _everything(console: Console, found: Measures, shown: Shown) -> None:
    """All measures and bounds, or one family, each with its meaning."""
    entries = [MEASURES[name] for name in found.values if shown.family in (None, MEASURES[name].family)]
    if entries:
        _measures(console, found, entries)
        if any(found.values[key_of(entry.name)].error for entry in entries):
            console.print("\nAfter +-: one standard error of an estimate from random draws or from some examples.")
    if found.bounds and not shown.family:
        _bounds(console, found)
        console.print(
            f"\nEach bound alone is right with probability {words.confidence(shown.delta)}, whatever the network, if "
            "the examples are independent draws. The smallest of several, picked afterwards, is not."
        )
    if not shown.family:
        _skipped(console, found.skipped)


def more(console: Console, count: int, family: str | None) -> None:
    """Where the rest is."""
    if family is None:
        console.print(f"\nAll {count} numbers: add --all, or --family NAME (such as norms, margins, paths).")


def _measures(console: Console, found: Measures, entries: list[Measure]) -> None:
    def row(entry: Measure) -> tuple[str, ...]:
        value = found.values[key_of(entry.name)]
        rescaled = "unchanged" if entry.invariant else "[yellow]may change[/yellow]"
        number = quantity(value.value, value.log) + (f" +- {value.error:.2g}" if value.error else "")
        return escape(entry.name), number, rescaled, escape(entry.meaning)

    parts = {escape(family): [row(entry) for entry in members] for family, members in by_family(entries).items()}
    described(console, ("measure", "value", "when rescaled", "what it is"), parts)


def _layers(found: Measures) -> Table:
    made = table("measure", "value", "layer", title="Layer by layer")
    for name, value in found.values.items():
        for number, (layer, part) in enumerate(value.layers.items()):
            made.add_row("" if number else escape(name_of(name)), quantity(float(part)), escape(layer))
    return made


def _bounds(console: Console, found: Measures) -> None:
    rows = []
    for bound in sorted(found.bounds.values(), key=lambda bound: bound.orders if bound.vacuous else bound.value - 1):
        said = verdict(bound) if bound.vacuous else f"[green]{verdict(bound)}[/green]"
        source = f"{bound.paper}, {bound.theorem}"
        rows.append((escape(bound.name), words.magnitude(bound.value, bound.log), said, escape(source)))
    described(console, ("bound", "value", "what it says", "theorem"), {"": rows}, title="Bounds on the true risk")


def audit(found: Audit, how: str, out: Path, report: Path | None, *, full: bool = True) -> None:
    """How many numbers of each family a rescaling changed; ``full``: how far each one moved, and what was declared."""
    console = Console(highlight=False)
    console.print(f"\n{escape(how)}\n")
    again = "once" if found.times == 1 else f"{found.times} times"
    console.print(
        f"Rescaled {again}: {found.channels:,} channels, each by a factor exp(u), u ~ N(0, {found.std:g}^2). No output "
        f"changed by more than {words.at_most(found.change)} of the largest one: all of this is one and the same "
        "function.\n"
    )
    console.print(_moves(found) if full else _changes(found))
    stayed = len(found.moves) - len(found.fooled)
    console.print(
        f"\n[bold]{len(found.fooled)} of {len(found.moves)} are fooled by a rescaling; {stayed} are not.[/bold]"
    )
    if found.wrongly_declared:
        names = ", ".join(found.wrongly_declared)
        console.print(f"[red]Declared wrongly: {escape(names)}. This is a mistake in truerisk: please report it.[/red]")
    if full:
        _skipped(console, found.before.skipped)
    else:
        console.print("Every number: add --all.")
    files(console, out, report)


def _moves(found: Audit) -> Table:
    """Every number."""
    made = table("measure or bound", "before", "after", "by definition", "verdict", numbers=(1, 2))
    for family, members in by_family(found.moves.values()).items():
        made.add_row(f"[bold]{escape(family)}[/bold]")
        for moved in members:
            made.add_row(escape(moved.name), *before_after(moved), *_declared(moved))
    return made


def _changes(found: Audit) -> Table:
    """A line for each family, with the number that changed most."""
    made = table("family", "unchanged", "changed", "most", numbers=(1, 2))
    for family, members in by_family(found.moves.values()).items():
        fooled = [moved for moved in members if moved.fooled]
        worst = max(fooled, key=lambda moved: moved.orders, default=None)
        most = "" if worst is None else _most(worst)
        made.add_row(escape(family), str(len(members) - len(fooled)), str(len(fooled)), escape(most))
    return made


def _most(moved: Moved) -> str:
    before, after = before_after(moved)
    return f"{moved.name}{f' {moved.note}' if moved.note else ''}: {before} to {after}"


def _declared(moved: Moved) -> tuple[str, str]:
    colour = "red" if moved.wrongly_declared else "yellow" if moved.fooled else "green"
    return "unchanged" if moved.invariant else "may change", f"[{colour}]{escape(moved.verdict)}[/{colour}]"


def catalogue() -> None:
    """All measures and bounds with what they mean, what they need and what they cost."""
    console = Console(highlight=False)

    def row(entry: Measure) -> tuple[str, ...]:
        needs, rescaled = ", ".join(sorted(entry.needs)), "unchanged" if entry.invariant else "may change"
        return escape(entry.name), rescaled, entry.cost, needs, escape(entry.meaning)

    parts = {escape(family): [row(each) for each in some] for family, some in by_family(MEASURES.values()).items()}
    described(console, ("measure", "when rescaled", "effort", "needs", "what it is"), parts, numbers=())
    bounds = []
    for bound in BOUNDS.values():
        source = f"[dim]({escape(f'{bound.paper}, {bound.theorem}')})[/dim]"
        rescaled = "unchanged" if bound.invariant else "may change"
        bounds.append((escape(bound.name), rescaled, f"{escape(bound.meaning)} {source}"))
    heads = ("bound", "when rescaled", "what it is")
    described(console, heads, {"": bounds}, title="Bounds on the true risk", numbers=())
    console.print("\nEffort and needs:")
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
        console.print(f"  {escape(', '.join(map(name_of, names)))}: {escape(reason)}")


def files(console: Console, out: Path, report: Path | None, name: str = "measures") -> None:
    console.print()
    if report:
        console.print(f"Report   {escape(str(report))}", soft_wrap=True)
    console.print(f"Numbers  {escape(str(out / f'{name}.csv'))}, {escape(str(out / f'{name}.json'))}", soft_wrap=True)
