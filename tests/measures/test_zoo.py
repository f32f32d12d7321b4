"""The reference zoo: places by counting, the choice of leading measures against a plain reference implementation."""

from __future__ import annotations

import itertools
import json
import math
from importlib.resources import files

import pytest

from truerisk.measures import MEASURES, Value
from truerisk.measures.zoo import FEW, Known, Zoo, significant, zoo


def test_the_file_is_small_and_complete():
    text = files("truerisk.measures").joinpath("zoo.json").read_text()
    assert len(text) < 80_000
    content = json.loads(text)
    about = content["about"]
    assert about["networks"] <= about["trained"] == 80
    assert {name for name, entry in MEASURES.items() if entry.cost != "training"} >= content["measures"].keys()
    assert len(content["measures"]) > 80
    for name, one in content["measures"].items():
        assert one["values"] == sorted(one["values"]), name
        assert len(one["values"]) + one["missing"] == about["networks"]
        assert "tau" not in one or one["low"] <= one["tau"] <= one["high"]
        assert -1 <= one.get("tau", 0) <= 1


@pytest.mark.parametrize("name", ["path-norm", "parameters", "stable-ranks"])
@pytest.mark.parametrize("shift", [-3.0, 0.0, 0.7])
def test_a_place_is_a_count(name, shift):
    known = zoo().measures[name]
    at = known.values[len(known.values) // 2] + shift
    number = Value.of_log(at) if known.log else Value(at)
    place = zoo().place(name, number)
    assert place.above == sum(significant(at) > value for value in known.values)
    assert place.equal == sum(significant(at) == value for value in known.values)
    assert place.networks == zoo().networks
    assert str(place) == f"{place.above} of {place.networks}"


def test_places_that_do_not_exist():
    assert zoo().place("no-such-measure", Value(1.0)) is None
    assert zoo().measures["path-norm"].log
    assert zoo().place("path-norm", Value(1.0)) is None, "a number without its logarithm"
    assert zoo().place("parameters", Value(math.inf)).above == zoo().networks


def some(low: float, high: float, steady: bool = True, missing: int = 0) -> Known:
    return Known((1.0, 2.0), False, missing, (low + high) / 2, low, high, steady)


def test_the_sign_needs_an_interval_and_every_hyperparameter():
    assert [some(*ends).sign for ends in ((0.1, 0.5), (-0.5, -0.1), (-0.1, 0.5))] == [1, -1, 0]
    assert [some(*ends).sure for ends in ((0.1, 0.5), (-0.5, -0.2), (-0.1, 0.5))] == [0.1, 0.2, 0.0]
    assert (some(0.1, 0.5, steady=False).sign, some(0.1, 0.5, steady=False).sure) == (0, 0.0)
    assert (Known((), False, 3).sign, Known((), False, 3).sure) == (0, 0.0)


def plain_leading(known: dict[str, Known], names) -> list[str]:
    """Family by family: the one whose |tau| is largest for certain; then sort the families."""
    found = []
    for _, group in itertools.groupby(MEASURES.values(), key=lambda entry: entry.family):
        best, most = "", 0.0
        for entry in group:
            one = known.get(entry.name)
            if one is None or entry.name not in names or one.missing or not one.steady or one.low is None:
                continue
            sure = one.low if one.low > 0 else -one.high if one.high < 0 else 0.0
            if sure > most:
                best, most = entry.name, sure
        if best:
            found.append((-most, best))
    return [name for _, name in sorted(found)][:FEW]


def test_the_leading_measures_are_the_best_of_their_families():
    assert zoo().leading(MEASURES) == plain_leading(zoo().measures, MEASURES)
    assert 1 <= len(zoo().leading(MEASURES)) <= FEW
    fewer = list(MEASURES)[::2]
    assert zoo().leading(fewer) == plain_leading(zoo().measures, fewer)
    assert zoo().leading([]) == []


def test_one_of_each_family_and_the_surest_first():
    norms = [name for name, entry in MEASURES.items() if entry.family == "norms"][:2]
    paths = [name for name, entry in MEASURES.items() if entry.family == "paths"][:3]
    known = {
        norms[0]: some(0.1, 0.3),
        norms[1]: some(-0.9, -0.2),
        paths[0]: some(0.3, 0.4),
        paths[1]: some(0.5, 0.9, missing=1),
        paths[2]: some(0.5, 0.9, steady=False),
        "no-such-measure": some(0.9, 1.0),
    }
    assert Zoo({"networks": 2}, known).leading(known) == [paths[0], norms[1]]
