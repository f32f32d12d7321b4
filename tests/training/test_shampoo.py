"""Shampoo against the dense preconditioner that it factors: (L (x) R)^(-1/4) of an explicit Kronecker product."""

import numpy as np
import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.training.shampoo import Shampoo, matrix_power


def dense_power(matrix, power):
    """By eigenvalues of a general matrix: slow, and it does not use symmetry."""
    values, vectors = np.linalg.eig(matrix)
    return (vectors @ np.diag(values**power) @ np.linalg.inv(vectors)).real


def follow(parameter, slopes, **options):
    """The parameter after each step with the given gradients."""
    optimizer, places = Shampoo([parameter], **options), []
    for slope in slopes:
        parameter.grad = torch.tensor(slope)
        optimizer.step()
        places.append(parameter.detach().numpy().copy())
    return places


@pytest.mark.parametrize("every", [1, 2])
def test_a_matrix_against_the_dense_kronecker_product(every):
    """L^(-1/4) G R^(-1/4) is (R (x) L)^(-1/4) vec(G), with one matrix of all entries."""
    rng = np.random.default_rng(0)
    slopes, start = rng.normal(size=(4, 3, 2)), rng.normal(size=(3, 2))
    found = follow(torch.nn.Parameter(torch.tensor(start)), slopes, lr=0.3, epsilon=1e-3, every=every, graft=False)
    left, right, place, power = 1e-3 * np.eye(3), 1e-3 * np.eye(2), start, None
    for k, (slope, after) in enumerate(zip(slopes, found, strict=True)):
        left, right = left + slope @ slope.T, right + slope.T @ slope
        if k % every == 0:
            power = dense_power(np.kron(right, left), -0.25)
        place = place - 0.3 * (power @ slope.flatten("F")).reshape(3, 2, order="F")
        assert after == pytest.approx(place, abs=1e-9)


def test_a_vector_is_adagrad_with_a_full_matrix():
    rng = np.random.default_rng(1)
    slopes, place, total = rng.normal(size=(3, 4)), np.zeros(4), 1e-3 * np.eye(4)
    found = follow(torch.nn.Parameter(torch.zeros(4).double()), slopes, lr=0.5, epsilon=1e-3, graft=False)
    for slope, after in zip(slopes, found, strict=True):
        total = total + np.outer(slope, slope)
        place = place - 0.5 * dense_power(total, -0.5) @ slope
        assert after == pytest.approx(place, abs=1e-9)


def test_three_axes_against_the_dense_kronecker_product():
    rng = np.random.default_rng(2)
    slope = rng.normal(size=(2, 3, 2))
    (found,) = follow(torch.nn.Parameter(torch.zeros(2, 3, 2).double()), [slope], lr=1.0, epsilon=0.1, graft=False)
    dense = np.eye(1)
    for axis in range(3):
        rows = np.moveaxis(slope, axis, 0).reshape(slope.shape[axis], -1)
        dense = np.kron(dense, 0.1 * np.eye(len(rows)) + rows @ rows.T)
    assert -found.flatten() == pytest.approx(dense_power(dense, -1 / 6) @ slope.flatten(), abs=1e-9)


def test_grafting_keeps_the_direction_and_takes_the_length_of_sgd():
    slopes = np.random.default_rng(3).normal(size=(2, 3, 4))
    zero = [torch.nn.Parameter(torch.zeros(3, 4).double()) for _ in range(2)]
    plain, grafted = (
        follow(p, slopes[:1], lr=0.1, epsilon=1e-3, graft=graft)[0]
        for p, graft in zip(zero, (False, True), strict=True)
    )
    assert np.linalg.norm(grafted) == pytest.approx(0.1 * np.linalg.norm(slopes[0]))
    assert grafted / np.linalg.norm(grafted) == pytest.approx(plain / np.linalg.norm(plain))


def test_momentum_numbers_and_long_axes():
    number = torch.nn.Parameter(torch.tensor(1.0).double())
    found = follow(number, np.array([2.0, 2.0]), lr=0.1, momentum=0.5)
    assert found[1] == pytest.approx(1.0 - 0.1 * 2 - 0.1 * (0.5 * 2 + 2)), "grafted, a number takes the steps of SGD"
    slope = np.random.default_rng(4).normal(size=(2, 5))
    long = torch.nn.Parameter(torch.zeros(2, 5).double())
    (place,) = follow(long, [slope], lr=1.0, epsilon=1e-3, graft=False, longest=3)
    assert -place == pytest.approx(dense_power(1e-3 * np.eye(2) + slope @ slope.T, -0.25) @ slope, abs=1e-9)
    zero = torch.nn.Parameter(torch.ones(2, 2))
    assert np.array_equal(follow(zero, [np.zeros((2, 2), np.float32)], lr=0.1)[0], np.ones((2, 2)))


def test_powers_and_refusals():
    M = np.random.default_rng(5).normal(size=(4, 4))
    M = torch.tensor(M @ M.T + np.eye(4))
    assert matrix_power(matrix_power(M, -0.5), -2).numpy() == pytest.approx(M.numpy())
    for wrong in ({"lr": 0.0}, {"epsilon": 0.0}, {"momentum": 1.0}, {"every": 0}):
        with pytest.raises(TrueriskError, match="must be"):
            Shampoo([torch.nn.Parameter(torch.ones(2))], **{"lr": 0.1, **wrong})
