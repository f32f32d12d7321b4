"""Two networks side by side: ratios and votes against plain arithmetic."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from torch import nn

import truerisk
from truerisk import TrueriskError
from truerisk.measures import BOUNDS, MEASURES, Bound, Measures, Value
from truerisk.measures.compare import Vote, votes
from truerisk.measures.finding import compared, headline, zoo_limits, zoo_sentence
from truerisk.measures.found import Reference
from truerisk.measures.observed import Errors, Observed
from truerisk.measures.ratios import factor, log10_ratio
from truerisk.measures.trained import Network
from truerisk.measures.zoo import zoo

LEADING = zoo().leading(MEASURES)


def measures(scale: float, observed: Observed | None = None, **fields) -> Measures:
    """All leading measures with one value, a bound, and a measure that is no leading one."""
    values = {name: Value.of_log(math.log(scale)) if zoo().measures[name].log else Value(scale) for name in LEADING}
    name = next(iter(BOUNDS))
    bounds = {name: Bound(name, 10 * scale, "A paper", "Theorem 1", "Words.")}
    return Measures(values | {"l2-norm": Value(3.0)}, bounds, {"vc": "why."}, 60, 3, observed=observed, **fields)


@pytest.mark.parametrize(
    ("a", "b", "ratio"),
    [
        (Value(2.0), Value(3.0), 1.5),
        (Value(-2.0), Value(-3.0), 1.5),
        (Value(1e-300), Value(1e-299), 10.0),
        (Value.of_log(5000.0), Value.of_log(5001.0), math.e),
        (Value(math.e), Value.of_log(3.0), math.exp(2)),
        (Value(0.0), Value(0.0), 1.0),
        (Value(0.0), Value(1.0), None),
        (Value(1.0), Value(-1.0), None),
        (Value(math.inf), Value(1.0), None),
        (None, Value(1.0), None),
    ],
)
def test_ratios(a, b, ratio):
    found = log10_ratio(a, b)
    assert found is None if ratio is None else 10**found == pytest.approx(ratio)


def test_factors_as_people_read_them():
    shown = {1.0: "1.00", 1.234: "1.23", 9.996: "10.0", 15.27: "15.3", 607.4: "607", 0.9333: "0.933", 0.05: "0.05"}
    assert {ratio: factor(math.log10(ratio)) for ratio in shown} == shown
    assert factor(math.log10(123456)) == "123,456"
    assert factor(-12.0) == "10^-12.0"


def test_votes_follow_the_sign_in_the_zoo():
    for vote in votes(measures(1.0), measures(2.0)):
        sign = 1 if zoo().measures[vote.name].tau > 0 else -1
        assert vote.orders == pytest.approx(math.log10(2))
        assert vote.simpler == (1 if sign > 0 else 2)
    assert [vote.name for vote in votes(measures(1.0), measures(2.0))] == LEADING
    assert all(vote.simpler == 0 for vote in votes(measures(1.0), measures(1.04))), "within noise"
    assert Vote("a", 1.0, 0).simpler == 0


def test_a_comparison_counts_them():
    found = truerisk.compare_measures(measures(1.0), measures(2.0), ("mlp:1", "mlp:2"))
    rising = sum(zoo().measures[name].tau > 0 for name in LEADING)
    assert found.simpler == (rising, len(LEADING) - rising, 0)
    assert compared(found) == f"{rising} of {len(LEADING)} leading measures rate mlp:1 simpler than mlp:2."
    other = truerisk.compare_measures(measures(2.0), measures(1.0), ("n" * 50, "mlp:2"))
    assert compared(other) == f"{rising} of {len(LEADING)} leading measures rate B simpler than A."
    alike = truerisk.compare_measures(measures(1.0), measures(1.0), ("a", "b"))
    assert compared(alike) == f"0 of {len(LEADING)} leading measures rate a or b simpler."


def test_tables_of_a_comparison():
    leading = [MEASURES[key].name for key in LEADING]
    found = truerisk.compare_measures(measures(1.0), measures(2.0))
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    assert [row["name"] for row in rows] == [*leading, "l2-norm", next(iter(BOUNDS))]
    assert {row["name"]: float(row["ratio"]) for row in rows} == pytest.approx(
        dict.fromkeys([*leading, next(iter(BOUNDS))], 2.0) | {"l2-norm": 1.0}
    )
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert [row["name"] for row in record["measures"]] == [*leading, "l2-norm"]
    assert [row["name"] for row in record["bounds"]] == [next(iter(BOUNDS))]
    assert record["skipped"] == [{"name": "vc", "reason": "why."}]
    assert {row["name"]: row["simpler"] for row in record["leading"]} == {
        row["name"]: row["simpler"] for row in record["measures"] if row["name"] in leading
    }
    assert list(found.table["name"]) == [row["name"] for row in rows]


def test_only_results_are_compared():
    with pytest.raises(TrueriskError, match="measure each network first"):
        truerisk.compare_measures(nn.Linear(2, 2), measures(1.0))


def headlines() -> list[str]:
    observed = Observed(Errors(1, 1438), Errors(10, 359))
    network = Network("n", nn.Linear(2, 2), None, None, {}, "How.")  # type: ignore[arg-type]
    reference = Reference(measures(50.0), network, "Note.")
    bare = Measures({"l2-norm": Value(1.0)}, {}, {}, 60, 3)
    return [
        headline(measures(1.0)),
        headline(measures(1.0, observed)),
        headline(measures(1.0, Observed(Errors(1, 1438)))),
        headline(measures(1.0, observed, reference=reference)),
        headline(bare),
        headline(Measures({}, {}, {}, 60, 3, observed=observed)),
        compared(truerisk.compare_measures(measures(1.0), measures(2.0), ("m" * 22, "n" * 22))),
        compared(truerisk.compare_measures(bare, bare)),
    ]


def test_headlines_are_short_sentences_with_a_number():
    for said in headlines():
        assert len(said.split()) <= 14, said
        assert said.endswith("."), said
        assert any(letter.isdigit() for letter in said), said
    assert headlines()[1] == "Held-out error is 2.8%; the bound is 10."
    rising = sum(zoo().measures[name].tau > 0 for name in LEADING)
    expected = f"{rising} of {len(LEADING)} leading measures rate this network simpler than a random-label copy."
    assert headlines()[3] == expected


def test_the_zoo_says_what_it_is_and_what_it_cannot_tell():
    assert "75 fully connected networks" in zoo_sentence()
    assert "MNIST-1D" in zoo_sentence()
    limits = " ".join(zoo_limits())
    assert "58.3% and 68.4%" in limits
    assert "loose comparison" in zoo_sentence()
    assert "picked out of 86" in limits
    assert "chosen when their taus were known" in limits
    assert "5 of 80 networks never reached" in limits


def test_equal_networks_are_not_split():
    same = compared(truerisk.compare_measures(measures(1.0), measures(1.0)))
    assert same == f"0 of {len(LEADING)} leading measures rate A or B simpler."


def test_the_order_of_two_networks_does_not_choose_the_measures():
    one, two = measures(1.0), measures(2.0)
    del one.values[LEADING[0]]
    assert {vote.name for vote in votes(one, two)} == {vote.name for vote in votes(two, one)}
