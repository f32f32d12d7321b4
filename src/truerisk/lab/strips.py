"""Strips of labeled images as plain JSON, for the record of a demo, and from there to the exhibit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from truerisk.data import Data
from truerisk.lab.figure import Strip, Tile
from truerisk.lab.images import pixels


def strip(name: str, images: Iterable[np.ndarray], words: Sequence[str], wrong: Iterable[Any] = ()) -> dict[str, Any]:
    """One strip: images with the words below them; ``wrong`` says which of the words are wrong.

    >>> strip("signs", np.zeros((2, 1, 1, 1)), ["+", "-"], [False, True])
    {'name': 'signs', 'tiles': [[[[0]], '+', False], [[[0]], '-', True]]}
    """
    marks = list(map(bool, wrong)) or [False] * len(words)
    return {"name": name, "tiles": [[pixels(i), w, m] for i, w, m in zip(images, words, marks, strict=True)]}


def strips(record: Mapping[str, Any]) -> list[Strip]:
    """The strips of a record; none where it has none."""
    return [Strip(each["name"], [Tile(*tile) for tile in each["tiles"]]) for each in record.get("strips", [])]


def class_words(data: Data, labels: Iterable[int]) -> list[str]:
    """Labels as people read them: names of classes where the data have them, else numbers."""
    return [data.class_names[label] if data.class_names else str(label) for label in labels]


def one_of_each(data: Data, most: int) -> list[int]:
    """The first example of each class, in the order of classes.

    >>> one_of_each(Data("toy", np.eye(4), [1, 0, 1, 2], classes=3), 2)
    [1, 0]
    """
    return [int(np.flatnonzero(data.y == label)[0]) for label in np.unique(data.y)[:most]]
