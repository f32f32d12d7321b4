"""All measures of the weight families together: every case, and the invariance they declare."""

from __future__ import annotations

import math

import pytest
import torch
from measures.cases import CASES, build, mlp
from measures.subjects import X, labelled, subject
from torch import nn

from truerisk import find_symmetry
from truerisk.measures import MEASURES, NotDefined, Subject

FAMILIES = ("counts", "norms", "distances", "margins", "products", "paths", "normalized", "tails", "lipschitz")
NAMES = [name for name, entry in MEASURES.items() if entry.family in FAMILIES]
INVARIANT = [name for name in NAMES if MEASURES[name].invariant]
CHAINS_ONLY = {
    "vc-dimension", "spectral-complexity", "spectral-complexity-init", "median-normalized-margin", "lipschitz-product",
    "lipschitz-eclipse-fast",
}  # fmt: skip
WIDE_ONLY = {"tail-exponent", "tail-exponent-weighted"}
SLIDING_ONLY = {name for name in NAMES if name.startswith("operator-")} | {"stable-ranks-operator", "distance-operator"}
BIASES_ONLY = {"l2-norm", "distance-l2"}


def values(found: Subject) -> dict[str, float]:
    """The logarithm of each measure that is defined and positive, else its value."""
    numbers = {}
    for name in NAMES:
        try:
            value = MEASURES[name](found)
        except NotDefined:
            continue
        log = value.log if value.log is not None else math.log(value.value) if value.value > 0 else value.value
        numbers[name] = log
    return numbers


@pytest.mark.parametrize(
    ("case", "missing"),
    [
        ("mlp", SLIDING_ONLY | WIDE_ONLY),
        ("mlp without biases", SLIDING_ONLY | WIDE_ONLY | BIASES_ONLY),
        ("linear", SLIDING_ONLY | WIDE_ONLY),
        ("convnet", WIDE_ONLY | {"vc-dimension", "lipschitz-eclipse-fast"}),
        ("residual", WIDE_ONLY | CHAINS_ONLY),
    ],
)
def test_every_case(case, missing):
    assert set(CASES) == {"mlp", "mlp without biases", "linear", "convnet", "residual"}
    assert set(values(subject(case))) == set(NAMES) - missing


def rescaled(module: nn.Module, seed: int) -> nn.Module:
    symmetry = find_symmetry(module, torch.from_numpy(X[:1]))
    assert symmetry.dim > 0
    return symmetry.rescale(module, symmetry.random(std=1.0, seed=seed))


def wide() -> nn.Module:
    torch.manual_seed(0)
    return mlp(64, 30, 25, 3).double()


@pytest.mark.parametrize("case", ["convnet", "residual", "wide"])
def test_declared_invariance(case):
    module = wide() if case == "wide" else build(case)
    init = build(case, 1) if case != "wide" else mlp(64, 30, 25, 3).double()
    data = labelled(module)
    before = values(Subject(module, data, init))
    after = values(Subject(rescaled(module, 3), data, init))
    assert set(before) == set(after)
    for name, log in before.items():
        change = abs(math.expm1(after[name] - log))
        if MEASURES[name].invariant:
            assert change < 1e-6, name
        else:
            assert change > 1e-3, name


@pytest.mark.parametrize("name", NAMES)
def test_what_a_measure_says_of_itself(name):
    entry = MEASURES[name]
    assert entry.same_order_as == "" or entry.same_order_as in MEASURES
    assert entry.meaning.endswith(".")
    assert entry.paper
    assert entry.equation
    assert ("init" in entry.needs) == (name.startswith("distance") or name.endswith("-init"))
