"""`Rows`: what the tasks of an experiment returned, with just enough to ask questions of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from truerisk.engine import canonical
from truerisk.errors import TrueriskError

Row = Mapping[str, Any]
SOME = 6  # values of a field that an error lists


class IncompleteError(TrueriskError):
    """A question about runs that are not there: no verdict is given from the rest."""


class DivergedError(IncompleteError):
    """A question about runs that diverged: their errors and steps mean nothing."""


class Rows:
    """Finished runs, one flat mapping each (setting and record together), and the settings that are missing.

    A number asked of rows that lack a planned run raises `IncompleteError`: a claim about all runs must not be
    found true because those that would refute it failed. One asked of a run that diverged (a record may say so in a
    field ``diverged``) raises `DivergedError`; an effect about divergence asks `diverged`. ``fields`` are the names
    that settings have; without them every name counts as one.

    >>> rows = Rows([{"p": 0, "error": 0.1}, {"p": 1, "error": 0.9}, {"p": 1, "error": 0.8}])
    >>> rows.where(p=1).max("error")
    0.9
    >>> rows.where(p=[0, 1]).column("error")
    [0.1, 0.9, 0.8]
    >>> [(p, len(some)) for (p,), some in rows.groups("p")]
    [(0, 1), (1, 2)]
    >>> Rows([{"p": 0, "error": 0.1}], missing=[{"p": 1}]).mean("error")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ...
    truerisk.lab.rows.IncompleteError: 1 of 2 runs is missing (p=1)
    """

    def __init__(self, rows: Iterable[Row], missing: Iterable[Row] = (), fields: Iterable[str] | None = None) -> None:
        self.present = [dict(row) for row in rows]
        self.missing = [dict(setting) for setting in missing]
        every = (name for row in [*self.present, *self.missing] for name in row)
        self.fields = frozenset(every if fields is None else fields)
        self.absent = ""  # why there are none, where `where` found none

    def __len__(self) -> int:
        return len(self.present)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.present)

    def where(self, **fields: Any) -> Rows:
        """The rows whose fields equal the given values; a list, tuple or set means any of its values."""
        for name in fields if self.present else ():
            if name not in self.fields and not any(name in row for row in self.present):
                raise TrueriskError(f"no run has a field {name!r}; their fields are {', '.join(self.present[0])}.")
        # A missing run has no record, so what is asked of its record may be true: it stays among the missing.
        found = Rows(
            (row for row in self.present if all(k in row and _fits(row[k], v) for k, v in fields.items())),
            (gone for gone in self.missing if all(_fits(gone[k], v) for k, v in fields.items() if k in gone)),
            self.fields,
        )
        found.absent = self._absent(fields) if not found.present and not found.missing else ""
        return found

    def _absent(self, fields: Mapping[str, Any]) -> str:
        """Why no run has these values: the first field of which no run has the value, with those that runs have."""
        for name, wanted in fields.items():
            values = self.values(name)
            if self.absent or not any(_fits(value, wanted) for value in values):
                there = ", ".join(map(str, values[:SOME])) or "absent"
                return self.absent or f"no run here has {name}={wanted!r}; {name} is {there}"
        return f"no run here has {', '.join(f'{name}={value!r}' for name, value in fields.items())} at once"

    def converged(self) -> Rows:
        """The rows of runs that did not diverge; for figures, so gaps are allowed."""
        return Rows((row for row in self.present if not row.get("diverged")), self.missing, self.fields)

    def having(self, **made: Callable[[Row], Any]) -> Rows:
        """The rows with further fields, each computed from its row.

        >>> Rows([{"width": 8}]).having(units=lambda row: 2 * row["width"]).present
        [{'width': 8, 'units': 16}]
        """
        rows = ({**row, **{name: make(row) for name, make in made.items()}} for row in self.present)
        return Rows(rows, self.missing, self.fields)

    def longer(self, value: str, names: Mapping[str, str], into: str) -> Rows:
        """Each row once for each of several fields: its name in ``into``, its number in ``value``.

        >>> Rows([{"a": 1, "b": 2}]).longer("error", {"training": "a", "new": "b"}, into="on").column("error")
        [1, 2]
        """
        rows = ({**row, into: name, value: row.get(own)} for row in self.present for name, own in names.items())
        return Rows(rows, self.missing, self.fields)

    def unrolled(self, **columns: str) -> Rows:
        """Each row once for each entry of fields that are lists, entries of all lists side by side.

        >>> Rows([{"steps": [1, 2], "errors": [0.9, 0.4]}]).unrolled(step="steps", error="errors").column("error")
        [0.9, 0.4]
        """
        found = []
        for row in self.present:
            rest = {name: value for name, value in row.items() if name not in columns.values()}
            entries = zip(*(row[own] for own in columns.values()), strict=True)
            found += [{**rest, **dict(zip(columns, entry, strict=True))} for entry in entries]
        return Rows(found, self.missing, self.fields)

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Rows]]:
        """The rows divided by the values of these fields of the setting, in order of first appearance."""
        present, missing = ([(_key(row, names), row) for row in rows] for rows in (self.present, self.missing))
        found = {key: tuple(row[name] for name in names) for key, row in [*present, *missing] if key}
        for key, values in found.items():
            here, gone = ([row for k, row in rows if k == key] for rows in (present, missing))
            yield values, Rows(here, gone, self.fields)

    def values(self, name: str) -> list[Any]:
        """The different values of a field, in order of first appearance; for figures, so gaps are allowed."""
        return list({canonical(row[name]): row[name] for row in self.present if name in row}.values())

    def complete(self, name: str = "it") -> list[dict[str, Any]]:
        """All rows, none of them missing or diverged; ``name`` says in an error what was asked for."""
        self._complete(name)
        return self.present

    def column(self, name: str) -> list[Any]:
        """A field of every row; a name that no row has is refused."""
        rows = self.complete(name)
        lacking = next((row for row in rows if name not in row), None)
        if lacking is not None:
            raise TrueriskError(f"no field {name!r} in a run; its fields are {', '.join(lacking)}.")
        return [row[name] for row in rows]

    def seeds(self) -> list[Any]:
        """The seeds of all planned runs, in order."""
        return sorted({row["seed"] for row in [*self.present, *self.missing] if "seed" in row})

    def diverged(self) -> bool:
        """Whether some run diverged; for effects that are about just that."""
        self.present_all("divergence")
        return any(row.get("diverged") for row in self.present)

    def one(self, name: str) -> Any:
        """A field of the only row."""
        column = self.column(name)
        if len(column) != 1:
            raise IncompleteError(f"{len(column)} runs match where one was meant")
        return column[0]

    def mean(self, name: str) -> float:
        return statistics.fmean(self.column(name))

    def median(self, name: str) -> float:
        return float(statistics.median(self.column(name)))

    def min(self, name: str) -> float:
        return min(self.column(name))

    def max(self, name: str) -> float:
        return max(self.column(name))

    def _complete(self, name: str) -> None:
        self.present_all(name)
        wild = [row for row in self.present if row.get("diverged")]
        if wild:
            first = ", ".join(f"{k}={v}" for k, v in wild[0].items() if isinstance(v, str | int | float))
            raise DivergedError(f"{len(wild)} of {len(self.present)} runs diverged ({first})")

    def present_all(self, name: str) -> None:
        """Refuse rows of which a planned run is missing; ``name`` says in the error what was asked for."""
        total = len(self.present) + len(self.missing)
        if self.missing:
            first = ", ".join(f"{k}={v}" for k, v in self.missing[0].items())
            are = "is" if len(self.missing) == 1 else "are"
            raise IncompleteError(f"{len(self.missing)} of {total} runs {are} missing ({first})")
        if not self.present:
            raise IncompleteError(self.absent or f"no run of this scale says anything about {name}")


def _fits(value: Any, wanted: Any) -> bool:
    """Equal, or among several; a value may itself be a list, such as the widths of layers."""
    return bool(value == wanted) or (
        isinstance(wanted, list | tuple | set | frozenset) and any(value == one for one in wanted)
    )


def _key(row: Row, names: tuple[str, ...]) -> str:
    """One text for the values of these fields; empty where one is not there."""
    return canonical([row[name] for name in names]) if all(name in row for name in names) else ""
