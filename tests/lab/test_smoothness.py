"""The experiment `smoothness`: effects and verdicts on rows made by hand, its runs against plain numpy, its page."""

import json
import math

import numpy as np
import pytest

from truerisk.data import load as load_data
from truerisk.data.toy_density import toy_posterior, toy_risks
from truerisk.lab import Rows
from truerisk.lab.experiments import smoothness as lab
from truerisk.lab.experiments.smoothness import CLAIMS, EXPERIMENT
from truerisk.lab.interpolants import classifiers, curves
from truerisk.lab.lessons.smoothness import LESSON, NEW, OLD
from truerisk.lab.own_data import on_own_data
from truerisk.lab.rows import IncompleteError
from truerisk.lab.smooth_pictures import PLANES, SHAPES, STAGES
from truerisk.lab.smooth_runs import GRID, points, target, toy_samples
from truerisk.lab.verdict import judge
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
SEEDS = range(20, 25)


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


@pytest.fixture(scope="module")
def record():
    return json.loads(json.dumps(LESSON.demo(EXPERIMENT.settings("smoke")[0]), allow_nan=False))


def word(name, made):
    return judge(CLAIM[name], Rows(made), "quick").word


# ---- effects -------------------------------------------------------------------------------------------------------


def run(kind="curve", model="smooth", seed=20, n=15, at=(1, 6, 15, 30, 300), errors=(2, 1, 90, 2, 1), **fields):
    """A run with these errors; roughness equals the error unless given, all functions fit from n weights on."""
    shift = 1 + 0.01 * (seed - 22)
    made = {"kind": kind, "target": "bump", "noise": 0.2, "model": model, "seed": seed, "n": n, "n_test": 1000}
    errors = [error * shift for error in errors]
    fits = [size is None or size >= n for size in at]
    made |= {"at": list(at), "errors": errors, "roughness": errors, "norms": errors, "fits": fits}
    return {**made, **fields}


def test_effects_by_hand():
    smooth, plain = Rows([run(seed=22)]), Rows([run(model="plain", seed=22, errors=(2, 1, 90, 3, 6))])
    assert lab.walls(smooth) == 2  # the lower of 2 and 90, over the best below n, 1
    assert lab.walls(Rows([run(seed=22, errors=(5, 1, 3, 2, 1))])) == 3
    assert lab.beyond(Rows([run(seed=22, errors=(2, 1, 90, 2, 0.6))])) == pytest.approx(0.6)
    assert lab.fall(smooth, "errors") == 90
    assert lab.plain_rise(plain) == 2
    stored = [
        run("images", model, 22, at=(None,), errors=(error,))
        for model, error in (("neighbor", 0.3), ("laplacian", 0.1))
    ]
    assert lab.neighbor_excess(Rows(stored)) == pytest.approx(0.2)
    near = {"errors": [0.3, 0.16], "limit_here": 0.15, "bayes_here": 0.1}
    assert (lab.above_limit(Rows([near])), lab.times_bayes(Rows([near]))) == pytest.approx((0.01, 1.6))


def test_correlations_use_functions_that_fit():
    made = run(at=(1, 15, 30, 300), errors=(9, 3, 2, 1), roughness=[0, 30, 20, 10])
    assert lab.rank_correlation(Rows([made])) == 1  # the first does not fit, and would spoil it
    others = [run(model=model, errors=(error,), at=(None,), roughness=[rough]) for model, error, rough in
              (("line", 1, 10), ("kernel", 2, 5), ("network", 4, 2.5))]  # fmt: skip
    assert lab.log_correlation(Rows(others)) == pytest.approx(-1, abs=1e-4)
    assert lab.log_correlation(Rows([made, *others])) < 0
    assert lab.fitted(Rows([made]), largest=False).shape == (3, 2)
    assert lab.fitted(Rows([made, *others]), largest=True).shape == (4, 2)
    for few in ([made | {"fits": [False] * 4}], others[:2], [one | {"roughness": [1.0]} for one in others]):
        with pytest.raises(IncompleteError, match="fewer than three"):
            lab.log_correlation(Rows(few))


def world(**fields):
    return [run(seed=seed, **fields) for seed in SEEDS]


def test_the_u():
    both = [{**one, "target": kind} for one in world() for kind in ("bump", "wave")]
    bad = [{**one, "errors": [0.5, *one["errors"][1:]]} for one in both]  # the left wall is missing
    assert word("classical-u", bad) == "not reproduced"
    high = [{**one, "errors": [e * (3 if i == 0 else 1) for i, e in enumerate(one["errors"])]} for one in both]
    high = [{**one, "errors": [e + 0.01 * (one["seed"] % 3) for e in one["errors"]]} for one in high]
    assert word("classical-u", high) == "reproduced"


@pytest.mark.parametrize(
    ("claim", "fields", "found"),
    [
        ("beyond-wins", {"errors": (2, 1, 90, 2, 0.6)}, "reproduced"),
        ("beyond-wins", {"errors": (2, 1, 90, 2, 1.4)}, "not reproduced"),
        ("classical-wins", {"errors": (2, 1, 90, 2, 1.4), "target": "wave"}, "reproduced"),
        ("classical-wins", {"errors": (2, 1, 90, 2, 0.6), "target": "wave"}, "not reproduced"),
        ("norm-falls", {"kind": "images", "model": "fourier"}, "reproduced"),
        ("norm-falls", {"kind": "images", "model": "fourier", "errors": (2, 1, 2, 2, 1)}, "not reproduced"),
        ("error-falls", {"kind": "images", "model": "fourier"}, "reproduced"),
        ("error-falls", {"kind": "images", "model": "fourier", "errors": (2, 1, 1, 2, 1)}, "not reproduced"),
    ],
)
def test_verdicts(claim, fields, found):
    made = world(**fields)
    for i, one in enumerate(made):  # a spread that the ratio keeps
        one["errors"] = [*one["errors"][:-1], one["errors"][-1] * (1 + 0.01 * i)]
        one["norms"] = one["errors"]
    assert word(claim, made) == found


@pytest.mark.parametrize(("risk", "found"), [(0.152, "reproduced"), (0.19, "not reproduced"), (0.16, "no verdict")])
def test_the_limit_of_the_nearest_neighbor(risk, found):
    made = [
        {"kind": "neighbors", "seed": seed, "n_test": 4000, "errors": [0.3, risk + 0.001 * (seed - 22)],
         "limit_here": 0.15, "bayes_here": 0.1}
        for seed in SEEDS
    ]  # fmt: skip
    assert word("neighbor-limit", made) == found


@pytest.mark.parametrize(("risk", "found"), [(0.15, "reproduced"), (0.25, "not reproduced")])
def test_at_most_twice(risk, found):
    made = [
        {"kind": "neighbors", "seed": seed, "errors": [risk + 0.001 * seed], "limit_here": 0.1, "bayes_here": 0.1}
        for seed in SEEDS
    ]
    assert word("at-most-twice", made) == found


def test_one_function_that_misses_a_label_refutes_interpolation():
    good = [run(), run("plane", "neighbor", at=(None,), errors=(0.2,))]
    assert word("interpolates", good) == "exact"
    missed = run("images", fits=[False, False, True, True, False])
    assert word("interpolates", [*good, missed]) == word("solved", [*good, missed]) == "not reproduced"
    network = {**missed, "model": "network"}  # the theorem does not cover it
    assert word("interpolates", [*good, network]) == "not reproduced"
    assert word("solved", [*good, network]) == "exact"


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [v.claim.name for v in verdicts if not v.cells and not v.detail] == []
    json.dumps(rows.present, allow_nan=False)
    assert lab.all_fit(rows.where(kind=["curve", "plane", "images"])).holds


def test_a_run_of_curves_in_plain_numpy(rows):
    """Means of logarithms over draws; polynomials by lstsq in a basis of powers, at a size below n."""
    row = next(r for r in rows if r["kind"] == "curve" and r["model"] == "smooth" and r["target"] == "wave")
    errors, variations = [], []
    for draw in range(row["draws"]):
        x, y = points("wave", row["n"], row["sd"], derive(row["seed"], "points", draw))
        assert ((x + 1) / 2 * 15).astype(int).tolist() == list(range(15))  # one in each part
        f = np.polynomial.Polynomial.fit(x, y, 5, domain=[-1, 1])(GRID)
        errors.append(math.log(np.mean((f - np.sin(1.5 * np.pi * GRID)) ** 2) + 0.04))
        variations.append(math.log(np.abs(np.diff(f)).sum()))
    place = row["at"].index(6)
    assert row["errors"][place] == pytest.approx(math.exp(np.mean(errors)), rel=1e-8)
    assert row["roughness"][place] == pytest.approx(math.exp(np.mean(variations)), rel=1e-8)


def test_memorizers_vary_as_little_as_their_points():
    x, y = points("bump", 15, 0.2, 3)
    least = np.abs(np.diff(y)).sum()
    for model, size in SHAPES:
        [found] = curves(model, x, y, [size] if size else [], seed=0)
        t = np.linspace(-1, 1, 20_001)
        variation = np.abs(np.diff(found.function(t))).sum()
        assert variation >= least - 0.02
        if model in ("line", "neighbor"):
            assert variation == pytest.approx(least, abs=0.01)
        assert found.function(x) == pytest.approx(y, abs=1e-4)
    line = next(curves("line", x, y, [], seed=0)).function(GRID)
    assert line == pytest.approx(np.interp(GRID, x, y), abs=1e-9)


def test_waves_approach_their_kernel():
    x, y = points("wave", 15, 0.2, 1)
    kernel = next(curves("kernel", x, y, [], 0))
    *_, small, large = curves("fourier", x, y, [30, 6000], seed=2)
    apart = [np.abs(one.function(GRID) - kernel.function(GRID)).max() for one in (small, large)]
    assert apart[1] < 0.1 < apart[0]
    assert large.norm == pytest.approx(kernel.norm, rel=0.05)


def test_risks_of_the_nearest_neighbor_by_hand(rows):
    row = next(r for r in rows if r["kind"] == "neighbors")
    stored, new = toy_samples(row, max(row["sizes"]))
    eta = toy_posterior("spirals", new.X, row["sd"])
    for n, risk in zip(row["at"], row["errors"], strict=True):
        nearest = [((stored.X[:n] - x) ** 2).sum(axis=1).argmin() for x in new.X.astype(float)]
        wrong = np.where(stored.y[nearest] == 1, 1 - eta, eta)
        assert risk == pytest.approx(wrong.mean(), abs=1e-12)
    assert (row["bayes"], row["limit"]) == pytest.approx(toy_risks("spirals", row["sd"]))
    assert row["limit_here"] == pytest.approx(np.mean(2 * eta * (1 - eta)))


@pytest.mark.parametrize("model", ["neighbor", "gaussian", "laplacian", "fourier", "relu", "network"])
def test_classifiers_fit_their_labels(model):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 3, 40)
    [found] = classifiers(model, X, y, 3, [80], 0, epochs=300)
    assert (found.function(X) == y).all()


def test_features_are_taken_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    X, y, Z = rng.standard_normal((30, 2)), rng.integers(0, 2, 30), rng.standard_normal((50, 2))
    whole = next(classifiers("relu", X, y, 2, [60], 0)).function(Z)
    monkeypatch.setattr("truerisk.lab.interpolants.ENTRIES", 500)
    assert next(classifiers("relu", X, y, 2, [60], 0)).function(Z).tolist() == whole.tolist()


@pytest.mark.parametrize(
    ("kind", "model"), [("curve", "network"), ("neighbors", None), ("plane", "laplacian"), ("images", "fourier")]
)
def test_same_setting_same_record(rows, kind, model):
    row = next(r for r in rows if r["kind"] == kind and r.get("model") == model)
    setting = {name: row[name] for name in row if name in rows.fields}
    record = EXPERIMENT.task(setting)
    assert {name: row[name] for name in record} == record


@pytest.mark.parametrize("case", ["one feature", "integers", "repeated rows", "constant", "huge", "many classes"])
def test_odd_data_of_users(tmp_path, case):
    """Every run of the user's data ends, and every claim has a verdict or says in one sentence why not."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((45, 4)), np.arange(45) % (20 if case == "many classes" else 2)
    X = {"one feature": X[:, :1], "integers": (10 * X).astype(int), "repeated rows": X[np.arange(45) // 9],
         "constant": np.ones((45, 2)), "huge": 1e12 * X}.get(case, X)  # fmt: skip
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    own, _ = on_own_data(EXPERIMENT, "smoke", str(tmp_path / "mine.npz"))
    own.check("smoke")
    settings = [s for s in own.settings("smoke") if s["kind"] == "images" and s["model"] != "network"]
    assert len(settings) == 8
    assert all(s["n"] + s["n_test"] <= 45 for s in settings)
    made = Rows([{**s, **own.task(s)} for s in settings], fields={name for s in settings for name in s} | {"target"})
    assert all(0 <= error <= 1 for row in made for error in row["errors"])
    reasons = {
        v.claim.name: v.reason for v in own.judge(made, "smoke") if v.claim.name in ("error-falls", "smoother-images")
    }
    assert "broken" not in reasons.values()
    assert LESSON.figures(made)


def test_curves_stay_as_they_are_on_a_users_data():
    digits = load_data("digits")
    for setting in EXPERIMENT.settings("smoke"):
        own = lab.own_data(setting, digits)
        assert own["kind"] == "images" or own == setting


# ---- the page ------------------------------------------------------------------------------------------------------


def test_figures_show_the_rows(rows):
    found = {figure.name: figure for figure in LESSON.figures(rows)}
    assert list(found) == [
        "descent",
        "norms",
        "roughness",
        "curves",
        "neighbors",
        "lengths",
        "waves",
        "labels",
        "changes",
    ]
    assert LESSON.hero == "descent"
    smooth = next(r for r in rows if r["kind"] == "curve" and r["model"] == "smooth" and r["target"] == "bump")
    drawn = {(mark["side"], mark["size"]): mark["error"] for mark in found["descent"].rows}
    for size, error in zip(smooth["at"], smooth["errors"], strict=True):
        sides = [side for side in (OLD, NEW) if (side, size) in drawn]
        assert sides == ([OLD, NEW] if size == 15 else [OLD] if size < 15 else [NEW])
        assert all(drawn[side, size] == min(error, 3) for side in sides)
    best, noise = found["descent"].rules
    assert best.value == pytest.approx(min(smooth["errors"][:13]))
    assert noise.value == pytest.approx(0.04)
    [exact] = [row for row in rows if row["kind"] == "neighbors"]
    assert [rule.value for rule in found["neighbors"].rules] == [exact["bayes"], exact["limit"], 2 * exact["bayes"]]
    assert len(found["curves"].rows) == 2 * 7
    assert len(found["labels"].rows) == 2 * 5
    line = next(r for r in rows if r["kind"] == "curve" and r["model"] == "line" and r["target"] == "bump")
    assert found["roughness"].rules[0].value == pytest.approx(line["roughness"][0])
    claims = {name for figure in found.values() for name in figure.claims}
    assert claims <= CLAIM.keys()
    assert CLAIM.keys() - claims == {"interpolates", "solved"}


def test_without_curves_images_are_the_hero(rows):
    images = Rows([row for row in rows if row["kind"] == "images"])
    names = [figure.name for figure in LESSON.figures(images)]
    assert names == ["descent", "labels", "changes"]
    assert [figure.name for figure in LESSON.figures(Rows([]))] == ["descent"]


def test_pictures(record):
    stages, shapes, regions = LESSON.pictures(record)
    assert LESSON.pictures({}) == []
    assert stages.slider.field == "size"
    assert {row["size"] for row in stages.rows} == set(STAGES)
    truth = [row["y"] for row in stages.rows if row["curve"] == "target" and row["size"] == 15]
    assert truth == pytest.approx(target("bump", np.linspace(-1, 1, 201)), abs=1e-3)
    assert len(stages.dots) == 15
    assert len({row["curve"] for row in shapes.rows}) == len(SHAPES)
    assert [one["missed"] for one in record["planes"]] == [0] * len(PLANES)
    assert len({row["classifier"] for row in regions.rows}) == len(PLANES)
    names = {name for exhibit in (stages, shapes, regions) for name in exhibit.claims}
    assert names <= CLAIM.keys()


def test_the_slider_shows_under_and_overfitting(record):
    """Distances of the polynomials to the target: the best is inside, the worst at 15, and 300 is near the best."""
    truth = target("bump", np.linspace(-1, 1, 201))
    off = {size: float(np.mean((np.array(v) - truth) ** 2)) for size, v in zip(STAGES, record["stages"], strict=True)}
    assert max(off, key=off.get) == 15
    assert off[300] < off[1]
    assert off[300] < off[15] / 5


def test_the_headline_names_the_target_that_it_is_about():
    """For the other target, classical-wins says the opposite."""
    [finding] = [finding for finding in LESSON.findings if "beyond-wins" in finding.claims]
    target = CLAIM["beyond-wins"].where["target"]
    assert all(target in said for said in (finding.reproduced, finding.not_reproduced, finding.no_verdict))
