"""Kernel interpolation: solves by panels against plain ones, kernels and features by hand, SGD against the theorem."""

import json
import math

import numpy as np
import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.lab.kernel_interpolation import EXPERIMENT, least_squares, patches
from truerisk.lab.kernel_interpolation.kernels import DistanceKernel, choose, fit, median_distance, one_hot
from truerisk.lab.kernel_interpolation.triangle import Triangle
from truerisk.lab.rows import Rows

SIZES = (1, 2, 3, 4, 5, 8, 9, 64, 65, 130, 131)


@pytest.fixture(scope="module")
def rows(smoke_rows):
    return smoke_rows(EXPERIMENT.name)


@pytest.fixture
def points():
    generator = np.random.default_rng(0)
    return generator.normal(size=(60, 1, 2, 3)), generator.normal(size=(60, 4))


def slow_gram(name, bandwidth, A, B):
    """Entry by entry, from the definition."""
    gram = np.empty((len(A), len(B)))
    for i, a in enumerate(A.reshape(len(A), -1)):
        for j, b in enumerate(B.reshape(len(B), -1)):
            distance = math.dist(a, b)
            gram[i, j] = math.exp(-((distance / bandwidth) ** 2) / 2 if name == "gaussian" else -distance / bandwidth)
    return gram


def positive(n, seed=0):
    root = np.random.default_rng(seed).normal(size=(n, n + 3))
    return root @ root.T / n


def full(triangle):
    """The whole matrix, entry by entry from the lower triangle."""
    matrix = np.empty((triangle.n, triangle.n))
    for span, panel in zip(triangle.spans(), triangle.panels, strict=True):
        for j in range(span.start, span.stop):
            for i in range(j, triangle.n):
                matrix[i, j] = matrix[j, i] = panel[i - span.start, j - span.start]
    return matrix


@pytest.mark.parametrize("columns", [1, 2, 3, 64, 512])
@pytest.mark.parametrize("n", SIZES)
def test_triangles_agree_with_plain_matrices(monkeypatch, n, columns):
    monkeypatch.setattr("truerisk.lab.kernel_interpolation.triangle.COLUMNS", columns)
    matrix, generator = positive(n), np.random.default_rng(1)
    triangle = Triangle.of(n, lambda rows, columns: matrix[rows, columns])
    assert np.array_equal(full(triangle), np.tril(matrix) + np.tril(matrix, -1).T)
    assert np.array_equal(triangle.diagonal(), np.diag(matrix))
    triangle.add_to_diagonal(0.5)
    some = generator.normal(size=(n, 7))
    triangle.add_outer(some)
    matrix = matrix + 0.5 * np.eye(n) + some @ some.T
    assert np.allclose(full(triangle), matrix, rtol=1e-13, atol=1e-13)
    targets = generator.normal(size=(n, 3))
    before = targets.copy()
    assert triangle.factor() == 0
    cholesky = np.linalg.cholesky(matrix)
    assert np.allclose(np.tril(full(triangle)), cholesky, rtol=1e-9, atol=1e-12)
    assert np.allclose(triangle.solve(targets), np.linalg.solve(matrix, targets), rtol=1e-9, atol=1e-9)
    assert np.array_equal(targets, before)


def test_a_triangle_takes_half_the_memory(monkeypatch):
    monkeypatch.setattr("truerisk.lab.kernel_interpolation.triangle.COLUMNS", 10)
    held = sum(panel.nbytes for panel in Triangle.zeros(1000).panels)
    assert held == 8 * (1000 * 1000 + 1000 * 10) // 2


@pytest.mark.parametrize("columns", [1, 3, 512])
def test_the_first_bad_pivot_is_named(monkeypatch, columns):
    monkeypatch.setattr("truerisk.lab.kernel_interpolation.triangle.COLUMNS", columns)
    matrix = np.diag([1.0, 2.0, 3.0, 4.0, -1.0, 5.0])
    assert Triangle.of(6, lambda rows, columns: matrix[rows, columns]).factor() == 5


def test_a_copy_is_noticed():
    triangle = Triangle(4, [np.asfortranarray(positive(4))])
    with pytest.raises(TrueriskError, match="contiguous float64"):
        triangle.add_outer(np.ones((4, 1)))


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_kernels_and_solves_against_the_slow_twin(points, name):
    X, targets = points
    kernel = DistanceKernel(name, 1.7)
    gram = slow_gram(name, 1.7, X, X)
    assert np.allclose(full(kernel.triangle(X)), gram, rtol=1e-12, atol=1e-13)
    assert np.allclose(kernel.apply(X[:7], X, targets), gram[:7] @ targets, rtol=1e-7, atol=1e-7)
    for ridge in (0.0, 0.1):
        found = fit(kernel, X, targets, ridge)
        exact = np.linalg.solve(gram + ridge * np.eye(60), targets)
        assert found.jitter == 0
        assert np.allclose(found.coefficients, exact, rtol=1e-7, atol=1e-7 * np.abs(exact).max())
        assert found.norm == pytest.approx(math.sqrt(np.trace(exact.T @ gram @ exact)), rel=1e-8)
        factor = np.diag(np.linalg.cholesky(gram + ridge * np.eye(60)))
        assert found.pivot == pytest.approx(factor.min() ** 2, rel=1e-8)


def test_a_duplicate_needs_jitter_and_blocks_do_not_matter(points, monkeypatch):
    X, targets = points
    twice = np.concatenate([X, X[:1]])
    found = fit(DistanceKernel("gaussian", 1.7), twice, np.concatenate([targets, targets[:1]]))
    assert found.jitter > 0
    plain = DistanceKernel("laplacian", 1.7).apply(X, X, targets)
    monkeypatch.setattr("truerisk.lab.kernel_interpolation.kernels.ROWS", 7)
    assert np.allclose(DistanceKernel("laplacian", 1.7).apply(X, X, targets), plain, rtol=1e-12)


def test_choice_counts_errors_first_and_breaks_ties_by_squares():
    labels = np.array([0, 1, 1])
    outputs = {1.0: np.eye(2)[[0, 1, 0]], 2.0: np.eye(2)[labels] * 0.4, 3.0: np.eye(2)[labels] * 0.9}
    best = choose((1.0, 2.0, 3.0), lambda value: outputs[value], labels)
    assert (best.value, best.error) == (3.0, 0.0)
    assert choose((1.0,), lambda value: outputs[value], labels).error == pytest.approx(1 / 3)


def test_median_distance_of_a_known_set():
    assert median_distance(np.array([[0.0], [1.0], [3.0]])) == pytest.approx(2.0)


def slow_features(kernel, image, filter_index):
    """One filter on one image: every patch by itself, normalised, whitened filter applied, rectified, averaged."""
    weights = kernel.filters[filter_index].double().numpy()
    _, height, width = weights.shape
    responses = np.empty((image.shape[1] - height + 1, image.shape[2] - width + 1))
    for top in range(responses.shape[0]):
        for left in range(responses.shape[1]):
            patch = image[:, top : top + height, left : left + width]
            patch = (patch - patch.mean()) / math.sqrt(patch.var() + 10 / 255**2)
            responses[top, left] = (weights * patch).sum() - float(kernel.offsets[filter_index])
    out = []
    for sign in (1, -1):
        excess = np.maximum(sign * responses - 1, 0)
        middle = [side // 2 for side in excess.shape]  # even sides: four equal regions
        corners = [excess[: middle[0], : middle[1]], excess[: middle[0], middle[1] :]]
        corners += [excess[middle[0] :, : middle[1]], excess[middle[0] :, middle[1] :]]
        out.append([corner.mean() / kernel.scale for corner in corners])
    return np.array(out)


def test_patch_features_by_hand():
    X = np.random.default_rng(0).uniform(size=(30, 2, 8, 8)).astype(np.float32)
    kernel = patches.patch_kernel(X, filters=5, patch=3, seed=1)
    features = np.concatenate(list(kernel.blocks(X)), axis=1)
    assert features.shape == (30, 5 * 2 * 4)
    for image, index in ((0, 0), (7, 3), (29, 4)):
        by_hand = slow_features(kernel, X[image].astype(np.float64), index)
        found = features[image].reshape(2, 5, 4)[:, index]
        assert np.allclose(found, by_hand, atol=1e-5)
    assert (features**2).sum() / 30 == pytest.approx(1, rel=1e-6)
    gram = features @ features.T
    assert np.allclose(full(kernel.triangle(X)), gram, atol=1e-12)
    assert np.allclose(kernel.apply(X[:4], X, np.eye(30)), gram[:4], atol=1e-12)


def test_responses_to_whitened_patches_have_unit_scale():
    # White noise: responses of unit filters to whitened patches have a deviation of about 1 / sqrt(1 + 0.1).
    X = np.random.default_rng(0).normal(size=(200, 1, 8, 8)).astype(np.float32)
    kernel = patches.patch_kernel(X, filters=16, patch=3, seed=1)
    spread = torch.sqrt(patches._patch_variance(torch.from_numpy(X), torch.Size([3, 3])) + patches.CONTRAST)
    responses = torch.nn.functional.conv2d(torch.from_numpy(X), kernel.filters) / spread
    assert responses.std().item() == pytest.approx(1, abs=0.1)


def test_filters_follow_the_seed_in_blocks_of_any_size(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 40)).astype(np.float32)  # signals, not images
    kernel = patches.patch_kernel(X, filters=9, patch=7, seed=1)
    assert kernel.regions == (1, 4)
    whole = full(kernel.triangle(X))
    assert not torch.equal(kernel.filters, patches.patch_kernel(X, filters=9, patch=7, seed=2).filters)
    monkeypatch.setattr(patches, "AT_ONCE", 4)
    monkeypatch.setattr(patches, "IMAGES", 6)
    assert np.allclose(full(kernel.triangle(X)), whole, atol=1e-6)
    with pytest.raises(TrueriskError, match="do not fit"):
        patches.patch_kernel(X, filters=9, patch=41, seed=1)


def test_sgd_lands_where_the_theorem_says():
    generator = np.random.default_rng(0)
    X, targets = generator.normal(size=(10, 30)), generator.normal(size=(10, 2))
    best = np.linalg.pinv(X) @ targets
    projection = np.linalg.pinv(X) @ X
    for size in (0.0, 3.0):
        start = size * generator.normal(size=(30, 2))
        landing = least_squares.sgd(X, targets, start, 5000, seed=1)
        outside = start - projection @ start
        assert np.allclose(landing.weights, best + outside, atol=1e-9)
        assert landing.outside == pytest.approx(np.linalg.norm(outside) / np.linalg.norm(best), abs=1e-12)
        assert landing.distances[-1] == pytest.approx(landing.outside, abs=1e-9)
        assert landing.drift < 1e-12
        assert landing.steps[0] == 0
        assert landing.steps[-1] == 5000
        assert len(landing.steps) <= 100


def test_the_hessian_is_that_of_autograd_and_the_same_for_all_solutions():
    generator = np.random.default_rng(0)
    X, targets = generator.normal(size=(6, 9)), np.sign(generator.normal(size=(6, 1)))
    best = np.linalg.pinv(X) @ targets
    other = best + (np.eye(9) - np.linalg.pinv(X) @ X) @ (5 * generator.normal(size=(9, 1)))
    inputs = torch.from_numpy(X)

    def loss(w):
        return torch.nn.functional.softplus(inputs @ w).mean()

    hessian = torch.autograd.functional.hessian(loss, torch.from_numpy(best[:, 0]))
    largest = torch.linalg.eigvalsh(hessian)[-1].item()
    assert least_squares.sharpness(X, best) == pytest.approx(largest, rel=1e-10)
    assert np.linalg.norm(other - best) > 1
    assert least_squares.sharpness(X, other) == pytest.approx(largest, rel=1e-10)
    assert least_squares.sharpness(X, 2 * best) != pytest.approx(largest, rel=1e-3)


def test_linear_fit_and_rank():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    assert least_squares.rank_of_gram(X) == 2
    targets = np.array([[1.0], [1.0], [0.0], [0.0]])
    projection = X @ np.linalg.inv(X.T @ X) @ X.T
    assert np.allclose(least_squares.linear_fit(X, targets), projection @ targets)


def test_random_relu_features_have_the_arc_cosine_kernel():
    # E max(v.x, 0) max(v.z, 0) = |x||z| (sin t + (pi - t) cos t) / (2 pi d) for v on the sphere in d dimensions.
    # 200,000 features: the standard error is about 0.001; six of them, a false alarm below 1e-8 (and a fixed seed).
    x, z = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0])
    features = least_squares.random_relu(np.stack([x, z]), 200_000, seed=0)
    angle = math.pi / 4
    expected = math.sqrt(2) * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi * 3)
    assert features[0] @ features[1] == pytest.approx(expected, abs=0.006)


def test_smoke_grid_claims_and_figures(rows):
    verdicts = EXPERIMENT.judge(rows, "smoke")
    assert {verdict.word for verdict in verdicts} <= {"seen again", "not seen again"}
    exact = {"any-labels", "sgd-from-zero", "sgd-from-elsewhere", "same-curvature"}
    assert exact <= {verdict.claim.name for verdict in verdicts if verdict.word == "seen again"}
    assert [exhibit.name for exhibit in EXPERIMENT.figures(rows)] == ["errors", "norms", "details", "sgd", "ranks"]
    assert all(exhibit.rows for exhibit in EXPERIMENT.figures(rows))
    json.dumps(rows.present, allow_nan=False)


def test_a_claim_can_fail_and_a_missing_run_is_not_judged(rows):
    spoiled = Rows([{**row, "train_error": 0.01} if row["kind"] == "kernel" else row for row in rows])
    words = {verdict.claim.name: verdict.word for verdict in EXPERIMENT.judge(spoiled, "smoke")}
    assert words["any-labels"] == "not seen again"
    gone = Rows(rows.present[1:], missing=[EXPERIMENT.settings("smoke")[0]])
    words = {verdict.claim.name: verdict.word for verdict in EXPERIMENT.judge(gone, "smoke")}
    assert words["any-labels"] == "not checked"


def test_published_numbers_are_asked_for():
    def judged(claim, rows):
        check = next(c for c in EXPERIMENT.claims if c.name == claim).check
        return check(rows).seen

    def one(*key, **values):
        names = ("data", "n", "kernel", "ridge", "noise")
        return {"kind": "kernel", "tuned": "true labels", "seed": 0, **dict(zip(names, key, strict=True)), **values}

    mnist = ("mnist", 60_000, "gaussian", "none", 0.0)
    for error, seen in ((0.0149, True), (0.015, True), (0.0091, True), (0.0151, False), (0.0089, False)):
        assert judged("mnist", Rows([one(*mnist, test_error=error)])) is seen
    for gain, seen in ((0.001, True), (0.0021, False)):
        both = [one("mnist", 10_000, "gaussian", "none", 0.0, test_error=0.03)]
        both.append(one("mnist", 10_000, "gaussian", "validated", 0.0, test_error=0.03 - gain))
        assert judged("ridge-mnist", Rows([one(*mnist, test_error=0.012), *both])) is seen
    for other, seen in ((0.009, True), (0.011, False)):
        pair = [one("mnist", 10_000, "gaussian", "none", 0.0, norm=10.0, test_error=0.01)]
        pair.append(one("mnist", 10_000, "laplacian", "none", 0.0, norm=13.0, test_error=other))
        assert judged("norm", Rows(pair)) is seen


@pytest.mark.parametrize("kind", ["kernel", "sgd", "rank"])
def test_same_setting_same_record(kind):
    some = [s for s in EXPERIMENT.settings("smoke") if s["kind"] == kind]
    setting = some[-1] if kind == "kernel" else some[0]  # the last kernel is that of patches, with a ridge
    assert EXPERIMENT.task(setting) == EXPERIMENT.task(setting)


@pytest.mark.parametrize("scale", ["smoke", "quick", "medium", "paper"])
def test_grids_have_no_duplicates_and_tune_on_training_examples(scale):
    settings = EXPERIMENT.settings(scale)
    assert len({json.dumps(setting, sort_keys=True) for setting in settings}) == len(settings)
    for setting in settings:
        assert EXPERIMENT.cost(setting) > 0
        if setting["kind"] == "kernel":
            assert 2 * setting["tuning"] <= setting["n"]
            # Fewer features than examples could not interpolate.
            assert setting["kernel"] != "patches" or 8 * setting["filters"] > setting["n"]


def test_no_test_label_is_used_for_tuning(monkeypatch):
    setting = EXPERIMENT.settings("smoke")[0]
    record = EXPERIMENT.task(setting)
    from truerisk.lab.kernel_interpolation import runs as kernel_runs

    original = kernel_runs.samples

    def relabelled(*args):
        train, test = original(*args)
        object.__setattr__(test, "y", (test.y + 1) % 10)
        return train, test

    monkeypatch.setattr(kernel_runs, "samples", relabelled)
    changed = EXPERIMENT.task(setting)
    assert changed["test_error"] != record["test_error"]
    assert {**changed, "test_error": 0} == {**record, "test_error": 0}


def test_one_hot():
    assert one_hot(np.array([1, 0]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]
