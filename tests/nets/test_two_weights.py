"""The smallest network: its closed forms against loops over examples, differences, and long descents."""

import numpy as np
import pytest

from truerisk.errors import TrueriskError
from truerisk.nets.two_weights import TwoWeights, example_points, many_units_end, two_weights

X, Y = example_points()
NET = two_weights(X, Y)


def slow_loss(w1, w2):
    return sum((y - w2 * max(w1 * x, 0.0)) ** 2 for x, y in zip(X, Y, strict=True)) / len(X)


def test_the_points_of_the_lecture():
    rng = np.random.RandomState(42)
    x = np.abs(rng.randn(30) + 1)
    y = 2 * x + 0.5 * rng.randn(30)
    assert np.array_equal(X, x)
    assert np.array_equal(Y, y)
    assert (round(NET.product, 4), round(NET.minimum, 4), round(NET.plateau, 4)) == (1.9487, 0.2094, 5.6855)


@pytest.mark.parametrize("place", [(1.0, 2.0), (0.5, -1.0), (-1.0, 3.0), (0.0, 0.0), (3.0, 0.65), (-2.0, -2.0)])
def test_loss_and_gradient(place):
    assert float(NET.loss(*place)) == pytest.approx(slow_loss(*place))
    if place[0] != 0:  # no derivative at the kink
        h = 1e-6
        slopes = [(slow_loss(place[0] + h, place[1]) - slow_loss(place[0] - h, place[1])) / (2 * h),
                  (slow_loss(place[0], place[1] + h) - slow_loss(place[0], place[1] - h)) / (2 * h)]  # fmt: skip
        assert [float(g) for g in NET.gradient(*place)] == pytest.approx(slopes, abs=1e-5)


def test_the_valley_is_the_minimum_everywhere():
    w1 = np.geomspace(0.1, 10, 9)
    w2 = NET.valley(w1)
    assert np.allclose(NET.loss(w1, w2), NET.minimum)
    assert all(float(np.abs(NET.gradient(a, b)).max()) < 1e-12 for a, b in zip(w1, w2, strict=True))
    grid = np.linspace(-5, 5, 201)
    assert float(NET.loss(*np.meshgrid(grid, grid)).min()) >= NET.minimum


@pytest.mark.parametrize("w1", [0.3, 1.0, 5.0])
def test_sharpness_is_the_largest_eigenvalue(w1):
    w2, h = NET.product / w1, 1e-4

    def second(i, j):
        def moved(a, b):
            step = [0.0, 0.0]
            step[i] += a
            step[j] += b
            return slow_loss(w1 + step[0], w2 + step[1])

        return (moved(h, h) - moved(h, -h) - moved(-h, h) + moved(-h, -h)) / (4 * h * h)

    hessian = [[second(0, 0), second(0, 1)], [second(1, 0), second(1, 1)]]
    values = np.linalg.eigvalsh(hessian)
    assert float(NET.sharpness(w1)) == pytest.approx(values[1], rel=1e-4)
    assert abs(values[0]) < 1e-3 * values[1], "along the valley the loss does not change"


def test_which_starts_arrive():
    """Against descents with tiny steps, over all directions but those next to the border."""
    angles = np.arange(0.5, 48) * 2 * np.pi / 48  # none on a border
    starts = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ends = many_units_end(starts[:, None, :], NET, lr=2e-3, steps=6000)
    arrived = np.isclose(ends, NET.minimum, atol=1e-6)
    assert np.array_equal(arrived, NET.reaches_valley(*starts.T))
    assert arrived.sum() == 18 == 48 * 3 / 8
    assert np.allclose(ends[~arrived], NET.plateau)


def test_descent_keeps_the_difference_of_squares():
    """Gradient flow keeps it exactly, descent up to an error in proportion to its rate."""

    def drift(lr):
        path = NET.descend(2.4, -1.2, lr, round(0.5 / lr))
        assert np.ptp(path[:, 1]) > 1, "it has moved"
        kept = path[:, 0] ** 2 - path[:, 1] ** 2
        return np.abs(kept - kept[0]).max()

    assert drift(1e-4) < 3e-3
    assert drift(1e-4) / drift(5e-5) == pytest.approx(2, rel=0.05)
    assert np.array_equal(NET.descend(-1.0, 2.0, 0.1, 5), [[-1.0, 2.0]] * 6), "dead units do not move"


def test_several_units_in_a_loop():
    rng = np.random.default_rng(3)
    starts = rng.normal(0, 0.5, (4, 3, 2))
    found = many_units_end(starts, NET, lr=0.02, steps=50)
    for start, end in zip(starts, found, strict=True):
        units = [list(unit) for unit in start]
        for _ in range(50):
            outputs = [sum(w2 * max(w1 * x, 0) for w1, w2 in units) for x in X]
            errors = [2 * (f - y) / len(X) for f, y in zip(outputs, Y, strict=True)]
            pairs = list(zip(errors, X, strict=True))
            slopes = [(sum(e * w2 * x * (w1 * x > 0) for e, x in pairs), sum(e * max(w1 * x, 0) for e, x in pairs))
                      for w1, w2 in units]  # fmt: skip
            units = [[w1 - 0.02 * a, w2 - 0.02 * b] for (w1, w2), (a, b) in zip(units, slopes, strict=True)]
        loss = np.mean([(y - sum(w2 * max(w1 * x, 0) for w1, w2 in units)) ** 2 for x, y in zip(X, Y, strict=True)])
        assert end == pytest.approx(loss, rel=1e-9)


def test_refusals():
    with pytest.raises(TrueriskError, match=r"use np\.abs"):
        two_weights(np.array([-1.0, 2.0]), np.ones(2))
    with pytest.raises(TrueriskError, match=r"use np\.abs"):
        two_weights(np.zeros(2), np.ones(2))
    with pytest.raises(TrueriskError, match="vectors of one length"):
        two_weights(np.ones(3), np.ones(2))
    whole = two_weights(np.array([1, 2]), np.array([2, 4]))
    assert isinstance(whole, TwoWeights)
    assert whole.minimum == 0
