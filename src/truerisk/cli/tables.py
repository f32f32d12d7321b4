"""Tables that fit the terminal: no word and no number is cut, however narrow it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

ROOMY = 110  # columns of a terminal from which a sentence fits beside names and numbers
INDENT = 4  # of a sentence below its row, on narrower ones

Row = Sequence[str]


def table(*heads: str, title: str = "", numbers: Iterable[int] = (1,)) -> Table:
    """``numbers``: which columns hold numbers."""
    right = set(numbers)
    made = Table(
        title=f"\n{title}" if title else None, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False
    )
    for place, head in enumerate(heads):
        made.add_column(head, justify="right" if place in right else "left", no_wrap=place == 0 or place in right)
    return made


def described(
    console: Console, heads: Row, parts: Mapping[str, Sequence[Row]], *, title: str = "", numbers: Iterable[int] = (1,)
) -> None:
    """Rows whose last cell is a sentence: in a column of its own or, where that would be narrow, below each row.

    ``parts``: rows by the name of their family; "" for rows without one.
    """
    if console.width >= ROOMY:
        made = table(*heads, title=title, numbers=numbers)
        for family, rows in parts.items():
            if family:
                made.add_row(f"[bold]{family}[/bold]")
            for row in rows:
                made.add_row(*row)
        console.print(made)
    else:
        _stacked(console, heads, parts, title, set(numbers))


def _stacked(
    console: Console, heads: Row, parts: Mapping[str, Sequence[Row]], title: str, numbers: Collection[int]
) -> None:
    """Each row on a line of its own, and its sentence below."""
    cells = [heads[:-1], *(row[:-1] for rows in parts.values() for row in rows)]
    widths = [max(Text.from_markup(row[k]).cell_len for row in cells) for k in range(len(heads) - 1)]

    def line(row: Row, style: str = "") -> Text:
        made = Text(style=style)
        for k, (cell, width) in enumerate(zip(row, widths, strict=False)):
            text = Text.from_markup(cell)
            text.align("right" if k in numbers else "left", width)
            made.append_text(text).append("  ")
        made.rstrip()
        return made

    if title:
        console.print(f"\n[italic]{title}[/italic]")
    console.print(line(heads[:-1], "bold"))
    for family, rows in parts.items():
        if family:
            console.print(f"[bold]{family}[/bold]")
        for row in rows:
            console.print(line(row))
            console.print(Padding(row[-1], (0, 0, 0, INDENT)))
