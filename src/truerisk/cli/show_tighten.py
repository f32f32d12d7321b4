"""What ``truerisk tighten`` prints: the finding, a table, each network in short, and what to do next."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path

from truerisk.cli.tour import command_lines
from truerisk.pacbayes.columns import COLUMNS
from truerisk.pacbayes.rescaling import SIGN, RescalingReport
from truerisk.pacbayes.rescaling_words import (
    CERTIFY,
    NOT_ONE,
    headline,
    lifted,
    moving,
    no_command,
    number,
    pinned,
    setting,
)
from truerisk.progress import printable
from truerisk.report.svg import shortened
from truerisk.words import at_most, magnitude, seen_percent

LEAST, MOST = 80, 120  # columns
NAME, LETTERS = 6, 30  # of a name in the table at least, and in a sentence at most
PLACES = 3  # pinned ones that are listed
INDENT = "  "
HEADS = ("network", "weights", "error", "KL before -> after", *COLUMNS)


def lines(
    reports: Sequence[RescalingReport], certify: Sequence[Sequence[str]], page: Path | None, full: int
) -> list[str]:
    """``reports`` in the order of the table; ``certify``: their commands; ``full``: how many are told in full."""
    wide = min(max(shutil.get_terminal_size((LEAST, 24)).columns, LEAST), MOST)
    told = [*_wrapped(headline(reports), wide), "", *_wrapped(setting(reports), wide), "", *_table(reports, wide)]
    for report in reports[:full]:
        told += ["", shortened(printable(report.name), wide), *_network(report, wide, alone=len(reports) == 1)]
    if len(reports) > 1 and any(report.best.free for report in reports):
        told += ["", *_wrapped(SIGN, wide)]
    told += ["", *_wrapped(f"{NOT_ONE} {CERTIFY}", wide), *_commands(reports, certify, wide)]
    return [*told, "", f"Report  {printable(str(page))}"] if page else told


def _network(report: RescalingReport, wide: int, alone: bool) -> list[str]:
    sentences = [moving(report)]
    if report.best.free:
        sentences.append(report.moved if alone else report.factors)
    sentences += [f"Pinned: {place}" for place in pinned(report, PLACES)] + [lifted(report)]
    if report.condition:
        sentences.append(report.condition)
    return [line for sentence in sentences for line in _wrapped(sentence, wide, INDENT)]


def _commands(reports: Sequence[RescalingReport], certify: Sequence[Sequence[str]], wide: int) -> list[str]:
    """The command of one network, of several those of the first and where the others are."""
    found = [(report.name, command) for report, command in zip(reports, certify, strict=True) if command]
    if not found:
        return [
            line for why in dict.fromkeys(map(no_command, reports)) for line in _wrapped(f"No command: {why}", wide)
        ]
    told = command_lines("Certify  ", found[0][1], wide)
    if len(found) > 1:
        told += _wrapped(
            f"This is for {shortened(found[0][0], LETTERS)}; the page has the command of every network.", wide
        )
    return told


def _table(reports: Sequence[RescalingReport], wide: int) -> list[str]:
    """One row per network; names get the room that the numbers leave."""
    rows = [list(HEADS[1:])]
    for report in reports:
        kls = f"{_kl(report.kl['original'])} -> {_kl(report.kl['rescaled'])}"
        marked = [f"{number(report.bound[each])}{'*' if report.vacuous(each) else ' '}" for each in COLUMNS]
        rows.append([f"{report.weights:,}", seen_percent(report.risk), kls, *marked])
    sizes = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    names = [HEADS[0], *(printable(report.name) for report in reports)]
    gap = 2 if sum(sizes) + 2 * len(sizes) + max(NAME, *map(len, names)) <= wide else 1
    room = max(NAME, min(max(map(len, names)), wide - sum(sizes) - gap * len(sizes)))
    cells = [
        [f"{shortened(name, room):<{room}}", *(f"{cell:>{size}}" for cell, size in zip(row, sizes, strict=True))]
        for name, row in zip(names, rows, strict=True)
    ]
    bounds = sum(sizes[3:]) + gap * (len(COLUMNS) - 1)
    above = " " * (len((" " * gap).join(cells[0])) - bounds) + f"{' bound ':-^{bounds}}"
    vacuous = any(report.vacuous(column) for report in reports for column in COLUMNS)
    note = ["* vacuous"] if vacuous else []
    return [above, *((" " * gap).join(row).rstrip() for row in cells), *note]


def _kl(value: float) -> str:
    """
    >>> _kl(885027.41), _kl(1234567.0), _kl(12.3456), _kl(float("inf"))
    ('885,028', '1.24e+6', '12.35', 'infinite')
    """
    return at_most(value, 3) if value >= 1e6 else magnitude(value)


def _wrapped(text: str, wide: int, indent: str = "") -> list[str]:
    return textwrap.wrap(printable(text), wide, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
