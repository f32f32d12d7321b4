"""``truerisk.measure``: every complexity measure and every bound of one network, side by side."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from truerisk import progress
from truerisk.data import load
from truerisk.errors import TrueriskError
from truerisk.measures.registry import MEASURES, Measure, NotDefined, Value
from truerisk.measures.subject import BUDGET, ROWS, Subject
from truerisk.measures.theorems import BOUNDS, Bound, Theorem
from truerisk.measures.trained import Network, given_or_trained
from truerisk.threads import limited, threads_for

if TYPE_CHECKING:
    import pandas

COLUMNS = (
    "name", "value", "log10", "error", "family", "invariant", "cost", "meaning", "paper", "equation", "same_order_as",
    "settings",
)  # fmt: skip


@dataclass(frozen=True)
class Measures:
    """What was found: values, bounds, and what was left out with the reason.

    ``trained``: the network that ``measure`` trained first, with its initial weights and a sentence about its training
    (``trained.how``); None where the module came trained.
    """

    values: dict[str, Value]
    bounds: dict[str, Bound]
    skipped: dict[str, str]
    n: int
    classes: int
    trained: Network | None = field(default=None, compare=False, repr=False)

    def __getitem__(self, name: str) -> float:
        if name in self.values:
            return self.values[name].value
        if name in self.bounds:
            return self.bounds[name].value
        raise KeyError(f"{name}: {self.skipped.get(name, 'there is no such measure')}")

    def rows(self) -> list[dict[str, Any]]:
        """One plain dictionary for each measure, then one for each bound (of the family "bound")."""
        measures = [_row(MEASURES[name], value) for name, value in self.values.items()]
        return measures + [_bound_row(BOUNDS[name], bound) for name, bound in self.bounds.items()]

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
            {"name": name, "layer": layer, "value": part}
            for name, value in self.values.items()
            for layer, part in value.layers.items()
        ]
        return pandas.DataFrame(found, columns=["name", "layer", "value"])

    def record(self) -> dict[str, Any]:
        """Plain JSON: ``{measures: [...], bounds: [...], skipped: [...]}``; infinite numbers are null."""
        return ({} if self.trained is None else {"weights": self.trained.how}) | {
            "n": self.n,
            "classes": self.classes,
            "measures": [
                {**_plain(_row(MEASURES[name], value)), "layers": _plain(value.layers)}
                for name, value in self.values.items()
            ],
            "bounds": [_plain(bound.record()) for bound in self.bounds.values()],
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped.items()],
        }

    def csv(self) -> str:
        """The table as comma-separated values."""
        out = io.StringIO()
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        return out.getvalue()


def measure(
    model: object,
    data: object,
    init: nn.Module | None = None,
    *,
    record: Mapping[str, Any] | None = None,
    only: Iterable[str] | None = None,
    train: bool = False,
    delta: float = 0.05,
    rows: int = ROWS,
    seed: int = 0,
    budget: int = BUDGET,
    data_dir: str | Path | None = None,
    outputs: str | None = None,
) -> Measures:
    """Every complexity measure and classical bound of ``model`` on ``data`` (what it was trained on).

    * ``model``: a module, measured as it is; or the name of a built-in network, ``file.py:factory``, or a function that
      builds a module: that network is trained on ``data`` first, as ``truerisk measure`` does, from the initial weights
      of ``seed``. The result then has it as ``trained``.
    * ``init``: the same network as it was before training, for distances. ``record``: what is known of the training.
    * ``only``: names of measures and bounds. ``train``: also those that train networks of their own.
    * ``delta``: probability with which each single bound may fail. ``rows``: examples for what takes many passes.
    * ``outputs``: what one output per example is, "logits" or "probabilities" (see ``certify``).

    >>> from truerisk.nets import architecture
    >>> found = measure(architecture("mlp:8", (64,), 10).build(0), "digits", only=["parameters"])
    >>> found["parameters"]
    610.0
    """
    names = None if only is None else wanted(only, train)  # a slip in a name is told before anything is trained
    network = given_or_trained(model, load(data, data_dir), init, record=record, rows=rows, seed=seed, outputs=outputs)
    settings: dict[str, Any] = {"record": network.record, "rows": rows, "seed": seed, "budget": budget}
    subject = Subject(network.module, network.data, network.init, **settings)
    found = measure_subject(subject, only=names, train=train, delta=delta)
    return replace(found, trained=network) if network.trained_here else found


def measure_subject(
    subject: Subject, *, only: Iterable[str] | None = None, train: bool = False, delta: float = 0.05
) -> Measures:
    """The same for a subject whose shared parts may be there already."""
    names = wanted(only, train)
    values: dict[str, Value] = {}
    bounds: dict[str, Bound] = {}
    skipped: dict[str, str] = {}
    threads = threads_for(subject.function, subject.data.X)
    with limited(threads), progress.bar("measuring", len(names)) as advance, progress.silent():
        for name in names:
            try:
                if name in MEASURES:
                    values[name] = MEASURES[name](subject)
                else:
                    bounds[name] = BOUNDS[name](subject, delta)
            except NotDefined as reason:
                skipped[name] = str(reason)
            advance(note=name)
    return Measures(values, bounds, skipped, subject.n, subject.data.classes)


def costly(only: Iterable[str] | None, train: bool) -> bool:
    """Whether some of the names take more than a pass over the examples."""
    known: dict[str, Measure | Theorem] = {**MEASURES, **BOUNDS}
    return any(known[name].cost not in ("weights", "forward") for name in wanted(only, train))


def wanted(only: Iterable[str] | None, train: bool) -> list[str]:
    """The names to compute: all that cost no training, unless it is asked for, or just these."""
    known: dict[str, Measure | Theorem] = {**MEASURES, **BOUNDS}
    if only is None:
        return [name for name, entry in known.items() if train or entry.cost != "training"]
    names = list(only)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise TrueriskError(f"there is no measure {', '.join(unknown)}; truerisk measure --list shows all names.")
    return names


def _row(entry: Measure, value: Value) -> dict[str, Any]:
    logarithm = value.log if value.log is not None else (math.log(value.value) if value.value > 0 else None)
    return {
        "name": entry.name,
        "value": value.value,
        "log10": None if logarithm is None else logarithm / math.log(10),
        "error": value.error,
        **{column: getattr(entry, column) for column in COLUMNS[4:]},
    }


def _bound_row(entry: Theorem, bound: Bound) -> dict[str, Any]:
    shared = {column: getattr(entry, column) for column in ("name", "invariant", "cost", "meaning", "paper")}
    row = {
        "value": bound.value,
        "log10": bound.natural_log / math.log(10),
        "family": "bound",
        "equation": entry.theorem,
    }
    return dict.fromkeys(COLUMNS, "") | {"error": None} | shared | row


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _plain(v) if isinstance(v, Mapping) else _finite(v) for k, v in row.items()}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
