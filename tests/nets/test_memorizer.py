"""The memorizer: weights against a triangular solve, exact fits, and counts of weights."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.linalg import solve_triangular
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets.memorizer import (
    kink_places,
    memorize,
    memorize_deep,
    outputs,
    project,
    relative_gap,
    slope_changes,
)


def sample(n, d, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, d)), generator.integers(0, 10, n).astype(np.float64)


def triangular(z, b):
    """The matrix of Theorem 1, from its definition."""
    return np.maximum(z[:, None] - b[None, :], 0)


@pytest.mark.parametrize("kinks", ["points", "middle"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 50])
def test_differences_solve_the_triangular_system(n, kinks):
    generator = np.random.default_rng(n)
    z, y = np.cumsum(generator.uniform(0.5, 1.5, n)), generator.normal(size=n)
    b = kink_places(z, kinks)
    matrix = triangular(z, b)
    assert np.array_equal(matrix, np.tril(matrix))
    assert (np.diag(matrix) > 0).all()
    found = slope_changes(z, y, kinks)
    assert np.allclose(found, solve_triangular(matrix, y, lower=True), rtol=1e-9, atol=1e-10)


def test_kinks_lie_where_the_theorem_wants_them():
    z = np.array([0.0, 1.0, 4.0])
    assert kink_places(z, "points").tolist() == [-2.0, 0.0, 1.0]  # the limit case: a kink on the previous point
    assert kink_places(z, "middle").tolist() == [-2.0, 0.5, 2.5]


def largest_error(matrix, weights, y):
    """Of the outputs in exact arithmetic: the rounding of the network's own sum plays no part."""
    exact = [Fraction(float(weight)) for weight in weights]
    rows = ([Fraction(float(value)) for value in row[: i + 1]] for i, row in enumerate(matrix))
    sums = [sum(value * weight for value, weight in zip(row, exact, strict=False)) for row in rows]
    return float(max(abs(total - Fraction(float(target))) for total, target in zip(sums, y, strict=True)))


def test_differences_are_more_exact_than_a_generic_solve():
    for seed in range(3):
        X, y = sample(200, 20, seed)
        line = project(X, y, seed=seed, directions=8)
        matrix = triangular(line.z, kink_places(line.z, "points"))
        ours = largest_error(matrix, slope_changes(line.z, line.y, "points"), line.y)
        generic = largest_error(matrix, solve_triangular(matrix, line.y, lower=True), line.y)
        assert ours < generic
        assert ours < 1e-9


@pytest.mark.parametrize("kind", ["classes", "real numbers", "constant"])
def test_a_thousand_points_are_fitted_with_2n_plus_d_weights(kind):
    X, y = sample(1000, 64)
    y = {"classes": y, "real numbers": X[:, 0] * 3 - X[:, 1], "constant": np.full(1000, 2.0)}[kind]
    net = memorize(X, y, seed=1)
    assert np.abs(outputs(net, X) - y).max() < 1e-6
    assert {name: tuple(p.shape) for name, p in net.named_parameters()} == {"a": (64,), "b": (1000,), "w": (1000,)}
    assert sum(p.numel() for p in net.parameters()) == 2 * 1000 + 64
    assert not list(net.buffers())
    assert all(p.dtype == torch.float64 for p in net.parameters())


def test_the_network_is_the_formula_for_any_input():
    X, y = sample(20, 3)
    net = memorize(X, y, seed=0, kinks="middle")
    a, b, w = (p.detach().numpy() for p in (net.a, net.b, net.w))
    for x in sample(50, 3, seed=9)[0]:
        by_hand = sum(w[j] * max(float(a @ x) - b[j], 0.0) for j in range(20))
        assert outputs(net, x[None])[0] == pytest.approx(by_hand, abs=1e-9 * np.abs(w).max())


def test_between_two_points_the_line_is_straight():
    net = memorize(np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 2.0, -2.0]), seed=0, directions=1)
    assert outputs(net, np.array([[0.25], [0.5], [2.0], [2.5]])) == pytest.approx([0.5, 1.0, 0.0, -1.0])


@pytest.mark.parametrize("layers", [2, 3, 7, 40])
def test_deep_networks_are_the_same_function_with_few_weights(layers):
    X, y = sample(200, 5)
    flat, deep = memorize(X, y, seed=1), memorize_deep(X, y, layers, seed=1)
    assert np.abs(outputs(deep, X) - y).max() < 1e-6
    elsewhere = 3 * sample(500, 5, seed=4)[0]  # to the left and the right of all points, too
    assert np.allclose(outputs(deep, elsewhere), outputs(flat, elsewhere), rtol=1e-9, atol=1e-6)
    linear = [module for module in deep if isinstance(module, nn.Linear)]
    assert len(linear) == layers + 1
    assert sum(isinstance(module, nn.ReLU) for module in deep) == layers
    width = max(module.out_features for module in linear)
    assert width == -(-199 // (layers - 1)) + 3
    weights = sum(int(p.count_nonzero()) for p in deep.parameters())
    # Equal slopes on both sides of a kink make its weight 0, so the count may be smaller than the formula.
    last = 199 // (layers - 1)
    assert 0 <= 4 * 200 + 5 * layers - 8 - last + 5 - weights <= 2 * int((flat.w == 0).sum())


def test_more_layers_than_kinks():
    X, y = sample(4, 2)
    assert np.allclose(outputs(memorize_deep(X, y, 9, seed=0), X), y)
    with pytest.raises(TrueriskError, match="at least 2"):
        memorize_deep(X, y, 1, seed=0)


def test_duplicates_count_once_and_contradictions_are_refused():
    X, y = sample(10, 3)
    twice, labels = np.concatenate([X, X[3:5]]), np.concatenate([y, y[3:5]])
    net = memorize(twice, labels, seed=0)
    assert len(net.w) == 10
    assert np.allclose(outputs(net, twice), labels)
    labels[10] += 1
    with pytest.raises(TrueriskError, match=r"examples 3 and 10 are the same point .* remove one"):
        memorize(twice, labels, seed=0)


def test_the_direction_with_the_largest_gap_is_taken():
    X, y = sample(30, 4)
    best = project(X, y, seed=5, directions=16)
    generator = np.random.default_rng(5)
    candidates = generator.standard_normal((16, 4))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    gaps = []
    for direction in candidates:
        z = sorted(X @ direction)
        gaps.append(min(right - left for left, right in pairwise(z)) / (z[-1] - z[0]))
    assert best.gap == pytest.approx(max(gaps), rel=1e-9)
    assert np.allclose(best.direction, candidates[int(np.argmax(gaps))])
    assert np.linalg.norm(best.direction) == pytest.approx(1)
    assert relative_gap(np.array([0.0, 1.0, 4.0])) == 0.25


def test_points_that_no_direction_separates_are_refused():
    # Two different points whose projections differ by less than float64 can show.
    with pytest.raises(TrueriskError, match="more directions"):
        project(np.array([[1.0, 1e-300], [1.0, 2e-300]]), np.array([0.0, 1.0]), seed=0, directions=4)


def test_order_of_the_points_does_not_matter():
    X, y = sample(50, 3)
    order = np.random.default_rng(1).permutation(50)
    one, other = memorize(X, y, seed=2), memorize(X[order], y[order], seed=2)
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


def test_single_precision_is_not_enough():
    X, y = sample(1000, 64)
    net = memorize(X, y, seed=1).float()
    assert next(net.parameters()).dtype == torch.float32
    assert np.abs(outputs(net, X) - y).max() > 1e-3


def test_outputs_do_not_depend_on_the_chunk(monkeypatch):
    X, y = sample(30, 3)
    net = memorize(X, y, seed=0)
    monkeypatch.setattr("truerisk.nets.memorizer.ROWS", 7)
    assert np.allclose(outputs(net, X), y)
