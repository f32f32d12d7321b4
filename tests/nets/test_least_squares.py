"""Linear least squares: SGD against the theorem, the Hessian against autograd, features against their kernel."""

import math

import numpy as np
import pytest
import torch

from truerisk.nets import least_squares


def test_sgd_ends_where_the_theorem_says():
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


def test_the_smallest_norm_against_the_pseudo_inverse():
    generator = np.random.default_rng(0)
    X, targets = generator.normal(size=(6, 9)), generator.normal(size=(6, 2))
    assert np.allclose(least_squares.min_norm(X, targets), X.T @ np.linalg.solve(X @ X.T, targets))


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
