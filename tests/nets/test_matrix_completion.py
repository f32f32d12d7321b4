"""Matrix completion against plain loops, a linear program, and the conditions that define the optimum."""

import numpy as np
import pytest
from scipy.optimize import linprog

from truerisk.errors import TrueriskError
from truerisk.nets.matrix_completion import largest_penalty, least_trace, low_rank, soft_impute
from truerisk.nets.matrix_factorization import Entries, random_measurements, trace_norm


def entries(rows=9, columns=7, rank=2, share=0.6, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    return Entries(rng.random((rows, columns)) < share, truth + noise * rng.standard_normal((rows, columns)))


def plain_sweeps(seen, left, ridge, sweeps):
    """Alternating ridge regressions, row by row."""
    for _ in range(sweeps):
        right = np.array([regress(left, seen.values[:, j], seen.mask[:, j], ridge) for j in range(seen.mask.shape[1])])
        left = np.array([regress(right, seen.values[i], seen.mask[i], ridge) for i in range(len(seen.mask))])
    return left @ right.T


def regress(factor, values, mask, ridge):
    X = factor[mask != 0]
    return np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ values[mask != 0])


def test_alternating_least_squares_row_by_row():
    seen = entries()
    starts = np.random.default_rng(1).standard_normal((3, 9, 2))
    found = low_rank(seen, starts, ridge=0.1, sweeps=5, tolerance=0.0)
    for start, matrix in zip(starts, found.matrices, strict=True):
        assert np.allclose(matrix, plain_sweeps(seen, start, 0.1, 5), atol=1e-6)


def test_losses_and_slopes_of_factors():
    seen = entries()
    found = low_rank(seen, np.random.default_rng(1).standard_normal((2, 9, 3)), 0.2, sweeps=2000, tolerance=1e-14)
    for left, right, loss in zip(found.left, found.right, found.losses, strict=True):
        off = seen.mask * (left @ right.T) - seen.values
        assert loss == pytest.approx((np.sum(off**2) + 0.2 * (np.sum(left**2) + np.sum(right**2))) / 2)
    assert found.slopes.max() < 1e-5
    assert low_rank(seen, np.ones((1, 9, 3)), 0.2, sweeps=1).slopes[0] > 1e-3


def test_a_local_minimum_attracts_its_neighbors():
    """Ends with different losses are not unfinished runs or saddle points: from near by, descent returns."""
    seen = entries(20, 20, 3, 0.4, 0.5, seed=3)
    rng = np.random.default_rng(4)
    found = low_rank(seen, rng.standard_normal((30, 20, 3)), 0.2, sweeps=5000, tolerance=1e-12)
    assert found.losses.max() > 1.1 * found.losses.min()
    worst = found.left[found.losses.argmax()]
    near = worst * (1 + 0.01 * rng.standard_normal((10, 20, 3)))
    again = low_rank(seen, near, 0.2, sweeps=5000, tolerance=1e-12)
    assert np.allclose(again.losses, found.losses.max(), rtol=1e-6)


def test_full_width_with_a_ridge_is_the_convex_problem():
    seen = entries()
    convex = soft_impute(seen, [0.5], tolerance=1e-9, iterations=5000)[0]
    value = np.sum(seen.residual(convex.matrix) ** 2) / 2 + 0.5 * convex.trace
    ends = low_rank(seen, np.random.default_rng(2).standard_normal((6, 9, 7)), 0.5, sweeps=3000, tolerance=1e-12)
    assert np.allclose(ends.losses, value, rtol=1e-6)
    assert np.allclose(ends.matrices, convex.matrix, atol=1e-3)


@pytest.mark.parametrize("shape", [(9, 7), (7, 9)])
def test_soft_impute_meets_the_optimality_conditions(shape):
    """P(Y - X) is the penalty times a subgradient: 1 on the singular vectors of X, at most 1 elsewhere."""
    seen = entries(*shape)
    for one in soft_impute(seen, [0.3, 1.0], tolerance=1e-10, iterations=5000):
        dual = -seen.residual(one.matrix) / one.penalty
        assert np.linalg.norm(dual, 2) <= 1 + 1e-4
        assert np.sum(dual * one.matrix) == pytest.approx(one.trace, rel=1e-4)
        assert one.trace == pytest.approx(float(trace_norm(one.matrix)), rel=1e-6)
        assert 0 <= one.gap <= 1e-10


def test_the_gap_bounds_the_distance_from_the_optimum():
    seen = entries()

    def value(matrix):
        return np.sum(seen.residual(matrix) ** 2) / 2 + 0.3 * float(trace_norm(matrix))

    rough, fine = (soft_impute(seen, [0.3], tolerance, 5000)[0] for tolerance in (0.05, 1e-10))
    assert 1e-6 < value(rough.matrix) / value(fine.matrix) - 1 <= rough.gap <= 0.05


def test_the_largest_penalty_gives_zeros():
    seen = entries()
    most = largest_penalty(seen)
    above, below = soft_impute(seen, [0.9 * most, 1.01 * most], 1e-8)
    assert above.penalty > below.penalty  # from the largest to the smallest
    assert np.allclose(above.matrix, 0)
    assert np.abs(below.matrix).max() > 0


def test_least_trace_of_commuting_measurements_is_a_linear_program():
    rng = np.random.default_rng(7)
    target = np.diag(rng.random(10) * (rng.random(10) < 0.6) + 0.01)
    problem = random_measurements(target, 4, 8, commuting=True)
    basis = np.linalg.eigh(np.tensordot([1.0, 0.7, -0.4, 0.2], problem.operators, 1))[1]
    rows = np.einsum("ia,mij,ja->ma", basis, problem.operators, basis)
    program = linprog(np.ones(10), A_eq=rows, b_eq=problem.values)
    found = least_trace(problem, positive=True, tolerance=1e-7, iterations=20_000)
    assert found.trace == pytest.approx(program.fun, rel=1e-5)
    assert np.allclose(problem.residual(found.matrix[None]), 0, atol=1e-9)
    assert np.linalg.eigvalsh(found.matrix)[0] > -1e-5


def test_least_trace_fits_all_entries_and_is_the_limit_of_small_penalties():
    seen = entries(noise=0.0, rank=1)
    found = least_trace(seen, tolerance=1e-7, iterations=20_000)
    assert np.allclose(seen.residual(found.matrix), 0)
    near = soft_impute(seen, [1.0, 0.1, 0.01, 1e-3], tolerance=1e-6, iterations=20_000)[-1]
    assert found.trace == pytest.approx(near.trace, rel=2e-3)
    assert np.abs(found.matrix - near.matrix).max() < 0.05


def test_nothing_observed_in_a_row_and_nothing_at_all():
    mask = np.ones((5, 4))
    mask[2] = 0
    seen = Entries(mask, np.ones((5, 4)))
    assert np.allclose(low_rank(seen, np.ones((1, 5, 2))).matrices[0][2], 0)
    empty = Entries(np.zeros((5, 4)), np.ones((5, 4)))
    assert np.allclose(low_rank(empty, np.ones((1, 5, 2))).matrices, 0)
    assert np.allclose(soft_impute(empty, [1.0])[0].matrix, 0)
    assert np.allclose(least_trace(empty).matrix, 0)


def test_slips():
    with pytest.raises(TrueriskError, match="use least_trace"):
        soft_impute(entries(), [0.0])
    with pytest.raises(TrueriskError, match="reshape them"):
        low_rank(entries(), np.ones((9, 2)))
