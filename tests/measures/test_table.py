"""The table as a whole: what every entry says of itself, and that no two measures are one and the same in disguise."""

from __future__ import annotations

import copy
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from measures.cases import mlp
from measures.fitting import RECORD, fitted
from torch import nn

from truerisk import find_symmetry
from truerisk.data import Data
from truerisk.measures import BOUNDS, MEASURES, Bound, Measures, Subject, Value
from truerisk.measures.registry import COSTS, NEEDS
from truerisk.measures.table import measure_subject, wanted

FIRST, MOST = 16, 200  # networks on which all measures are compared, and those that still agree then


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_says_what_it_is(name):
    entry = MEASURES[name]
    assert re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", name)
    assert entry.meaning[0].isupper()
    assert entry.meaning.endswith(".")
    assert entry.paper
    assert entry.equation
    assert entry.cost in COSTS
    assert entry.needs <= NEEDS.keys()
    assert entry.same_order_as != name
    assert not entry.same_order_as or entry.same_order_as in MEASURES


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_says_what_it_is(name):
    entry = BOUNDS[name]
    assert re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", name)
    assert name not in MEASURES, "one name, one number"
    assert entry.paper
    assert entry.theorem
    assert entry.meaning[0].isupper()
    assert entry.meaning.endswith(".")


@pytest.mark.parametrize("name", [*MEASURES, *BOUNDS])
def test_a_meaning_stands_alone(name):
    """Tables are sorted: a meaning that points to the row above points to the wrong one. Name, colon, intuition."""
    meaning = {**MEASURES, **BOUNDS}[name].meaning
    assert len(meaning) <= 100
    assert not re.search(r"\b(the same|such a|as above|see above|likewise|ditto)\b", meaning, re.IGNORECASE)
    assert not re.match(r"(As|Like|Same|This|That|It)\b", meaning)
    assert not re.match(r"(What|How)\b", meaning), "a named thing comes first"
    assert meaning.count(": ") == 1
    others = sorted(
        {*MEASURES, *BOUNDS} - {"compression", "cross-entropy", "parameters", "sharpness", "vc"}
    )  # words of their own
    assert not any(re.search(rf"(?<![\w-]){re.escape(other)}(?![\w-])", meaning) for other in others)


def test_no_two_meanings_are_alike():
    meanings = [entry.meaning for entry in (*MEASURES.values(), *BOUNDS.values())]
    assert len(set(meanings)) == len(meanings)


def test_a_search_bracket_is_not_taken_for_a_confidence_interval():
    searched = [entry for entry in MEASURES.values() if "search bracket" in entry.settings]
    assert {entry.family for entry in searched} == {"flatness", "sharpness"}
    assert len(searched) == 12
    assert all("not a confidence interval" in entry.settings for entry in searched)


def test_families_are_together():
    families = [entry.family for entry in MEASURES.values()]
    assert len(list(itertools.groupby(families))) == len(set(families))


def test_csv_and_record_hold_what_the_table_holds():
    """Also where a number leaves the range of floats: CSV says inf and the logarithm, JSON null and the logarithm."""
    values = {"parameters": Value(10.0, layers={"a": 4.0, "b": math.inf}, error=0.5), "l2-norm": Value.of_log(1000.0)}
    bound = Bound("vc", math.inf, "p", "t", "m", {"part": math.inf, "n": 60.0}, 2000.0)
    found = Measures(values, {"vc": bound}, {"path-norm": "why."}, 60, 3)
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert [(row["name"], row["value"]) for row in rows] == [
        ("parameters", "10.0"), ("l2-norm", "inf"), ("vc", "inf"),
    ]  # fmt: skip
    assert [float(row["log10"]) for row in rows[1:]] == pytest.approx([1000 / math.log(10), 2000 / math.log(10)])
    assert [row["error"] for row in rows] == ["0.5", "", ""]
    assert (rows[2]["family"], rows[2]["equation"]) == ("bound", BOUNDS["vc"].theorem)
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["measures"][0]["layers"] == {"a": 4.0, "b": None}
    assert record["measures"][1]["value"] is None
    assert [row["error"] for row in record["measures"]] == [0.5, None]
    assert record["bounds"][0]["parts"] == {"part": None, "n": 60.0}
    assert record["bounds"][0]["orders_too_large"] == pytest.approx(2000 / math.log(10))
    assert record["skipped"] == [{"name": "path-norm-l2-squared", "reason": "why."}], "by its name, not by its key"
    assert found.layers.to_dict("list") == {"name": ["parameters"] * 2, "layer": ["a", "b"], "value": [4.0, math.inf]}


def test_what_trains_networks_is_computed_on_request_only():
    names = {name for name, entry in MEASURES.items() if entry.cost == "training"}
    assert names
    assert not names & set(wanted(None, train=False))
    assert names <= set(wanted(None, train=True))
    assert wanted(["l2-norm", *names], train=False) == ["l2-norm", *names]


def marked(one: str, two: str) -> bool:
    """Whether one is declared to be a monotone transform of the other, maybe by way of a third."""
    groups: dict[str, str] = {}

    def root(name: str) -> str:
        while groups.get(name, name) != name:
            name = groups[name]
        return name

    for name, entry in MEASURES.items():
        if entry.same_order_as:
            groups[root(name)] = root(entry.same_order_as)
    return root(one) == root(two)


def ranks(values) -> np.ndarray:
    """Ranks from 0, equal numbers sharing the smallest; differences within rounding count as equal."""
    values = np.asarray(values, dtype=float)
    order = np.argsort(values, kind="stable")
    found = np.zeros(len(values), int)
    for place, (before, now) in enumerate(itertools.pairwise(order), start=1):
        scale = max(abs(values[before]), abs(values[now]))
        same = values[now] == values[before] or values[now] - values[before] <= 1e-9 * scale
        found[now] = found[before] if same else place
    return found


def size(value: Value) -> float:
    """A number that can be compared, whatever the range of floats."""
    return value.value if value.log is None else value.log


def convolutions(*channels: int) -> nn.Sequential:
    """Convolutions with these numbers of channels, the picture halved after the first, and a linear layer."""
    layers: list[nn.Module] = []
    for entering, leaving in itertools.pairwise([1, *channels]):
        layers += [nn.Conv2d(entering, leaving, 3, padding=1), nn.ReLU(), *([] if len(layers) else [nn.MaxPool2d(2)])]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * channels[-1], 3))


KINDS = (lambda: mlp(64, 70, 3), lambda: mlp(64, 60, 55, 3), lambda: convolutions(4), lambda: convolutions(4, 5, 4))


@pytest.fixture(scope="module")
def patterns() -> Data:
    """Noisy pictures of three patterns, easy to fit."""
    rng = np.random.default_rng(1)
    y = rng.integers(3, size=60)
    return Data("patterns", rng.normal(size=(60, 1, 8, 8)) + rng.normal(size=(3, 1, 8, 8))[y], y, 3)


def grown(make: Callable[[], nn.Module], seed: int, data: Data, steps: int, std: float) -> tuple[nn.Module, nn.Module]:
    """A network that was trained for some steps, then rescaled; and an initialization."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        init, net = make().double().eval(), make().double().eval()
    net = fitted(net, data, steps=steps)
    sym = find_symmetry(net, torch.zeros(1, 1, 8, 8, dtype=torch.float64), check=False)
    return sym.rescale(net, sym.random(std, seed)), init


def stranger(number: int, data: Data) -> tuple[nn.Module, nn.Module]:
    """A network of any depth and width, of linear layers or with convolutions, trained a little or not at all."""
    rng = np.random.default_rng(number)
    depth, steps, std = int(rng.integers(1, 5)), int(rng.choice([0, 20])), rng.uniform(0, 2)
    widths = rng.integers(3, 40, size=depth).tolist()
    if rng.uniform() < 0.3:
        return grown(lambda: mlp(64, *widths, 3), number, data, steps, std)
    channels = rng.integers(2, 7, size=min(depth, 3)).tolist()
    return grown(lambda: convolutions(*channels), number, data, steps, std)


def neighbour(number: int, base: tuple[nn.Module, nn.Module]) -> tuple[nn.Module, nn.Module]:
    """The same with a little noise. Two measures follow noise alike only if their gradients have one direction."""
    generator = torch.Generator().manual_seed(number)
    networks = copy.deepcopy(base)
    for network, share in zip(networks, (0.03, 0.3), strict=True):  # nothing depends much on the initialization
        for p in network.parameters():
            p.data += share * p.data.abs().mean() * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    return networks


@pytest.fixture(scope="module")
def bases(patterns) -> list[tuple[nn.Module, nn.Module]]:
    """One network of each kind that fits the data, with its initialization."""
    return [grown(make, seed, patterns, 12, 0.2) for seed, make in enumerate(KINDS)]


def measured(number: int, data: Data, bases, names: Iterable[str]) -> dict[str, float]:
    """Of neighbours of the bases at first; then of neighbours and strangers in turn."""
    near, kind = number < FIRST or number % 2 == 0, (number if number < FIRST else number // 2) % len(KINDS)
    net, init = neighbour(number, bases[kind]) if near else stranger(number, data)
    rng = np.random.default_rng(number)
    record = {key: value * rng.uniform() for key, value in RECORD.items()}
    found = measure_subject(Subject(net, data, init, record=record, rows=20), only=names)
    return {name: size(value) for name, value in found.values.items()}


def alike(tables: list[dict[str, float]], one: str, two: str) -> bool:
    """Whether two measures order all networks alike, or exactly the other way round."""
    both = [(table[one], table[two]) for table in tables if one in table and two in table]
    if not both:
        return False
    first, second = (ranks(values) for values in zip(*both, strict=True))
    opposite = ranks([-value for _, value in both])
    return np.array_equal(first, second) or np.array_equal(first, opposite)


@pytest.fixture(scope="module")
def tables(patterns, bases) -> list[dict[str, float]]:
    names = [name for name, entry in MEASURES.items() if entry.cost != "training"]
    return [measured(number, patterns, bases, names) for number in range(FIRST)]


@pytest.mark.long
def test_no_two_measures_are_the_same_in_disguise(tables, patterns, bases):
    """Each two order some pair of networks differently, and some pair alike.

    Two that agree on the first networks by luck are compared on more. (Two that no network has both of are not.)
    """
    pairs = itertools.combinations(dict.fromkeys(name for table in tables for name in table), 2)
    suspects = [pair for pair in pairs if not marked(*pair) and alike(tables, *pair)]
    tables = list(tables)
    for number in range(FIRST, MOST):
        if not suspects:
            break
        tables.append(measured(number, patterns, bases, {name for pair in suspects for name in pair}))
        suspects = [pair for pair in suspects if alike(tables, *pair)]
    assert suspects == [], f"{suspects}"


@pytest.mark.parametrize("name", [name for name, entry in MEASURES.items() if entry.same_order_as])
def test_those_that_are_marked_are_of_one_order(tables, name):
    assert alike(tables, name, MEASURES[name].same_order_as)


def test_every_measure_is_defined_for_some_network(tables):
    names = {name for name, entry in MEASURES.items() if entry.cost != "training"}
    assert names - {name for table in tables for name in table} == set()
