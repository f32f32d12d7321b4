"""Plain values: what Python code may put into the rows of a figure, as text and numbers that a browser knows."""

from __future__ import annotations

import math
import numbers
import unicodedata
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from truerisk.errors import TrueriskError

LARGEST = 1e100  # of a number on paper: the width of an axis and the spread of seeds must not overflow
EXACT = 2**53  # a browser has no integers beyond, so that two of them may be one number there
INHERITED = ("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString",
             "valueOf", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__")  # fmt: skip
SMALLEST = 1e-100  # of a number that is not 0 on paper, for the same reason


def plain_rows(rows: Iterable[Any], names: Iterable[str], figure: str) -> list[dict[str, Any]]:
    """The rows with None, booleans, text, and Python's own numbers in the fields of these names.

    Numbers of NumPy and torch, Decimal, and Fraction are converted; a list or an object is refused.
    """
    wanted, found = list(names), []
    for row in rows:
        if not isinstance(row, Mapping):
            raise TrueriskError(f"a row of figure {figure} is a {type(row).__name__}; give a dict for each row.")
        made = {name: _plain(row[name], name, figure) for name in wanted if name in row}
        found.append({**row, **made})
    return found


def _plain(value: Any, name: str, figure: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        if abs(value) > LARGEST:
            return math.inf if value > 0 else -math.inf
        return int(value) if abs(value) <= EXACT else float(value)
    if isinstance(value, numbers.Real | Decimal):
        return float(value)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return _plain(value.item(), name, figure)
    raise TrueriskError(
        f"figure {figure} has a {type(value).__name__} in its field {name!r}, but needs numbers or text; "
        "use float(...) or str(...)."
    )


def plain_texts(thing: Any, of: str, *names: str) -> None:
    """Clean the texts of a frozen data class; ``of`` says in an error what they belong to."""
    for name in names:
        text = getattr(thing, name)
        if not isinstance(text, str):
            raise TrueriskError(f"the {name} of {of} is {text!r}, but must be text; write it in quotes.")
        object.__setattr__(thing, name, clean(text))


def clean(text: str) -> str:
    """Text on one line, without characters that no SVG file can hold: one of them would end the whole program.

    >>> clean("one\\nline \\t" + chr(0)) == "one line " + chr(0xFFFD)
    True
    """
    kept = " ".join(text.split())  # U+2028 and its kind would end a line of Vega-Lite's expressions
    unfit = ("Cc", "Cs")  # control characters, halves of letters
    return tame("".join("\ufffd" if unicodedata.category(c) in unfit or c in "\ufffe\uffff" else c for c in kept))


def tame(text: str) -> str:
    """Text that Vega does not take for a signal: in lists it looks texts up among what all objects inherit."""
    return f"{text}\u2060" if text in INHERITED else text


def number(value: Any) -> float | int | None:
    """A number that has a place on paper; None for all else, infinity and its kind included.

    >>> number(True), number(1e-200), number(float("nan")), number("1")
    (1, 0.0, None, None)
    """
    if not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    if 0 < abs(value) < SMALLEST:
        return 0.0
    return int(value) if isinstance(value, bool) else value
