"""Frozen dataclasses as options and as JSON: each field is declared once.

From a declaration follow the checks of its values, the flags of the command line, the tables of the documentation, and
how a file is read: strictly, every field there, each with its type and within its limits, and none besides.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from truerisk.errors import TrueriskError

T = TypeVar("T")
OPTION, LIMITS = "option", "limits"  # what a field's metadata may say
PLAIN = {int: "an integer", float: "a number", str: "a word", bool: "true or false"}
NUMBERS = {int: Integral, float: Real, bool: np.bool_}


@dataclass(frozen=True)
class Limits:
    """What a value must be, besides its type."""

    low: float | None = None  # at least
    high: float | None = None  # at most
    above: float | None = None  # more than
    below: float | None = None  # less than
    among: Sequence[str] = ()
    hint: str = ""  # what to do about a value that is none

    def met(self, value: Any) -> bool:
        """Whether a value lies within them; not a number never does.

        >>> Limits(low=0, below=1).met(0.0), Limits(low=0, below=1).met(float("nan"))
        (True, False)
        """
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (not self.among or value in self.among)
        )

    def __str__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        if self.among:
            return f"must be one of {', '.join(self.among)}{hint or '; choose one'}"
        ends = [("at least {}", self.low), ("more than {}", self.above), ("at most {}", self.high)]
        ends.append(("less than {}", self.below))
        return "must be " + " and ".join(text.format(f"{end:g}") for text, end in ends if end is not None) + hint


@dataclass(frozen=True)
class Flag:
    """One option: its name, its type, what it is for, its default, and what the help says about that."""

    name: str
    kind: type
    help: str
    default: Any
    shown: str
    limits: Limits


def option(default: Any, about: str, *, shown: str | None = None, **limits: Any) -> Any:
    """A field that a user may set; ``limits`` are those of ``Limits``."""
    return field(default=default, metadata={OPTION: (about, shown), LIMITS: Limits(**limits)})


def within(default: Any = MISSING, **limits: Any) -> Any:
    """A field that no user sets by its name, with limits all the same."""
    return field(default=default, metadata={LIMITS: Limits(**limits)})


def flags(cls: Any) -> list[Flag]:
    """The options of a class, in their order."""
    found = []
    for each in fields(cls):
        if OPTION not in each.metadata:
            continue
        about, shown = each.metadata[OPTION]
        kind = _plain(_hints(cls)[each.name])
        text = f"{each.default:g}" if isinstance(each.default, float) else str(each.default)
        shown = text if shown is None else shown
        found.append(Flag(each.name, kind, about, each.default, shown, each.metadata[LIMITS]))
    return found


def settle(made: Any) -> None:
    """Check the fields of a new object that have limits; NumPy's numbers, and 1 for 1.0, become what is meant."""
    cls: Any = type(made)
    hints = _hints(cls)
    for each in fields(cls):
        if LIMITS not in each.metadata:
            continue
        value, limits, kind = getattr(made, each.name), each.metadata[LIMITS], _plain(hints[each.name])
        if value is None and type(None) in get_args(hints[each.name]):
            continue
        if kind in NUMBERS and isinstance(value, NUMBERS[kind]) and not isinstance(value, bool):
            try:
                value = kind(value)
            except OverflowError as error:
                raise TrueriskError(f"{each.name} is too large a number; give a smaller one.") from error
            object.__setattr__(made, each.name, value)
        if kind in PLAIN and type(value) is not kind:
            raise TrueriskError(f"{each.name} is {_shown(value)}, but must be {PLAIN[kind]}; correct it.")
        if not limits.met(value):
            raise TrueriskError(f"{each.name} is {_shown(value)}, but {limits}.")


def dump(value: Any) -> Any:
    """A value as JSON has it; ``to_json`` of a class comes first, then the fields of a dataclass."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: dump(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {name: dump(each) for name, each in value.items()}
    return [dump(each) for each in value] if isinstance(value, list | tuple) else value


def read(cls: type[T], json: object, where: str, **made: Any) -> T:
    """The inverse of ``dump``: every field with its very type, and no other field; else a TrueriskError.

    Fields that were ``made`` otherwise are not read.
    """
    if not isinstance(json, Mapping):
        raise TrueriskError(f"{where} is not readable: it is not an object with fields.")
    hints, all_names = _hints(cls), [each.name for each in fields(cls)]  # type: ignore[arg-type]
    names = [name for name in all_names if name not in made]
    missing, unknown = [name for name in names if name not in json], sorted(map(str, json.keys() - set(names)))
    if missing or unknown:
        what = f"it has no field {missing[0]!r}" if missing else f"the field {unknown[0][:100]!r} is unknown"
        raise TrueriskError(f"{where} is not readable: {what}.")
    return cls(**made, **{name: value_of(hints[name], json[name], f"{where}, {name}") for name in names})


def value_of(kind: Any, json: object, where: str) -> Any:
    """A value of this type."""
    if hasattr(kind, "from_json"):
        return kind.from_json(json)
    if isinstance(kind, type) and is_dataclass(kind):
        return read(kind, json, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return None if json is None and type(None) in arguments else value_of(_plain(kind), json, where)
    if origin is tuple and isinstance(json, list):
        return tuple(value_of(arguments[0], each, where) for each in json)
    if origin is dict and isinstance(json, dict):
        return {str(name): value_of(arguments[1], each, where) for name, each in json.items()}
    if kind is Any or (origin is Literal and json in arguments):
        return json
    if type(json) is not kind:
        raise TrueriskError(f"{where} is not readable: {_shown(json)} is not {PLAIN.get(kind, 'of the right type')}.")
    return json


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _plain(kind: Any) -> Any:
    """The type itself where it may also be None."""
    others = [each for each in get_args(kind) if each is not type(None)]
    return others[0] if get_origin(kind) in (types.UnionType, Union) and len(others) == 1 else kind


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # more digits, or deeper, than Python writes
        return f"a {type(value).__name__} of some size"
    return text if len(text) < 60 else text[:60] + "..."
