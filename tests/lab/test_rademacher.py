"""The experiment `rademacher`: its effects by hand, verdicts on both sides of each threshold, and a smoke run."""

import json
import math

import numpy as np
import pytest

from truerisk.bounds.rademacher import confidence
from truerisk.lab import unsettled
from truerisk.lab.experiments.rademacher import EXPERIMENT, bound, falling_power, fitted, ratio
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.rademacher import LESSON
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
    assert verdict.decisive.name == "digits, AlexNet (small)"


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
    exhibits = {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}
    assert list(exhibits) == ["complexity", "bound", "laws", "bounds"]
    for exhibit in exhibits.values():
        assert exhibit.rows
        if isinstance(exhibit, Figure):
            assert set(exhibit.claims) <= set(CLAIMS)
    assert all(not exhibit.rows for exhibit in LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))))


def test_figures_by_hand():
    linear = {**LINEAR, "n": 328, "seed": 20, "correlation": 0.29, "upper": 0.85, "ball": 0.034}
    network = {**NETWORK, "data": "mnist1d", "n": 328, "seed": 20, "correlation": 1.0}
    complexity, bounds, laws, _ = LESSON.figures(Rows([linear, network, {**NETWORK, "seed": 20, "correlation": 0.5}]))
    found = {row["family"]: row["complexity"] for row in complexity.rows}
    assert found == {"network (MLP 1x512)": 1.0, "affine classifiers": 0.29}  # digits have no curve
    slack = 3 * math.sqrt(math.log(40) / (2 * 328))
    assert {row["family"]: row["bound"] for row in bounds.rows} == pytest.approx(
        {"network (MLP 1x512)": 1 + slack, "affine classifiers": 0.85 + slack}
    )
    assert sorted(row["complexity"] for row in laws.rows) == [0.034, 0.29, 0.85, 1.0]
    assert set(laws.observed) == {row["family"] for row in laws.rows} - {"affine classifiers, upper bound"}


def test_the_table_of_bounds():
    rows = Rows(over_seeds({**NETWORK, "model": "inception-small-no-bn"}, 0.01, correlation=0.98))
    [row] = LESSON.figures(rows)[-1].rows
    least = proven_complexity([row["correlation"] for row in rows], 500)
    assert row[:5] == ["Inception (small) without batch norm", "digits", 500, 5, "0.978"]
    assert 0 <= least - float(row[5]) < 0.001  # rounded down
    assert 0 <= least + confidence(500, 0.025) - float(row[6]) < 0.01


def test_pictures_show_who_follows_the_signs():
    setting = {**EXPERIMENT.settings("quick")[0], "n": 200}
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(setting)
    [images] = LESSON.pictures(record)
    drawn, affine, network = images.strips
    assert (drawn.label, network.label) == ("random signs", "MLP 1x512, 100% right")
    assert not any(tile.wrong for tile in (*drawn.tiles, *network.tiles))
    assert {tile.under for tile in drawn.tiles} == {"+", "\u2212"}
    # Least squares with 65 parameters on 200 examples: correlation sqrt(2 / pi) sqrt(65 / 200), roughly
    share = float(affine.label.removeprefix("affine classifier, ").removesuffix("% right")) / 100
    assert share == pytest.approx((1 + math.sqrt(2 / math.pi * 65 / 200)) / 2, abs=0.1)
    pairs = zip(drawn.tiles, affine.tiles, strict=True)
    assert all(theirs.wrong == (theirs.under != sign.under) for sign, theirs in pairs)
    assert LESSON.pictures({}) == []
