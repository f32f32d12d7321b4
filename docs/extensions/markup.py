"""Pieces of reStructuredText that directives write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence


def literal(text: str) -> str:
    """Text in which nothing is markup, with options as code: dashes would become one long dash.

    >>> literal("a_b (--weights)")
    'a\\\\_b (``--weights``)'
    """
    parts = re.split(r"(--[a-z][a-z-]*)", text)
    return "".join(code(part) if part.startswith("--") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\*`|_<>" else c for c in text)


def code(name: str) -> str:
    return f"``{name}``"


def table(columns: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table with a header; a cell is one line."""
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", "")
    for row in (columns, *rows):
        for place, cell in enumerate(row):
            yield f"   {'*' if place == 0 else ' '} - {cell}".rstrip()
    yield ""
