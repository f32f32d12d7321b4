"""Numbers of networks for tests of pages: all sizes, with layers, audited, next to random labels."""

from __future__ import annotations

import math

import numpy as np
from torch import nn

from truerisk.measures import BOUNDS, MEASURES, Bound, Measures, Value
from truerisk.measures.audit import Audit, Moved
from truerisk.measures.found import Reference
from truerisk.measures.observed import Errors, Observed
from truerisk.measures.registry import name_of
from truerisk.measures.trained import Network
from truerisk.measures.zoo import zoo

EVIL = "<script>document.title = 'taken'</script>"
LEADING = zoo().leading(MEASURES)
NAMES = list(dict.fromkeys([*list(MEASURES)[:36], *LEADING]))[:42]
OBSERVED = Observed(Errors(1, 1438), Errors(10, 359))
FACTS = {"Network": "mlp", "Data": "digits: 60 examples", "Seed": "0"}


def bound(name: str, value: float, log: float | None = None) -> Bound:
    return Bound(name, value, "A paper", "Theorem 1", "What it means.", {}, log)


def some(layer: str = "a.layer", observed: Observed | None = None, **fields) -> Measures:
    """Numbers of all sizes under real names, some of them with layers, and bounds below and above 1."""
    rng = np.random.default_rng(0)
    values = {name: Value(float(10 ** rng.uniform(-8, 12))) for name in NAMES}
    for name in NAMES[::3]:
        values[name] = Value(3.0, layers={layer: 1.0, "b": 2.0, "c" * 60: 1e-5})
    values[NAMES[1]] = Value.of_log(5000.0)
    values[NAMES[2]] = Value(-2.5)
    for name in LEADING:
        values[name] = Value.of_log(0.3 * len(name))
    sizes = [0.31, 1.02, 7.0, 2e4, 1e9, *[1e12] * 20]
    bounds = {name: bound(name, size) for name, size in zip(BOUNDS, sizes, strict=False)}
    last = list(bounds)[-1]
    bounds[last] = bound(last, math.inf, 2000.0)
    skipped = {"one": "no layer is a convolution.", "two": "no layer is a convolution.", "three": "it is no chain."}
    return Measures(values, bounds, skipped, 60, 3, observed=observed or OBSERVED, **fields)


def random_labels(note: str = "The reference was trained on random labels.", fits: bool = True) -> Reference:
    """The same numbers, larger by factors from 0.5 to 500."""
    own = some()
    values = {
        name: Value.of_log(math.log(abs(value.value) or 1.0) + 0.9 * (k % 8) - 0.7)
        for k, (name, value) in enumerate(own.values.items())
        if math.isfinite(value.value)
    }
    observed = Observed(Errors(0 if fits else 700, 1438), Errors(325, 359))
    found = Measures(values, {}, {}, 60, 3, observed=observed)
    network = Network("n", nn.Linear(2, 2), None, None, {}, "How.", fitted=fits)  # type: ignore[arg-type]
    return Reference(found, network, note)


def panels() -> dict[str, np.ndarray]:
    margins = np.random.default_rng(0).normal(2.0, 1.5, size=500)
    return {"margins": margins, "over spectral complexity": 1e-3 * margins, "over path norm": 1e-9 * margins}


def audited(found: Measures) -> Audit:
    moves = {}
    for k, name in enumerate([*found.values, *found.bounds]):
        invariant = (MEASURES | BOUNDS)[name].invariant
        orders = 0.0 if invariant else (math.inf if k % 7 == 0 else 0.4 * k)
        name = name_of(name)
        after = {"after": 1.0 if invariant else 2.0 + k}
        moves[name] = Moved(name, "measure", "f", invariant, 1.0, orders, 1e-5, "changed its sign", **after)
    return Audit(moves, found, 3e-16, 100, 5, 1.0)
