"""The experiment `rademacher`: its effects by hand, verdicts on both sides of each threshold, and a smoke run."""

import math

import numpy as np
import pytest

from truerisk.bounds.rademacher import confidence
from truerisk.lab import unsettled
from truerisk.lab.experiments.rademacher import EXPERIMENT, bound, falling_power, figures, fitted, ratio
from truerisk.lab.figure import Figure
from truerisk.lab.rows import Rows
from truerisk.lab.verdict import judge
from truerisk.measures.signs import linear_upper, proven_complexity

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
NETWORK = {"part": "signs", "data": "digits", "model": "mlp-1x512", "n": 500}
LINEAR = {"part": "linear", "data": "mnist1d", "dimension": 40, "draws": 50}


def over_seeds(row, noise, **values):
    """Five seeds whose values differ by a little noise."""
    wobble = noise * np.array([-1.0, 0.5, 0.0, 0.5, -1.0])
    return [{**row, "seed": 20 + k, **{name: v + wobble[k] for name, v in values.items()}} for k in range(5)]


def word(claim, rows):
    return judge(CLAIMS[claim], Rows(rows), "quick").word


def test_the_bound_by_hand():
    rows = Rows([{**NETWORK, "correlation": 0.9}])
    assert fitted(rows) == pytest.approx(0.95)  # 19 of 20 signs agree: 0.95 - 0.05
    assert bound(rows) == pytest.approx(0.9 + 3 * math.sqrt(math.log(40) / 1000))
    worse = Rows([{**NETWORK, "correlation": -0.2}])  # no classifier is worse than its opposite: R is at least 0
    assert bound(worse) == pytest.approx(confidence(500, 0.025))


def test_ratio_and_power_by_hand():
    assert ratio(Rows([{"ball": 0.3, "ball_upper": 0.4}]), "ball", "ball_upper") == pytest.approx(0.75)
    falling = [{**LINEAR, "n": n, "correlation": 2.5 * n**-0.5} for n in (164, 328, 656)]
    early = [{**LINEAR, "n": n, "correlation": 1.0} for n in (41, 82)]  # separable: not part of the law
    assert falling_power(Rows(early + falling)) == pytest.approx(-0.5)


@pytest.mark.parametrize(("value", "expected"), [(0.998, "reproduced"), (0.9, "not reproduced"), (0.98, "no verdict")])
def test_networks_fit_signs(value, expected):
    assert word("networks-fit-signs", over_seeds(NETWORK, 0.002, correlation=value)) == expected


def test_one_network_that_fails_is_enough():
    good, bad = (
        over_seeds({**NETWORK, "model": model}, 0.002, correlation=value)
        for model, value in (("mlp-1x512", 0.998), ("alexnet-small", 0.8))
    )
    verdict = judge(CLAIMS["networks-fit-signs"], Rows(good + bad), "quick")
    assert verdict.word == "not reproduced"
    assert verdict.decisive.name == "digits, alexnet-small"


def test_runs_for_figures_do_not_count():
    rows = over_seeds(NETWORK, 0.002, correlation=0.998)
    small = {**NETWORK, "part": "sizes", "data": "mnist1d", "n": 41, "seed": 20, "correlation": 0.0}
    assert word("networks-fit-signs", [*rows, small]) == "reproduced"


@pytest.mark.parametrize(("n", "value", "expected"), [(500, 0.98, "reproduced"), (50_000, 0.9, "not reproduced")])
def test_the_bound_says_nothing(n, value, expected):
    assert word("bound-says-nothing", over_seeds({**NETWORK, "n": n}, 0.002, correlation=value)) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.4, "reproduced"), (0.9, "not reproduced")])
def test_linear_below_bound(value, expected):
    rows = over_seeds({**LINEAR, "n": 328, "upper": 0.8}, 0.01, correlation=value)
    few = over_seeds({**LINEAR, "n": 41, "upper": 0.5}, 0.0, correlation=1.0)  # would fail if it counted
    assert word("linear-below-bound", rows + few) == expected


@pytest.mark.parametrize("scale", EXPERIMENT.grids)
def test_samples_count_where_the_bound_can_fail(scale):
    sizes = {s["n"] for s in EXPERIMENT.settings(scale) if s["part"] == "linear"}
    counted = sizes & set(CLAIMS["linear-below-bound"].where["n"])
    assert counted == {n for n in sizes if linear_upper(n, 40) < 1}
    assert sizes - counted


@pytest.mark.parametrize(
    ("power", "expected"), [(-0.5, "reproduced"), (-0.1, "not reproduced"), (-0.9, "not reproduced")]
)
def test_linear_falls(power, expected):
    rows = [row for n in (164, 328, 1312) for row in over_seeds({**LINEAR, "n": n}, 0.001, correlation=n**power)]
    assert word("linear-falls", rows) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.97, "reproduced"), (1.1, "not reproduced"), (0.5, "not reproduced")]
)
def test_ball_formula(value, expected):
    assert word("ball-formula", over_seeds({**LINEAR, "n": 41, "ball_upper": 1.0}, 0.005, ball=value)) == expected


def test_the_published_sizes():
    networks = [s for s in EXPERIMENT.settings("paper") if s["data"] == "cifar-10"]
    assert {s["model"] for s in networks} == {"mlp-1x512", "mlp-3x512", "alexnet", "inception", "inception-no-bn"}
    assert {s["n"] for s in networks} == {50_000}
    assert {s["lr"] for s in networks if s["model"] == "inception"} == {0.1}


@pytest.mark.parametrize("scale", ["quick", "medium", "paper"])
def test_the_grid_can_settle_all_claims(scale):
    assert unsettled(EXPERIMENT, scale) == {}


def test_a_task_repeats_itself_and_seeds_differ():
    setting = EXPERIMENT.settings("smoke")[0]
    record = EXPERIMENT.task(setting)
    assert record == EXPERIMENT.task(setting)
    assert not setting.keys() & record.keys()
    assert record != EXPERIMENT.task({**setting, "seed": 1})


def test_a_network_that_memorizes_reaches_one():
    setting = {**EXPERIMENT.settings("smoke")[0], "epochs": 60}
    assert setting["model"] == "mlp-1x512"
    assert EXPERIMENT.task(setting)["correlation"] == 1


def test_smoke_run(smoke_rows):
    rows = smoke_rows(EXPERIMENT.name)
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert [verdict.claim.name for verdict in verdicts] == list(CLAIMS)
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert all(verdict.cells for verdict in verdicts)  # every effect was computed
    assert all(row["correlation"] <= row["upper"] for row in rows.where(part="linear"))
    exhibits = {exhibit.name: exhibit for exhibit in figures(rows)}
    assert list(exhibits) == ["correlation", "sizes", "bounds"]
    for exhibit in exhibits.values():
        assert exhibit.rows
        if isinstance(exhibit, Figure):
            fields = {exhibit.x.field, exhibit.y.field, *filter(None, (exhibit.series, exhibit.low, exhibit.high))}
            assert all(fields <= set(row) for row in exhibit.rows)
    assert figures(Rows([], missing=EXPERIMENT.settings("smoke")))  # gaps are allowed


def test_the_table_of_bounds():
    rows = Rows(over_seeds({**NETWORK, "model": "inception-small-no-bn"}, 0.01, correlation=0.98))
    [row] = figures(rows)[-1].rows
    least = proven_complexity([row["correlation"] for row in rows], 500)
    assert row[:5] == ["Inception, no batch norm", "digits", 500, 5, "0.978"]
    assert 0 <= least - float(row[5]) < 0.001  # rounded down
    assert 0 <= least + confidence(500, 0.025) - float(row[6]) < 0.01
