"""Descent on factors, norms, and balanced factors, against plain loops."""

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.nets.matrix_factorization import (
    Entries,
    Measurements,
    balanced_factors,
    descend,
    effective_rank,
    random_measurements,
    rebalance,
    scaled_starts,
    trace_norm,
)


def small_problem(symmetric, seed=0):
    rng = np.random.default_rng(seed)
    operators = rng.standard_normal((5, 4, 4 if symmetric else 3))
    return Measurements(operators, rng.standard_normal(5))


def plain_loss(operators, values, matrix):
    return sum((np.sum(a * matrix) - y) ** 2 for a, y in zip(operators, values, strict=True)) / 2


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_a_step_follows_the_numerical_gradient(symmetric, decay):
    """One short step moves the factors against the gradient of the plain loss, taken entry by entry."""
    problem, rng = small_problem(symmetric), np.random.default_rng(1)
    left, right = rng.standard_normal((4, 2)), None if symmetric else rng.standard_normal((3, 2))

    def loss(u, v):
        other = u if v is None else v
        weight = np.sum(u**2) + (0 if v is None else np.sum(v**2))
        return plain_loss(problem.operators, problem.values, u @ other.T) + decay / 2 * weight

    rate, tiny = 1e-6, 1e-6
    end = descend(problem, left[None], None if right is None else right[None], steps=1, rate=rate, decay=decay)
    for place in np.ndindex(left.shape):
        bump = np.zeros_like(left)
        bump[place] = tiny
        slope = (loss(left + bump, right) - loss(left - bump, right)) / (2 * tiny)
        assert (left - end.left[0])[place] / rate == pytest.approx(slope, rel=1e-3, abs=1e-3)
    if right is not None:
        bump = np.zeros_like(right)
        bump[2, 1] = tiny
        slope = (loss(left, right + bump) - loss(left, right - bump)) / (2 * tiny)
        assert (right - end.right[0])[2, 1] / rate == pytest.approx(slope, rel=1e-3, abs=1e-3)


def test_the_loss_never_rises_and_starts_do_not_mix():
    problem = random_measurements(np.diag([1.0, 0.5, 0, 0, 0, 0]), 12, seed=0)
    starts = scaled_starts((6, 6), [1.0, 0.1, 0.01], seed=1)
    seen = []
    end = descend(problem, starts, steps=300, watch=lambda _, x: seen.append((problem.residual(x) ** 2).sum(axis=1)))
    assert np.all(np.diff(np.array(seen), axis=0) <= 1e-13)
    for i in range(3):
        alone = descend(problem, starts[i : i + 1], steps=300)
        assert np.allclose(alone.left[0], end.left[i], atol=1e-10)
        assert alone.steps[0] == end.steps[i]


def test_a_start_that_fits_is_left_alone():
    problem = random_measurements(np.eye(3), 4, seed=0)
    end = descend(problem, np.eye(3)[None], steps=50)
    assert end.steps.tolist() == [0]
    assert np.array_equal(end.matrices[0], np.eye(3))


def test_entries_are_measurements_of_single_places():
    rng = np.random.default_rng(2)
    values, mask = rng.standard_normal((4, 3)), rng.random((4, 3)) < 0.6
    places = np.argwhere(mask)
    operators = np.zeros((len(places), 4, 3))
    for i, (row, column) in enumerate(places):
        operators[i, row, column] = 1
    matrices = rng.standard_normal((2, 4, 3))
    one, other = Entries(mask, values), Measurements(operators, values[mask])
    for a, b in zip(one.matrix(one.residual(matrices)), other.matrix(other.residual(matrices)), strict=True):
        assert np.allclose(a, b)


def test_missing_values_may_be_anything_and_observed_ones_may_not():
    values = np.array([[1.0, np.nan], [np.inf, 2.0]])
    assert np.array_equal(Entries(np.eye(2), values).values, np.diag([1.0, 2.0]))
    with pytest.raises(TrueriskError, match="set its mask to 0"):
        Entries(np.ones((2, 2)), values)


def test_measurements_are_unbiased_and_commute_where_they_should():
    rng = np.random.default_rng(3)
    target = rng.standard_normal((6, 6))
    target = target + target.T
    sizes = [np.sum(random_measurements(target, 40, seed).values ** 2) for seed in range(60)]
    assert np.mean(sizes) / np.sum(target**2) == pytest.approx(1, abs=0.1)
    first, second, *_ = random_measurements(target, 3, 0, commuting=True).operators
    assert np.allclose(first @ second, second @ first)
    first, second, *_ = random_measurements(target, 3, 0).operators
    assert not np.allclose(first @ second, second @ first)


def test_commuting_descent_ends_where_entropy_says():
    """Flow from a I ends at the least sum of x (log(x / a^2) - 1); its dual is solved here by Newton's method."""
    start, size, count = 0.1, 6, 3
    rng = np.random.default_rng(4)
    target = np.diag(rng.random(size) + 0.1)
    problem = random_measurements(target, count, 5, commuting=True)
    basis = np.linalg.eigh(np.tensordot([1.0, 0.7, -0.4], problem.operators, 1))[1]
    rows = np.einsum("ia,mij,ja->ma", basis, problem.operators, basis)
    dual = np.zeros(count)
    for _ in range(500):  # damped, so that it cannot overshoot
        x = start**2 * np.exp(rows.T @ dual)
        dual -= 0.2 * np.linalg.solve((rows * x) @ rows.T, rows @ x - problem.values)
    end = descend(problem, start * np.eye(size)[None], steps=12_000, rate=0.004, tolerance=1e-6)
    found = np.diag(basis.T @ end.matrices[0] @ basis)
    assert np.allclose(found, start**2 * np.exp(rows.T @ dual), rtol=0.02)


def test_norms_against_singular_values():
    rng = np.random.default_rng(5)
    matrices = rng.standard_normal((3, 5, 4))
    for matrix, trace, rank in zip(matrices, trace_norm(matrices), effective_rank(matrices), strict=True):
        values = np.sqrt(np.linalg.eigvalsh(matrix.T @ matrix))
        assert trace == pytest.approx(sum(values))
        shares = values / sum(values)
        assert rank == pytest.approx(np.exp(-sum(p * np.log(p) for p in shares)))
    assert effective_rank(np.zeros((2, 2))) == 0


@pytest.mark.parametrize(("rows", "columns", "width"), [(6, 6, 6), (8, 3, 3), (5, 7, 2)])
def test_balanced_factors_have_the_least_sum_of_squares(rows, columns, width):
    rng = np.random.default_rng(6)
    left, right = rng.standard_normal((rows, width)), rng.standard_normal((columns, width)) * 5
    matrix = left @ right.T
    u, v = balanced_factors(matrix)
    assert np.allclose(u @ v.T, matrix)
    least = (np.sum(u**2) + np.sum(v**2)) / 2
    assert least == pytest.approx(float(trace_norm(matrix)))
    for _ in range(50):  # no other factorization of this width is smaller
        change = rng.standard_normal((width, width))
        other = np.sum((left @ change) ** 2) + np.sum((right @ np.linalg.inv(change).T) ** 2)
        assert other / 2 >= least * (1 - 1e-9)
    low = rebalance(left, right)
    assert np.allclose(low[0] @ low[1].T, matrix)
    assert (np.sum(low[0] ** 2) + np.sum(low[1] ** 2)) / 2 == pytest.approx(least, rel=1e-9)


def test_slips():
    with pytest.raises(TrueriskError, match="reshape them"):
        Measurements(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(TrueriskError, match="reshape them"):
        Entries(np.zeros((3, 2)), np.zeros((2, 3)))
    with pytest.raises(TrueriskError, match="square matrix"):
        random_measurements(np.zeros((3, 2)), 4, 0)
    with pytest.raises(TrueriskError, match="make rate positive"):
        descend(small_problem(True), np.eye(4)[None], rate=0.0)
