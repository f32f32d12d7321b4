"""Many networks by full-batch descent, against plain loops over networks with torch's own optimizers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.training import full_batch
from truerisk.training.full_batch import descend, one_of, stacked_weights
from truerisk.training.unrolled import forward


def examples(n=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 3, generator=generator)
    return X, (X[:, 0] * X[:, 1] > 0).long()


def slow(weights, X, y, share, steps, make, until=0.0):
    """One network in an nn.Module, one step at a time."""
    into, bias, out, last = weights
    net = nn.Sequential(nn.Linear(3, into.shape[1]), nn.ReLU(), nn.Linear(into.shape[1], 2))
    with torch.no_grad():
        for own, given in zip(net.parameters(), (into.T, bias, out.T, last), strict=True):
            own.copy_(given)
    optimizer = make(net.parameters())
    step = 0
    while True:
        loss = (F.cross_entropy(net(X), y, reduction="none") * share).sum() / share.sum()
        if loss.item() <= until or step == steps:
            return [p.detach().T if p.ndim == 2 else p.detach() for p in net.parameters()], loss.item(), step
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1


@pytest.mark.parametrize(
    ("rule", "make"),
    [
        ("gd", lambda p: torch.optim.SGD(p, lr=0.05)),
        ("momentum", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
        ("adam", lambda p: torch.optim.Adam(p, lr=0.05)),
    ],
)
def test_each_network_is_trained_as_if_alone(rule, make, monkeypatch):
    monkeypatch.setattr(full_batch, "SWEEP", 4)  # networks that have stopped are set aside often
    X, y = examples()
    start = stacked_weights([3, 6, 2], seeds=[3, 4, 5])
    counts = torch.tensor([[1.0] * 12, [2.0] * 4 + [1.0] * 8, [1.0] * 6 + [0.0] * 6])
    found = descend(start, X, y, lr=0.05, steps=120, rule=rule, until=0.25, counts=counts)
    for k in range(3):
        weights, loss, steps = slow(one_of(start, k), X, y, counts[k], 120, make, until=0.25)
        assert int(found.steps[k]) == steps
        assert float(found.losses[k]) == pytest.approx(loss, abs=1e-5)
        assert bool(found.reached[k]) == (loss <= 0.25)
        for mine, plain in zip(one_of(found.weights, k), weights, strict=True):
            assert torch.allclose(mine, plain, atol=1e-4)
    assert found.steps.max() > found.steps.min() + 4 or rule == "gd", "some network is set aside before another ends"


def test_networks_may_have_their_own_labels_and_targets():
    X, y = examples()
    start = stacked_weights([3, 16, 2], seeds=[0, 0])
    found = descend(
        start, X, torch.stack([y, 1 - y]), lr=0.02, steps=2000, rule="adam", until=torch.tensor([0.3, 0.01])
    )
    answers = forward(found.weights, X.expand(2, -1, -1)).argmax(2)
    assert (answers[1] == 1 - y).all()
    assert found.reached.all()
    assert 0.01 < found.losses[0] <= 0.3
    assert found.losses[1] <= 0.01
    assert torch.equal(start[0], stacked_weights([3, 16, 2], seeds=[0, 0])[0]), "the start is not changed"


def test_a_network_that_diverges_does_not_stop_the_others():
    X, y = examples()
    start = stacked_weights([3, 8, 2], seeds=[0, 1])
    wild = [part.clone() for part in start]
    wild[0][1] = torch.nan
    found = descend(wild, X, y, lr=0.02, steps=500, rule="adam", until=0.1)
    assert found.reached.tolist() == [True, False]
    assert int(found.steps[1]) == 0
    alone = descend([part[:1] for part in start], X, y, lr=0.02, steps=500, rule="adam", until=0.1)
    assert torch.allclose(found.weights[0][0], alone.weights[0][0], atol=1e-6)


def test_scale():
    small, large = (stacked_weights([3, 4, 2], [7], scale) for scale in (1.0, 8.0))
    assert all(torch.equal(8 * a, b) for a, b in zip(small, large, strict=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [({"rule": "newton"}, "one of gd"), ({"lr": 0.0}, "above 0"), ({"counts": torch.zeros(2, 12)}, "no example")],
)
def test_refused(change, said):
    X, y = examples()
    with pytest.raises(TrueriskError, match=said):
        descend(stacked_weights([3, 4, 2], [0, 1]), X, y, **{"lr": 0.1, "steps": 1, **change})
    with pytest.raises(TrueriskError, match="do not fit"):
        descend(stacked_weights([3, 4, 2], [0, 1]), X, y[:5], lr=0.1, steps=1)
