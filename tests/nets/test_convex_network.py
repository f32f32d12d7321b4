"""The convex problem of infinitely wide networks: brute force over directions, closed forms, and a bound that holds."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from truerisk.errors import TrueriskError
from truerisk.nets.convex_network import extended, objective, solve_convex, steepest


def on_sphere(rng, count, dimension):
    directions = rng.standard_normal((count, dimension))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def slow_network(rows, y, hidden, outer, penalty):
    """The objective of a network, sum by sum."""
    loss = 0.0
    for row, target in zip(rows, y, strict=True):
        value = sum(
            u * max(sum(a * b for a, b in zip(v, row, strict=True)), 0) for v, u in zip(hidden, outer, strict=True)
        )
        loss += (value - target) ** 2 / 2 / len(y)
    return loss + penalty / 2 * (sum(u * u for u in outer) + sum(a * a for v in hidden for a in v))


def slow_lasso(features, y, penalty):
    """The l1 problem over given units with positive and negative parts, by a general minimizer."""
    n, k = features.shape

    def value(parts):
        residual = features @ (parts[:k] - parts[k:]) - y
        gradient = features.T @ residual / n
        return residual @ residual / 2 / n + penalty * parts.sum(), np.concatenate([gradient, -gradient]) + penalty

    found = minimize(value, np.zeros(2 * k), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 2 * k,
                     options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-10})  # fmt: skip
    return found.fun


def test_the_objective_by_hand(rng):
    X, y, hidden, outer = (rng.standard_normal(shape) for shape in ((5, 2), 5, (3, 3), 3))
    rows = [[*row, 1.0] for row in X]
    assert objective(X, y, hidden, outer, 0.3) == pytest.approx(slow_network(rows, y, hidden, outer, 0.3))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("kind", ["general", "repeated", "integers"])
def test_the_steepest_direction_is_steeper_than_all_others(rng, d, kind):
    """400,000 random directions come close to the exact maximum and never pass it."""
    X = rng.standard_normal((9, d))
    X = np.concatenate([X, X]) if kind == "repeated" else np.round(2 * X) if kind == "integers" else X
    rows, z = extended(X), rng.standard_normal(len(X))
    directions, sizes = steepest(rows, z)
    assert np.allclose(np.linalg.norm(directions, axis=1), 1)
    assert np.all(np.diff(sizes) <= 0)
    others = on_sphere(rng, 400_000, d + 1)
    most = np.abs(np.maximum(others @ rows.T, 0) @ z).max()
    assert most <= sizes[0] * (1 + 1e-12)
    assert most >= sizes[0] * (1 - 1e-3)


@pytest.mark.parametrize(("d", "units", "off"), [(1, 400, 5e-3), (2, 900, 0.1)])
def test_brute_force_over_many_units_comes_close_from_above(rng, d, units, off):
    X, y = rng.uniform(-1, 1, (10, d)), rng.standard_normal(10)
    found = solve_convex(X, y, 0.02)
    assert found.bound <= found.objective <= (1 + 1e-6) * found.bound
    angles = np.linspace(0, 2 * np.pi, units, endpoint=False)
    many = np.column_stack([np.cos(angles), np.sin(angles)]) if d == 1 else on_sphere(rng, units, 3)
    brute = slow_lasso(np.maximum(extended(X) @ many.T, 0), y, 0.02)
    assert found.bound <= brute <= (1 + off) * found.objective


def test_one_point_has_a_closed_form():
    """At x = 0 with target 1 the best unit is the bias alone: c with (c - 1)^2 / 2 + r c least, so c = 1 - r."""
    found = solve_convex(np.array([[0.0]]), np.array([1.0]), 0.25)
    assert found.directions == pytest.approx(np.array([[0.0, 1.0]]))
    assert found.coefficients == pytest.approx([0.75])
    assert found.objective == pytest.approx(0.25**2 / 2 + 0.25 * 0.75)
    assert found.norm == pytest.approx(0.75)


def test_a_large_penalty_leaves_nothing():
    found = solve_convex(np.array([[0.0], [1.0]]), np.array([1.0, -1.0]), 10.0)
    assert len(found.coefficients) == 0
    assert found.objective == found.bound == 0.5
    assert found(np.array([[3.0]])).tolist() == [0]


@pytest.mark.parametrize("d", [1, 2])
def test_the_rebuilt_network_has_the_same_objective(rng, d):
    X, y = rng.uniform(-1, 1, (12, d)), rng.standard_normal(12)
    found = solve_convex(X, y, 0.01)
    hidden, outer = found.weights()
    assert np.allclose(np.linalg.norm(hidden, axis=1), np.abs(outer))
    assert objective(X, y, hidden, outer, 0.01) == pytest.approx(found.objective, rel=1e-12)
    assert np.allclose(np.maximum(extended(X) @ hidden.T, 0) @ outer, found(X))
    assert len(outer) <= 13


def test_random_networks_are_never_below_the_bound(rng):
    """Networks near the solution, where a bound that is too large would be passed."""
    X, y = rng.uniform(-1, 1, (8, 1)), rng.standard_normal(8)
    found = solve_convex(X, y, 0.01)
    hidden, outer = found.weights()
    for size in (0.0, 1e-4, 1e-2, 1.0):
        for _ in range(50):
            near = hidden + size * rng.standard_normal(hidden.shape), outer + size * rng.standard_normal(outer.shape)
            assert objective(X, y, *near, 0.01) >= found.bound * (1 - 1e-12)


def test_an_early_stop_still_has_a_true_bound(rng):
    X, y = rng.uniform(-1, 1, (15, 2)), rng.standard_normal(15)
    rough, fine = (solve_convex(X, y, 0.003, gap) for gap in (0.5, 1e-7))
    assert rough.bound <= fine.bound * (1 + 1e-6)
    assert fine.objective <= rough.objective
    assert rough.bound <= fine.objective


def test_repeated_points_and_odd_scales(rng):
    X = np.repeat(rng.integers(-3, 4, (5, 2)).astype(float), 3, axis=0)
    found = solve_convex(X, rng.integers(-1, 2, 15).astype(float), 0.01)
    assert found.objective <= (1 + 1e-5) * found.bound
    big = solve_convex(1000 * rng.standard_normal((10, 1)), rng.standard_normal(10), 0.1)
    assert 0 < big.bound <= big.objective <= (1 + 1e-5) * big.bound


@pytest.mark.parametrize("penalty", [1e-9, 1e-14, 1e-30])
def test_penalties_that_are_lost_in_rounding_still_have_a_true_bound(penalty):
    for X, y in ((np.array([[1.0]]), np.array([5.0])), (np.array([[0.0], [1.0], [2.0]]), np.array([1.0, -1.0, 1.0]))):
        found = solve_convex(X, y, penalty)
        exact = penalty * 5 / math.sqrt(2) if len(y) == 1 else math.inf
        assert 0 <= found.bound <= found.objective < math.inf
        assert found.bound <= exact * (1 + 1e-6)


@pytest.mark.parametrize(
    ("X", "y", "penalty"),
    [
        (np.zeros((2, 3)), np.zeros(2), 0.1),
        (np.zeros((2, 1)), np.zeros(3), 0.1),
        (np.zeros((2, 1)), np.zeros(2), 0.0),
        (np.full((2, 1), np.nan), np.zeros(2), 0.1),
        (np.zeros((2, 1)), np.array([0.0, np.nan]), 0.1),
        (np.zeros((2, 1)), np.zeros((2, 1)), 0.1),
        (np.zeros((2, 1)), np.zeros(2), math.inf),
    ],
)
def test_slips(X, y, penalty):
    with pytest.raises(TrueriskError, match="of one or two coordinates"):
        solve_convex(X, y, penalty)
