"""Which of several named arrays are the inputs and which the labels.

For files that hold arrays by name (npz, dictionaries of tensors). A name that the user gives decides; well-known names
come next; then the only choice that makes sense. Otherwise the user is asked, in one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from truerisk.data.formats.reading import shown
from truerisk.errors import TrueriskError
from truerisk.progress import note

INPUTS = frozenset("x data images inputs features".split())
LABELS = frozenset("y label labels target targets".split())
CLASSES = "classes"  # the number of classes, where a file tells it
PART = re.compile(r"(?P<before>train|test)[_-]?(?P<tail>\w+)|(?P<head>\w+?)[_-]?(?P<after>train|test)")


class Sketch(NamedTuple):
    """Shape and type of an array, known before it is read."""

    shape: tuple[int, ...]
    kind: str  # numpy's letter: b, i, u, f for numbers, U and S for text, O for Python objects


class Chosen(NamedTuple):
    """The names of the inputs and of the labels; None where labels are optional and not there."""

    inputs: str
    labels: str | None


def choose(arrays: Mapping[str, Sketch], path: Path, choice: str, labeled: bool) -> Chosen:
    """The arrays that are meant; `choice` is what stands after the colon: two names, `test`, or nothing."""
    if choice and choice != "test":
        return _named(arrays, path, choice, labeled)
    part = choice or "train"
    if part == "train" and "X" in arrays and ("y" in arrays or not labeled):
        return Chosen("X", "y" if "y" in arrays else None)  # as np.savez(path, X=..., y=...) writes them
    found = _well_known(arrays, part, labeled)
    if found is None and part == "test":
        raise TrueriskError(
            f"{path} does not have a test part with arrays x_test and y_test (it holds {listed(arrays)}); "
            f"type {path}:{'INPUTS,LABELS' if labeled else 'INPUTS'}."
        )
    if found is None and _well_known(arrays, "test", labeled) is not None:
        raise TrueriskError(f"{path} holds only a test part; load it as {path}:test.")
    found = found or _only_choice(arrays, labeled)
    if found is None:
        raise _question(arrays, path, labeled)
    labels = f" and {found.labels} as labels" if found.labels else ""
    note(f"{path.name}: using {found.inputs} as inputs{labels}.")
    return found


def _named(arrays: Mapping[str, Sketch], path: Path, choice: str, labeled: bool) -> Chosen:
    """The two names that the user typed; one is enough where labels are optional."""
    names = [name.strip() for name in choice.split(",")]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise TrueriskError(f"{path} does not hold {missing[0]!r}; choose from {listed(arrays)}.")
    if len(names) > 2 or len(set(names)) < len(names) or (labeled and len(names) < 2):
        raise TrueriskError(f"{choice!r} does not name two arrays of {path}; type {path}:INPUTS,LABELS.")
    return Chosen(names[0], names[1] if len(names) == 2 else None)


def _well_known(arrays: Mapping[str, Sketch], part: str, labeled: bool) -> Chosen | None:
    """The only pair with well-known names, in any case, for one part of the data; None if there are several."""
    inputs, labels = [], []
    for name in arrays:
        base, owner = _base(name)
        if owner == part or (owner == "" and part == "train"):
            inputs += [name] if base in INPUTS else []
            labels += [name] if base in LABELS else []
    if len(inputs) != 1 or len(labels) > 1 or (labeled and not labels):
        return None
    return Chosen(inputs[0], labels[0] if labels else None)


def _base(name: str) -> tuple[str, str]:
    """A name in lower case without its part, and this part.

    >>> _base("X_train"), _base("test_labels"), _base("Data"), _base("training")
    (('x', 'train'), ('labels', 'test'), ('data', ''), ('training', ''))
    """
    match = PART.fullmatch(name.lower())
    base = (match["tail"] or match["head"]) if match else ""
    if match is None or base not in INPUTS | LABELS:
        return name.lower(), ""
    return base, match["before"] or match["after"]


def _only_choice(arrays: Mapping[str, Sketch], labeled: bool) -> Chosen | None:
    """The only array that can be inputs, with the only one that can be their labels."""
    inputs = [name for name, each in arrays.items() if each.kind in "buif" and len(each.shape) > 1]
    if len(inputs) != 1:
        return None
    if not labeled:  # guessed labels could be row numbers, and the error rate on them nonsense
        return Chosen(inputs[0], None)
    n = arrays[inputs[0]].shape[0]
    labels = [name for name, each in arrays.items() if each.kind in "biuUS" and each.shape == (n,) and name != CLASSES]
    return Chosen(inputs[0], labels[0]) if len(labels) == 1 else None


def _question(arrays: Mapping[str, Sketch], path: Path, labeled: bool) -> TrueriskError:
    if not arrays:
        return TrueriskError(f"{path} does not hold any array; save it with np.savez(path, X=inputs, y=labels).")
    if labeled:
        return TrueriskError(
            f"{path} holds {listed(arrays)}; say which are the inputs and the labels: type {path}:INPUTS,LABELS."
        )
    return TrueriskError(f"{path} holds {listed(arrays)}; say which are the inputs: type {path}:INPUTS.")


def listed(arrays: Mapping[str, Sketch]) -> str:
    """Names and shapes, as part of a sentence.

    >>> listed({"a": Sketch((5, 2), "f"), "b": Sketch((5,), "O")})
    'a (5, 2), b (5,)'
    """
    return shown([f"{name} {each.shape}" for name, each in arrays.items()]) or "nothing"
