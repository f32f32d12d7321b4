"""Exact solutions of label equations, against the rank of the same equations written as a dense matrix."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from truerisk.symmetry.system import System


def dense_rank(rows, size):
    matrix = np.zeros((len(rows) + 1, size))
    matrix[0, 0] = 1  # label 0 is 0
    for at, row in enumerate(rows, start=1):
        for coefficient, label in row:
            matrix[at, label] += float(coefficient)
    return np.linalg.matrix_rank(matrix), matrix


@pytest.mark.parametrize("seed", range(30))
def test_random_systems(seed):
    rng = np.random.default_rng(seed)
    system = System()
    size = int(rng.integers(3, 30))
    system.fresh((size - 1,), "here")
    rows = []
    for _ in range(int(rng.integers(0, size))):
        labels = rng.integers(0, size, int(rng.integers(1, 5)))
        coefficients = rng.choice([1, -1, 2, -2, Fraction(1, 2), 3], len(labels))
        if rng.random() < 0.4:
            labels, coefficients = labels[:2], np.array([1, -1])[: len(labels[:2])]
        row = list(zip(coefficients.tolist(), labels.tolist(), strict=True))
        rows.append(row)
        system.equate([(c, torch.tensor([label])) for c, label in row])
    solution = system.solve()
    rank, matrix = dense_rank(rows, size)
    assert solution.basis.shape == (size, size - rank)
    basis = solution.basis.toarray()
    assert np.abs(matrix @ basis).max(initial=0) < 1e-9  # every solution solves the equations
    assert np.array_equal(basis[solution.free], np.eye(size - rank))  # and the free labels are themselves


def test_equations_over_two_axes_are_the_same_as_all_of_them():
    """f(i) + g(j) = 0 for all i, j, reduced to one axis at a time."""
    system = System()
    f, g = system.fresh((3, 1), "f"), system.fresh((1, 4), "g")
    system.equate([(1, f), (1, g)])
    solution = system.solve()
    assert solution.basis.shape[1] == 1
    assert solution.basis.toarray()[:, 0].tolist() == [0, 1, 1, 1, -1, -1, -1, -1]


def test_combined_labels_are_sums():
    system = System()
    a, b = system.fresh((2, 1), "a"), system.fresh((1, 3), "b")
    both = system.combine([(2, a), (-1, b)], "both")
    values = torch.from_numpy(system.solve().basis @ np.array([1.0, 10.0, 100.0, 200.0, 300.0]))
    assert values[both].tolist() == [[-98, -198, -298], [-80, -180, -280]]


def test_the_earliest_label_stays_free():
    system = System()
    first, second = system.fresh((2,), "first"), system.fresh((2,), "second")
    system.tie(second, first)
    assert system.solve().free.tolist() == first.tolist()
    assert [system.origins[k] for k in system.origin(np.arange(1, 5))] == ["first", "first", "second", "second"]


def test_a_copy_is_independent():
    system = System()
    labels = system.fresh((3,), "x")
    twin = system.copy()
    twin.tie(labels, torch.zeros(3, dtype=torch.int64))
    assert len(system.solve().free) == 3
    assert len(twin.solve().free) == 0
