"""What a method tells of its certificate: numbers that know how they are rounded, lines and tables of them.

How a number is rounded follows from what it is: upper ends up, lower ends down, observed rates to the nearest
(``truerisk.words``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from truerisk import words


class Kind(Enum):
    """What a number is: how it is written with decimals, and how where rates are in percent."""

    BOUND = "an upper end of a rate"
    LOWER = "a lower end of a rate"
    SEEN = "an observed rate"
    NATS = "a KL or a log ratio"
    COUNT = "an integer"
    DELTA = "a failure probability"


ROUNDED: dict[Kind, tuple[Callable[[float], str], Callable[[float], str]]] = {
    Kind.BOUND: (words.bound, words.bound_percent),
    Kind.LOWER: (words.lower, words.lower_percent),
    Kind.SEEN: (words.seen, words.seen_percent),
    Kind.NATS: (words.nats, words.nats),
    Kind.COUNT: (lambda value: f"{value:,}", lambda value: f"{value:,}"),
    Kind.DELTA: (words.delta, words.decimal),
}


@dataclass(frozen=True)
class Quantity:
    """A number and what it is.

    >>> Quantity(0.06614813, Kind.BOUND).plain, Quantity(0.06614813, Kind.BOUND).percent
    ('0.0662', '6.7%')
    """

    value: float
    kind: Kind

    @property
    def plain(self) -> str:
        return ROUNDED[self.kind][0](self.value)

    @property
    def percent(self) -> str:
        return ROUNDED[self.kind][1](self.value)


def upper(value: float) -> Quantity:
    """An upper end."""
    return Quantity(value, Kind.BOUND)


def lower(value: float) -> Quantity:
    """A lower end."""
    return Quantity(value, Kind.LOWER)


def seen(value: float) -> Quantity:
    """An observed rate."""
    return Quantity(value, Kind.SEEN)


def nats(value: float) -> Quantity:
    return Quantity(value, Kind.NATS)


def count(value: int) -> Quantity:
    return Quantity(value, Kind.COUNT)


@dataclass(frozen=True)
class Line:
    """One number with a short name and what it means; an empty name belongs to the line before.

    ``brief`` is the meaning where there is little room.
    """

    label: str
    quantity: Quantity
    meaning: str
    brief: str = ""


@dataclass(frozen=True)
class Table:
    """A table of its own, for the page: what it shows, and rows of words and numbers; ``notes`` stand beside a row."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Quantity, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tale:
    """What a method tells of its certificate."""

    seen: str  # what the empirical risk is the rate of
    counted: str = ""  # as integers
    lines: tuple[Line, ...] = ()
    tables: tuple[Table, ...] = ()
    kl: str = "nats: how far the certification examples moved the posterior from its prior"
    rescaling: str = "Effect of rescaling on the KL"
    used: str = "used by the certificate"  # the KL after rescaling
