"""Networks that pass through every point: derivatives against differences, steps against least squares."""

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.training.levenberg_marquardt import TanhNetwork, initial_network, train_exactly

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-1, 1, (9, 2)), RNG.standard_normal(9)


def test_a_network_by_hand():
    net = TanhNetwork(np.array([[1.0, 2.0]]), np.array([0.5]), np.array([3.0]), -1.0)
    assert net(np.array([[0.1, 0.2]])) == pytest.approx([3 * np.tanh(1.0) - 1])
    assert net.size == 5
    assert net.norm == pytest.approx(np.sqrt(1 + 4 + 0.25 + 9))


def test_jacobian_against_differences():
    net = initial_network(2, 4, seed=1)
    found, h = net._jacobian(X), 1e-6
    for j, step in enumerate(np.eye(net.size)):
        slope = (net._moved(h * step)(X) - net._moved(-h * step)(X)) / (2 * h)
        assert found[:, j] == pytest.approx(slope, abs=1e-7)


def test_the_step_is_the_smallest_that_fits_the_linear_problem():
    """Without damping, J^T (J J^T)^-1 r is numpy's least-norm solution of J step = r."""
    net = initial_network(2, 40, seed=2)
    jacobian, residuals = net._jacobian(X), Y - net(X)
    step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T, residuals)
    assert step == pytest.approx(np.linalg.lstsq(jacobian, residuals, rcond=None)[0], abs=1e-6)


@pytest.mark.parametrize("width", [20, 200])
def test_every_point_is_met(width):
    found = train_exactly(X, Y, width, seed=3)
    assert found.residual <= 1e-6
    assert found.network(X) == pytest.approx(Y, abs=1e-6)
    assert np.abs(found.network(X) - Y).max() == pytest.approx(found.residual)
    again = train_exactly(X, Y, width, seed=3)
    assert again.network(X).tolist() == found.network(X).tolist()


def test_too_few_weights_end_with_a_residual():
    found = train_exactly(np.linspace(-1, 1, 30)[:, None], np.arange(30) % 2 * 2.0 - 1, width=1, seed=0, steps=50)
    assert found.residual > 0.5
    assert found.steps == 50


def test_conflicting_points_end_in_their_mean():
    found = train_exactly(np.array([[0.0], [0.0], [1.0]]), np.array([1.0, 3.0, 0.0]), width=10, seed=0)
    assert found.network(np.array([[0.0]])) == pytest.approx([2.0], abs=1e-3)


def test_refused():
    with pytest.raises(TrueriskError, match="do not match"):
        train_exactly(np.zeros((3, 1)), np.zeros(2), 5, 0)
    with pytest.raises(TrueriskError, match="do not match"):
        train_exactly(np.zeros(3), np.zeros(3), 5, 0)
    with pytest.raises(TrueriskError, match="at least 1"):
        initial_network(1, 0, seed=0)
