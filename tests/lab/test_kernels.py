"""The experiment `kernels`: its effects by hand, the task against plain numpy, its verdicts, and its page."""

import json

import numpy as np
import pytest

from truerisk.data import Data, load
from truerisk.errors import TrueriskError
from truerisk.lab.experiments.kernels import CLAIMS, EXPERIMENT, KERNELS, own_data, slope, task
from truerisk.lab.feature_limit import standardized
from truerisk.lab.lessons.kernels import LESSON, NAMES, REFERENCE
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.verdict import judge
from truerisk.seeds import derive

CLAIM = {claim.name: claim for claim in CLAIMS}
SPECTRA = KERNELS[:3]
FITTED = {"kind": "predictor", "data": "digits", "n": 40, "n_test": 80, "ratios": [2, 8], "seed": 1}


def world(rate=-0.5, factor=1.0, bound=1.0, mean=1.0, fall=0.6, ridge=-0.5, excess=0.05, gap=0.0, odd=""):
    """Rows of the quick grid in which everything is as expected, but for what is given; ``odd`` names one kernel."""
    made = []
    for s in EXPERIMENT.settings("quick"):
        # one part in a thousand: seeds must differ
        jump = 1 + 0.001 * ((7 * s["seed"]) % 5)
        own = (not odd) or s["kernel"] == odd
        if s["kind"] == "table":
            exact, printed = 0.4, 3.2 if s["kernel"] == "cauchy" else 0.4
            made.append({**s, "exact": exact, "printed": printed, "mean": exact * jump * (mean if own else 1)})
        elif s["kind"] == "approximation":
            N = np.array(s["widths"], float)
            rms = (factor if own else 1) * jump * N ** (rate if own else -0.5) * (1 + 0.01 * jump * np.log(N / 512))
            record = {"rms": rms.tolist(), "largest": (4 * bound * rms).tolist(), "variance": 1.0, "pairs": 44850}
            made.append({**s, **record})
        else:
            r = np.array(s["ratios"], float)
            record = {
                "distances": (jump * r ** (-fall if own else -0.6)).tolist(),
                "ridge_distances": (r ** (ridge * jump if own else -0.5 * jump)).tolist(),
                "norms": (1 + (excess if own else 0.05) * jump * 32 / r).tolist(),
                "errors": [0.03 + 0.001 * (s["seed"] % 3) + (gap if own else 0)] * len(r),
                "machine_error": 0.03,
            }
            made.append({**s, **record})
    return Rows(made, fields={name for s in EXPERIMENT.settings("quick") for name in s})


@pytest.mark.parametrize(
    ("claim", "found", "word"),
    [
        ("error-rate", {}, "reproduced"),
        ("error-rate", {"rate": -0.3}, "not reproduced"),
        ("error-rate", {"rate": -0.3, "odd": "cauchy"}, "not reproduced"),
        ("rms-rate", {}, "reproduced"),
        ("rms-rate", {"rate": -0.8}, "not reproduced"),
        ("variance-predicts-error", {}, "reproduced"),
        ("variance-predicts-error", {"factor": 1.4}, "not reproduced"),
        ("variance-predicts-error", {"factor": 1.4, "odd": "arc-cosine"}, "reproduced"),  # not a Fourier kernel
        ("union-bound", {}, "exact"),
        ("union-bound", {"bound": 5}, "not reproduced"),
        ("corrected-table", {}, "reproduced"),
        ("corrected-table", {"mean": 1.1, "odd": "laplacian"}, "not reproduced"),
        ("printed-row", {}, "reproduced"),
        ("printed-row", {"mean": 8}, "not reproduced"),
        ("predictions-approach", {}, "reproduced"),
        ("predictions-approach", {"fall": 0.3}, "not reproduced"),
        ("ridge-rate", {}, "reproduced"),
        ("ridge-rate", {"ridge": -0.2}, "not reproduced"),
        ("ridge-rate", {"ridge": -0.3993}, "no verdict"),
        ("norm-from-above", {}, "reproduced"),
        ("norm-from-above", {"excess": -0.01}, "not reproduced"),
        ("norm-from-above", {"excess": 0.3}, "not reproduced"),
        ("norm-falls", {}, "reproduced"),
        ("norm-falls", {"excess": -0.01}, "not reproduced"),
        ("errors-meet", {}, "reproduced"),
        ("errors-meet", {"gap": 0.05, "odd": "gaussian"}, "not reproduced"),
    ],
)
def test_verdicts(claim, found, word):
    assert judge(CLAIM[claim], world(**found), "quick").word == word


def test_a_slope_is_that_of_logarithms():
    runs = Rows([{"sizes": [1, 10, 100], "errors": [5.0, 0.5, 0.05]}])
    assert slope(runs, "sizes", "errors") == pytest.approx(-1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_predictor_in_plain_numpy(kernel):
    """The pseudoinverse of features and the inverse of a Gram matrix, from formulas of this file."""
    train, test = samples("digits", 40, 80, derive(1, "examples"))
    X, Z = (data.X.reshape(len(data), -1).astype(float) for data in (train, test))
    center = X.mean(axis=0)
    spread = np.sqrt(np.mean((X - center) ** 2))
    X, Z, Y = (X - center) / spread, (Z - center) / spread, np.eye(10)[train.y]

    def gram(A):
        D = np.abs(A[:, None, :] - X[None, :, :])
        apart = np.abs(X[:, None] - X)[np.triu_indices(40, 1)]
        if kernel == "arc-cosine":
            size = np.linalg.norm(A, axis=1)[:, None] * np.linalg.norm(X, axis=1)
            angle = np.arccos(np.clip(A @ X.T / size, -1, 1))
            return size * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi / 64
        if kernel == "laplacian":
            return np.exp(-D.sum(axis=2) / np.median(apart.sum(axis=1)))
        s = np.median(np.linalg.norm(apart, axis=1))
        return np.exp(-(D**2).sum(axis=2) / s**2 / 2) if kernel == "gaussian" else (1 / (1 + (D / s) ** 2)).prod(axis=2)

    record = task({**FITTED, "kernel": kernel})
    for name, ridge in (("", 0.0), ("ridge_", 1e-4)):
        inverse = np.linalg.inv(gram(X) + 40 * ridge * np.eye(40))
        machine = gram(Z) @ inverse @ Y
        assert record[f"{name}machine_norm"] == pytest.approx(np.sqrt(np.trace(Y.T @ inverse @ Y)), rel=1e-6)
        assert record[f"{name}machine_error"] == np.mean(machine.argmax(axis=1) != test.y)
    assert record["condition"] == pytest.approx(np.linalg.cond(gram(X)), rel=1e-6)
    assert record["distances"][1] < record["distances"][0]
    assert min(record["norms"] + record["ridge_norms"]) > 0.9


def test_norms_are_those_of_the_smallest_objective():
    """With a ridge r, the objective of N features is r/2 times the squared norm: from the normal equations."""
    from truerisk.nets.random_features import random_features

    train, _ = samples("digits", 40, 80, derive(1, "examples"))
    (X,) = standardized(train)
    phi = random_features(64, 80, derive(1, "features"))(X)
    Y = np.eye(10)[train.y]
    readout = np.linalg.solve(phi.T @ phi + 40 * 1e-4 * np.eye(80), phi.T @ Y)
    objective = np.sum((phi @ readout - Y) ** 2) / 80 + 1e-4 * np.sum(readout**2) / 2
    record = task({**FITTED, "kernel": "arc-cosine"})
    assert record["ridge_norms"][0] * record["ridge_machine_norm"] == pytest.approx(np.sqrt(2e4 * objective), rel=1e-6)
    least = np.linalg.norm(np.linalg.pinv(phi) @ Y)
    assert record["norms"][0] * record["machine_norm"] == pytest.approx(least, rel=1e-6)


def test_the_expected_norm_is_above_the_kernel_machine_and_falls():
    """Jensen: the mean of inverses is at least the inverse of the mean. 200 draws of features on 6 points."""
    from truerisk.nets.feature_kernels import FourierKernel

    rng = np.random.default_rng(0)
    X, y, kernel = rng.standard_normal((6, 3)), rng.standard_normal(6), FourierKernel("gaussian", 1.5)
    exact = y @ np.linalg.solve(kernel(X, X), y)
    means = []
    for width in (24, 48, 96):
        drawn = (kernel.features(3, width, seed)(X) for seed in range(200))
        means.append(np.mean([y @ np.linalg.solve(phi @ phi.T, y) for phi in drawn]))
    assert means[0] > means[1] > means[2] > exact
    assert means[2] < 1.5 * exact


@pytest.mark.parametrize("kernel", KERNELS)
def test_errors_of_features(kernel):
    s = {"kind": "approximation", "data": "digits", "n": 30, "kernel": kernel, "widths": [16, 4096], "seed": 2}
    record = task(s)
    assert record == task(s)
    assert record["pairs"] == 435
    assert 4 < record["rms"][0] / record["rms"][1] < 60  # 16, with chance
    assert all(large > rms for rms, large in zip(record["rms"], record["largest"], strict=True))
    assert (record["variance"] is None) == (kernel == "arc-cosine")


def test_repeated_inputs_count_once(tmp_path):
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.standard_normal((20, 4)), 3, axis=0).astype(np.float32), rng.integers(0, 3, 60)
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    record = task({**FITTED, "data": str(tmp_path / "mine.npz"), "n_test": 20, "kernel": "laplacian"})
    assert record["condition"] < 1e4
    assert record["distances"][1] < 1


def test_what_cannot_be_interpolated_ends_in_one_sentence(tmp_path):
    np.savez(tmp_path / "line.npz", X=np.arange(60, dtype=np.float32)[:, None], y=np.arange(60) % 2)
    with pytest.raises(TrueriskError, match="numerically singular for the gaussian kernel"):
        task({**FITTED, "data": str(tmp_path / "line.npz"), "n_test": 20, "kernel": "gaussian"})


def test_own_data():
    digits = load("digits")
    for s in EXPERIMENT.settings("paper"):
        fitted = own_data(s, digits)
        assert fitted.get("n", 0) + fitted.get("n_test", 0) <= len(digits)
    line = Data("line", np.arange(50.0)[:, None], np.arange(50) % 2, classes=2)
    left = [s for s in EXPERIMENT.settings("quick") if own_data(s, line) is None]
    assert {s["kernel"] for s in left} == {"arc-cosine"}


def test_smoke(smoke_rows):
    rows = smoke_rows(EXPERIMENT.name)
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.reason for verdict in verdicts} == {"smoke"}
    assert [v.claim.name for v in verdicts if not v.cells and not v.detail] == []
    errors, predicted, distances, norms, test_errors, table = LESSON.figures(rows)
    assert {row["name"] for row in errors.rows} == {*NAMES.values(), REFERENCE}
    pairs = next(row for row in rows if row["kind"] == "approximation" and row["kernel"] == "cauchy")
    assert [row["error"] for row in errors.rows if row["name"] == "Cauchy"] == pairs["largest"]
    assert {row["name"] for row in predicted.rows} == {"Gaussian", "Laplacian", "Cauchy"}
    both = [row["error"] for row in predicted.rows if row["name"] == "Cauchy"]
    expected = [(pairs["variance"] / width) ** 0.5 for width in pairs["widths"]]
    assert sorted(both) == sorted([*pairs["rms"], *expected])
    run = next(row for row in rows if row["kind"] == "predictor" and row["kernel"] == "cauchy")
    shown = [row["distance"] for row in distances.rows if row["name"] == "Cauchy" and row["ridge"].startswith("no")]
    assert shown == run["distances"]
    assert [row["norm"] for row in norms.rows if row["name"] == "Cauchy"] == run["norms"]
    last = [row["error"] for row in test_errors.rows if (row["name"], row["place"]) == ("Cauchy", "kernel machine")]
    assert last == [run["machine_error"]]
    assert [row[1] for row in table.rows] == ["0.6126", "0.2019", "0.4475"]
    assert [row[3] for row in table.rows] == ["0.6126", "0.2019", "3.5802"]


def test_pictures():
    setting = EXPERIMENT.settings("quick")[0]
    record = LESSON.demo(setting)
    assert json.loads(json.dumps(record, allow_nan=False)) == LESSON.demo(setting)
    curve, grams, images = LESSON.pictures(record)
    far = {}
    for count in (16, 3072):
        mine = {kind: [r["y"] for r in curve.rows if r["count"] == count and r["curve"] == kind] for kind in
                ("kernel machine", "N random features")}  # fmt: skip
        far[count] = np.abs(np.subtract(*mine.values())).max()
    assert far[3072] < 0.5 < far[16]
    by = {}
    for row in grams.rows:
        by.setdefault(row["panel"], []).append(row["value"])
    few, many, exact = (np.array(by[name]) for name in sorted(by))
    assert np.abs(many - exact).max() < 0.1 < np.abs(few - exact).max()
    assert len(images.strips[0].tiles) == 10
    assert LESSON.pictures({}) == []
    vectors = LESSON.demo({**EXPERIMENT.settings("smoke")[0], "data": "moons"})
    assert [exhibit.name for exhibit in LESSON.pictures(vectors)] == ["curve", "grams"]
