"""The experiment `rademacher`: estimates against all signs, closed forms, and a smoke run of everything."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from truerisk.lab.figure import Figure
from truerisk.lab.rademacher import EXPERIMENT, signs
from truerisk.lab.rows import Rows


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def all_signs(n):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=n)))


def test_the_ball_against_all_signs():
    X = np.random.default_rng(0).standard_normal((10, 3))
    exact = sum(2.5 * math.sqrt(sum((s @ X) ** 2)) / 10 for s in all_signs(10)) / 1024
    estimate, error = signs.ball_complexity(X, 2.5, 4000, seed=1)
    assert abs(estimate - exact) < 4 * error  # false-alarm rate 6e-5, fixed seed
    assert error < 0.02 * exact
    upper = 2.5 * math.sqrt(sum(float(x @ x) for x in X)) / 10
    assert signs.ball_upper(X, 2.5) == pytest.approx(upper)
    assert upper / math.sqrt(2) <= exact <= upper


def test_the_constant_of_khintchine_is_reached_by_two_equal_points():
    X = np.ones((2, 1))  # |s1 + s2| is 0 or 2 with equal probability
    estimate, error = signs.ball_complexity(X, 1.0, 20_000, seed=0)
    assert abs(estimate - signs.ball_upper(X, 1.0) / math.sqrt(2)) < 4 * error


def test_affine_classifiers_against_all_affine_classifiers():
    # One input: the classifiers are thresholds in both directions, and the supremum is a maximum over all of them.
    x = np.random.default_rng(3).standard_normal(30)
    drawn = signs.draw_signs(30, 200, seed=2)
    order = np.argsort(x)
    steps = np.array([np.where(np.arange(30) < k, -1.0, 1.0) for k in range(31)])
    best = np.abs(drawn[:, order] @ steps.T).max(axis=1) / 30
    found = signs.linear_correlations(x[:, None], drawn)
    assert (found <= best + 1e-12).all()
    assert found.mean() > 0.5 * best.mean()
    assert best.mean() <= signs.linear_upper(30, 1)


def test_separable_signs_have_correlation_one():
    X = np.random.default_rng(5).standard_normal((6, 5))
    assert (signs.linear_correlations(X, all_signs(6)) == 1).all()


def test_least_squares_agrees_with_its_gaussian_formula():
    # A sign is fitted by h s + (independent part of variance h - h^2), h = (d + 1)/n, so that it agrees with
    # probability Phi(sqrt(h / (1 - h))). Tolerance: 4 standard errors, and 0.004 for the normal approximation.
    n, d = 2000, 19
    X = np.random.default_rng(0).standard_normal((n, d))
    found = signs.linear_correlations(X, signs.draw_signs(n, 400, seed=1))
    h = (d + 1) / n
    expected = 2 * norm.cdf(math.sqrt(h / (1 - h))) - 1
    assert abs(found.mean() - expected) < 4 * found.std() / 20 + 0.004


def test_columns_that_repeat_each_other_change_nothing():
    X = np.random.default_rng(0).standard_normal((80, 3))
    drawn = signs.draw_signs(80, 20, seed=0)
    assert np.array_equal(signs.linear_correlations(X, drawn), signs.linear_correlations(X[:, [0, 1, 2, 2, 0]], drawn))


def test_the_proven_complexity_holds_where_the_truth_is_known():
    # One point more than affine classifiers on a line can label freely: R is computed from all signs.
    x = np.array([0.0, 1.0, 2.0])
    steps = np.array([np.where(np.arange(3) < k, -1.0, 1.0) for k in range(4)])
    suprema = np.abs(all_signs(3) @ steps.T).max(axis=1) / 3
    rng = np.random.default_rng(0)
    proven = [signs.proven_complexity(rng.choice(suprema, 50).tolist(), len(x)) for _ in range(2000)]
    assert np.mean(np.array(proven) > suprema.mean()) <= signs.DELTA
    assert signs.proven_complexity([1.0, 1.0], 500) == pytest.approx(1 - math.sqrt(2 * math.log(20) / 1000))
    assert signs.proven_complexity([0.0], 10) == 0


def test_signs_are_signs():
    drawn = signs.draw_signs(1000, 100, seed=0)
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert abs(drawn.mean()) < 5 / math.sqrt(drawn.size)  # false-alarm rate 6e-7


@pytest.mark.parametrize("scale", ["smoke", "quick", "medium", "paper"])
def test_grids(scale):
    settings = EXPERIMENT.settings(scale)
    keys = [tuple(sorted(s.items())) for s in settings]
    assert len(keys) == len(set(keys))
    assert all(EXPERIMENT.cost(s) > 0 for s in settings)


def test_the_published_sizes():
    networks = [s for s in EXPERIMENT.settings("paper") if s["part"] == "signs" and s["data"] == "cifar-10"]
    assert {s["model"] for s in networks} == {"mlp-1x512", "mlp-3x512", "alexnet", "inception", "inception-no-bn"}
    assert {s["n"] for s in networks} == {50_000}


def test_a_task_repeats_itself_and_new_draws_differ():
    setting = next(s for s in EXPERIMENT.settings("smoke") if s["part"] == "signs" and s["data"] == "digits")
    assert EXPERIMENT.task(setting) == EXPERIMENT.task(setting)
    assert EXPERIMENT.task({**setting, "draw": 1}) != EXPERIMENT.task(setting)


def test_a_network_that_memorizes_reaches_one():
    setting = {**EXPERIMENT.settings("smoke")[0], "epochs": 60}
    assert setting["model"] == "mlp-1x512"
    assert EXPERIMENT.task(setting)["correlation"] == 1


def test_records_and_settings_do_not_collide(rows):
    for setting in EXPERIMENT.settings("smoke")[:1] + EXPERIMENT.settings("smoke")[-1:]:
        assert not setting.keys() & EXPERIMENT.task(setting).keys()
    assert all(-1 <= row["correlation"] <= 1 for row in rows if "correlation" in row)
    linear = rows.where(part="linear")
    assert all(row["correlation"] <= row["upper"] for row in linear)
    relu = rows.where(family="relu", width=1)
    assert all(row["most"] <= 2 * (1 + (row["m"] - 1) + math.comb(row["m"] - 1, 2)) for row in relu)


def test_every_claim_has_a_verdict_and_mathematics_holds_at_every_scale(rows):
    verdicts = {v.claim.name: v.word for v in EXPERIMENT.judge(rows, "smoke")}
    assert set(verdicts) == {claim.name for claim in EXPERIMENT.claims}
    assert "not checked" not in verdicts.values()
    theorems = ("ball-formula", "cover-capacity", "cover-count", "vc-affine", "vc-boxes", "vc-infinite")
    assert {verdicts[name] for name in theorems} == {"seen again"}


def changed(rows, new, **where):
    chosen = list(rows.where(**where))
    assert chosen
    return Rows({**row, **new(row)} if row in chosen else row for row in rows)


@pytest.mark.parametrize(
    ("claim", "where", "new"),
    [
        ("networks-fit-signs", {"part": "signs"}, lambda r: {"correlation": 0.9}),
        ("bound-says-nothing", {"part": "signs"}, lambda r: {"correlation": 0.0, "n": 10_000}),
        ("linear-falls", {"part": "linear"}, lambda r: {"correlation": 1.0}),
        ("ball-formula", {"part": "linear"}, lambda r: {"ball": 1.2 * r["ball_upper"]}),
        ("cover-capacity", {"part": "capacity", "n": 22}, lambda r: {"share": 1.0}),
        ("cover-count", {"family": "affine", "d": 2, "m": 4}, lambda r: {"least": 12}),
        ("vc-affine", {"family": "affine", "d": 2, "m": 4}, lambda r: {"most": 16}),
        ("vc-boxes", {"family": "rectangles", "m": 5}, lambda r: {"most": 32}),
        ("vc-infinite", {"family": "sine", "m": 5}, lambda r: {"most": 31}),
        ("network-shatters", {"family": "relu", "m": 4, "width": 4}, lambda r: {"most": 14}),
    ],
)
def test_each_claim_can_fail(rows, claim, where, new):
    verdicts = {v.claim.name: v.word for v in EXPERIMENT.judge(changed(rows, new, **where), "smoke")}
    assert verdicts[claim] == "not seen again"


def test_networks_that_fit_all_signs_are_seen(rows):
    fitted = changed(rows, lambda r: {"correlation": 1.0}, part="signs")
    verdicts = {v.claim.name: v.word for v in EXPERIMENT.judge(fitted, "smoke")}
    assert verdicts["networks-fit-signs"] == verdicts["bound-says-nothing"] == "seen again"


def test_figures(rows):
    exhibits = {e.name: e for e in EXPERIMENT.figures(rows)}
    assert len(exhibits) == 6
    for exhibit in exhibits.values():
        assert len(exhibit.rows) > 0
        if isinstance(exhibit, Figure):
            fields = {exhibit.x.field, exhibit.y.field, *filter(None, (exhibit.series, exhibit.low, exhibit.high))}
            assert all(fields <= set(row) for row in exhibit.rows)
    found = {line[0]: line[3] for line in exhibits["vc-dimensions"].rows}
    assert found["affine classifiers in R^2"] == "3"
    assert found["sine"] == "at least 5"
    assert EXPERIMENT.figures(Rows([], missing=EXPERIMENT.settings("smoke")))  # gaps are allowed
