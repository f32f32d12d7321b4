"""Labels that are words: classes are numbered in the sorted order of their names."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerisk.data.formats.reading import Content
from truerisk.errors import TrueriskError
from truerisk.progress import note

MANY = 100  # so many texts, no two of them equal, are not names of classes
NOTED = 5  # classes named in the note


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
    texts = np.asarray(values)
    if texts.dtype.kind == "S":
        try:
            texts = np.char.decode(texts, "utf-8")
        except UnicodeDecodeError as error:
            raise TrueriskError(f"{place}: some labels are not UTF-8 text; save the labels as integers.") from error
    names, labels = np.unique(texts.astype(str), return_inverse=True)
    if not str(names[0]).strip():  # spaces sort before letters
        raise TrueriskError(f"{place}: some labels are empty; fill in these labels, or drop their rows.")
    if len(names) == len(texts) > MANY:
        raise TrueriskError(
            f"{place}: all {len(texts):,} labels differ (such as {str(names[0])[:20]!r}), so they do not name classes; "
            "choose other labels."
        )
    check_names(tuple(map(str, names)), place)
    return labels.reshape(-1).astype(np.int64), tuple(str(name) for name in names)


def check_names(names: tuple[str, ...], place: str) -> None:
    """Refuse names that would garble a terminal or a certificate."""
    odd = next((name for name in names if not name.isprintable()), None)
    if odd is not None:
        raise TrueriskError(f"{place}: the class name {odd[:20]!r} has control characters; rename this class.")


def tell(names: tuple[str, ...], title: str) -> None:
    """Say how the classes are numbered: predictions are these numbers."""
    first = ", ".join(f"{name} = {number}" for number, name in enumerate(names[:NOTED]))
    more = f", ... ({len(names)} classes)" if len(names) > NOTED else ""
    note(f"{title}: classes are numbered in sorted order: {first}{more}.")
