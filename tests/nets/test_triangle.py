"""Triangles against plain matrices: every operation, for sizes around those of a panel."""

import numpy as np
import pytest
from nets.symmetric import full, positive

from truerisk.errors import TrueriskError
from truerisk.nets.triangle import Triangle

SIZES = (1, 2, 3, 4, 5, 8, 9, 64, 65, 130, 131)
COLUMNS = "truerisk.nets.triangle.COLUMNS"


@pytest.mark.parametrize("columns", [1, 2, 3, 64, 512])
@pytest.mark.parametrize("n", SIZES)
def test_triangles_agree_with_plain_matrices(monkeypatch, n, columns):
    monkeypatch.setattr(COLUMNS, columns)
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
    monkeypatch.setattr(COLUMNS, 10)
    held = sum(panel.nbytes for panel in Triangle.zeros(1000).panels)
    assert held == 8 * (1000 * 1000 + 1000 * 10) // 2


@pytest.mark.parametrize("columns", [1, 3, 512])
def test_the_first_bad_pivot_is_named(monkeypatch, columns):
    monkeypatch.setattr(COLUMNS, columns)
    matrix = np.diag([1.0, 2.0, 3.0, 4.0, -1.0, 5.0])
    assert Triangle.of(6, lambda rows, columns: matrix[rows, columns]).factor() == 5


def test_a_copy_is_noticed():
    triangle = Triangle(4, [np.asfortranarray(positive(4))])
    with pytest.raises(TrueriskError, match="contiguous float64"):
        triangle.add_outer(np.ones((4, 1)))
