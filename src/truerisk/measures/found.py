"""``Measures``: every number that was found for one network, with its references, as tables, CSV, and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from truerisk.measures.observed import Observed
from truerisk.measures.ratios import Number, log10_of, log10_ratio, ratio
from truerisk.measures.registry import MEASURES, Measure, Value, key_of, name_of
from truerisk.measures.theorems import BOUNDS, Bound, Theorem
from truerisk.measures.trained import Network
from truerisk.measures.zoo import zoo

if TYPE_CHECKING:
    import pandas

OWN = (
    "name", "value", "log10", "error", "family", "invariant", "cost", "meaning", "paper", "equation", "same_order_as",
    "settings",
)  # fmt: skip
REFERENCES = ("random_labels", "random_labels_log10", "ratio", "zoo_larger_than", "zoo_networks", "zoo_tau")
COLUMNS = (*OWN, *REFERENCES)


@dataclass(frozen=True)
class Reference:
    """The same network trained on random labels: where its measures lie shows what memorization looks like.

    ``found``: its own values. ``network``: the trained network with its initial weights and its random labels.
    ``note``: one sentence about its training, with a warning where it does not fit its labels.
    """

    found: Measures
    network: Network
    note: str

    @property
    def fitted(self) -> bool:
        """Whether it reached the training loss at which training stops, or classifies all examples correctly."""
        observed = self.found.observed
        return self.network.fitted or (observed is not None and observed.train.errors == 0)


@dataclass(frozen=True)
class Measures:
    """What was found: values, bounds, and what was left out with the reason, by ``Measure.key``.

    ``trained``: the network that ``measure`` trained first, with its initial weights and a sentence about its training
    (``trained.how``); None where the module came trained. ``observed``: its errors on the measured examples and on
    held-out ones. ``reference``: the same network trained on random labels (``calibrate``); where there cannot be one,
    ``no_reference`` says why.
    """

    values: dict[str, Value]
    bounds: dict[str, Bound]
    skipped: dict[str, str]
    n: int
    classes: int
    trained: Network | None = field(default=None, compare=False, repr=False)
    observed: Observed | None = field(default=None, compare=False, repr=False)
    reference: Reference | None = field(default=None, compare=False, repr=False)
    no_reference: str = field(default="", compare=False, repr=False)

    def __getitem__(self, name: str) -> float:
        found = self.number(name)
        if found is None:
            raise KeyError(f"{name}: {self.skipped.get(key_of(name), 'there is no such measure')}")
        return found.value

    def number(self, name: str) -> Number | None:
        """The measure or bound of this name, with its logarithm where the value may leave the range of floats."""
        return self.values.get(key_of(name)) or self.bounds.get(name)

    def ratio(self, name: str) -> float | None:
        """log10 of (value on random labels / own value); None where there is no such ratio."""
        other = None if self.reference is None else self.reference.found.number(name)
        return log10_ratio(self.number(name), other)

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary for each measure, then one for each bound (of the family "bound")."""
        measures = [_row(MEASURES[name], value) for name, value in self.values.items()]
        bounds = [_bound_row(BOUNDS[name], bound) for name, bound in self.bounds.items()]
        return [row | self._references(key_of(row["name"])) for row in measures + bounds]

    def _references(self, name: str) -> dict[str, Any]:
        """The values that a number is told next to: on random labels, and in the zoo."""
        own, other = self.number(name), None if self.reference is None else self.reference.found.number(name)
        place = None if own is None else zoo().place(name, own)
        logarithm, apart = log10_of(other), self.ratio(name)
        return {
            "random_labels": None if other is None else other.value,
            "random_labels_log10": logarithm,
            "ratio": None if apart is None else ratio(apart),
            "zoo_larger_than": None if place is None else place.above,
            "zoo_networks": None if place is None else place.networks,
            "zoo_tau": None if name not in zoo().measures else zoo().measures[name].tau,
        }

    @property
    def table(self) -> pandas.DataFrame:
        """name, value, log10, error (of an estimate), family, invariant, cost, meaning, paper, equation, ..."""
        import pandas

        return pandas.DataFrame(self.rows(), columns=list(COLUMNS))

    @property
    def layers(self) -> pandas.DataFrame:
        """measure, layer, value: what each layer contributes, for measures that are made of layers."""
        import pandas

        found = [
            {"name": name_of(name), "layer": layer, "value": part}
            for name, value in self.values.items()
            for layer, part in value.layers.items()
        ]
        return pandas.DataFrame(found, columns=["name", "layer", "value"])

    def record(self) -> dict[str, Any]:
        """Plain JSON: ``{measures: [...], bounds: [...], skipped: [...]}``; infinite numbers are null."""
        found: dict[str, Any] = {} if self.trained is None else {"weights": self.trained.how}
        if self.observed is not None:
            found["observed"] = self.observed.record()
        if self.reference is not None:
            errors = self.reference.found.observed
            found["random_labels"] = {
                "fitted": self.reference.fitted,
                "note": self.reference.note,
                "observed": None if errors is None else errors.record(),
            }
        elif self.no_reference:
            found["random_labels"] = {"note": self.no_reference}
        return found | {
            "n": self.n,
            "classes": self.classes,
            "measures": [
                {**_plain(_row(MEASURES[name], value) | self._references(name)), "layers": _plain(value.layers)}
                for name, value in self.values.items()
            ],
            "bounds": [_plain(bound.record() | self._references(name)) for name, bound in self.bounds.items()],
            "skipped": [{"name": name_of(name), "reason": reason} for name, reason in self.skipped.items()],
            "zoo": zoo().record(),
        }

    def csv(self) -> str:
        """The table as comma-separated values."""
        return as_csv(self.rows(), COLUMNS)


def as_csv(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    """Rows as comma-separated values."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _row(entry: Measure, value: Value) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": value.value,
        "log10": log10_of(value),
        "error": value.error,
        **{column: getattr(entry, column) for column in OWN[4:]},
    }


def _bound_row(entry: Theorem, bound: Bound) -> dict[str, Any]:
    shared = {column: getattr(entry, column) for column in ("name", "invariant", "cost", "meaning", "paper")}
    row = {
        "value": bound.value,
        "log10": bound.natural_log / math.log(10),
        "family": "bound",
        "equation": entry.theorem,
    }
    return dict.fromkeys(OWN, "") | {"error": None} | shared | row


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _plain(v) if isinstance(v, Mapping) else _finite(v) for k, v in row.items()}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
