"""Twins: the same function, another filter-normalized surface, the same elementwise surface; networks without one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.data import Data
from truerisk.data.dataset import from_arrays
from truerisk.errors import TrueriskError
from truerisk.landscape import evaluate, explore, random_plane, rescaled_twin, weights_of
from truerisk.landscape.words import headline, meanings
from truerisk.nets.skips import skip_network


def network(skips: bool = True) -> nn.Module:
    torch.manual_seed(0)
    net = skip_network((6,), 3, 3, 5, skips=skips).double()
    net.train()(torch.randn(50, 6, dtype=torch.float64))  # statistics of batch norms
    return net.eval()


X = np.random.default_rng(0).standard_normal((40, 6))
Y = np.random.default_rng(1).integers(0, 3, 40)


@pytest.mark.parametrize("skips", [True, False])
def test_what_a_twin_shares(skips):
    net = network(skips)
    twin = rescaled_twin(net, X, seed=1)
    assert not isinstance(twin, str)
    x = torch.from_numpy(X)
    with torch.no_grad():
        assert float((twin.module(x) - net(x)).abs().max() / net(x).abs().max()) < 1e-12

    def surfaces(how):
        planes = [random_plane(weights_of(each), 0, 0, how, 0.5) for each in (net, twin.module)]
        return [evaluate(e, X, Y, p, 5).loss for e, p in zip((net, twin.module), planes, strict=True)]

    np.testing.assert_allclose(*surfaces("elementwise"), rtol=1e-10)
    one, two = surfaces("filter")
    assert np.abs(one / two - 1).max() > 1e-3
    carried = twin.carried(weights_of(net))
    for name, w in weights_of(twin.module).items():
        torch.testing.assert_close(carried[name], w)


def data(X: np.ndarray, y: np.ndarray) -> Data:
    return from_arrays(X, y, name="own")


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Sigmoid(), nn.Linear(4, 3)),  # nothing can be rescaled
        lambda: nn.Linear(6, 3),
    ],
)
def test_networks_without_a_twin_say_so(make):
    torch.manual_seed(0)
    found = explore(make(), data(X.astype(np.float32), Y), planes=1, size=3, rows=20, workers=1)
    assert isinstance(found.twin, str)
    assert found.pairs[0].twin is None
    assert "twin" not in headline(found)
    assert any("no twin" in sentence for sentence in meanings(found))
    assert found.record()["planes"][0]["twin"] is None


def test_frozen_parameters_do_not_move():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    net[0].requires_grad_(False)
    found = explore(net, data(X.astype(np.float32), Y), planes=1, size=3, rows=20, workers=1)
    assert set(found.pairs[0].plane.first) == {"2.weight", "2.bias"}
    assert found.agreement is not None
    assert found.agreement < 1e-4


def test_refusals():
    with pytest.raises(TrueriskError, match="try --std 1"):
        rescaled_twin(network(), X, std=0.0)
    given = data(X.astype(np.float32), Y)
    for options, match in (
        ({"plane": "tangent"}, "must be one of random, line, hessian, pca"),
        ({"directions": "rows"}, "must be one of filter"),
        ({"planes": 0}, "from 1 to 50"),
        ({"rows": 0}, "at least 1"),
        ({"plane": "pca"}, "needs at least 2"),
    ):
        with pytest.raises(TrueriskError, match=match):
            explore(nn.Linear(6, 3), given, **options)
    broken = nn.Linear(6, 3)
    with torch.no_grad():
        broken.weight.fill_(torch.nan)
    with pytest.raises(TrueriskError):
        explore(broken, given, planes=1, size=3)
