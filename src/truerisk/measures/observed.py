"""Observed errors of a network: on the examples that it was trained on, and on examples that were held out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from truerisk.bounds import clopper_pearson, clopper_pearson_lower
from truerisk.data import Data, load, shuffle
from truerisk.data.dataset import MINIMUM
from truerisk.data.matching import LONGEST, match_classes
from truerisk.errors import TrueriskError
from truerisk.nets import count_errors
from truerisk.seeds import derive

SHARE = 0.2  # of the examples are held out where a network is trained here
CONFIDENCE = 0.95  # of the interval for the true risk


@dataclass(frozen=True)
class Errors:
    """Misclassified examples out of ``n``."""

    errors: int
    n: int

    @property
    def rate(self) -> float:
        return self.errors / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """The exact 95% interval of Clopper and Pearson for the true risk, if training did not use these examples.

        >>> low, high = Errors(0, 100).interval
        >>> low, round(high, 4)  # 1 - 0.025^(1/100)
        (0.0, 0.0362)
        """
        half = (1 - CONFIDENCE) / 2
        return clopper_pearson_lower(self.errors, self.n, half), clopper_pearson(self.errors, self.n, half)

    def record(self) -> dict[str, Any]:
        return {"errors": self.errors, "n": self.n, "rate": self.rate}


@dataclass(frozen=True)
class Observed:
    """Errors on the measured examples (``train``) and, where there are some, on held-out examples (``test``).

    ``repeated``: held-out inputs that are among the training inputs, too.
    """

    train: Errors
    test: Errors | None = None
    repeated: int = 0

    @property
    def gap(self) -> float | None:
        """Held-out error minus training error: the quantity that measures are meant to predict."""
        return None if self.test is None else self.test.rate - self.train.rate

    @property
    def best(self) -> Errors:
        """The errors that say most about the true risk."""
        return self.train if self.test is None else self.test

    def record(self) -> dict[str, Any]:
        """Plain JSON."""
        found: dict[str, Any] = {"training": self.train.record()}
        if self.test is not None:
            found |= {"held_out": {**self.test.record(), "interval": list(self.test.interval)}, "gap": self.gap}
        if self.repeated:
            found["held_out"]["repeated"] = self.repeated
        return found


def observe(module: nn.Module, train: Data, test: Data | None) -> Observed:
    """Count the errors of ``module``; a tie counts as an error."""
    counted = [None if data is None else Errors(_wrong(module, data), len(data)) for data in (train, test)]
    assert counted[0] is not None
    return Observed(counted[0], counted[1], 0 if test is None else repeated(train, test))


def _wrong(module: nn.Module, data: Data) -> int:
    return count_errors(module.eval(), data.X, data.y)[0]


def held_out(data: Data, test: object, trains: bool, seed: int, data_dir: Any = None) -> tuple[Data, Data | None]:
    """(the examples to measure and maybe to train on, the held-out ones).

    ``test``: a share of ``data``, or other data; None: a fifth where the network is trained here (``trains``) and there
    are enough examples, and nothing where it is already trained. 0 holds nothing out.

    >>> train, test = held_out(load("digits"), None, True, seed=0)
    >>> len(train), len(test)
    (1438, 359)
    """
    if test is None:
        share = SHARE if trains and len(data) * SHARE >= MINIMUM else 0.0
    elif isinstance(test, int | float) and not isinstance(test, bool):
        share = float(test)
    else:
        return data, _other(data, load(test, data_dir))
    if not (math.isfinite(share) and 0 <= share < 1):
        raise TrueriskError(f"test is {test}, but must be data, or a share from 0 up to below 1; try --test 0.2.")
    count = round(share * len(data))
    if not count:
        return data, None
    if not trains:  # nobody knows which of the examples it was trained on
        raise TrueriskError(
            f"test is {share:g}, but an already trained network may have seen any share of its data; give other data "
            "(--test FILE)."
        )
    if len(data) - count < MINIMUM:
        raise TrueriskError(
            f"--test {share:g} leaves {len(data) - count} of {len(data)} examples to train on, but {MINIMUM} are "
            "needed; hold out fewer."
        )
    order = shuffle(len(data), derive(seed, "measures", "held out"))
    return data.take(np.sort(order[count:])), data.take(np.sort(order[:count]))


def _other(data: Data, test: Data) -> Data:
    """Held-out examples from elsewhere, which must be of the same kind; columns and classes go by their names."""
    if test.input_shape == data.input_shape and test.integers != data.integers:
        kinds = ["integers" if each.integers else "real numbers" for each in (test, data)]
        raise TrueriskError(
            f"the held-out inputs are {kinds[0]}, but the data are {kinds[1]}; give test examples of the same kind "
            "(--test)."
        )
    if test.input_shape != data.input_shape:
        raise TrueriskError(
            f"the held-out inputs have the shape {test.input_shape}, but the data {data.input_shape}; give test "
            "examples of the same kind (--test)."
        )
    if test.classes > data.classes:
        raise TrueriskError(
            f"the held-out examples have {test.classes} classes, but the data {data.classes}; give test examples of "
            "the same classes (--test)."
        )
    return _same_classes(_same_columns(test, data), data)


def _same_columns(test: Data, data: Data) -> Data:
    """Columns in the order of the data."""
    theirs, ours = test.feature_names, data.feature_names
    if not theirs or not ours or theirs == ours:
        return test
    if set(theirs) != set(ours):
        other = sorted(set(theirs) ^ set(ours))[0]
        raise TrueriskError(
            f"the column {other[:LONGEST]!r} is in one of data and held-out examples only; give both the same columns "
            "(--test)."
        )
    places = [theirs.index(name) for name in ours]
    return replace(test, X=np.ascontiguousarray(test.X[:, places]), feature_names=ours, source=None)


def _same_classes(test: Data, data: Data) -> Data:
    """Class numbers of the data: each file numbers its class names alone, so a class that it lacks shifts the rest."""
    theirs, ours = test.class_names, data.class_names
    if theirs == ours:
        return test
    if not theirs or not ours:
        return match_classes(test, data, "the held-out examples")
    strange = next((name for name in theirs if name not in ours), None)
    if strange is not None:
        raise TrueriskError(
            f"the held-out class {strange[:LONGEST]!r} is not a class of the data; give test examples of the same "
            "classes (--test)."
        )
    numbers = np.array([ours.index(name) for name in theirs], dtype=np.int64)
    return replace(test, y=numbers[test.y], classes=data.classes, class_names=ours, source=None)


def repeated(train: Data, test: Data) -> int:
    """How many held-out inputs occur among the training inputs, too."""
    seen = {row.tobytes() for row in train.X}
    return sum(row.tobytes() in seen for row in test.X)
