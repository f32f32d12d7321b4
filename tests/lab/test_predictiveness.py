"""The experiment `predictiveness`: one run, what it records, and effects and verdicts on made-up zoos."""

from __future__ import annotations

import itertools
import math

import pytest

from truerisk.lab.experiments.predictiveness import (
    EXPERIMENT,
    HYPER,
    predictions,
    taus,
    worst_errors,
    wrong_share,
    zoo,
)
from truerisk.lab.lessons.predictiveness import HYPERPARAMETERS, LESSON, SHOWN
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge
from truerisk.measures import MEASURES
from truerisk.measures.prediction import power

CLAIMS = {claim.name: claim for claim in EXPERIMENT.claims}
FLAT = ("pacbayes-magnitude-flatness", "sharpness-magnitude")
NORMS = ("spectral-product", "frobenius-product")


@pytest.fixture(scope="module")
def record():
    return EXPERIMENT.task(EXPERIMENT.settings("smoke")[0])


# ---- one run --------------------------------------------------------------------------------------------------------


def test_one_run_has_all_measures(record):
    assert record["fitted"]
    assert record["loss"] <= 0.01
    expected = {name for name, entry in MEASURES.items() if entry.cost != "training"}
    assert record["measures"].keys() <= expected
    assert len(record["measures"]) >= 50
    assert all(value is None or math.isfinite(value) for value in record["measures"].values())
    named = {"steps-to-loss-0.1", "gradient-noise", *FLAT, *NORMS, *SHOWN}
    assert named <= record["measures"].keys()


def test_the_same_setting_gives_the_same_record(record):
    assert EXPERIMENT.task(EXPERIMENT.settings("smoke")[0]) == record


def test_a_network_that_never_gets_there_is_left_out():
    setting = {**EXPERIMENT.settings("smoke")[0], "epochs": 1}
    found = EXPERIMENT.task(setting)
    assert not found["fitted"]
    assert found["measures"] == {}
    assert predictions(Rows([{**setting, **found}])) == []


def test_zoos_have_the_promised_sizes():
    for scale, networks, seeds, values in (("quick", 16, 5, 2), ("medium", 81, 3, 3), ("paper", 81, 5, 3)):
        settings = EXPERIMENT.settings(scale)
        assert len(settings) == networks * seeds
        assert {setting["seed"] for setting in settings} == set(range(20, 20 + seeds))
        assert all(len({setting[name] for setting in settings}) == values for name in HYPER)


# ---- effects on made-up zoos ----------------------------------------------------------------------------------------


def made(seeds=(0,), **measures):
    """Zoos in which the gap grows with depth and learning rate; measures are functions of a run."""
    runs = []
    for seed, width, depth, batch_size, lr in itertools.product(seeds, (32, 64), (1, 2), (16, 64), (0.03, 0.1)):
        run = {"width": width, "depth": depth, "batch_size": batch_size, "lr": lr, "seed": seed, "n_test": 100_000}
        sign = 1 if (width > 32) ^ (depth > 1) ^ (lr > 0.05) else -1  # noise: a threefold interaction
        gap = 0.3 + 0.2 * depth + 0.05 * (lr > 0.05) + 0.0001 * width + 0.00001 * batch_size + 0.002 * sign
        run |= {"fitted": True, "train_error": 0.0, "test_error": gap + 0.001 * seed}
        run["measures"] = {name: float(function(run)) for name, function in measures.items()}
        runs.append(run)
    return Rows(runs)


def gap(run):
    return run["test_error"]


def minus(run):
    return -run["test_error"]


def depth(run):
    return run["depth"]


def test_taus_of_a_zoo():
    found = taus(made(parameters=depth, **{"spectral-product": minus}), ["parameters", "spectral-product"])
    # Of 120 pairs, 64 differ in depth; the others are tied in it and count 0.
    assert found == pytest.approx({"parameters": 64 / 120, "spectral-product": -1.0})


def test_only_the_measures_that_a_claim_names_are_ranked():
    rows = made(parameters=depth, other=minus)
    assert set(taus(rows, ["parameters"])) == {"parameters"}
    with pytest.raises(IncompleteError, match=r"lack a measure: gradient-noise \(16 of 16\)"):
        taus(rows, ["gradient-noise"])


def test_a_measure_that_some_networks_lack_has_no_tau():
    first, *rest = made(parameters=depth, other=minus)
    rows = Rows([{**first, "measures": {**first["measures"], "other": None}}, *rest])
    with pytest.raises(IncompleteError, match=r"lack a measure: other \(1 of 16\)"):
        taus(rows, ["parameters", "other"])
    assert set(taus(rows, ["parameters"])) == {"parameters"}


def one_zoo(rows):
    """Networks of several seeds as one zoo: so many that each environment has its twelve pairs."""
    return Rows({**run, "seed": 0} for run in rows)


def test_worst_errors_of_measures_that_all_networks_have():
    rows = one_zoo(made(seeds=range(2), right=gap, wrong=minus, deep=depth))
    found = worst_errors(rows)
    assert found == {"right": 0.0, "wrong": 1.0, "deep": 0.5}  # depth is tied where the learning rate changes
    assert wrong_share(rows) == pytest.approx(1 / 3)
    shallow = Rows(
        {**run, "measures": {**run["measures"], "right": None} if run["depth"] > 1 else run["measures"]} for run in rows
    )
    assert set(worst_errors(shallow)) == {"wrong", "deep"}


def test_no_number_where_no_environment_is_sure():
    with pytest.raises(IncompleteError, match="enough pairs"):
        worst_errors(made(parameters=gap))  # one seed: 8 pairs in each environment


def test_no_number_where_networks_were_not_fitted():
    runs = list(made(parameters=gap))
    assert len(zoo(Rows([{**run, "fitted": i > 0, "diverged": i == 0} for i, run in enumerate(runs)]))) == 15
    with pytest.raises(IncompleteError, match="only 14 of 16 networks"):
        zoo(Rows([{**run, "fitted": i > 1} for i, run in enumerate(runs)]))


def test_no_number_where_the_gaps_hardly_differ():
    rows = Rows({**run, "test_error": 0.3 + 0.002 * (i % 3)} for i, run in enumerate(made(parameters=gap)))
    with pytest.raises(IncompleteError, match="no hyperparameter moves the gap by 3 times its noise"):
        zoo(rows)


def test_no_number_from_part_of_a_zoo():
    first, *rest = made(parameters=gap)
    with pytest.raises(IncompleteError, match="1 of 16 runs is missing"):
        zoo(Rows(rest, missing=[first]))


# ---- verdicts -------------------------------------------------------------------------------------------------------


def words(rows, scale="quick"):
    return {claim.name: judge(claim, rows, scale).word for claim in EXPERIMENT.speaking(scale)}


def test_claims_on_zoos_where_they_hold():
    held = {**dict.fromkeys((*FLAT, "gradient-noise"), gap), **dict.fromkeys((*NORMS, "parameters"), minus)}
    assert set(words(made(seeds=range(5), **held)).values()) == {"reproduced"}


@pytest.mark.parametrize(
    ("claim", "measures"),
    [
        ("flatness", {FLAT[0]: minus, FLAT[1]: gap}),
        ("spectral", {NORMS[0]: gap, NORMS[1]: minus}),
        ("counting", {"parameters": gap}),
        ("gradient-noise", {"gradient-noise": minus}),
    ],
)
def test_claims_on_zoos_where_they_fail(claim, measures):
    assert judge(CLAIMS[claim], made(seeds=range(5), **measures), "quick").word == "not reproduced"


def test_robust_claims_follow_the_worst_environments():
    rows = Rows(
        {**run, "seed": seed}
        for seed in range(3)
        for run in one_zoo(made(seeds=range(2), **{f"wrong-{k}": minus for k in range(9)}))
    )
    for name in ("no-robust-measure", "wrong-somewhere"):
        assert judge(CLAIMS[name], rows, "medium").word == "reproduced"
    better = Rows({**run, "measures": {"right": gap(run), "other": gap(run)}} for run in rows)
    for name in ("no-robust-measure", "wrong-somewhere"):
        assert judge(CLAIMS[name], better, "medium").word == "not reproduced"
    one = Rows({**run, "measures": {**run["measures"], "right": gap(run)}} for run in rows)
    verdict = judge(CLAIMS["no-robust-measure"], one, "medium")
    assert (verdict.word, verdict.decisive.name, len(verdict.cells)) == ("not reproduced", "right", 10)


def test_zoos_must_name_the_same_measures():
    rows = [
        {**run, "seed": seed, "measures": {"wrong": minus(run), **({"other": minus(run)} if seed else {})}}
        for seed in range(3)
        for run in one_zoo(made(seeds=range(2)))
    ]
    verdict = judge(CLAIMS["no-robust-measure"], Rows(rows), "medium")
    assert verdict.reason == "broken"
    assert "names other rivals in other seeds" in verdict.detail


def test_a_zoo_without_power_leaves_every_claim_without_verdict():
    measures = dict.fromkeys((*FLAT, *NORMS, "gradient-noise", "parameters"), gap)
    flat = Rows({**run, "test_error": 0.3 + 0.002 * (i % 3)} for i, run in enumerate(made(seeds=range(5), **measures)))
    verdicts = [judge(claim, flat, "quick") for claim in EXPERIMENT.speaking("quick")]
    assert {(verdict.word, verdict.reason) for verdict in verdicts} == {("no verdict", "incomplete")}
    assert "moves the gap by 3 times its noise" in verdicts[0].sentence


# ---- the lesson -----------------------------------------------------------------------------------------------------


def exhibits(rows):
    return {exhibit.name: exhibit for exhibit in LESSON.figures(rows)}


def test_smoke_verdicts_and_figures(smoke_rows):
    rows = smoke_rows(EXPERIMENT.name)
    assert {verdict.reason for verdict in EXPERIMENT.judge(rows, "smoke")} == {"smoke"}
    found = exhibits(rows)
    assert list(found) == ["taus", "gaps", "one-at-a-time", "power", "ranking"]
    assert {row["measure"] for row in found["gaps"].rows} == set(SHOWN.values())
    assert all(exhibit.rows for exhibit in found.values())


def test_rank_correlations_of_each_zoo_best_first():
    rows = made(seeds=range(2), parameters=minus, **{"gradient-noise": depth, "spectral-mean": gap})
    found = [(row["measure"], row["seed"], round(row["tau"], 6)) for row in exhibits(rows)["taus"].rows]
    half = round(64 / 120, 6)  # of 120 pairs of a zoo, 64 differ in depth
    assert found == [
        *[("mean spectral norm", seed, 1.0) for seed in (0, 1)],
        *[("variance of gradients", seed, half) for seed in (0, 1)],
        *[("number of parameters", seed, -1.0) for seed in (0, 1)],
    ]


def test_each_network_at_its_rank_in_its_zoo():
    dots = exhibits(made(seeds=range(2), parameters=gap))["gaps"].rows
    assert len(dots) == 32
    for place in range(1, 17):
        assert len([dot for dot in dots if dot["place"] == place]) == 2  # one of each zoo
    deep = [dot["place"] for dot in dots if dot["layers"] == "2 hidden layers"]
    assert min(deep) == 9  # the gap grows most with depth


def test_one_hyperparameter_at_a_time():
    found = exhibits(made(seeds=range(2), parameters=depth))["one-at-a-time"].rows
    taus = {row["hyperparameter"]: row["tau"] for row in found}
    assert taus == {"width": 0.0, "depth": 1.0, "batch size": 0.0, "learning rate": 0.0}


def test_the_power_of_a_zoo_by_hand():
    rows = made(seeds=range(2), parameters=gap)
    found = {(row["hyperparameter"], row["seed"]): row["move"] for row in exhibits(rows)["power"].rows}
    known = power(predictions(rows.where(seed=0)))
    assert found["depth", 0] == pytest.approx(known.moves["depth"] / known.noise)
    # The move of depth is 0.2. The interaction of 0.002 is all noise: 16 squares over 5 degrees of freedom.
    assert found["depth", 1] == pytest.approx(0.2 / (0.002 * math.sqrt(16 / 5)))


def test_the_table_drops_columns_that_say_nothing():
    whole = exhibits(made(seeds=range(2), parameters=gap, **{"path-norm": minus}))["ranking"]
    assert [line[:2] for line in whole.rows] == [
        ["Number of trainable parameters", "parameters"],
        ["Squared l2 path norm", "path-norm-l2-squared"],
    ]
    assert all(len(line) == len(whole.columns) for line in whole.rows)
    assert "worst" in whole.columns
    alone = exhibits(made(parameters=gap))["ranking"]  # one zoo: too few pairs in each environment
    assert not {"sign error", "worst", "where"} & set(alone.columns)
    assert all(len(line) == len(alone.columns) for line in alone.rows)


def test_gaps_leave_figures_without_rows():
    assert LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))) == []
    assert LESSON.pictures({}) == []


def test_claims_of_figures_exist():
    named = {name for e in exhibits(made(parameters=gap)).values() for name in getattr(e, "claims", ())}
    assert named == set(CLAIMS)
    assert set(HYPERPARAMETERS) == set(HYPER)


def test_the_headline_follows_the_verdict():
    held = {**dict.fromkeys((*FLAT, "gradient-noise"), gap), **dict.fromkeys((*NORMS, "parameters"), minus)}
    for parameters, said in ((minus, "does not mean"), (gap, "goes with")):
        rows = made(seeds=range(5), **{**held, "parameters": parameters})
        noisy = Rows({**run, "measures": {**run["measures"], "parameters": jitter(run)}} for run in rows)
        verdicts = {claim.name: judge(claim, noisy, "quick") for claim in EXPERIMENT.speaking("quick")}
        assert said in LESSON.findings[0].sentence(verdicts)


def jitter(run):
    """The measure with the values of two networks swapped, other ones in each zoo: seeds must differ."""
    swap = run["seed"] % 2 and run["width"] == 32 and run["batch_size"] == 16
    return run["measures"]["parameters"] + 0.3 * bool(swap)


def test_signals_of_the_demo():
    setting = EXPERIMENT.settings("smoke")[0]
    record = LESSON.demo(setting)
    assert LESSON.demo(setting) == record
    assert {len(signal) for some in record["signals"].values() for signal in some} == {40}
    assert {len(some) for some in record["signals"].values()} == {3}
    [figure] = LESSON.pictures(record)
    assert len(figure.rows) == 3 * 3 * 40
