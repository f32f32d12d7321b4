"""Labels that are words: classes are numbered in the sorted order of their names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data.formats.reading import Content
from truerisk.errors import TrueriskError
from truerisk.progress import note

MANY = 100  # so many texts, no two of them equal, are not names of classes
NOTED = 5  # classes named in the note
LONGEST = 1000  # characters of a label; a longer text is not the name of a class
INTEGER = re.compile(r"-?(0|[1-9][0-9]*)(\.0)?")  # 007, 1e1 and +1 are names: as numbers they could not be told apart
MISSING = frozenset("nan na n/a null none <na>".split())  # next to numbers; next to words they are words as well
TRUTH = {"true": 1, "false": 0}


def numbered(content: Content, place: str, title: str) -> Content:
    """The same content, with numbers for labels that are text; `title` names the file in the note."""
    values = content.y
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "US" or not len(values):
        return content
    labels, names = number_classes(values, place)
    tell(names, title)
    return content._replace(y=labels, classes=len(names), class_names=names)


def number_classes(values: Any, place: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class numbers of texts, and the names of the classes 0, 1, 2, ...

    >>> number_classes(["dog", "cat", "dog"], "toy")
    (array([1, 0, 1]), ('cat', 'dog'))
    """
    texts = values.tolist() if isinstance(values, np.ndarray) else list(values)
    found = set(texts)
    try:
        decoded = {text: text.decode() if isinstance(text, bytes) else str(text) for text in found}
    except UnicodeDecodeError as error:
        raise TrueriskError(f"{place}: some labels are not UTF-8 text; save the labels as integers.") from error
    names = tuple(sorted(decoded.values()))
    _check_texts(names, len(texts), place)
    check_names(names, place)
    numbers = {name: number for number, name in enumerate(names)}
    by_text = {text: numbers[name] for text, name in decoded.items()}
    return np.array([by_text[text] for text in texts], dtype=np.int64), names


def read_texts(texts: Sequence[str], place: str) -> np.ndarray | None:
    """Labels of a text file as numbers; None where at least one of them is a name.

    >>> read_texts(["1", "2.0"], "toy"), read_texts(["1", "2", "2b"], "toy"), read_texts(["007", "010"], "toy")
    (array([1., 2.]), None, None)
    """
    found = {text: text.strip() for text in set(texts)}
    words = {text for text in found.values() if text}
    if words and all(text.lower() in TRUTH for text in words):
        values: dict[str, float] = {text: TRUTH[text.lower()] for text in words}
    elif all(INTEGER.fullmatch(text) and len(text) <= LONGEST for text in words) or _measurements(words):
        values = {text: np.nan if text.lower() in MISSING else float(text) for text in words}
    else:
        return None
    return np.array([values.get(found[text], np.nan) for text in texts])


def _measurements(words: set[str]) -> bool:
    """Whether these are numbers with fractions, or numbers some of which are missing: neither of them are names."""
    known = [text for text in words if text.lower() not in MISSING]
    try:
        numbers = [float(text) for text in known]
    except ValueError:
        return False
    fractions = any(number != round(number) for number in numbers if abs(number) < float("inf"))
    return bool(known) and (fractions or len(known) < len(words))


def _check_texts(names: Sequence[str], n: int, place: str) -> None:
    """Refuse texts that do not name classes."""
    if not names[0].strip():  # spaces sort before letters
        raise TrueriskError(f"{place}: some labels are empty; fill in these labels, or drop their rows.")
    long = next((name for name in names if len(name) > LONGEST), None)
    if long is not None:
        raise TrueriskError(
            f"{place}: a label has {len(long):,} characters (such as {long[:20]!r}...); give short names."
        )
    if len(names) == n > MANY:
        raise TrueriskError(
            f"{place}: all {n:,} labels differ (such as {names[0][:20]!r}), so they do not name classes; choose other "
            "labels."
        )


def check_names(names: tuple[str, ...], place: str) -> None:
    """Refuse names that would garble a terminal or a certificate."""
    odd = next((name for name in names if not name.isprintable()), None)
    if odd is not None:
        raise TrueriskError(f"{place}: the class name {odd[:20]!r} has control characters; rename this class.")
    met: dict[str, str] = {}
    for name in names:
        other = met.setdefault(unicodedata.normalize("NFC", name.strip()), name)
        if other != name:
            raise TrueriskError(
                f"{place}: the class names {ascii(other)[:60]} and {ascii(name)[:60]} look the same; "
                "spell them in one way."
            )


def tell(names: tuple[str, ...], title: str) -> None:
    """Say how the classes are numbered: predictions are these numbers."""
    first = ", ".join(f"{name} = {number}" for number, name in enumerate(names[:NOTED]))
    more = f", ... ({len(names)} classes)" if len(names) > NOTED else ""
    note(f"{title}: classes are numbered in sorted order: {first}{more}.")


def tell_truth_values(title: str) -> None:
    """Say how truth values are numbered."""
    note(f"{title}: the labels are truth values: False = 0, True = 1.")
