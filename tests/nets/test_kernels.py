"""Kernels and their solves against a reference implementation, entry by entry; choices on held-out examples."""

import math

import numpy as np
import pytest
from nets.symmetric import full

from truerisk.errors import TrueriskError
from truerisk.nets import kernels
from truerisk.nets.kernels import DistanceKernel, choose, distance_kernels, fit, median_distance, one_hot, tune


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


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_kernels_and_solves_against_the_reference(points, name):
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


def test_a_duplicate_needs_jitter(points):
    X, targets = points
    twice = np.concatenate([X, X[:1]])
    found = fit(DistanceKernel("gaussian", 1.7), twice, np.concatenate([targets, targets[:1]]))
    assert found.jitter > 0


def test_a_singular_system_is_refused(points, monkeypatch):
    X, targets = points
    monkeypatch.setattr(kernels, "JITTERS", (0.0,))
    with pytest.raises(TrueriskError, match="remove duplicate examples"):
        fit(DistanceKernel("gaussian", 1.7), np.concatenate([X, X[:1]]), np.concatenate([targets, targets[:1]]))


def test_blocks_do_not_matter(points, monkeypatch):
    X, targets = points
    plain = DistanceKernel("laplacian", 1.7).apply(X, X, targets)
    monkeypatch.setattr(kernels, "ROWS", 7)
    assert np.allclose(DistanceKernel("laplacian", 1.7).apply(X, X, targets), plain, rtol=1e-12)


def test_choice_counts_errors_first_and_breaks_ties_by_squares():
    labels = np.array([0, 1, 1])
    outputs = {"wrong": np.eye(2)[[0, 1, 0]], "weak": np.eye(2)[labels] * 0.4, "strong": np.eye(2)[labels] * 0.9}
    assert choose(list(outputs), outputs.__getitem__, labels) == ("strong", 0.0)
    assert choose(["wrong"], outputs.__getitem__, labels)[1] == pytest.approx(1 / 3)


def test_tuning_against_plain_solves():
    # Two noisy rings of points; half of the examples fit, the other half judges.
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 120)
    angle = generator.uniform(0, 2 * math.pi, 120)
    radius = 1 + labels + 0.35 * generator.normal(size=120)
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    small, held_out = (X[:60], labels[:60]), (X[60:], labels[60:])
    candidates = [DistanceKernel("gaussian", bandwidth) for bandwidth in (0.05, 0.5, 2.0)]

    def errors(kernel, ridge):
        gram = slow_gram("gaussian", kernel.bandwidth, small[0], small[0])
        solved = np.linalg.solve(gram + ridge * np.eye(60), np.eye(2)[small[1]])
        outputs = slow_gram("gaussian", kernel.bandwidth, held_out[0], small[0]) @ solved
        return float(np.mean(outputs.argmax(1) != held_out[1]))

    plain = {kernel.bandwidth: errors(kernel, 0.0) for kernel in candidates}
    best = tune(candidates, small, held_out, 2)
    assert len(set(plain.values())) == 3, "no ties, so that the best is known"
    assert (best.kernel.bandwidth, best.error) == (min(plain, key=plain.get), min(plain.values()))
    assert best.ridge == 0
    ridges = {ridge: errors(best.kernel, ridge) for ridge in (1e-3, 0.3)}
    both = tune(candidates, small, held_out, 2, tuple(ridges))
    assert both.kernel == best.kernel, "the ridge is chosen for the kernel that is best without one"
    assert both.error == ridges[both.ridge] == min(ridges.values())


def test_with_one_kernel_and_no_ridge_there_is_nothing_to_choose(points):
    X, _ = points
    kernel = DistanceKernel("gaussian", 1.0)
    found = tune([kernel], (X, np.zeros(60, int)), (X, np.zeros(60, int)), 2)
    assert (found.kernel, found.ridge, found.error) == (kernel, 0.0, None)


def test_bandwidths_are_multiples_of_the_median_distance():
    X = np.array([[0.0], [1.0], [3.0]])
    assert median_distance(X) == pytest.approx(2.0)
    found = [kernel.bandwidth for kernel in distance_kernels("laplacian", X)]
    assert found == pytest.approx([2.0 * multiple for multiple in kernels.MULTIPLES])


def test_one_hot():
    assert one_hot(np.array([1, 0]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]
