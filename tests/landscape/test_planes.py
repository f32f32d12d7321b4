"""Planes against a dense Hessian, a plain SVD, and a random walk."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.landscape import hessian_plane, line, pca_plane, random_plane, weights_of
from truerisk.landscape.planes import WALK


def flat(direction: dict[str, torch.Tensor]) -> np.ndarray:
    return torch.cat([d.double().flatten() for d in direction.values()]).numpy()


@pytest.mark.parametrize("width", [2, 5])  # the whole matrix, and Lanczos
def test_hessian_plane_against_the_dense_hessian(width):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2)).double()
    X, y = torch.randn(40, 3, dtype=torch.float64), torch.randint(0, 2, (40,))
    names = [name for name, _ in net.named_parameters()]
    shapes = [p.shape for p in net.parameters()]

    def loss(vector: torch.Tensor) -> torch.Tensor:
        pieces = vector.split([math.prod(s) for s in shapes])
        weights = {n: v.reshape(s) for n, v, s in zip(names, pieces, shapes, strict=True)}
        return F.cross_entropy(torch.func.functional_call(net, weights, (X,)), y)

    here = torch.cat([p.detach().flatten() for p in net.parameters()])
    values, vectors = np.linalg.eigh(torch.autograd.functional.hessian(loss, here).numpy())
    plane = hessian_plane(net, X, y)
    assert plane.eigenvalues == pytest.approx(values[::-1][:2], rel=1e-3)
    for k, direction in enumerate((plane.first, plane.second)):
        own = flat(direction)
        assert np.linalg.norm(own) == pytest.approx(float(here.norm()))
        assert abs(own @ vectors[:, -1 - k]) / np.linalg.norm(own) == pytest.approx(1, abs=1e-3)


def test_pca_plane_against_numpy():
    rng = np.random.default_rng(0)
    points = np.cumsum(rng.standard_normal((7, 10)) * [5, 3, *[0.3] * 8], axis=0)
    checkpoints = [{"a": torch.tensor(p[:4]).reshape(2, 2), "b": torch.tensor(p[4:])} for p in points]
    plane = pca_plane(checkpoints[-1], checkpoints[:-1])
    moves = points - points[-1]
    _, sizes, rows = np.linalg.svd(moves - moves.mean(0))
    assert plane.explained == pytest.approx((sizes**2 / (sizes**2).sum())[:2])
    length = np.linalg.norm(points[-1])
    for k, direction in enumerate((plane.first, plane.second)):
        unit = flat(direction) / length
        assert abs(unit @ rows[k]) == pytest.approx(1)
        assert [p[k] for p in plane.path] == pytest.approx(moves @ unit / length)
    assert plane.path[-1] == (0.0, 0.0)
    assert all(abs(p[k]) <= plane.reach[k] for p in plane.path for k in (0, 1))


def test_the_shares_of_a_random_walk():
    """Two components hold 76% in high dimension; 40 steps of 4,000 dimensions come within two points."""
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((200, 4000)), axis=0)
    plane = pca_plane({"w": torch.tensor(walk[-1])}, [{"w": torch.tensor(p)} for p in walk[:-1]])
    assert plane.explained == pytest.approx((WALK, WALK / 4), abs=0.02)


def test_few_weights_and_few_checkpoints():
    one = {"w": torch.tensor([2.0])}
    assert random_plane(one).second is None
    assert line(one).first["w"].abs().tolist() == [2.0]
    net = nn.Linear(1, 2, bias=False)
    net.weight.requires_grad_(False)
    net.bias = nn.Parameter(torch.zeros(2))
    with pytest.raises(TrueriskError, match="no scale"):
        hessian_plane(net, torch.ones(4, 1), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(TrueriskError, match="needs at least 2"):
        pca_plane(one, [one])
    with pytest.raises(TrueriskError, match="all checkpoints are equal"):
        pca_plane(one, [one, one])
    with pytest.raises(TrueriskError, match="does not fit"):
        pca_plane(one, [{"w": torch.ones(2)}, one])
    with pytest.raises(TrueriskError, match="not finite"):
        pca_plane(one, [{"w": torch.tensor([math.nan])}, one])
    with pytest.raises(TrueriskError, match="reach is -1"):
        random_plane(weights_of(nn.Linear(2, 2)), reach=-1.0)
