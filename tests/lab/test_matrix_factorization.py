"""The experiment `matrix-factorization`: its runs against plain loops, effects by hand, verdicts, and its page."""

import json
import math

import numpy as np
import pytest

from truerisk.data import Data, load
from truerisk.lab import matrix_biases
from truerisk.lab.experiments.matrix_factorization import (
    CLAIMS,
    EXPERIMENT,
    FULL,
    LARGE,
    NARROW,
    SMALL,
    TINY,
    own_data,
    task,
)
from truerisk.lab.figure import Figure
from truerisk.lab.lessons.matrix_factorization import LESSON
from truerisk.lab.matrix_biases import PENALTIES, compare, fills, split, with_spectrum
from truerisk.lab.matrix_effects import at_start, commuting, equal_norms, gain_of_descent, one_optimum, ratio
from truerisk.lab.matrix_runs import centered
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.verdict import judge
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
WORLD = {
    "small": 0.01, "large": 0.15, "enough": 1.002, "few": 1.03, "least": 0.3, "tiny": 0.05,
    "excess": 0.0, "after": 1.0, "narrow": 6, "full": 1.0,
    "rank": 0.5, "trace": 0.4, "descent": 0.35, "images": 0.45, "strong": 0.1,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


def world(scale="quick", **changed):
    """Rows of a grid with numbers of our choice; seeds differ by up to 2%."""
    w = WORLD | changed
    made = []
    for s in EXPERIMENT.settings(scale):
        wiggle = 1 + 0.01 * ((3 * s["seed"]) % 5 - 2) / 2
        made.append({**s, **RECORDS[s["kind"]](s, w, wiggle)})
    return Rows(made, fields={name for row in made for name in row if name in ("kind", *row)})


def descent_record(s, w, wiggle):
    errors = {LARGE: w["large"], SMALL: w["small"], TINY: w["tiny"]}
    few = "few" in s["measured"]
    spectrum = [1.0, 0.5] + [0.0] * 8
    record = {
        "errors": [errors.get(start, 0.5) * wiggle for start in s["starts"]],
        "traces": [1 + ((w["few"] if few else w["enough"]) - 1) * wiggle for _ in s["starts"]],
        "ranks": [2.0] * len(s["starts"]),
        "misfits": [1e-3] * len(s["starts"]),
        "spectra": [spectrum] * len(s["starts"]),
        "least_error": w["least"] * wiggle**2,
        "true_spectrum": spectrum,
        "least_spectrum": spectrum,
    }
    if s["measured"] == "commuting":
        record |= {"excess": [start + w["excess"] for start in s["starts"]], "allowed": [2 * x for x in s["starts"]]}
    return record


def optima_record(s, w, wiggle):
    losses = [w["full"]] * 30 if s["width"] == FULL else [1.5] * 10 + [2.0] * 20
    count = 1 if s["width"] == FULL else w["narrow"] + (s["seed"] % 2 if w["narrow"] > 1 else 0.2 * (s["seed"] % 2))
    return {"losses": losses, "distinct": count, "slope": 1e-5, "gap": 1e-6}


def map_record(s, w, wiggle):
    rank = w["images"] if s["kind"] == "images" else w["rank"]
    if s.get("factors") == "4 equal":
        rank = w["strong"]
    errors = {"rank": rank * wiggle, "trace": w["trace"], "descent": w["descent"] * wiggle**2, "end": 0.5, "zeros": 1.0}
    return {f"{name}_error": error for name, error in errors.items()}


RECORDS = {
    "descent": descent_record,
    "optima": optima_record,
    "identity": lambda s, w, wiggle: {"before": 3.0, "after": w["after"], "moved": 0.0},
    "map": map_record,
    "images": map_record,
}


@pytest.mark.parametrize(
    ("claim", "changed", "word"),
    [
        ("small-start-recovers", {}, "reproduced"),
        ("small-start-recovers", {"small": 0.2}, "not reproduced"),
        ("small-start-recovers", {"small": 0.05}, "no verdict"),
        ("large-start-does-not", {}, "reproduced"),
        ("large-start-does-not", {"large": 0.02}, "not reproduced"),
        ("least-trace-norm", {}, "reproduced"),
        ("least-trace-norm", {"enough": 1.05}, "not reproduced"),
        ("least-trace-norm-few", {"few": 1.001}, "reproduced"),
        ("least-trace-norm-few", {}, "not reproduced"),
        ("better-than-least", {}, "reproduced"),
        ("better-than-least", {"tiny": 0.29}, "not reproduced"),
        ("commuting", {}, "exact"),
        ("commuting", {"excess": 0.2}, "not reproduced"),
        ("commuting", {"excess": -0.2}, "not reproduced"),
        ("same-norm", {}, "exact"),
        ("same-norm", {"after": 1.01}, "not reproduced"),
        ("same-norm", {"after": 0.99}, "not reproduced"),
        ("local-minima", {}, "reproduced"),
        ("local-minima", {"narrow": 1}, "not reproduced"),
        ("one-minimum", {}, "exact"),
        ("one-minimum", {"full": 1.02}, "not reproduced"),
        ("rank-for-few-strong", {}, "reproduced"),
        ("rank-for-few-strong", {"strong": 0.39}, "not reproduced"),
        ("trace-for-many", {}, "reproduced"),
        ("trace-for-many", {"rank": 0.42}, "not reproduced"),
        ("trace-for-many-weak", {}, "reproduced"),
        ("trace-for-many-weak", {"rank": 0.4}, "not reproduced"),
        ("descent-for-many", {}, "reproduced"),
        ("descent-for-many", {"descent": 0.4}, "not reproduced"),
        ("trace-for-images", {}, "reproduced"),
        ("trace-for-images", {"images": 0.39}, "not reproduced"),
    ],
)
def test_verdicts(claim, changed, word):
    assert judge(CLAIM[claim], world(**changed), "quick").word == word


def test_a_missing_run_gives_no_verdict():
    full = world()
    some = Rows(full.present[1:], full.present[:1], full.fields)  # a run on digits
    assert judge(CLAIM["trace-for-images"], some, "quick").word == "no verdict"


def test_effects_by_hand():
    run = {
        "starts": [1.0, 0.1],
        "misfits": [0.0] * 9,
        "errors": [3.0, 0.2],
        "rank_error": 0.004,
        "trace_error": 0.2,
        "descent_error": 0.1,
    }
    one = Rows([run])
    assert at_start(one, "errors", 0.1) == 0.2
    assert ratio(one, "trace", "rank") == pytest.approx(20)  # 0.4% counts as 1%
    assert gain_of_descent(one) == pytest.approx(0.1)  # the better of the two is ten times as good
    assert not commuting(Rows([{"excess": [0.1, 0.02], "allowed": [0.2, 0.01]}])).holds
    assert commuting(Rows([{"excess": [0.1, 0.02], "allowed": [0.2, 0.0195]}])).holds
    assert not equal_norms(Rows([{"before": 2.0, "after": 1.0, "moved": 0.1}])).holds
    assert not one_optimum(Rows([{"losses": [0.9, 1.0]}])).holds


def test_a_split_has_three_disjoint_parts():
    truth = np.arange(200.0).reshape(20, 10)
    parts = split(truth, 0.5, 0.0, 3)
    assert np.all(parts.train.astype(int) + parts.validation + parts.test == 1)
    assert (parts.train.sum(), parts.validation.sum(), parts.test.sum()) == (80, 20, 100)
    noisy = split(np.zeros((60, 60)), 0.5, 0.7, 3)
    assert noisy.observed.std() == pytest.approx(0.7, rel=0.05)
    off = parts.errors(truth + 2.0)
    assert off[0] == pytest.approx(2.0)
    assert off[1] == pytest.approx(2.0 / math.sqrt(np.mean(truth[parts.test] ** 2)))


@pytest.mark.parametrize("spectrum", ["3 equal", "power 1"])
def test_matrices_have_the_spectrum_that_they_name(spectrum):
    matrix = with_spectrum(12, spectrum, 0)
    values = np.linalg.svd(matrix, compute_uv=False)
    shape = [1.0] * 3 + [0.0] * 9 if spectrum == "3 equal" else [1 / k for k in range(1, 13)]
    assert np.allclose(values / values[0], shape, atol=1e-12)
    assert np.mean(matrix**2) == pytest.approx(1)


def test_held_out_entries_choose_and_test_entries_do_not():
    """The chosen parameter has the least validation error of all that were tried, zeros included."""
    parts = split(with_spectrum(14, "2 equal", 1), 0.6, 0.3, 2)
    record = compare(parts, 0, 120)
    tried = {
        "rank": matrix_biases._by_rank(parts, 0, matrix_biases.RANKS),
        "trace": matrix_biases._by_trace(parts),
        **matrix_biases._by_descent(parts, 0, 120),
    }
    zeros = parts.errors(np.zeros((14, 14)))
    for name, found in tried.items():
        best = min([(*zeros, 0.0), *found])
        assert (record[f"{name}_error"], record[f"{name}_choice"]) == best[1:]
        assert best[0] == min([zeros[0], *(one[0] for one in found)])
    assert [one[2] for one in tried["trace"]] == list(PENALTIES)
    shown = fills(parts, 0, 120)
    for name, matrix in shown.items():
        assert parts.errors(matrix)[1] == pytest.approx(record[f"{name}_error"], rel=1e-3)


def test_test_entries_never_reach_a_method():
    """Other values on test entries leave every choice as it is."""
    truth = with_spectrum(14, "4 equal", 5)
    parts = split(truth, 0.5, 0.2, 6)
    spoiled = np.where(parts.test, 1e3, parts.observed)
    other = matrix_biases.Split(truth, spoiled, parts.train, parts.validation, parts.test)
    assert compare(parts, 0, 60) == compare(other, 0, 60)


def test_columns_are_centered_by_training_entries_alone():
    rng = np.random.default_rng(0)
    X = rng.random((30, 4)) * [1, 10, 100, 0] + 5
    data, s = Data("toy", X, np.arange(30) % 2, classes=2), {"share": 0.5, "seed": 3}
    found = centered(data, s)
    train = split(X, 0.5, 0.0, derive(3, "entries")).train
    for j in range(3):
        seen = data.X[train[:, j], j].astype(float)
        assert np.allclose(found[:, j], (data.X[:, j] - seen.mean()) / seen.std(), atol=1e-4)
    assert np.allclose(found[:, 3], 0, atol=1e-4)


@pytest.mark.parametrize("index", range(17))
def test_a_task_repeats_itself(rows, index):
    setting = EXPERIMENT.settings("smoke")[index]
    record = task(setting)
    assert not setting.keys() & record.keys()
    assert len(json.dumps(record, allow_nan=False)) < 5000
    [stored] = [row for row in rows if all(row.get(key) == value for key, value in setting.items())]
    assert record == {key: stored[key] for key in record}


def test_descent_from_a_small_start_recovers_and_from_a_large_one_does_not():
    s = {"kind": "descent", "measured": "gaussian", "size": 12, "rank": 1, "m": 30, "steps": 3000, "seed": 1}
    record = task({**s, "starts": [1.0, 1e-3]})
    assert record["errors"][1] < 0.05 < 0.3 < record["errors"][0]
    assert record["least_error"] < 0.05
    assert max(record["misfits"]) <= 1e-3
    assert record["true_spectrum"][0] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).integers(0, 5, (60, 7)),
        np.random.default_rng(0).random((60, 1)),
        np.ones((60, 5)),
        np.random.default_rng(0).random((60, 6)) * 1e30,
        np.repeat(np.random.default_rng(0).random((6, 5)), 10, axis=0),
        np.random.default_rng(0).random((31, 3, 4, 4)),
    ],
    ids=["integers", "one feature", "constant", "huge", "repeated rows", "few color images"],
)
def test_own_data(tmp_path, X):
    np.savez(tmp_path / "mine.npz", X=X.astype(np.float32), y=np.arange(len(X)) % 2)
    data = load(str(tmp_path / "mine.npz"))
    settings = [own_data(s, data) for s in EXPERIMENT.settings("smoke")]
    [setting] = [s for s in settings if s is not None]
    record = task({**setting, "data": str(tmp_path / "mine.npz"), "data_sha256": data.sha256})
    assert all(math.isfinite(value) for value in record.values())


def test_smoke(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [v.claim.name for v in verdicts if not v.cells and not v.detail] == []
    for figure in LESSON.figures(rows):
        assert isinstance(figure, Figure)
        assert figure.rows, figure.name
        assert set(figure.claims) <= set(CLAIM)
    assert all(not figure.rows for figure in LESSON.figures(Rows([], missing=EXPERIMENT.settings("smoke"))))


def test_with_real_rows_alone_no_figure_is_empty(rows):
    [hero] = LESSON.figures(Rows([run for run in rows if run["kind"] == "images"]))
    assert hero.name == LESSON.hero
    assert hero.rows
    assert hero.claims == ("trace-for-images",)


def test_figures_show_the_numbers_of_rows():
    made = world()
    figures = {figure.name: figure for figure in LESSON.figures(made)}
    recovery = [r for r in figures["recovery"].rows if r["seed"] == 20 and r["start"] == SMALL]
    assert {r["method"]: r["found"] for r in recovery if "Gaussian" in r["panel"]} == pytest.approx(
        {"gradient descent": 0.01 * 0.99, "least trace norm": 0.3 * 0.99**2}, rel=0.02
    )
    phases = {(r["kind"], r["share"], r["level"]): r["value"] for r in figures["phases"].rows}
    assert len(phases) == 6 * 5 * 3
    assert phases["4 equal", "50%", "no noise"] == -1  # four times, cut off at twice
    assert phases["8 equal", "65%", "noise 0.3"] == pytest.approx(math.log2(1.25), abs=0.02)
    better = {(r["kind"], r["share"], r["level"]): r["value"] for r in figures["descent-map"].rows}
    assert better["8 equal", "65%", "noise 0.3"] == pytest.approx(math.log2(8 / 7), abs=0.03)
    ends = figures["ends"].rows
    assert sorted(r["loss"] for r in ends if r["width"] == f"width {NARROW}") == [1.5] * 10 + [2.0] * 20
    assert {r["loss"] for r in ends if r["width"] == f"width {FULL}"} == {1.0}
    assert all(r["share"] > 0 for r in figures["commuting"].rows)
    assert {r["panel"] for r in figures["traces"].rows} == {
        "180 Gaussian measurements", "only 90 Gaussian measurements", "360 of 900 entries", "only 240 of 900 entries",
    }  # fmt: skip


@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_pictures(scale):
    setting = {**EXPERIMENT.settings(scale)[0], "seed": 5}
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    names = [exhibit.name for exhibit in LESSON.pictures(record)]
    assert names == (["matrix", "filled"] if scale == "smoke" else ["matrix"])
    observed = record["matrix"][0]["tiles"][1][0]
    missing = sum(pixel == [70, 110, 170] for row in observed for pixel in row)
    assert missing == 24 * 24 - round(0.8 * 288)
    assert LESSON.pictures({}) == []


def test_vectors_have_the_matrix_alone():
    record = LESSON.demo({**EXPERIMENT.settings("smoke")[0], "data": "moons"})
    assert [exhibit.name for exhibit in LESSON.pictures(record)] == ["matrix"]


def test_a_descent_that_does_not_fit_gives_no_number():
    runs = Rows([{"starts": [1.0, 0.1], "errors": [0.4, 0.3], "misfits": [0.9, 0.001], "seed": 1}])
    assert at_start(runs, "errors", 0.1) == 0.3
    with pytest.raises(IncompleteError, match=r"descent from 1 misses the measurements by 90\.0%"):
        at_start(runs, "errors", 1.0)
