"""``truerisk.measure``: every complexity measure and every bound of one network, side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from truerisk import progress
from truerisk.data import load
from truerisk.errors import TrueriskError
from truerisk.measures.calibration import random_label_network
from truerisk.measures.found import Measures, Reference
from truerisk.measures.observed import observe
from truerisk.measures.registry import MEASURES, Measure, NotDefined, Value, key_of, name_of
from truerisk.measures.subject import BUDGET, ROWS, Subject
from truerisk.measures.theorems import BOUNDS, Bound, Theorem
from truerisk.measures.trained import Network, given_or_trained
from truerisk.threads import limited, threads_for

CLOSE = 4  # names that are suggested for one that is none


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
    test: object = None,
    calibrate: bool = False,
) -> Measures:
    """Every complexity measure and classical bound of ``model`` on ``data`` (what it was trained on).

    * ``model``: a module, measured as it is; or the name of a built-in network, ``file.py:factory``, or a function that
      builds a module: that network is trained on ``data`` first, as ``truerisk measure`` does, from the initial weights
      of ``seed``. The result then has it as ``trained``.
    * ``init``: the same network as it was before training, for distances. ``record``: what is known of the training.
    * ``only``: names of measures and bounds. ``train``: also those that train networks of their own.
    * ``delta``: failure probability of each bound. ``rows``: examples for what takes many passes.
    * ``outputs``: what one output per example is, "logits" or "probabilities" (see ``certify``).
    * ``test``: held-out examples for the observed error: data, or a share of ``data``. By default a fifth where the
      network is trained here, and none where the module is already trained; 0 holds nothing out.
    * ``calibrate``: also train the same network on the same inputs with random labels and measure it (``reference``).

    >>> from truerisk.nets import architecture
    >>> found = measure(architecture("mlp:8", (64,), 10).build(0), "digits", only=["parameters"])
    >>> found["parameters"]
    610.0
    """
    names = None if only is None else wanted(current(only), train)  # a slip is told before anything is trained
    settings: dict[str, Any] = {"rows": rows, "seed": seed}
    network = given_or_trained(
        model, load(data, data_dir), init, record=record, outputs=outputs, test=test, data_dir=data_dir, **settings
    )
    asked: dict[str, Any] = {"only": names, "train": train, "delta": delta}
    found = measure_network(network, **settings, budget=budget, **asked)
    return calibrated(found, network, **settings, budget=budget, **asked) if calibrate else found


def measure_network(
    network: Network,
    *,
    subject: Subject | None = None,
    rows: int = ROWS,
    seed: int = 0,
    budget: int = BUDGET,
    only: Iterable[str] | None = None,
    train: bool = False,
    delta: float = 0.05,
) -> Measures:
    """All numbers of a network that is trained, with its observed errors; ``subject``: with parts that are there."""
    subject = subject or subject_of(network, rows, seed, budget)
    found = measure_subject(subject, only=only, train=train, delta=delta)
    found = replace(found, observed=observe(network.module, network.data, network.test))
    return replace(found, trained=network) if network.trained_here else found


def subject_of(network: Network, rows: int = ROWS, seed: int = 0, budget: int = BUDGET) -> Subject:
    """The network with its data, for measures."""
    return Subject(
        network.module, network.data, network.init, record=network.record, rows=rows, seed=seed, budget=budget
    )


def calibrated(found: Measures, network: Network, *, rows: int = ROWS, seed: int = 0, **settings: Any) -> Measures:
    """The same numbers next to those of the network that random labels give; or with the reason why there is none."""
    try:
        other, note = random_label_network(network, rows=rows, seed=seed)
    except TrueriskError as error:
        return replace(found, no_reference=f"There is no reference on random labels: {error}")
    reference = measure_network(other, rows=rows, seed=seed, **settings)
    return replace(found, reference=Reference(reference, other, note))


def measure_subject(
    subject: Subject, *, only: Iterable[str] | None = None, train: bool = False, delta: float = 0.05
) -> Measures:
    """All numbers of a subject, whose shared parts may be there already."""
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
            advance(note=name_of(name))
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
    names = [key_of(name) for name in only]
    unknown = [name for name in names if name not in known]
    if unknown:
        close = list(dict.fromkeys(name for word in unknown for name in close_names(word)))
        hint = f"close are {', '.join(close)}, and " if close else ""
        raise TrueriskError(f"there is no measure {', '.join(unknown)}; {hint}truerisk measure --list shows all names.")
    return names


def current(only: Iterable[str]) -> list[str]:
    """The names as they are today, with a note for each one that was renamed."""
    names = list(only)
    for name in names:
        if name_of(name) != name:
            short = MEASURES[name].meaning.partition(":")[0]
            progress.note(f"{name} is now called {name_of(name)} ({short}); its value is as before.")
    return [name_of(name) for name in names]


def close_names(word: str) -> list[str]:
    """The few measures and bounds that may be meant: spelled alike, of this family, or about this word.

    >>> close_names("l2norm")[0], close_names("no such thing")
    ('l2-norm', [])
    """
    known: dict[str, Measure | Theorem] = {**MEASURES, **BOUNDS}
    names, said = [entry.name for entry in known.values()], word.lower()
    spelled = difflib.get_close_matches(said, names, n=CLOSE, cutoff=0.7)
    inside = [name for name in names if said in name]
    family = [entry.name for entry in known.values() if isinstance(entry, Measure) and entry.family == said]
    about = [entry.name for entry in known.values() if said in entry.meaning.lower()]
    return list(dict.fromkeys([*spelled, *inside, *family, *about]))[:CLOSE]
