"""The spread of misclassification rates against binomial draws, and the effects that compare spreads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from truerisk.errors import TrueriskError
from truerisk.lab import Rows, load
from truerisk.lab.experiments.easy_examples import CLAIMS, grid, spread, spread_of, spread_ratio
from truerisk.lab.lessons.easy_examples import LESSON
from truerisk.lab.verdict import judge

CLAIM = {claim.name: claim for claim in CLAIMS}


def _rows(real, inputs, labels, slow_inputs=1.1):
    """Spreads by kind of data at the raised rate, with the given one of random inputs at the published rate."""
    rows = []
    for seed in range(20, 25):
        own = 1 + 0.01 * (seed - 22)
        kinds = [(0.05, "real", real), (0.05, "randX", inputs), (0.05, "randY", labels), (0.01, "randX", slow_inputs)]
        rows += [{"lr": lr, "noise": noise, "seed": seed, "spread": value * own} for lr, noise, value in kinds]
    return Rows(rows)


def test_a_binomial_has_spread_one():
    rates = np.random.default_rng(1).binomial(100, 0.3, size=5000) / 100
    # the variance of 5000 draws has a relative deviation of sqrt(2/5000) = 0.02; 4 sigma, false alarms under 1e-4
    assert spread(rates, 100) == pytest.approx(1, abs=0.08)


def test_the_spread_of_a_mixture_is_known():
    """Rates drawn from p_i with variance v: Var = E p(1-p)/k + v, so spread = (m(1-m) - v + k v)/(m(1-m))."""
    generator = np.random.default_rng(2)
    rates = generator.binomial(50, generator.choice([0.2, 0.6], size=20000)) / 50
    assert spread(rates, 50) == pytest.approx((0.4 * 0.6 - 0.04 + 50 * 0.04) / (0.4 * 0.6), rel=0.05)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_that_are_all_zero_or_one_have_no_spread(rate):
    with pytest.raises(TrueriskError, match=f"rate is {rate:g}"):
        spread(np.full(10, rate), 5)


def test_effects_use_the_highest_rate_of_their_runs():
    runs = _rows(40.0, 10.0, 20.0).where(seed=22)
    assert spread_of(runs, "real") == 40
    assert spread_of(runs, "randX") == 10
    assert spread_of(runs.where(lr=0.01), "randX") == 1.1
    assert spread_ratio(runs, "randY", "randX") == 2
    assert spread_ratio(runs, "real", "randY") == 2


def test_verdicts():
    paper = _rows(40.0, 10.0, 20.0)
    assert {name: judge(claim, paper, "quick").word for name, claim in CLAIM.items()} == dict.fromkeys(
        CLAIM, "reproduced"
    )
    flat = _rows(3.0, 1.5, 1.5, slow_inputs=4.0)
    words = {name: judge(claim, flat, "quick").word for name, claim in CLAIM.items()}
    assert words.pop("real-above-labels") == "reproduced"
    assert set(words.values()) == {"not reproduced"}


def test_random_inputs_are_judged_at_the_published_rate():
    found = judge(CLAIM["easy-random-inputs"], _rows(40.0, 10.0, 20.0), "medium")
    assert found.decisive.interval.mean == pytest.approx(1.1, rel=1e-3)


def test_only_larger_scales_use_the_published_rate():
    assert {run["lr"] for run in grid("quick")} == {0.05}
    assert {run["lr"] for run in grid("medium") + grid("paper")} == {0.01}
    silent = {name for name, claim in CLAIM.items() if "quick" not in claim.scales}
    assert silent == {"easy-random-inputs"}
    assert CLAIM["easy-random-inputs"].group == "trial"


def test_the_reference_curve_is_the_binomial_of_each_run(smoke_rows):
    rows = smoke_rows("easy-examples")
    run = next(row for row in rows if (row["noise"], row["lr"]) == ("real", 0.05))
    figure = next(figure for figure in LESSON.figures(rows) if figure.name == "easy-examples")
    curves = {
        name: [
            row["share"]
            for row in figure.rows
            if (row["data"], row["curve"]) == ("real data, learning rate 0.05", name)
        ]
        for name in ("measured", "if all were equally hard")
    }
    assert curves["measured"] == run["rates"]
    wanted = [binom.ppf(place, run["networks"], run["mean_rate"]) / run["networks"] for place in run["places"]]
    assert curves["if all were equally hard"] == pytest.approx(wanted)


def test_pictures_show_the_extremes_of_each_kind():
    record = LESSON.demo(load("easy-examples").settings("smoke")[0])
    rates = {(s["kind"], s["which"]): [tile["rate"] for tile in s["tiles"]] for s in record["strips"]}
    for noise in ("real", "randX", "randY"):
        easy, hard = rates[noise, "easiest"], rates[noise, "hardest"]
        assert easy == sorted(easy)
        assert hard == sorted(hard, reverse=True)
        assert max(easy) <= min(hard)
    assert rates["real", "easiest"][0] == min(record["trained"]["1"])
    wrong = {s["kind"]: [tile["wrong"] for tile in s["tiles"]] for s in record["strips"]}
    assert any(wrong["randY"])
    assert not any(wrong["real"] + wrong["randX"])


def test_rates_by_label_average_to_the_mean_rate():
    setting = load("easy-examples").settings("smoke")[0]
    record = LESSON.demo(setting)
    real = [one for one in record["labels"] if one["kind"] == "real"]
    assert sum(one["examples"] for one in real) == setting["n"]
    mean = sum(one["examples"] * one["mean"] for one in real) / setting["n"]
    assert mean == pytest.approx(np.mean(record["trained"]["1"]))
