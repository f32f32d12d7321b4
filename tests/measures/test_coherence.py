"""m-coherence, shares, and alignments against all gradients in one matrix; one step against one step."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.measures.coherence import Coherence, coherence, one_step

NETS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)),
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3)
    ),
}


@pytest.fixture(params=NETS)
def net(request):
    torch.manual_seed(1)
    return NETS[request.param]().double()


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(2)
    return torch.randn(13, 4, dtype=torch.float64, generator=generator), torch.randint(3, (13,), generator=generator)


def matrix(net, X, y):
    """Reference: a row of all weights for each example, by one backward pass each."""
    rows = []
    for x, label in zip(X, y, strict=True):
        found = torch.autograd.grad(F.cross_entropy(net(x[None]), label[None]), list(net.parameters()))
        rows.append(torch.cat([g.flatten() for g in found]))
    return torch.stack(rows)


@pytest.mark.parametrize("rows", [5, 100])
@pytest.mark.parametrize("memory", [2**26, 100])
def test_everything_is_that_of_the_matrix(net, data, rows, memory):
    G, found = matrix(net, *data), coherence(net, *data, rows=rows, memory=memory)
    S = G.sum(0)
    assert found.count == 13
    assert found.m_coherence == pytest.approx(float(S @ S / G.square().sum()), rel=1e-10)
    assert torch.allclose(found.alignments, F.cosine_similarity(G, S[None]), atol=1e-12)
    group = torch.arange(13) % 3 == 0
    assert float(found.share(group)) == pytest.approx(float(G[group].sum(0) @ S / (S @ S)), rel=1e-10)
    masks = torch.stack([group, ~group])
    assert found.share(masks).sum() == pytest.approx(1)
    pairs = G @ G.T
    others = (pairs.sum() - pairs.trace()) / 12 / pairs.trace()
    assert found.transfer == pytest.approx(float(others), rel=1e-9)


def test_layers_are_columns_of_the_matrix(net, data):
    G, found, start = matrix(net, *data), coherence(net, *data), 0
    for layer, value in found.layers.items():
        size = sum(p.numel() for name, p in net.named_parameters() if name.rpartition(".")[0] == layer)
        own = G[:, start : start + size]
        start += size
        assert value == pytest.approx(float(own.sum(0).square().sum() / own.square().sum()), rel=1e-10)
    assert start == G.shape[1]


def test_the_range_is_from_0_to_m():
    net = nn.Linear(3, 2, bias=False).double()
    x = torch.ones(6, 3, dtype=torch.float64)
    assert coherence(net, x, torch.zeros(6, dtype=torch.long)).m_coherence == pytest.approx(6)  # all equal
    nn.init.zeros_(net.weight)
    assert coherence(net, x, torch.arange(6) % 2).m_coherence == pytest.approx(0, abs=1e-12)  # they cancel
    assert coherence(net, torch.eye(3).double(), torch.arange(3) % 2).m_coherence == pytest.approx(1)  # orthogonal


def test_gradients_of_0_give_0_and_not_a_nan():
    zero = torch.zeros(4, dtype=torch.float64)
    none = Coherence({"w": zero}, {"w": zero})
    assert (none.m_coherence, none.layers, none.alignments.tolist()) == (0.0, {"": 0.0}, [0.0] * 4)
    assert Coherence({"w": zero[:1]}, {"w": zero[:1]}).transfer == 0


def test_refusals(data):
    mixing = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    with pytest.raises(TrueriskError, match="batch norm in training mode"):
        coherence(mixing, *data)
    with pytest.raises(TrueriskError, match="no examples"):
        coherence(nn.Linear(4, 3).double(), data[0][:0], data[1][:0])
    random = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(6, 3))
    with pytest.raises(TrueriskError, match="do not add up"):
        coherence(random.double(), *data)


def test_one_step_is_a_step_of_sgd(net, data):
    X, y = data
    own, other = one_step(net, X[:4], y[:4], X[4:], y[4:], lr=0.2)
    for i in range(4):
        moved = copy.deepcopy(net)
        sgd = torch.optim.SGD(moved.parameters(), lr=0.2)
        F.cross_entropy(moved(X[i : i + 1]), y[i : i + 1]).backward()
        sgd.step()
        with torch.no_grad():
            removed = [F.cross_entropy(net(x), t) - F.cross_entropy(moved(x), t)
                       for x, t in ((X[i : i + 1], y[i : i + 1]), (X[4:], y[4:]))]  # fmt: skip
        assert float(own[i]) == pytest.approx(float(removed[0]), abs=1e-12)
        assert float(other[i]) == pytest.approx(float(removed[1]), abs=1e-12)


def test_small_steps_remove_what_coherence_says(net, data):
    """To first order, a step on one example removes transfer times as much from another one as from its own."""
    X, y = data
    own, others = [], []
    for i in range(13):
        rest = [j for j in range(13) if j != i]
        mine, other = one_step(net, X[i : i + 1], y[i : i + 1], X[rest], y[rest], lr=1e-6)
        own.append(float(mine))
        others.append(float(other))
    assert sum(others) / sum(own) == pytest.approx(coherence(net, X, y).transfer, rel=1e-4)
