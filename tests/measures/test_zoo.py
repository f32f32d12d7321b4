"""The reference zoo: places by counting, the choice of leading measures against a plain reference implementation."""

from __future__ import annotations

import itertools
import json
import math
from importlib.resources import files
from pathlib import Path

import numpy as np
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
            one = known.get(entry.key)
            if one is None or entry.key not in names or one.missing or not one.steady or one.low is None:
                continue
            sure = one.low if one.low > 0 else -one.high if one.high < 0 else 0.0
            if sure > most:
                best, most = entry.key, sure
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


# ---- the script that writes the file -------------------------------------------------------------------------------


def networks() -> list[dict]:
    """Two zoos of eight networks in three hyperparameters; the gap rises with each of them, and a little at random."""
    rng = np.random.default_rng(0)
    found = []
    for seed, *levels in itertools.product((0, 1), *[(0, 1)] * 4):
        gap = float(np.dot(levels, (0.4, 0.2, 0.1, 0.05)) + 0.02 * rng.normal())
        values = {"good": gap, "bad": -gap, "noise": float(rng.normal()), "rare": gap if levels[0] else None}
        hyper = dict(zip(("width", "depth", "batch_size", "lr"), levels, strict=True))
        found.append({"seed": seed, "hyper": hyper, "gap": gap, "n_test": 10**6, "measures": values})
    return found


def plain_tau(some: list[dict], name: str) -> float:
    """Mean over hyperparameters of the mean agreement of pairs that differ in this one only."""
    means = []
    for key in some[0]["hyper"]:
        signs = []
        for one, two in itertools.combinations(some, 2):
            differ = [other for other in one["hyper"] if one["hyper"][other] != two["hyper"][other]]
            if differ == [key]:
                product = (one["measures"][name] - two["measures"][name]) * (one["gap"] - two["gap"])
                signs.append((product > 0) - (product < 0))
        means.append(sum(signs) / len(signs))
    return sum(means) / len(means)


def test_the_file_holds_granulated_taus_with_intervals(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benchmarks import zoo as script

    monkeypatch.setattr(script, "_logarithms", lambda: {"bad"})
    found = script.measures(networks())
    for name in ("good", "bad", "noise"):
        taus = [plain_tau([one for one in networks() if one["seed"] == seed], name) for seed in (0, 1)]
        half = 12.7062047 * abs(taus[0] - taus[1]) / 2  # Student's t with one degree of freedom, times sd / sqrt(2)
        assert found[name]["tau"] == pytest.approx(np.mean(taus), abs=6e-4)
        assert found[name]["high"] - found[name]["low"] == pytest.approx(2 * half, abs=2e-3)
        assert found[name]["values"] == sorted(significant(one["measures"][name]) for one in networks())
    assert (found["good"]["steady"], found["bad"]["steady"], found["noise"]["steady"]) == (True, True, False)
    assert (found["bad"]["log"], found["good"]["log"]) == (True, False)
    assert (found["rare"]["missing"], found["rare"]["steady"]) == (16, False)
    about = script.about(networks(), 20, "quick", {"data": "d", "n": 9})
    gaps = [one["gap"] for one in networks()]
    assert about["gap"] == [significant(min(gaps)), significant(max(gaps))]
    assert (about["networks"], about["trained"], about["zoos"]) == (32, 20, 2)
    assert max(about["moves"], key=about["moves"].get) == "width"
