"""Surfaces against a plain loop; resuming; odd networks; what is read off a surface."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.engine import Store
from truerisk.errors import TrueriskError
from truerisk.landscape import Plane, Surface, curvatures, doubling, evaluate, nonconvex, random_plane, read, weights_of
from truerisk.landscape import surface as module
from truerisk.landscape.probe import Probe
from truerisk.landscape.surface import Workers, refuse_long


def convnet() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Conv2d(4, 3, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(48, 3),
    ).eval()  # fmt: skip


def dense() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).eval()


def examples(n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 1, 8, 8)).astype(np.float32), rng.integers(0, 3, n)


def slow(net: nn.Module, X: np.ndarray, y: np.ndarray, plane: Plane, x: np.ndarray, ys: np.ndarray) -> tuple:
    """Set all weights by a state dict, point by point; dropout off, batch norm with its stored statistics."""
    start = copy.deepcopy(net.state_dict())
    loss, error = np.zeros((len(ys), len(x))), np.zeros((len(ys), len(x)))
    other = copy.deepcopy(net).eval()
    for i, b in enumerate(ys):
        for j, a in enumerate(x):
            state = copy.deepcopy(start)
            for name, d in plane.first.items():
                state[name] = start[name] + a * d + (0 if plane.second is None else b * plane.second[name])
            other.load_state_dict(state)
            with torch.no_grad():
                logits = other(torch.from_numpy(X))
            loss[i, j] = float(F.cross_entropy(logits, torch.from_numpy(y)))
            error[i, j] = float((logits.argmax(1).numpy() != y).mean())
    return loss, error


@pytest.mark.parametrize("make", [convnet, dense])
def test_against_a_plain_loop(make):
    net, (X, y) = make(), examples()
    before = copy.deepcopy(net.state_dict())
    plane = random_plane(weights_of(net), seed=1, reach=0.7)
    found = evaluate(net.train(), X, y, plane, size=5)
    loss, error = slow(net, X, y, plane, found.x, found.y)
    np.testing.assert_allclose(found.loss, loss, rtol=1e-4)
    np.testing.assert_allclose(found.error, error, atol=1.5 / len(X))  # a tie may round either way
    assert all(torch.equal(v, before[name]) for name, v in net.state_dict().items())
    assert found.x[[0, 2, 4]].tolist() == [-0.7, 0.0, 0.7]


def test_rays_end_where_the_loss_doubles():
    net, (X, y) = dense(), examples()
    plane = random_plane(weights_of(net), seed=1, reach=4.0)
    probe = Probe(net, X, y, plane)
    start = probe.at(0, 0)[0]
    rays = probe.rays(plane.reach)
    assert len(rays) == 8
    assert any(map(math.isfinite, rays))
    for k, radius in enumerate(rays):
        cos, sin = math.cos(k * math.pi / 4), math.sin(k * math.pi / 4)
        if math.isfinite(radius):
            assert probe.at(radius * cos, radius * sin)[0] >= 2 * start
            assert probe.at(radius / 1.03 * cos, radius / 1.03 * sin)[0] < 2 * start
        else:
            assert probe.at(4 * cos, 4 * sin)[0] < 2 * start


def test_a_killed_run_resumes_and_other_weights_do_not(tmp_path, monkeypatch):
    net, (X, y) = dense(), examples()
    plane = random_plane(weights_of(net))
    whole = evaluate(net, X, y, plane, 5)
    calls = []
    real = module._row

    def dies(probe, across, b):
        calls.append(b)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(probe, across, b)

    monkeypatch.setattr(module, "_row", dies)
    with pytest.raises(KeyboardInterrupt):
        evaluate(net, X, y, plane, 5, workers=Workers(Store(tmp_path), 1))
    again = evaluate(net, X, y, plane, 5, workers=Workers(Store(tmp_path), 1))
    assert len(calls) == 3 + 3  # two rows were kept
    np.testing.assert_array_equal(again.loss, whole.loss)
    with torch.no_grad():
        net[1].weight += 1e-3
    other = evaluate(net, X, y, plane, 5, workers=Workers(Store(tmp_path), 1))
    assert len(calls) == 6 + 5
    assert not np.array_equal(other.loss, whole.loss)


@pytest.mark.long
def test_processes_give_the_same_numbers(tmp_path, monkeypatch):
    class Own(nn.Module):  # other processes cannot import it
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(64, 3)

        def forward(self, x):
            return self.inner(x.flatten(1)).relu()

    net, (X, y) = Own().eval(), examples()
    plane = random_plane(weights_of(net))
    here = evaluate(net, X, y, plane, 3).loss
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    engines = []
    real = module.run_grid
    monkeypatch.setattr(module, "run_grid", lambda *given: engines.append(given[2].spec) or real(*given))
    with Workers(Store(tmp_path), 2).opened() as workers:
        found = evaluate(net, X, y, plane, 3, workers=workers)
    assert engines == ["local"]
    np.testing.assert_array_equal(found.loss, here)


def test_a_loss_that_is_not_finite():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    X, y = np.full((4, 2), 1e30, np.float32), np.array([0, 1, 0, 1])
    with torch.no_grad():
        net[0].weight.fill_(1e-30)
    plane = random_plane(weights_of(net), reach=1e20)
    found = evaluate(net, X, y, plane, 3)
    assert found.not_finite > 0
    assert found.record()["loss"][0][0] is None
    assert math.isfinite(found.center)


@pytest.mark.parametrize("size", [1, 2, 50, 303])
def test_sizes(size):
    net, (X, y) = dense(), examples()
    with pytest.raises(TrueriskError, match="odd number from 3 to 301"):
        evaluate(net, X, y, random_plane(weights_of(net)), size)


def test_a_huge_grid_is_refused_with_its_time():
    refuse_long(3600.0, 2, 51)
    with pytest.raises(TrueriskError, match=r"about 50\.0 h on 2 cores.*try --size 23"):
        refuse_long(100 * 3600.0, 2, 51)


# ---- readings ------------------------------------------------------------------------------------------------------

GRID = np.linspace(-1, 1, 21)


def bowl(a: float, b: float, c: float, start: float = 0.1) -> Surface:
    """start + (a x^2 + 2 b x y + c y^2) / 2"""
    x, y = GRID[None, :], GRID[:, None]
    loss = start + (a * x**2 + 2 * b * x * y + c * y**2) / 2
    return Surface(GRID, GRID, loss, loss)


@pytest.mark.parametrize(("a", "b", "c"), [(1, 0, 2), (3, 1, -1), (0.5, 0.2, 0.7), (-1, 0, -2)])
def test_curvatures_are_those_of_the_matrix(a, b, c):
    low, high = np.linalg.eigvalsh([[a, b], [b, c]])
    found = curvatures(bowl(a, b, c, 9.0))
    np.testing.assert_allclose(found[0], low, atol=1e-9)
    np.testing.assert_allclose(found[1], high, atol=1e-9)
    assert nonconvex(bowl(a, b, c, 9.0)) == (1.0 if low < 0 and -low >= 0.1 * abs(high) else 0.0)


def test_doubling_of_a_bowl_is_exact_between_points():
    found = doubling(bowl(2.0, 0, 0.5))
    assert found[0] == pytest.approx(math.sqrt(0.1))  # 0.1 + x^2 = 0.2
    assert found[2] == pytest.approx(math.sqrt(0.4))
    assert doubling(bowl(0.1, 0, 0.1))[0] == math.inf
    assert all(map(math.isnan, doubling(bowl(1, 0, 1, 0.0))))
    assert read(bowl(0, 0, 0)).record()["doubling"] is None


def test_rounding_is_not_curvature_where_the_window_is_narrow_in_one_direction():
    """The plane of a nearly straight path: steps up are a hundredth of steps across."""
    x = np.linspace(-1, 1, 31)
    y = 0.01 * x
    bowl = 0.5 + 0.01 * x[None, :] ** 2 + 0.01 * y[:, None] ** 2
    noisy = bowl * (1 + 1e-7 * np.random.default_rng(0).standard_normal(bowl.shape))
    assert nonconvex(Surface(x, y, noisy, noisy)) == 0


def test_points_that_are_not_finite_are_left_out_of_the_share():
    surface = bowl(1, 0, 1)
    loss = surface.loss.copy()
    loss[0, 0] = np.nan
    assert nonconvex(Surface(GRID, GRID, loss, loss)) == 0.0
    assert read(Surface(GRID, GRID, loss, loss)).not_finite == 1
    assert math.isnan(nonconvex(Surface(GRID, GRID, np.full_like(loss, np.nan), loss)))
