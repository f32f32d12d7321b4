"""Random features against their kernels; exact readouts against slow reference implementations."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from truerisk.errors import TrueriskError
from truerisk.nets.random_features import LeastSquares, random_features, softmax_readout


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def relu_kernel(x, z):
    angle = np.arccos(np.clip(x @ z / np.linalg.norm(x) / np.linalg.norm(z), -1, 1))
    size = np.linalg.norm(x) * np.linalg.norm(z) / len(x)
    return size * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi


def gaussian_kernel(x, z, s):
    return np.exp(-np.sum((x - z) ** 2) / (2 * s**2))


def test_relu_features_by_hand():
    drawn = random_features(3, 4, seed=5)
    X = np.array([[1.0, -2.0, 0.5]])
    slow = [max(sum(v * x for v, x in zip(row, X[0], strict=True)), 0) for row in drawn.directions]
    assert np.allclose(drawn(X)[0], np.sqrt(2 / 4) * np.array(slow))
    assert np.count_nonzero(drawn(X)) < 4 or np.count_nonzero(drawn(-X)) < 4


@pytest.mark.parametrize(
    ("kind", "kernel"), [("relu", relu_kernel), ("fourier", lambda x, z: gaussian_kernel(x, z, 1.5))]
)
def test_inner_products_approach_the_kernel(rng, kind, kernel):
    X = rng.standard_normal((4, 3))
    phi = random_features(3, 400_000, seed=2, kind=kind, bandwidth=1.5)(X)
    expected = np.array([[kernel(x, z) for z in X] for x in X])
    # an entry is a mean of 400,000 draws, each of standard deviation at most 6 here: five of its deviations
    assert np.allclose(phi @ phi.T, expected, atol=5 * 6 / np.sqrt(400_000))
    assert np.ptp(expected) > 0.3


def test_draws_are_nested_and_repeat():
    few, many = (random_features(5, width, seed=3, kind="fourier") for width in (4, 9))
    assert np.array_equal(few.directions, many.directions[:4])
    assert np.array_equal(few.offsets, many.offsets[:4])
    assert not np.array_equal(few.directions, random_features(5, 4, seed=4, kind="fourier").directions)


@pytest.mark.parametrize("shape", [(7, 4), (6, 6), (4, 7)])
def test_least_norm_is_the_pseudoinverse(rng, shape):
    phi, Y = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    found = LeastSquares(phi, Y).least_norm()
    assert np.allclose(found, np.linalg.pinv(phi) @ Y)
    if shape[0] <= shape[1]:
        assert np.allclose(phi @ found, Y)


def test_least_norm_is_smaller_than_other_interpolations(rng):
    phi, y = rng.standard_normal((4, 7)), rng.standard_normal(4)
    found = LeastSquares(phi, y).least_norm()
    null = np.linalg.svd(phi)[2][4:]  # directions that no example sees
    assert np.allclose(null @ found, 0)
    for direction in null:
        assert np.allclose(phi @ (found + direction), y)
        assert np.linalg.norm(found + direction) > np.linalg.norm(found)


def test_least_norm_ignores_directions_that_are_only_rounding(rng):
    phi = rng.standard_normal((6, 1)) @ rng.standard_normal((1, 5))  # of rank 1; the other singular values are noise
    y = rng.standard_normal(6)
    assert np.linalg.norm(LeastSquares(phi, y).least_norm()) < 10
    assert np.linalg.norm(LeastSquares(phi, y).least_norm(cutoff=0)) > 1e6


@pytest.mark.parametrize("shape", [(7, 4), (4, 7)])
def test_ridge_solves_the_normal_equations(rng, shape):
    phi, Y = rng.standard_normal(shape), rng.standard_normal((shape[0], 3))
    n, width = shape
    expected = np.linalg.solve(phi.T @ phi / n + 0.3 * np.eye(width), phi.T @ Y / n)
    problem = LeastSquares(phi, Y)
    assert np.allclose(problem.ridge(0.3), expected)
    assert np.allclose(problem.ridge(1e-10), problem.least_norm(), atol=1e-6)
    assert np.linalg.norm(problem.ridge(1.0)) < np.linalg.norm(problem.ridge(0.1))


def test_a_ridge_is_the_weight_decay_of_torch(rng):
    """Gradient descent of torch with weight_decay = ridge on half the mean squared error ends at the ridge solution."""
    phi, y = rng.standard_normal((8, 3)), rng.standard_normal(8)
    weights = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.SGD([weights], lr=0.2, weight_decay=0.4)
    for _ in range(500):
        descent.zero_grad()
        ((torch.from_numpy(phi) @ weights - torch.from_numpy(y)) ** 2).mean().div(2).backward()
        descent.step()
    assert np.allclose(weights.detach().numpy(), LeastSquares(phi, y).ridge(0.4), atol=1e-10)


@pytest.mark.parametrize("shape", [(12, 3), (6, 9)])
def test_softmax_readout_is_the_minimizer(rng, shape):
    phi, labels = rng.standard_normal(shape), rng.integers(0, 3, shape[0])

    def slow(flat):
        """The objective in words of its own, without derivatives."""
        scores, loss = phi @ flat.reshape(shape[1], 3), 0.0
        for row, label in zip(scores, labels, strict=True):
            loss += np.log(np.sum(np.exp(row))) - row[label]
        return loss / len(labels) + 0.05 / 2 * np.sum(flat**2)

    found = softmax_readout(phi, labels, 3, ridge=0.05, tolerance=1e-9)
    best = minimize(slow, np.zeros(shape[1] * 3), method="BFGS", options={"gtol": 1e-7})
    assert slow(found.ravel()) <= best.fun + 1e-10
    assert np.allclose(found.ravel(), best.x, atol=1e-4)


def test_softmax_without_a_ridge_separates_what_can_be_separated(rng):
    phi, labels = rng.standard_normal((10, 15)), rng.integers(0, 4, 10)
    loose, tight = (softmax_readout(phi, labels, 4, tolerance=tolerance) for tolerance in (1e-2, 1e-6))
    assert np.array_equal((phi @ tight).argmax(axis=1), labels)
    assert np.linalg.norm(tight) > 1.5 * np.linalg.norm(loose)  # no minimizer: the readout grows with the precision


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: random_features(3, 4, 0, kind="sine"), "relu, fourier"),
        (lambda: random_features(3, 0, 0), "must be positive"),
        (lambda: random_features(3, 4, 0)(np.zeros((2, 5))), "5 coordinates"),
        (lambda: LeastSquares(np.zeros((3, 2)), np.zeros(4)), "do not match"),
        (lambda: LeastSquares(np.ones((3, 2)), np.zeros(3)).ridge(0.0), "must be positive"),
        (lambda: softmax_readout(np.ones((3, 2)), np.zeros(3, int), 2, ridge=-1.0), "at least 0"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(TrueriskError, match=words):
        call()
